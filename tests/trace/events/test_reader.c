/* SPDX-License-Identifier: MIT
 *
 * test_reader.c: a file of allocation events says what was written, by an encoder of the test's own
 * out of docs/events-format.md. One that is cut or damaged anywhere gives what came before, and
 * says where.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "bench_programs/random.h"
#include "trace/events/reader.h"
#include "trace/events/writer.h"
#include "trace/protocol/event_pool.h"

enum { THREADS = 4, MOST_EVENTS = 4000, MOST_FRAMES = 63, MOST_CHUNKS = 100, HEAD_BYTES = 16 };

/* The model: the events of each thread. The last thread has none. */
struct thread_events {
    struct event events[MOST_EVENTS];
    uint64_t frames[MOST_EVENTS][MOST_FRAMES];
    size_t count, chunk_end[MOST_CHUNKS]; /* chunk_end: the file's bytes, by chunk of the thread */
    size_t chunk_count, chunk_events[MOST_CHUNKS];
};
static struct thread_events model[THREADS];
static uint64_t random_state;

static uint64_t below(uint64_t limit)
{
    return random_below(&random_state, limit);
}

static uint64_t random_size(void)
{
    static const uint64_t sizes[] = {0, 1, 65532, 65533, 65534, 65535, 65536, UINT64_C(1) << 46};
    return below(2) ? sizes[below(8)] : below(100000);
}

static void make_event(struct thread_events *thread, uint64_t stamp)
{
    struct event *event = &thread->events[thread->count];
    uint64_t *frames = thread->frames[thread->count++];
    *event = (struct event){.type = EVENT_NEW + (uint32_t)below(4), .stamp = stamp};
    event->pointer = random_next(&random_state) & 0x7FFFFFFFFFF8;
    if (event->type == EVENT_FREE || event->type == EVENT_RESIZE_FROM)
        return;
    event->size = random_size();
    event->site = random_next(&random_state) & 0xFFFFFFFFFFFF;
    event->alignment = (uint8_t)below(64);
    event->zeroed = below(2);
    event->frame_count = (uint32_t)(below(4) ? 0 : below(MOST_FRAMES + 1));
    event->frames = frames;
    for (uint32_t i = 0; i < event->frame_count; i++)
        frames[i] = random_next(&random_state) & 0xFFFFFFFFFFFF;
}

/* Returns the words behind. */
static uint64_t *put_event(uint64_t *word, const struct event *event)
{
    const uint64_t always = UINT64_C(1) << 48;
    if (event->type == EVENT_FREE || event->type == EVENT_RESIZE_FROM) {
        *word++ = always | event->pointer | event->type;
        return word;
    }
    bool behind = event->size >= 65534;
    *word++ = (behind ? 65535 : event->size + 1) << 48 | event->pointer | event->type;
    uint64_t flags = 1 | (uint64_t)event->zeroed << 1 | (uint64_t)event->alignment << 2 |
                     (uint64_t)event->frame_count << 8;
    *word++ = flags << 48 | event->site;
    if (behind)
        *word++ = event->size;
    for (uint32_t i = 0; i < event->frame_count; i++)
        *word++ = always | event->frames[i];
    return word;
}

/* One chunk more of a thread: so many events, and stamps between them. */
static void write_events(struct event_writer *writer, int file, uint32_t number, size_t count)
{
    static uint64_t words[MOST_EVENTS * 70];
    struct thread_events *thread = &model[number];
    uint64_t *word = words, stamp = thread->count ? thread->events[thread->count - 1].stamp : 0;
    for (size_t i = 0; i < count; i++) {
        if (thread->count == 0 || below(3) == 0) {
            stamp += 1 + below(1000);
            *word++ = stamp << 3 | EVENT_TIME;
        }
        make_event(thread, stamp);
        word = put_event(word, &thread->events[thread->count - 1]);
    }
    size_t bytes = (size_t)(word - words) * sizeof *words;
    assert_int_equal(event_writer_add(writer, EVENT_CHUNK_EVENTS, number, words, bytes), 0);
    thread->chunk_events[thread->chunk_count] = thread->count;
    thread->chunk_end[thread->chunk_count++] = (size_t)lseek(file, 0, SEEK_CUR);
}

static int new_file(void)
{
    int file = memfd_create("events", 0);
    assert_true(file >= 0);
    return file;
}

