/* SPDX-License-Identifier: MIT */
/* test_trace.c: what the reader returns is what the writer was told, for random programs too,
 * and a trace that is damaged anywhere ends in an error that keeps what stands before. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "bench_programs/random.h"
#include "trace/format/chunk.h"
#include "trace/format/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

static uint64_t random_state;

static uint64_t random_number(uint64_t below)
{
    return random_next(&random_state) % below;
}

/* The naive model. */

/* What a trace should say: references and events in one list, as plainly as can be. */
struct item {
    bool is_event;
    uint32_t thread;
    uint64_t reference, instruction, allocated;
    struct trace_reference as_reference;
    uint32_t type;
    uint64_t value[4];
    char name[8];
};

struct model {
    struct item *items;
    size_t count, capacity;
    uint64_t references, instructions, allocated, stack;
    uint32_t thread, class;
};

static struct item *add_item(struct model *model)
{
    if (model->count == model->capacity) {
        model->capacity = model->capacity ? 2 * model->capacity : 1024;
        model->items = realloc(model->items, model->capacity * sizeof *model->items);
        assert_non_null(model->items);
    }
    struct item *item = &model->items[model->count++];
    memset(item, 0, sizeof *item);
    item->reference = model->references;
    item->instruction = model->instructions;
    item->allocated = model->allocated;
    return item;
}

enum { SUPERBLOCKS = 50, MODEL_SLOTS = 12, MOST_PATHS = 4 };

struct random_superblock {
    uint32_t function, slot_count, path_count;
    struct trace_slot slots[MODEL_SLOTS];
    uint64_t last[MODEL_SLOTS];
    bool is_base[MODEL_SLOTS]; /* another slot or the stack pointer follows from it */
    uint32_t path[MOST_PATHS];
    struct trace_path described[MOST_PATHS];
};

/* A base for what comes at slot `before`: a told slot from `first` on where there is one, the stack
 * pointer, or nothing. */
static uint16_t random_base(struct random_superblock *block, uint32_t first, uint32_t before)
{
    uint32_t slot = first < before ? first + (uint32_t)random_number(before - first) : before;
    if (slot == before || block->slots[slot].base != TRACE_TOLD)
        return random_number(3) ? TRACE_BASE_STACK : TRACE_BASE_NOTHING;
    block->is_base[slot] = true;
    return (uint16_t)(TRACE_BASE_SLOT + slot);
}

/* Every path begins at `most_first` or before: so what is based on a slot from there on is so in
 * all.
 */
static struct trace_slot random_slot(struct random_superblock *block, uint32_t most_first,
                                     uint32_t number)
{
    struct trace_slot slot = {.kind = (uint8_t)random_number(random_number(8) ? 2 : 3),
                              .instruction = random_number(1ULL << 40)};
    slot.size = (uint16_t)(random_number(8) ? 1ULL << random_number(4) : random_number(65536));
    if (random_number(2)) {
        slot.base = random_base(block, most_first, number);
        slot.offset = random_number(4) ? random_number(1000) - 500 : random_number(UINT64_MAX);
    }
    return slot;
}

static void random_stack_effect(struct random_superblock *block, struct trace_path *path)
{
    if (random_number(2) == 0)
        return; /* unchanged */
    path->stack_base = random_base(block, path->first, path->end);
    path->stack_offset = random_number(64) - 32;
}

static void make_superblock(struct trace_writer *writer, struct random_superblock *block)
{
    uint32_t most_first = 0;
    *block = (struct random_superblock){.function = (uint32_t)random_number(10)};
    block->slot_count = (uint32_t)random_number(MODEL_SLOTS + 1);
    block->path_count = 1 + (uint32_t)random_number(MOST_PATHS);
    for (uint32_t i = 0; i < block->path_count; i++) {
        uint32_t first = (uint32_t)random_number(block->slot_count + 1);
        block->described[i].first = first;
        block->described[i].end = first + (uint32_t)random_number(block->slot_count - first + 1);
        block->described[i].instructions = (uint32_t)random_number(100);
        most_first = first > most_first ? first : most_first;
    }
    for (uint32_t i = 0; i < block->slot_count; i++) {
        block->slots[i] = random_slot(block, most_first, i);
        block->last[i] = random_number(1ULL << 44);
    }
    int64_t number = trace_writer_superblock(writer, random_number(1ULL << 40), block->function,
                                             block->slot_count, block->slots);
    assert_true(number >= 0);
    for (uint32_t i = 0; i < block->path_count; i++) {
        block->described[i].superblock = (uint32_t)number;
        random_stack_effect(block, &block->described[i]);
        int64_t path = trace_writer_path(writer, &block->described[i]);
        assert_true(path >= 0);
        block->path[i] = (uint32_t)path;
    }
}

