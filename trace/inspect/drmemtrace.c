/* SPDX-License-Identifier: MIT
 *
 * drmemtrace.c: a trace's references as DynamoRIO's drmemtrace has them, for its readers and tools
 * (release 11.3.0; version 3 of its format, which releases before and after read too).
 *
 * A file is a row of records of 12 bytes, little-endian:
 *
 *   | type u16 | size u16 | address u64 |
 *
 *   header    version                      once, first
 *   marker    version; file type           x86-64, without instructions
 *   thread, pid                            before the first reference, and where threads switch
 *   instruction   0, address               whose references follow; where it changes
 *   read, write   size, address            a reference
 *   thread exit                            for each thread, at the end
 *   footer                                 once, last; not where the trace is damaged
 *
 * An instruction of size 0 is no fetch: it tells readers the program counter of the references that
 * follow, as in traces that the tracer has filtered. A trace names the instructions that refer to
 * memory and no others, so there are none of another size. Tools that want data references alone
 * (the cache and TLB simulators, reuse distance) have all that they need; docs/trace-format.md says
 * which were tried.
 */
#include <stdio.h>
#include <stdlib.h>

#include "trace/inspect/inspect.h"

/* trace_type_t, trace_marker_type_t and offline_file_type_t of trace_entry.h there. */
enum { TYPE_READ, TYPE_WRITE, TYPE_INSTRUCTION = 10, TYPE_THREAD = 22, TYPE_THREAD_EXIT };
enum { TYPE_PID = 24, TYPE_HEADER, TYPE_FOOTER, TYPE_MARKER = 28 };
enum { MARKER_FILE_TYPE = 9, MARKER_VERSION = 12 };
enum { FILE_WITHOUT_INSTRUCTIONS = 0x80, FILE_X86_64 = 0x40 };
enum { FORMAT_VERSION = 3, PROCESS = 1 };

static void put_record(uint16_t type, uint16_t size, uint64_t address)
{
    struct {
        uint16_t type, size;
        uint64_t address;
    } __attribute__((packed)) record = {type, size, address};
    _Static_assert(sizeof record == 12, "as in the file");
    if (fwrite(&record, sizeof record, 1, stdout) != 1)
        inspect_output_failed();
}

/* Notes a thread in *seen, by number. False when memory is short. */
static bool note_thread(uint8_t **seen, uint32_t *room, uint32_t thread)
{
    if (thread >= *room) {
        uint32_t larger = thread < UINT32_MAX / 2 ? 2 * thread + 64 : UINT32_MAX;
        uint8_t *moved = realloc(*seen, larger);
        if (!moved)
            return false;
        for (uint32_t i = *room; i < larger; i++)
            moved[i] = 0;
        *seen = moved;
        *room = larger;
    }
    (*seen)[thread] = 1;
    return true;
}

/* The references of a batch. *counter: the program counter that readers have. */
static void put_references(const struct trace_reader *reader, const struct trace_batch *batch,
                           uint64_t *counter)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct trace_reference *reference = &batch->references[i];
        const struct instruction *from = trace_reader_instruction(reader, reference->function);
        uint64_t address = from ? from->address : 0;
        if (address != *counter) {
            put_record(TYPE_INSTRUCTION, 0, address);
            *counter = address;
        }
        put_record(reference->kind == TRACE_STORE ? TYPE_WRITE : TYPE_READ, reference->size,
                   reference->address);
    }
}

int inspect_drmemtrace(struct trace_reader *reader)
{
    struct trace_batch batch;
    uint8_t *seen = NULL;
    uint32_t room = 0, running = 0;
    uint64_t counter = 0;
    int status;
    trace_reader_by_instruction(reader);
    put_record(TYPE_HEADER, 0, FORMAT_VERSION);
    put_record(TYPE_MARKER, MARKER_VERSION, FORMAT_VERSION);
    put_record(TYPE_MARKER, MARKER_FILE_TYPE, FILE_X86_64 | FILE_WITHOUT_INSTRUCTIONS);
    while ((status = trace_reader_next(reader, &batch)) > 0) {
        if (batch.count > 0 && batch.thread != running) {
            running = batch.thread;
            if (!note_thread(&seen, &room, running)) {
                fputs("allotrope: memory is short\n", stderr);
                free(seen);
                return -2;
            }
            put_record(TYPE_THREAD, sizeof(uint32_t), running);
            put_record(TYPE_PID, sizeof(uint32_t), PROCESS);
        }
        put_references(reader, &batch, &counter);
    }
    for (uint32_t thread = 0; thread < room; thread++)
        if (seen[thread])
            put_record(TYPE_THREAD_EXIT, sizeof(uint32_t), thread);
    if (status == 0)
        put_record(TYPE_FOOTER, 0, 0);
    free(seen);
    return status;
}
