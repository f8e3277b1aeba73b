/* SPDX-License-Identifier: MIT */
/* fuzz_trace_writer.c: what is written is what is read, whatever it is (libFuzzer; `make
 * fuzz-trace-writer`). The input is a script: superblocks, paths, executions and events, written
 * to a trace and to a plain list; then the trace is read and must be the list. A part of it, cut
 * from a random place, must be the list's beginning. */
#include "trace/format/chunk.h"
#include "trace/format/copy.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_ITEMS = 1 << 16, MOST_BLOCKS = 64, MOST_PATHS = 256, SLOTS = 24 };

struct item {
    struct trace_reference reference;
    uint32_t thread;
    uint32_t type; /* of an event; 0: a reference */
    uint64_t value[4];
    uint64_t clocks[3];
};

static struct item items[MOST_ITEMS];
static size_t item_count;
static struct trace_slot slots[MOST_BLOCKS][SLOTS];
static struct path {
    uint32_t block, first, end, instructions;
} paths[MOST_PATHS];
static uint32_t block_count, path_count, thread, class;
static uint64_t references, instructions, allocated;
static uint64_t last[MOST_BLOCKS][SLOTS];

struct script {
    const uint8_t *next, *end;
};

static uint64_t number(struct script *script, unsigned size)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < size && script->next < script->end; i++)
        value |= (uint64_t)*script->next++ << 8 * i;
    return value;
}

static void describe(struct script *script, struct trace_writer *writer)
{
    if (block_count == MOST_BLOCKS || path_count == MOST_PATHS)
        return;
    uint32_t count = (uint32_t)number(script, 1) % SLOTS;
    for (uint32_t i = 0; i < count; i++)
        slots[block_count][i] =
            (struct trace_slot){(uint16_t)number(script, 1), (uint8_t)(number(script, 1) & 1)};
    if (trace_writer_superblock(writer, number(script, 8), (uint32_t)number(script, 1), count,
                                slots[block_count]) < 0)
        abort();
    memset(last[block_count], 0, sizeof last[block_count]);
    uint32_t first = (uint32_t)number(script, 1) % (count + 1);
    uint32_t end = first + (uint32_t)number(script, 1) % (count - first + 1);
    paths[path_count] = (struct path){block_count++, first, end, (uint32_t)number(script, 1)};
    int64_t got =
        trace_writer_path(writer, block_count, first, end, paths[path_count].instructions);
    /* the writer's superblock 0 and path 0 are its own */
    if (got != (int64_t)++path_count)
        abort();
}

static void execute(struct script *script, struct trace_writer *writer)
{
    if (path_count == 0)
        return;
    uint32_t index = (uint32_t)number(script, 1) % path_count;
    const struct path *path = &paths[index];
    uint64_t addresses[SLOTS];
    unsigned how = (unsigned)number(script, 1);
    for (uint32_t i = path->first; i < path->end; i++) {
        uint64_t *at = &last[path->block][i];
        switch (how & 7) {
        case 0:
            *at += (int8_t)number(script, 1);
            break;
        case 1:
            *at += (uint64_t)(int16_t)number(script, 2);
            break;
        case 2:
            *at = number(script, 8);
            break;
        case 3:
            *at += (uint64_t)(int32_t)number(script, 4);
            break;
        default:
            *at += how & 0xf0;
        }
        addresses[i - path->first] = how & 8 && i % 3 == 0 ? TRACE_ABSENT : *at;
        if (addresses[i - path->first] == TRACE_ABSENT || item_count == MOST_ITEMS)
            continue;
        items[item_count++] =
            (struct item){.reference = {*at, 0, slots[path->block][i].size,
                                        slots[path->block][i].kind, (uint8_t) class},
                          .thread = thread};
        references++;
    }
    instructions += path->instructions;
    if (trace_writer_execute(writer, index + 1, addresses) < 0)
        abort();
}