static uint64_t next_address(struct random_superblock *block, uint32_t slot)
{
    static uint64_t jump;
    switch (random_number(12)) {
    case 0:
        return random_number(UINT64_MAX);
    case 1:
        block->last[slot] += random_number(1 << 20) - (1 << 19);
        break;
    case 2:
        if (!block->is_base[slot])
            return TRACE_ABSENT;
        break;
    case 3:
        jump = random_number(1 << 14);
        block->last[slot] += jump;
        break;
    case 4:
        block->last[slot] += jump;
        break;
    case 5:
    case 6:
        break;
    default:
        block->last[slot] += 8 * slot;
    }
    return block->last[slot];
}

/* Where a base is, of slots whose addresses are known. */
static uint64_t base_address(const struct model *model, const uint64_t *addresses, uint16_t base)
{
    if (base == TRACE_BASE_NOTHING)
        return 0;
    return base < TRACE_BASE_SLOT ? model->stack : addresses[base - TRACE_BASE_SLOT];
}

static void execute(struct trace_writer *writer, struct model *model,
                    struct random_superblock *block)
{
    uint32_t which = (uint32_t)random_number(block->path_count), told = 0;
    const struct trace_path *path = &block->described[which];
    uint64_t addresses[MODEL_SLOTS], words[MODEL_SLOTS];
    if (random_number(50) == 0) {
        model->stack = random_number(UINT64_MAX);
        trace_writer_stack(writer, model->stack);
    }
    for (uint32_t i = path->first; i < path->end; i++) {
        const struct trace_slot *slot = &block->slots[i];
        if (slot->base == TRACE_TOLD)
            addresses[i] = words[told++] = next_address(block, i);
        else
            addresses[i] = base_address(model, addresses, slot->base) + slot->offset;
        if (slot->kind == TRACE_POINTER ||
            (slot->base == TRACE_TOLD && addresses[i] == TRACE_ABSENT))
            continue;
        struct item *item = add_item(model);
        item->thread = model->thread;
        item->as_reference = (struct trace_reference){.address = addresses[i],
                                                      .function = block->function,
                                                      .size = slot->size,
                                                      .kind = slot->kind,
                                                      .class = (uint8_t)model->class};
        model->references++;
    }
    model->instructions += path->instructions;
    if (path->stack_base != TRACE_TOLD)
        model->stack = base_address(model, addresses, path->stack_base) + path->stack_offset;
    assert_int_equal(trace_writer_execute(writer, block->path[which], words), 0);
}

static void happen(struct trace_writer *writer, struct model *model)
{
    struct trace_event event = {.type = 1 + (uint32_t)random_number(TRACE_EVENT_TYPES - 1)};
    struct item *item = add_item(model);
    event.value[0] = random_number(event.type == TRACE_EVENT_CLASS ? TRACE_CLASSES : 5);
    if (event.type == TRACE_EVENT_MALLOC || event.type == TRACE_EVENT_REALLOC) {
        event.value[1] = random_number(1000);
        event.value[2] = random_number(UINT64_MAX);
        model->allocated += event.value[0] ? event.value[1] : 0;
    }
    if (event.type == TRACE_EVENT_MAP || event.type == TRACE_EVENT_UNMAP) {
        event.value[0] = random_number(100) << 12;
        event.value[1] = random_number(50) << 12;
    }
    if (event.type == TRACE_EVENT_MAP) {
        snprintf(item->name, sizeof item->name, "%d", (int)random_number(10000));
        event.name = item->name;
    }
    if (event.type == TRACE_EVENT_REALLOC)
        event.value[3] = random_number(UINT64_MAX);
    if (event.type == TRACE_EVENT_CLASS)
        model->class = (uint32_t)event.value[0];
    if (event.type == TRACE_EVENT_THREAD)
        model->thread = (uint32_t)event.value[0];
    item->is_event = true;
    item->type = event.type;
    item->thread = model->thread;
    memcpy(item->value, event.value, sizeof item->value);
    assert_int_equal(trace_writer_event(writer, &event), 0);
}