/* Chunks of random threads, but for the last. */
static int write_file(uint64_t seed, int level, size_t chunks, size_t most_events)
{
    int file = new_file();
    random_state = seed;
    for (size_t i = 0; i < THREADS; i++)
        model[i].count = model[i].chunk_count = 0;
    struct event_writer *writer = event_writer_open(file, "{\"a\": 1}", level, 1000, 5000);
    assert_non_null(writer);
    assert_int_equal(event_writer_add(writer, EVENT_CHUNK_MAPS, 0, "one\n", 4), 0);
    for (size_t i = 0; i < chunks; i++)
        write_events(writer, file, (uint32_t)below(THREADS - 1), 1 + below(most_events));
    write_events(writer, file, THREADS - 2, 1); /* so that the number of threads is known */
    assert_int_equal(event_writer_add(writer, EVENT_CHUNK_MAPS, 0, "two\n", 4), 0);
    assert_int_equal(event_writer_close(writer, "{\"status\": 3}"), 0);
    return file;
}

static struct event_reader *open_whole(int file)
{
    char error[EVENT_FILE_ERROR_BYTES];
    struct event_reader *reader = event_reader_open(file, error);
    if (!reader)
        fail_msg("%s", error);
    return reader;
}

static void assert_same(const struct event *found, const struct event *expected)
{
    assert_int_equal(found->type, expected->type);
    assert_int_equal(found->pointer, expected->pointer);
    assert_int_equal(found->stamp, expected->stamp);
    assert_int_equal(found->size, expected->size);
    assert_int_equal(found->site, expected->site);
    assert_int_equal(found->alignment, expected->alignment);
    assert_int_equal(found->zeroed, expected->zeroed);
    assert_int_equal(found->frame_count, expected->frame_count);
    for (uint32_t i = 0; i < expected->frame_count; i++)
        assert_int_equal(found->frames[i], expected->frames[i]);
}

/* Reads all of a thread's events, which are the first of the model's. Returns how many. */
static size_t read_thread(struct event_reader *reader, uint32_t number)
{
    const struct event *event;
    size_t at = 0;
    for (; (event = event_reader_peek(reader, number)); at++) {
        assert_in_range(at, 0, model[number].count - 1);
        assert_same(event, &model[number].events[at]);
        event_reader_take(reader, number);
    }
    assert_null(event_reader_peek(reader, number));
    return at;
}

/* Threads take turns at random; what one has peeked stays while others go on. */
static void test_each_threads_events_come_in_their_order(void **state)
{
    (void)state;
    for (int level = 0; level <= 3; level += 3) {
        int file = write_file(7 + (uint64_t)level, level, 80, 60);
        struct event_reader *reader = open_whole(file);
        const struct event *peeked[THREADS];
        size_t at[THREADS] = {0}, left = 0;
        assert_int_equal(event_reader_threads(reader), THREADS - 1);
        for (uint32_t i = 0; i < THREADS - 1; i++) {
            peeked[i] = event_reader_peek(reader, i);
            left += model[i].count;
        }
        while (left > 0) {
            uint32_t thread = (uint32_t)below(THREADS - 1);
            if (at[thread] == model[thread].count)
                continue;
            assert_ptr_equal(event_reader_peek(reader, thread), peeked[thread]);
            assert_same(peeked[thread], &model[thread].events[at[thread]++]);
            event_reader_take(reader, thread);
            peeked[thread] = event_reader_peek(reader, thread);
            left--;
        }
        for (uint32_t i = 0; i < THREADS - 1; i++)
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

/* Files that are cut or damaged. */

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
    const uint64_t wrong[][3] = {{always | 64},                                     /* no type */
                                 {always | 64 | 6},                                 /* of none */
                                 {2 * always | 64 | EVENT_NEW},                     /* no flags */
                                 {65535 * always | 64 | EVENT_RESIZE_TO, always},   /* no size */
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
        cmocka_unit_test(test_a_file_that_is_cut_anywhere_gives_what_came_before),
        cmocka_unit_test(test_damage_anywhere_is_told_with_its_place),
        cmocka_unit_test(test_what_is_no_recording_or_of_another_version_is_refused),
        cmocka_unit_test(test_events_before_a_wrong_one_count_and_those_of_other_threads),
        cmocka_unit_test(test_time_is_told_from_the_first_chunk_to_the_last),
        cmocka_unit_test(test_without_a_description_nothing_can_be_read),
    };
    return cmocka_run_group_tests_name("events reader", tests, NULL, NULL);
}