static void happen(struct script *script, struct trace_writer *writer)
{
    struct trace_event event = {.type = (uint32_t)number(script, 1)};
    event.value[0] = number(script, 1 + event.type % 8);
    if (event.type < TRACE_EVENT_TYPES)
        for (unsigned i = 1; i < event_values(event.type); i++)
            event.value[i] = number(script, 2);
    if (trace_writer_event(writer, &event) < 0)
        return; /* no such event */
    if (event.type == TRACE_EVENT_CLASS)
        class = (uint32_t)event.value[0];
    if (event.type == TRACE_EVENT_THREAD)
        thread = (uint32_t)event.value[0];
    if (event_values(event.type) == 0)
        event.value[0] = 0;
    struct item *item = &items[item_count++];
    *item = (struct item){
        .thread = thread, .type = event.type, .clocks = {references, instructions, allocated}};
    memcpy(item->value, event.value, event_values(event.type) * sizeof *event.value);
    allocated += event_bytes(&event);
}

static int write_script(struct script *script)
{
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd, "{}", 1);
    if (!writer)
        abort();
    item_count = block_count = path_count = thread = class = 0;
    references = instructions = allocated = 0;
    while (script->next < script->end && item_count < MOST_ITEMS - SLOTS) {
        unsigned what = (unsigned)number(script, 1);
        if (what < 40)
            describe(script, writer);
        else if (what < 80)
            happen(script, writer);
        else
            execute(script, writer);
    }
    if (trace_writer_totals(writer)->references != references || trace_writer_close(writer) < 0)
        abort();
    return fd;
}

static void compare_event(const struct item *item, const struct trace_event *event)
{
    if (event->type != item->type || event->thread != item->thread ||
        memcmp(event->value, item->value, event_values(event->type) * sizeof *event->value) != 0 ||
        event->reference != item->clocks[0] || event->instruction != item->clocks[1] ||
        event->allocated_bytes != item->clocks[2])
        abort();
}

/* Reads a trace that must be the list's first `least` references at least, in order. */
static void compare(int fd, uint64_t least)
{
    char error[TRACE_ERROR_BYTES];
    struct trace_batch batch;
    lseek(fd, 0, SEEK_SET);
    struct trace_reader *reader = trace_reader_open(fd, error);
    size_t at = 0;
    int status;
    if (!reader)
        abort();
    while ((status = trace_reader_next(reader, &batch)) > 0) {
        size_t event = 0;
        for (size_t i = 0; i < batch.count || event < batch.event_count; at++) {
            if (at == item_count)
                abort();
            if (items[at].type) {
                if (event == batch.event_count)
                    abort();
                compare_event(&items[at], &batch.events[event++]);
                continue;
            }
            struct trace_reference got = batch.references[i++];
            got.function = 0;
            if (memcmp(&got, &items[at].reference, sizeof got) != 0 ||
                batch.thread != items[at].thread)
                abort();
        }
    }
    if (status < 0 || trace_reader_totals(reader)->references != least)
        abort();
    if (least == references && at != item_count)
        abort();
    trace_reader_close(reader);
}

static void compare_cut(int fd, uint64_t count)
{
    char error[TRACE_ERROR_BYTES];
    int write_error, copy = memfd_create("copy", 0);
    lseek(fd, 0, SEEK_SET);
    struct trace_reader *reader = trace_reader_open(fd, error);
    struct trace_writer *writer = trace_writer_open(copy, "{}", 1);
    if (!reader || !writer || trace_copy(reader, writer, count, &write_error) < 0 ||
        trace_writer_close(writer) < 0)
        abort();
    trace_reader_close(reader);
    if (count < references)
        compare(copy, count);
    close(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct script script = {data, data + bytes};
    uint64_t cut = number(&script, 2);
    int fd = write_script(&script);
    compare(fd, references);
    if (references > 0)
        compare_cut(fd, cut % references);
    close(fd);
    return 0;
}