/* Writes a random trace into a memory file; returns its descriptor, at its beginning. */
static int write_random(struct model *model, uint64_t seed, size_t steps, unsigned events_percent)
{
    static struct random_superblock blocks[SUPERBLOCKS];
    int fd = memfd_create("trace", 0);
    random_state = seed;
    struct trace_writer *writer = trace_writer_open(fd, "{\"seed\": 1}", 1);
    assert_non_null(writer);
    for (uint32_t i = 0; i < 8; i++) /* functions 8 and 9 stay unnamed */
        assert_int_equal(trace_writer_function(writer, i, i % 2 ? "odd" : "even", "object"), 0);
    for (int i = 0; i < SUPERBLOCKS; i++)
        make_superblock(writer, &blocks[i]);
    for (size_t i = 0; i < steps; i++) {
        if (random_number(100) < events_percent)
            happen(writer, model);
        else
            execute(writer, model,
                    &blocks[random_number(4) ? i % SUPERBLOCKS : random_number(SUPERBLOCKS)]);
    }
    assert_int_equal(trace_writer_totals(writer)->references, model->references);
    assert_int_equal(trace_writer_close(writer), 0);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Comparing. */

static void compare_reference(const struct item *item, const struct trace_batch *batch, size_t i)
{
    const struct trace_reference *reference = &batch->references[i];
    assert_false(item->is_event);
    assert_int_equal(batch->first_reference + i, item->reference);
    assert_int_equal(batch->thread, item->thread);
    assert_memory_equal(reference, &item->as_reference, sizeof *reference);
}

static void compare_event(const struct item *item, const struct trace_event *event)
{
    assert_true(item->is_event);
    assert_int_equal(event->type, item->type);
    assert_int_equal(event->reference, item->reference);
    assert_int_equal(event->instruction, item->instruction);
    assert_int_equal(event->allocated_bytes, item->allocated);
    assert_int_equal(event->thread, item->thread);
    if (event->type == TRACE_EVENT_MAP)
        assert_string_equal(event->name, item->name);
    if (event->type != TRACE_EVENT_SIGNAL_RETURN)
        assert_int_equal(event->value[0], item->value[0]);
    if (event->type == TRACE_EVENT_REALLOC)
        assert_memory_equal(event->value, item->value, sizeof item->value);
}

/* Compares what a reader delivers with the model from item `at` on; returns where it ended. */
static size_t compare_until_end(struct trace_reader *reader, const struct model *model, size_t at,
                                int *status)
{
    struct trace_batch batch;
    while ((*status = trace_reader_next(reader, &batch)) > 0) {
        size_t event = 0, i = 0;
        while (i < batch.count || event < batch.event_count) {
            assert_true(at < model->count);
            if (event < batch.event_count &&
                batch.events[event].reference == batch.first_reference + i)
                compare_event(&model->items[at++], &batch.events[event++]);
            else
                compare_reference(&model->items[at++], &batch, i++);
        }
    }
    return at;
}

static void check_identity(uint64_t seed, size_t steps, unsigned events_percent)
{
    struct model model = {0};
    char error[TRACE_ERROR_BYTES];
    int status, fd = write_random(&model, seed, steps, events_percent);
    struct trace_reader *reader = trace_reader_open(fd, error);
    assert_non_null(reader);
    assert_string_equal(trace_reader_description(reader), "{\"seed\": 1}");
    assert_int_equal(compare_until_end(reader, &model, 0, &status), model.count);
    assert_int_equal(status, 0);
    assert_int_equal(trace_reader_totals(reader)->instructions, model.instructions);
    assert_int_equal(trace_reader_whole(reader)->references, model.references);
    trace_reader_close(reader);
    close(fd);
    free(model.items);
}

static void test_reading_returns_what_was_written(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++)
        check_identity(seed, seed * 100, (unsigned)(seed * 7 % 100));
}

