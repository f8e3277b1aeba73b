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
static struct trace_path paths[MOST_PATHS];
static bool is_base[MOST_BLOCKS][SLOTS]; /* another slot follows from it */
static uint32_t block_count, path_count, thread, class;
static uint64_t references, instructions, allocated, stack;
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

/* A base: nothing, the stack pointer, or a slot of [first, before), if that is told. */
static uint16_t base(struct script *script, uint32_t first, uint32_t before)
{
    uint32_t slot = first + (uint32_t)number(script, 1) % SLOTS;
    if (slot >= before || slots[block_count][slot].base != TRACE_TOLD)
        return slot % 2 ? TRACE_BASE_STACK : TRACE_BASE_NOTHING;
    is_base[block_count][slot] = true;
    return (uint16_t)(TRACE_BASE_SLOT + slot);
}

static void describe(struct script *script, struct trace_writer *writer)
{
    if (block_count == MOST_BLOCKS || path_count == MOST_PATHS)
        return;
    uint32_t count = (uint32_t)number(script, 1) % SLOTS;
    uint32_t first = (uint32_t)number(script, 1) % (count + 1);
    memset(is_base[block_count], 0, sizeof is_base[block_count]);
    for (uint32_t i = 0; i < count; i++) {
        struct trace_slot *slot = &slots[block_count][i];
        *slot = (struct trace_slot){.size = (uint16_t)number(script, 1),
                                    .kind = (uint8_t)(number(script, 1) % 3)};
        if (slot->size & 1) {
            slot->base = base(script, first, i);
            slot->offset = number(script, slot->size & 6);
        }
    }
    if (trace_writer_superblock(writer, number(script, 8), (uint32_t)number(script, 1), count,
                                slots[block_count]) < 0)
        abort();
    memset(last[block_count], 0, sizeof last[block_count]);
    uint32_t end = first + (uint32_t)number(script, 1) % (count - first + 1);
    struct trace_path *path = &paths[path_count];
    *path = (struct trace_path){.superblock = block_count + 1, /* 0 and path 0 are the writer's */
                                .first = first,
                                .end = end,
                                .instructions = (uint32_t)number(script, 1)};
    if (path->instructions & 1) {
        path->stack_base = base(script, first, end);
        path->stack_offset = number(script, 1);
    }
    block_count++;
    int64_t got = trace_writer_path(writer, path);
    if (got != (int64_t)++path_count)
        abort();
}

/* The address of a told slot. */
static uint64_t next_address(struct script *script, uint32_t block, uint32_t slot, unsigned how)
{
    uint64_t *at = &last[block][slot];
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
    bool absent = (how & 8 && slot % 3 == 0) || *at == TRACE_ABSENT;
    if (absent && is_base[block][slot])
        return *at = 0;
    return absent ? TRACE_ABSENT : *at;
}

/* Where a base is, of slots whose addresses are known. */
static uint64_t base_address(const uint64_t *addresses, uint32_t base)
{
    if (base == TRACE_BASE_NOTHING)
        return 0;
    return base < TRACE_BASE_SLOT ? stack : addresses[base - TRACE_BASE_SLOT];
}

static void execute(struct script *script, struct trace_writer *writer)
{
    if (path_count == 0)
        return;
    uint32_t index = (uint32_t)number(script, 1) % path_count, told = 0;
    const struct trace_path *path = &paths[index];
    uint32_t block = path->superblock - 1;
    uint64_t addresses[SLOTS], words[SLOTS];
    unsigned how = (unsigned)number(script, 1);
    if ((how & 0x70) == 0) {
        stack = number(script, how & 7);
        trace_writer_stack(writer, stack);
    }
    for (uint32_t i = path->first; i < path->end; i++) {
        const struct trace_slot *slot = &slots[block][i];
        bool is_told = slot->base == TRACE_TOLD;
        if (is_told)
            addresses[i] = words[told++] = next_address(script, block, i, how);
        else
            addresses[i] = base_address(addresses, slot->base) + slot->offset;
        if (slot->kind == TRACE_POINTER || (is_told && addresses[i] == TRACE_ABSENT))
            continue;
        items[item_count++] =
            (struct item){.reference = {addresses[i], 0, slot->size, slot->kind, (uint8_t) class},
                          .thread = thread};
        references++;
    }
    instructions += path->instructions;
    if (path->stack_base != TRACE_TOLD)
        stack = base_address(addresses, path->stack_base) + path->stack_offset;
    if (trace_writer_execute(writer, index + 1, words) < 0)
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
    references = instructions = allocated = stack = 0;
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
