/* SPDX-License-Identifier: MIT
 *
 * events_unit.h: files of random allocation events for the tests of their reader: written by an
 * encoder of the tests' own, out of docs/events-format.md, and kept as a model.
 */
#ifndef ALLOTROPE_TESTS_TRACE_EVENTS_EVENTS_UNIT_H
#define ALLOTROPE_TESTS_TRACE_EVENTS_EVENTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench_programs/random.h"
#include "trace/events/reader.h"
#include "trace/events/writer.h"
#include "trace/protocol/event_pool.h"

enum { THREADS = 3, MOST_EVENTS = 4000, MOST_FRAMES = 63, MOST_CHUNKS = 100, HEAD_BYTES = 16 };

/* The model: the events of each thread, and of its chunks how many events and how many bytes of the
 * file there are up to each one's end. */
struct thread_events {
    struct event events[MOST_EVENTS];
    uint64_t frames[MOST_EVENTS][MOST_FRAMES];
    size_t count, chunk_count;
    size_t chunk_events[MOST_CHUNKS], chunk_end[MOST_CHUNKS];
};
static struct thread_events model[THREADS];
static uint64_t random_state;

static inline uint64_t below(uint64_t limit)
{
    return random_below(&random_state, limit);
}

static inline uint64_t random_size(void)
{
    static const uint64_t sizes[] = {0, 1, 65532, 65533, 65534, 65535, 65536, UINT64_C(1) << 46};
    return below(2) ? sizes[below(8)] : below(100000);
}

static inline void make_event(struct thread_events *thread, uint64_t stamp)
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
static inline uint64_t *put_event(uint64_t *word, const struct event *event)
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
static inline void write_events(struct event_writer *writer, int file, uint32_t number,
                                size_t count)
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

static inline int new_file(void)
{
    int file = memfd_create("events", 0);
    assert_true(file >= 0);
    return file;
}

/* Chunks of random threads. */
static inline int write_file(uint64_t seed, int level, size_t chunks, size_t most_events)
{
    int file = new_file();
    random_state = seed;
    for (size_t i = 0; i < THREADS; i++)
        model[i].count = model[i].chunk_count = 0;
    struct event_writer *writer = event_writer_open(file, "{\"a\": 1}", level, 1000, 5000);
    assert_non_null(writer);
    assert_int_equal(event_writer_add(writer, EVENT_CHUNK_MAPS, 0, "one\n", 4), 0);
    for (size_t i = 0; i < chunks; i++)
        write_events(writer, file, (uint32_t)below(THREADS), 1 + below(most_events));
    write_events(writer, file, THREADS - 1, 1); /* so that the number of threads is known */
    assert_int_equal(event_writer_add(writer, EVENT_CHUNK_MAPS, 0, "two\n", 4), 0);
    assert_int_equal(event_writer_close(writer, "{\"status\": 3}"), 0);
    return file;
}

static inline struct event_reader *open_whole(int file)
{
    char error[EVENT_FILE_ERROR_BYTES];
    struct event_reader *reader = event_reader_open(file, error);
    if (!reader)
        fail_msg("%s", error);
    return reader;
}

static inline void assert_same(const struct event *found, const struct event *expected)
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
static inline size_t read_thread(struct event_reader *reader, uint32_t number)
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

#endif