static void test_a_trace_of_many_chunks_is_read_back(void **state)
{
    (void)state;
    check_identity(99, 3000000, 1);
}

static void test_an_empty_trace_is_read_back(void **state)
{
    (void)state;
    check_identity(5, 0, 0);
}

/* Damage. */

static uint8_t *contents(int fd, size_t *bytes)
{
    *bytes = (size_t)lseek(fd, 0, SEEK_END);
    uint8_t *data = malloc(*bytes);
    assert_int_equal(pread(fd, data, *bytes, 0), (ssize_t)*bytes);
    return data;
}

/* Reads a copy; what it delivers must be a beginning of the model. Returns whether it failed. */
static bool read_copy(const uint8_t *data, size_t bytes, const struct model *model,
                      size_t *delivered)
{
    char error[TRACE_ERROR_BYTES];
    int status = -1, fd = memfd_create("copy", 0);
    assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
    lseek(fd, 0, SEEK_SET);
    struct trace_reader *reader = trace_reader_open(fd, error);
    *delivered = 0;
    if (reader) {
        *delivered = compare_until_end(reader, model, 0, &status);
        if (status < 0)
            assert_non_null(strstr(trace_reader_error(reader), "at byte "));
        trace_reader_close(reader);
    } else {
        assert_non_null(strstr(error, "at byte "));
    }
    close(fd);
    return status < 0;
}

static void test_a_truncated_trace_keeps_what_stands_before(void **state)
{
    (void)state;
    struct model model = {0};
    size_t bytes, delivered;
    int fd = write_random(&model, 7, 2000, 10);
    uint8_t *data = contents(fd, &bytes);
    for (size_t length = 0; length < bytes - 8; length += 1 + length / 50)
        assert_true(read_copy(data, length, &model, &delivered));
    /* Without the last chunk everything has been delivered. */
    uint64_t end;
    memcpy(&end, data + bytes - 8, 8);
    assert_true(read_copy(data, end, &model, &delivered));
    assert_int_equal(delivered, model.count);
    free(data);
    free(model.items);
    close(fd);
}

static void test_a_damaged_trace_is_an_error(void **state)
{
    (void)state;
    struct model model = {0};
    size_t bytes, delivered;
    int fd = write_random(&model, 8, 1000, 10);
    uint8_t *data = contents(fd, &bytes);
    for (size_t at = 0; at < bytes - 8; at += 13) {
        data[at] ^= 0x40;
        assert_true(read_copy(data, bytes, &model, &delivered));
        data[at] ^= 0x40;
    }
    free(data);
    free(model.items);
    close(fd);
}

/* The data chunk is left out, the chunks around it are sound. */
static void test_a_chunk_that_is_missing_before_the_end_is_an_error(void **state)
{
    (void)state;
    struct model model = {0};
    struct chunk_header description;
    size_t bytes, delivered, first = sizeof(struct trace_file_header);
    int fd = write_random(&model, 9, 1000, 10);
    uint8_t *data = contents(fd, &bytes);
    uint64_t end;
    memcpy(&end, data + bytes - sizeof end, sizeof end);
    memcpy(&description, data + first, sizeof description);
    first += sizeof description + description.payload_bytes;
    memmove(data + first, data + end, bytes - end);
    assert_true(read_copy(data, first + bytes - end, &model, &delivered));
    assert_int_equal(delivered, 0);
    free(data);
    free(model.items);
    close(fd);
}

static void test_a_full_disk_is_reported(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    errno = 0;
    assert_null(trace_writer_open(fileno(full), "{}", 1));
    assert_int_equal(errno, ENOSPC);
    fclose(full);
}

/* Executes so many references one by one; returns false from when the writer says that it cannot.
 */
static bool write_references(struct trace_writer *writer, uint32_t path, size_t count)
{
    enum { AT_ONCE = 1024 };
    static uint64_t addresses[AT_ONCE];
    static struct trace_execution executions[AT_ONCE];
    for (size_t i = 0; i < AT_ONCE; i++) {
        addresses[i] = 8 * i;
        executions[i] = (struct trace_execution){&addresses[i], path};
    }
    for (size_t done = 0; done < count; done += AT_ONCE)
        if (trace_writer_execute_all(writer, executions, AT_ONCE) < 0)
            return false;
    return true;
}

