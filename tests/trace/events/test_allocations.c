/* SPDX-License-Identifier: MIT
 *
 * test_allocations.c: what happened to each object, out of a recording and out of a trace.
 */
#include "tests/trace/events/events_unit.h"

#include <stdio.h>

#include "trace/events/allocations.h"
#include "trace/format/writer.h"

enum { FIRST = 0x1000, SECOND = 0x2000, SIZE = 64, SECOND_SIZE = 32, LARGER = 100 };

/* A block is resized to where another one lay, whose end nobody saw: a collector reclaimed it. */
static int record_resize_over_a_lost_block(void)
{
    const struct event events[] = {
        {.type = EVENT_NEW, .pointer = FIRST, .size = SIZE},
        {.type = EVENT_NEW, .pointer = SECOND, .size = SECOND_SIZE},
        {.type = EVENT_RESIZE_FROM, .pointer = FIRST},
        {.type = EVENT_RESIZE_TO, .pointer = SECOND, .size = LARGER},
        {.type = EVENT_FREE, .pointer = SECOND},
    };
    uint64_t words[32] = {1 << 3 | EVENT_TIME}, *word = words + 1;
    int file = new_file();
    struct event_writer *writer = event_writer_open(file, "{}", 0, 1, 1);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        word = put_event(word, &events[i]);
    event_writer_add(writer, EVENT_CHUNK_EVENTS, 0, words, (size_t)((char *)word - (char *)words));
    assert_int_equal(event_writer_close(writer, "{}"), 0);
    return file;
}

static int trace_resize_over_a_lost_block(void)
{
    const struct trace_event events[] = {
        {.type = TRACE_EVENT_MALLOC, .value = {FIRST, SIZE}},
        {.type = TRACE_EVENT_MALLOC, .value = {SECOND, SECOND_SIZE}},
        {.type = TRACE_EVENT_REALLOC, .value = {SECOND, LARGER, 0, FIRST}},
        {.type = TRACE_EVENT_FREE, .value = {SECOND}},
    };
    int file = new_file();
    struct trace_writer *writer = trace_writer_open(file, "{}", 1);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        assert_int_equal(trace_writer_event(writer, &events[i]), 0);
    assert_int_equal(trace_writer_close(writer), 0);
    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
    return file;
}

static void assert_next(struct allocations *all, struct allocation expected)
{
    struct allocation found;
    assert_true(allocations_next(all, &found));
    assert_int_equal(found.type, expected.type);
    assert_int_equal(found.object, expected.object);
    assert_int_equal(found.pointer, expected.pointer);
    assert_int_equal(found.size, expected.size);
}

static void test_a_resize_goes_on_where_the_free_of_another_was_lost(void **state)
{
    (void)state;
    const int files[] = {record_resize_over_a_lost_block(), trace_resize_over_a_lost_block()};
    for (size_t i = 0; i < 2; i++) {
        char path[32], error[ALLOCATIONS_ERROR_BYTES] = "";
        struct allocation none;
        snprintf(path, sizeof path, "/proc/self/fd/%d", files[i]);
        struct allocations *all = allocations_open(path, error);
        assert_string_equal(error, "");
        assert_next(all, (struct allocation){ALLOCATION_NEW, .pointer = FIRST, .size = SIZE});
        assert_next(all, (struct allocation){ALLOCATION_NEW, .object = 1, .pointer = SECOND,
                                             .size = SECOND_SIZE});
        assert_next(all, (struct allocation){ALLOCATION_FREE, .object = 1, .pointer = SECOND,
                                             .size = SECOND_SIZE});
        assert_next(all, (struct allocation){ALLOCATION_RESIZE, .pointer = SECOND, .size = LARGER});
        assert_next(all, (struct allocation){ALLOCATION_FREE, .pointer = SECOND, .size = LARGER});
        assert_false(allocations_next(all, &none));
        const struct allocation_counts *counts = allocations_counts(all);
        assert_int_equal(counts->live_objects, 0);
        assert_int_equal(counts->live_bytes, 0);
        assert_int_equal(counts->lost_frees, 1);
        assert_int_equal(counts->unknown_frees, 0);
        allocations_close(all);
        close(files[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_resize_goes_on_where_the_free_of_another_was_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
