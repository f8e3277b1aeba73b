/* SPDX-License-Identifier: MIT
 *
 * test_reader_damage.c: a file of allocation events that is cut or damaged anywhere gives what came
 * before, and says where.
 */
#include "tests/trace/events/events_unit.h"

#include <stdlib.h>

static size_t size_of(int file)
{
    return (size_t)lseek(file, 0, SEEK_END);
}

static unsigned char *content_of(int file)
{
    size_t bytes = size_of(file);
    unsigned char *content = malloc(bytes);
    assert_non_null(content);
    assert_int_equal(pread(file, content, bytes, 0), bytes);
    return content;
}

static int file_of(const unsigned char *content, size_t bytes)
{
    int file = new_file();
    assert_int_equal(write(file, content, bytes), bytes);
    return file;
}

/* Of the thread's chunks that lie before a place in the file. */
static size_t events_before(uint32_t thread, size_t place)
{
    size_t events = 0;
    for (size_t i = 0; i < model[thread].chunk_count && model[thread].chunk_end[i] <= place; i++)
        events = model[thread].chunk_events[i];
    return events;
}

static void test_a_file_that_is_cut_anywhere_gives_what_came_before(void **state)
{
    (void)state;
    int whole = write_file(3, 0, 12, 3);
    size_t bytes = size_of(whole), opened = 0;
    unsigned char *content = content_of(whole);
    for (size_t cut = 0; cut < bytes; cut++) {
        char error[EVENT_FILE_ERROR_BYTES] = "";
        int file = file_of(content, cut);
        struct event_reader *reader = event_reader_open(file, error);
        if (!reader) {
            assert_int_equal(opened, 0); /* no description yet */
            assert_non_null(strstr(error, cut < HEAD_BYTES ? "no recording" : "ends early"));
        } else {
            opened++;
            for (uint32_t i = 0; i < event_reader_threads(reader); i++)
                assert_int_equal(read_thread(reader, i), events_before(i, cut));
            assert_non_null(strstr(event_reader_error(reader), "ends early, at byte"));
            assert_string_equal(event_reader_end(reader), "");
            event_reader_close(reader);
        }
        close(file);
    }
    assert_int_equal(opened, bytes - HEAD_BYTES - 64 - strlen("{\"a\": 1}"));
    free(content);
    close(whole);
}

/* The byte that an error names: of the chunk's header, or of what follows it. */
static size_t named_byte(const char *error)
{
    const char *number = strstr(error, "damaged at byte ");
    assert_non_null(number);
    return strtoul(number + strlen("damaged at byte "), NULL, 10);
}

/* Every byte belongs to a hash. */
static void test_damage_anywhere_is_told_with_its_place(void **state)
{
    (void)state;
    for (int level = 0; level <= 3; level += 3) {
        int whole = write_file(4, level, 12, 5);
        size_t bytes = size_of(whole);
        unsigned char *content = content_of(whole);
        for (size_t at = 0; at < bytes; at++) {
            char error[EVENT_FILE_ERROR_BYTES] = "";
            content[at] ^= (unsigned char)(1 << below(8));
            int file = file_of(content, bytes);
            struct event_reader *reader = event_reader_open(file, error);
            assert_true(reader || *error);
            if (reader) {
                for (uint32_t i = 0; i < event_reader_threads(reader); i++)
                    assert_true(read_thread(reader, i) >= events_before(i, at));
                assert_non_null(event_reader_error(reader));
                assert_in_range(named_byte(event_reader_error(reader)), 1, at);
                event_reader_close(reader);
            }
            close(file);
            assert_int_equal(pread(whole, content + at, 1, (off_t)at), 1);
        }
        free(content);
        close(whole);
    }
}

static void test_what_is_no_recording_or_of_another_version_is_refused(void **state)
{
    (void)state;
    char error[EVENT_FILE_ERROR_BYTES];
    int whole = write_file(5, 0, 1, 1);
    unsigned char *content = content_of(whole);
    for (size_t at = 0; at < HEAD_BYTES; at++) {
        content[at]++;
        int file = file_of(content, size_of(whole));
        assert_null(event_reader_open(file, error));
        assert_non_null(strstr(error, at < 8 ? "is no recording" : "another version"));
        content[at]--;
        close(file);
    }
    free(content);
    close(whole);
}

/* Chunks that are whole, with events that are not. */
static void test_events_before_a_wrong_one_count_and_those_of_other_threads(void **state)
{
    (void)state;
    const uint64_t always = UINT64_C(1) << 48;
    const uint64_t wrong[][3] = {{always | 64},                                   /* no type */
                                 {always | 64 | 6},                               /* of none */
                                 {2 * always | 64 | EVENT_NEW},                   /* no flags */
                                 {65535 * always | 64 | EVENT_RESIZE_TO, always}, /* no size */
                                 {2 * always | 64 | EVENT_NEW, 0x201 * always, always}};
    static const size_t lengths[] = {1, 1, 1, 2, 3};
    for (size_t i = 0; i < 5; i++) {
        uint64_t words[4] = {always | 128 | EVENT_FREE};
        int file = new_file();
        struct event_writer *writer = event_writer_open(file, "{}", 0, 1, 1);
        memcpy(words + 1, wrong[i], sizeof wrong[i]);
        event_writer_add(writer, EVENT_CHUNK_EVENTS, 0, words, (1 + lengths[i]) * sizeof *words);
        event_writer_add(writer, EVENT_CHUNK_EVENTS, 0, words, sizeof *words);
        event_writer_add(writer, EVENT_CHUNK_EVENTS, 1, words, sizeof *words);
        event_writer_close(writer, "{}");
        struct event_reader *reader = open_whole(file);
        assert_null(event_reader_error(reader));
        assert_int_equal(event_reader_peek(reader, 0)->pointer, 128);
        event_reader_take(reader, 0);
        assert_null(event_reader_peek(reader, 0));
        assert_string_equal(event_reader_error(reader),
                            "an event in the chunk at byte 146 is damaged");
        assert_int_equal(event_reader_peek(reader, 1)->pointer, 128);
        event_reader_close(reader);
        close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_that_is_cut_anywhere_gives_what_came_before),
        cmocka_unit_test(test_damage_anywhere_is_told_with_its_place),
        cmocka_unit_test(test_what_is_no_recording_or_of_another_version_is_refused),
        cmocka_unit_test(test_events_before_a_wrong_one_count_and_those_of_other_threads),
    };
    return cmocka_run_group_tests_name("damaged events", tests, NULL, NULL);
}