/* Large chunks are written while the next is encoded. A failure is told at the next chunk's end or
 * at the trace's, whichever comes first, and a trace that met one is never closed as whole. */
static void test_a_disk_that_fills_later_is_reported(void **state)
{
    (void)state;
    const size_t chunk = 4 << 20;
    for (size_t chunks = 1; chunks <= 3; chunks++) {
        int fd = memfd_create("trace", 0), full = open("/dev/full", O_WRONLY);
        struct trace_writer *writer = trace_writer_open(fd, "{}", 1);
        struct trace_slot slot = {.size = 8, .kind = TRACE_LOAD};
        assert_non_null(writer);
        int64_t superblock = trace_writer_superblock(writer, 0x1000, 0, 1, &slot);
        struct trace_path whole = {.superblock = (uint32_t)superblock, .end = 1, .instructions = 1};
        int64_t path = trace_writer_path(writer, &whole);
        assert_int_equal(dup2(full, fd), fd);
        errno = 0;
        assert_int_equal(write_references(writer, (uint32_t)path, chunks * chunk + 1024),
                         chunks == 1);
        assert_int_equal(errno, chunks == 1 ? 0 : ENOSPC);
        assert_int_equal(trace_writer_close(writer), -1);
        assert_int_equal(errno, ENOSPC);
        close(fd);
        close(full);
    }
}

/* What is described. */

static void test_slots_that_follow_from_what_is_not_told_before_are_refused(void **state)
{
    (void)state;
    int fd = memfd_create("trace", 0);
    struct trace_writer *writer = trace_writer_open(fd, "{}", 1);
    struct trace_slot slots[] = {{.size = 8, .base = TRACE_BASE_STACK}, {.size = 8}, {.size = 8}};
    assert_true(trace_writer_superblock(writer, 0, 0, 3, slots) >= 0);
    slots[2].base = TRACE_BASE_SLOT; /* derived itself */
    assert_true(trace_writer_superblock(writer, 0, 0, 3, slots) < 0);
    slots[2].base = TRACE_BASE_SLOT + 2; /* itself */
    assert_true(trace_writer_superblock(writer, 0, 0, 3, slots) < 0);
    slots[2].base = TRACE_BASE_SLOT + 1;
    int64_t superblock = trace_writer_superblock(writer, 0, 0, 3, slots);
    assert_true(superblock >= 0);
    struct trace_path path = {.superblock = (uint32_t)superblock, .first = 1, .end = 3};
    assert_true(trace_writer_path(writer, &path) >= 0);
    path.stack_base = TRACE_BASE_SLOT; /* not in the path */
    assert_true(trace_writer_path(writer, &path) < 0);
    path.stack_base = TRACE_BASE_SLOT + 1;
    assert_true(trace_writer_path(writer, &path) >= 0);
    path.first = 2; /* without what slot 2 is based on */
    path.stack_base = TRACE_TOLD;
    assert_true(trace_writer_path(writer, &path) < 0);
    assert_int_equal(trace_writer_abandon(writer), 0);
    close(fd);
}

/* Seeking and cutting. */

static void test_seeking_goes_on_where_a_straight_reading_would_be(void **state)
{
    (void)state;
    struct model model = {0};
    char error[TRACE_ERROR_BYTES];
    int status, fd = write_random(&model, 11, 2500000, 1);
    struct trace_reader *reader = trace_reader_open(fd, error);
    const uint64_t wanted[] = {0, model.references - 1, model.references / 2, 1};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct trace_batch batch;
        assert_int_equal(trace_reader_seek(reader, wanted[i]), 0);
        assert_int_equal(trace_reader_next(reader, &batch), 1);
        assert_true(batch.first_reference <= wanted[i]);
        uint64_t first = batch.first_reference;
        size_t item = 0;
        while (model.items[item].is_event || model.items[item].reference < first)
            item++;
        if (batch.count > 0)
            compare_reference(&model.items[item], &batch, 0);
        while ((status = trace_reader_next(reader, &batch)) > 0)
            ;
        assert_int_equal(status, 0);
        assert_int_equal(trace_reader_totals(reader)->references, model.references);
    }
    assert_int_equal(trace_reader_seek(reader, model.references), -1);
    uint64_t references;
    assert_int_equal(trace_reader_count(reader, &references), 0);
    assert_int_equal(references, model.references);
    trace_reader_close(reader);
    close(fd);
    free(model.items);
}

