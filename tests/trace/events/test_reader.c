/* SPDX-License-Identifier: MIT
 *
 * test_reader.c: a file of allocation events says what was written: each thread's events, texts and
 * time. Files that are cut or damaged: test_reader_damage.c.
 */
#include "tests/trace/events/events_unit.h"

#include <xxhash.h>

/* Threads take turns at random; what one has peeked stays while others go on. */
static void test_each_threads_events_come_in_their_order(void **state)
{
    (void)state;
    for (int level = 0; level <= 3; level += 3) {
        int file = write_file(7 + (uint64_t)level, level, 80, 60);
        struct event_reader *reader = open_whole(file);
        const struct event *peeked[THREADS];
        size_t at[THREADS] = {0}, left = 0;
        assert_int_equal(event_reader_threads(reader), THREADS);
        for (uint32_t i = 0; i < THREADS; i++) {
            peeked[i] = event_reader_peek(reader, i);
            left += model[i].count;
        }
        while (left > 0) {
            uint32_t thread = (uint32_t)below(THREADS);
            if (at[thread] == model[thread].count)
                continue;
            assert_ptr_equal(event_reader_peek(reader, thread), peeked[thread]);
            assert_same(peeked[thread], &model[thread].events[at[thread]++]);
            event_reader_take(reader, thread);
            peeked[thread] = event_reader_peek(reader, thread);
            left--;
        }
        for (uint32_t i = 0; i < THREADS; i++)
            assert_null(event_reader_peek(reader, i));
        assert_null(event_reader_error(reader));
        event_reader_close(reader);
        close(file);
    }
}

static void test_texts_are_whole_and_nothing_behind_the_end_counts(void **state)
{
    (void)state;
    static const char description[] = "{\"a\": 1}", other[] = "{\"b\": 2}";
    const uint64_t event = UINT64_C(1) << 48 | 64 | EVENT_FREE;
    int file = new_file();
    struct event_writer *writer = event_writer_open(file, description, 1, 1, 1);
    event_writer_add(writer, EVENT_CHUNK_DESCRIPTION, 0, other, strlen(other));
    event_writer_add(writer, EVENT_CHUNK_MAPS, 0, "a line\nhalf", 11);
    event_writer_add(writer, (enum event_chunk_type)9, 0, "of a later version", 18);
    event_writer_add(writer, EVENT_CHUNK_MAPS, 0, " a line\n", 8);
    event_writer_add(writer, EVENT_CHUNK_EVENTS, 0, &event, sizeof event);
    event_writer_add(writer, EVENT_CHUNK_END, 0, "the end", 7);
    event_writer_add(writer, EVENT_CHUNK_EVENTS, 1, &event, sizeof event);
    event_writer_close(writer, "another end");
    struct event_reader *reader = open_whole(file);
    assert_string_equal(event_reader_description(reader), description);
    assert_string_equal(event_reader_maps(reader), "a line\nhalf a line\n");
    assert_string_equal(event_reader_end(reader), "the end");
    assert_int_equal(event_reader_threads(reader), 1);
    assert_null(event_reader_error(reader));
    event_reader_close(reader);
    close(file);
}

/* Time. */

static void put_chunk(int file, uint32_t type, uint64_t stamp, uint64_t nanoseconds)
{
    struct event_chunk chunk = {.magic = EVENT_CHUNK_MAGIC, .type = type, .bytes = 2};
    chunk.payload_bytes = 2;
    chunk.payload_hash = XXH3_64bits("{}", 2);
    chunk.stamp = stamp;
    chunk.nanoseconds = nanoseconds;
    chunk.header_hash = XXH3_64bits(&chunk, offsetof(struct event_chunk, header_hash));
    assert_int_equal(write(file, &chunk, sizeof chunk), sizeof chunk);
    assert_int_equal(write(file, "{}", 2), 2);
}

static int begin_file(void)
{
    struct event_file_head head = {.version = EVENT_FILE_VERSION, .header_bytes = 64};
    int file = new_file();
    memcpy(head.magic, EVENT_FILE_MAGIC, sizeof head.magic);
    assert_int_equal(write(file, &head, sizeof head), HEAD_BYTES);
    return file;
}

static void test_time_is_told_from_the_first_chunk_to_the_last(void **state)
{
    (void)state;
    static const uint64_t stamps[] = {0, 999, 1000, 1001, 2000, 3000, 4000};
    static const uint64_t nanoseconds[] = {0, 0, 0, 2, 2000, 4000, 6000};
    int file = begin_file(), still = begin_file();
    put_chunk(file, EVENT_CHUNK_DESCRIPTION, 1000, 5000);
    put_chunk(file, EVENT_CHUNK_MAPS, 1500, 8000); /* the rate is that of the whole */
    put_chunk(file, EVENT_CHUNK_END, 3000, 9000);
    put_chunk(still, EVENT_CHUNK_DESCRIPTION, 1000, 5000);
    put_chunk(still, EVENT_CHUNK_END, 1000, 5000);
    struct event_reader *reader = open_whole(file), *of_still = open_whole(still);
    for (size_t i = 0; i < sizeof stamps / sizeof *stamps; i++) {
        assert_int_equal(event_reader_nanoseconds(reader, stamps[i]), nanoseconds[i]);
        assert_int_equal(event_reader_nanoseconds(of_still, stamps[i]), 0);
    }
    event_reader_close(reader);
    event_reader_close(of_still);
    close(file);
    close(still);
}

static void test_without_a_description_nothing_can_be_read(void **state)
{
    (void)state;
    char error[EVENT_FILE_ERROR_BYTES];
    int file = begin_file();
    put_chunk(file, EVENT_CHUNK_END, 1000, 5000);
    assert_null(event_reader_open(file, error));
    assert_string_equal(error, "holds no description");
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_threads_events_come_in_their_order),
        cmocka_unit_test(test_texts_are_whole_and_nothing_behind_the_end_counts),
        cmocka_unit_test(test_time_is_told_from_the_first_chunk_to_the_last),
        cmocka_unit_test(test_without_a_description_nothing_can_be_read),
    };
    return cmocka_run_group_tests_name("events reader", tests, NULL, NULL);
}