/* A header with a right hash that leads back to itself. */
static void test_a_size_that_wraps_around_is_no_chunk(void **state)
{
    (void)state;
    struct model model = {0};
    struct chunk_header header;
    char error[TRACE_ERROR_BYTES];
    size_t bytes, first = sizeof(struct trace_file_header);
    int fd = write_random(&model, 13, 1000, 10), copy = memfd_create("copy", 0);
    uint8_t *data = contents(fd, &bytes);
    memcpy(&header, data + first, sizeof header); /* the description's */
    first += sizeof header + header.payload_bytes;
    memcpy(&header, data + first, sizeof header);
    assert_int_equal(header.type, CHUNK_DATA);
    header.payload_bytes = -(uint64_t)sizeof header;
    header.header_hash = XXH3_64bits(&header, offsetof(struct chunk_header, header_hash));
    memcpy(data + first, &header, sizeof header);
    assert_int_equal(write(copy, data, bytes), (ssize_t)bytes);
    lseek(copy, 0, SEEK_SET);
    struct trace_reader *reader = trace_reader_open(copy, error);
    assert_non_null(reader);
    uint64_t references = 1;
    alarm(60);
    assert_int_equal(trace_reader_count(reader, &references), 0);
    assert_int_equal(references, 0);
    assert_int_equal(trace_reader_seek(reader, model.references - 1), -1);
    alarm(0);
    trace_reader_close(reader);
    close(copy);
    close(fd);
    free(data);
    free(model.items);
}

static void test_a_cut_is_the_beginning(void **state)
{
    (void)state;
    struct model model = {0};
    char error[TRACE_ERROR_BYTES];
    int status, write_error, fd = write_random(&model, 12, 20000, 10);
    const uint64_t counts[] = {0, 1, 5, 777, 40000, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        lseek(fd, 0, SEEK_SET);
        struct trace_reader *reader = trace_reader_open(fd, error);
        int cut = memfd_create("cut", 0);
        struct trace_writer *writer = trace_writer_open(cut, "{}", 1);
        assert_int_equal(trace_copy(reader, writer, counts[i], &write_error), 0);
        uint64_t expected = counts[i] < model.references ? counts[i] : model.references;
        assert_int_equal(trace_writer_totals(writer)->references, expected);
        assert_int_equal(trace_writer_close(writer), 0);
        trace_reader_close(reader);
        lseek(cut, 0, SEEK_SET);
        reader = trace_reader_open(cut, error);
        compare_until_end(reader, &model, 0, &status);
        assert_int_equal(status, 0);
        assert_int_equal(trace_reader_totals(reader)->references, expected);
        trace_reader_close(reader);
        close(cut);
    }
    close(fd);
    free(model.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading_returns_what_was_written),
        cmocka_unit_test(test_a_trace_of_many_chunks_is_read_back),
        cmocka_unit_test(test_an_empty_trace_is_read_back),
        cmocka_unit_test(test_a_truncated_trace_keeps_what_stands_before),
        cmocka_unit_test(test_a_damaged_trace_is_an_error),
        cmocka_unit_test(test_a_chunk_that_is_missing_before_the_end_is_an_error),
        cmocka_unit_test(test_a_full_disk_is_reported),
        cmocka_unit_test(test_a_disk_that_fills_later_is_reported),
        cmocka_unit_test(test_slots_that_follow_from_what_is_not_told_before_are_refused),
        cmocka_unit_test(test_seeking_goes_on_where_a_straight_reading_would_be),
        cmocka_unit_test(test_a_size_that_wraps_around_is_no_chunk),
        cmocka_unit_test(test_a_cut_is_the_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
