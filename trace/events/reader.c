/* SPDX-License-Identifier: MIT
 *
 * reader.c: see reader.h.
 *
 * Opening walks from header to header and notes where each thread's chunks lie; a chunk's content
 * is read, checked and expanded when its thread comes to it.
 */
#include "trace/events/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "trace/base/array.h"
#include "trace/protocol/event_pool.h"

/* No chunk that was ever written is larger; a size beyond it is damage. */
enum { MOST_CHUNK_BYTES = 1 << 30 };

struct place {
    uint64_t offset; /* of the payload */
    struct event_chunk chunk;
};

struct thread {
    struct place *places;
    size_t place_count, capacity, next_place;
    uint64_t *words;
    size_t count, at; /* in words */
    uint64_t stamp;
    bool ready; /* `event` is the next */
    struct event event;
};

struct event_reader {
    int fd;
    struct thread *threads;
    uint32_t thread_count;
    size_t thread_capacity;
    char *description, *end, *maps;
    uint64_t first_stamp, first_nanoseconds, last_stamp, last_nanoseconds;
    char error[EVENT_FILE_ERROR_BYTES];
};

static __attribute__((format(printf, 2, 3))) bool fault(struct event_reader *reader,
                                                        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!reader->error[0])
        vsnprintf(reader->error, sizeof reader->error, format, arguments);
    va_end(arguments);
    return false;
}

/* False where so many bytes are not there. */
static bool read_at(const struct event_reader *reader, void *to, size_t bytes, uint64_t offset)
{
    char *next = to;
    while (bytes > 0) {
        ssize_t got = pread(reader->fd, next, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        next += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

/* The content of a chunk, with a zero byte behind it; NULL when it is damaged. */
static void *read_content(struct event_reader *reader, const struct place *place)
{
    const struct event_chunk *chunk = &place->chunk;
    char *payload = malloc(chunk->payload_bytes + 1), *content = malloc(chunk->bytes + 1);
    bool sound = payload && content;
    if (!sound)
        fault(reader, "memory is short");
    if (sound && (!read_at(reader, payload, chunk->payload_bytes, place->offset) ||
                  XXH3_64bits(payload, chunk->payload_bytes) != chunk->payload_hash))
        sound = fault(reader, "damaged at byte %" PRIu64, place->offset);
    if (sound && chunk->encoding == EVENT_ZSTD &&
        ZSTD_decompress(content, chunk->bytes, payload, chunk->payload_bytes) != chunk->bytes)
        sound = fault(reader, "damaged at byte %" PRIu64, place->offset);
    if (sound && chunk->encoding == EVENT_RAW)
        memcpy(content, payload, chunk->bytes);
    free(payload);
    if (!sound) {
        free(content);
        return NULL;
    }
    content[chunk->bytes] = '\0';
    return content;
}

static bool note_place(struct event_reader *reader, const struct place *place)
{
    uint32_t number = place->chunk.thread;
    if (!array_reserve(&reader->threads, &reader->thread_capacity, number, sizeof *reader->threads))
        return fault(reader, "memory is short");
    if (number >= reader->thread_count)
        reader->thread_count = number + 1;
    struct thread *thread = &reader->threads[number];
    if (!array_reserve(&thread->places, &thread->capacity, thread->place_count,
                       sizeof *thread->places))
        return fault(reader, "memory is short");
    thread->places[thread->place_count++] = *place;
    return true;
}

static bool append_maps(struct event_reader *reader, char *text)
{
    size_t length = reader->maps ? strlen(reader->maps) : 0;
    char *all = realloc(reader->maps, length + strlen(text) + 1);
    if (!all)
        return fault(reader, "memory is short");
    strcpy(all + length, text);
    reader->maps = all;
    return true;
}

static bool take_chunk(struct event_reader *reader, const struct place *place)
{
    if (place->chunk.type == EVENT_CHUNK_EVENTS)
        return note_place(reader, place);
    char *text = read_content(reader, place);
    if (!text)
        return false;
    bool taken = true;
    if (place->chunk.type == EVENT_CHUNK_DESCRIPTION && !reader->description)
        reader->description = text;
    else if (place->chunk.type == EVENT_CHUNK_END && !reader->end)
        reader->end = text;
    else {
        if (place->chunk.type == EVENT_CHUNK_MAPS)
            taken = append_maps(reader, text);
        free(text);
    }
    return taken;
}

static bool is_sound(const struct event_chunk *chunk)
{
    return chunk->magic == EVENT_CHUNK_MAGIC &&
           chunk->header_hash == XXH3_64bits(chunk, offsetof(struct event_chunk, header_hash)) &&
           chunk->encoding <= EVENT_ZSTD && chunk->bytes <= MOST_CHUNK_BYTES &&
           chunk->payload_bytes <= MOST_CHUNK_BYTES && chunk->thread < 1 << 24 &&
           (chunk->encoding != EVENT_RAW || chunk->bytes == chunk->payload_bytes);
}

static void walk(struct event_reader *reader)
{
    uint64_t size = (uint64_t)lseek(reader->fd, 0, SEEK_END);
    struct place place = {.offset = sizeof(struct event_file_head)};
    while (!reader->end) {
        uint64_t offset = place.offset;
        if (!read_at(reader, &place.chunk, sizeof place.chunk, offset)) {
            fault(reader, "ends early, at byte %" PRIu64 " of a recording without an end", size);
            return;
        }
        place.offset = offset + sizeof place.chunk;
        if (!is_sound(&place.chunk)) {
            fault(reader, "damaged at byte %" PRIu64, offset);
            return;
        }
        if (place.chunk.payload_bytes > size - place.offset) {
            fault(reader, "ends early, at byte %" PRIu64 ", within a chunk", size);
            return;
        }
        if (!reader->first_stamp) {
            reader->first_stamp = place.chunk.stamp;
            reader->first_nanoseconds = place.chunk.nanoseconds;
        }
        reader->last_stamp = place.chunk.stamp;
        reader->last_nanoseconds = place.chunk.nanoseconds;
        if (!take_chunk(reader, &place))
            return;
        place.offset += place.chunk.payload_bytes;
    }
}

struct event_reader *event_reader_open(int fd, char *error)
{
    struct event_reader *reader = calloc(1, sizeof *reader);
    struct event_file_head head;
    const char *reason = NULL;
    if (!reader) {
        snprintf(error, EVENT_FILE_ERROR_BYTES, "memory is short");
        return NULL;
    }
    reader->fd = fd;
    if (!read_at(reader, &head, sizeof head, 0) ||
        memcmp(head.magic, EVENT_FILE_MAGIC, sizeof head.magic) != 0)
        reason = "is no recording of `allotrope events`";
    else if (head.version != EVENT_FILE_VERSION || head.header_bytes != sizeof(struct event_chunk))
        reason = "is of another version of the format; record it again";
    if (!reason) {
        walk(reader);
        if (!reader->description)
            reason = reader->error[0] ? reader->error : "holds no description";
    }
    if (reason) {
        snprintf(error, EVENT_FILE_ERROR_BYTES, "%s", reason);
        event_reader_close(reader);
        return NULL;
    }
    return reader;
}

void event_reader_close(struct event_reader *reader)
{
    for (uint32_t i = 0; i < reader->thread_count; i++) {
        free(reader->threads[i].places);
        free(reader->threads[i].words);
    }
    free(reader->threads);
    free(reader->description);
    free(reader->end);
    free(reader->maps);
    free(reader);
}

uint32_t event_reader_threads(const struct event_reader *reader)
{
    return reader->thread_count;
}

static bool next_chunk(struct event_reader *reader, struct thread *thread)
{
    free(thread->words);
    thread->words = NULL;
    thread->count = thread->at = 0;
    if (thread->next_place == thread->place_count)
        return false;
    const struct place *place = &thread->places[thread->next_place++];
    thread->words = read_content(reader, place);
    thread->count = thread->words ? place->chunk.bytes / sizeof *thread->words : 0;
    if (!thread->words)
        thread->next_place = thread->place_count; /* what follows stands in the air */
    return thread->words != NULL;
}

/* Reads an allocation at words[at]; returns its length in words, 0 when it is cut. */
static size_t read_block(uint64_t *word, size_t left, struct event *event)
{
    size_t length = 2;
    if (left < length)
        return 0;
    uint64_t flags = word[1] >> EVENT_HIGH_SHIFT;
    event->size = word[0] >> EVENT_HIGH_SHIFT;
    event->site = word[1] & EVENT_ADDRESS_MASK;
    event->zeroed = (flags & EVENT_FLAG_ZEROED) != 0;
    event->alignment = (flags >> EVENT_ALIGNMENT_SHIFT) & 0x3f;
    event->frame_count = (uint32_t)(flags >> EVENT_FRAMES_SHIFT);
    if (event->size == EVENT_SIZE_BEHIND) {
        if (left < 3)
            return 0;
        event->size = word[length++];
    } else {
        event->size--;
    }
    event->frames = word + length;
    if (length + event->frame_count > left)
        return 0;
    for (uint32_t i = 0; i < event->frame_count; i++)
        word[length++] &= EVENT_ADDRESS_MASK;
    return length;
}

static bool read_event(struct event_reader *reader, struct thread *thread)
{
    while (thread->at < thread->count || next_chunk(reader, thread)) {
        uint64_t *word = thread->words + thread->at;
        uint32_t type = word[0] & EVENT_TYPE_MASK;
        size_t length = 1;
        if (type == EVENT_TIME) {
            thread->stamp = word[0] >> 3;
            thread->at++;
            continue;
        }
        thread->event = (struct event){
            .type = type, .pointer = word[0] & EVENT_POINTER_MASK, .stamp = thread->stamp};
        if (type == EVENT_NEW || type == EVENT_RESIZE_TO)
            length = read_block(word, thread->count - thread->at, &thread->event);
        else if (type != EVENT_FREE && type != EVENT_RESIZE_FROM)
            length = 0;
        if (length == 0) {
            fault(reader, "an event in the chunk at byte %" PRIu64 " is damaged",
                  thread->places[thread->next_place - 1].offset);
            thread->next_place = thread->place_count;
            thread->at = thread->count;
            continue;
        }
        thread->at += length;
        return true;
    }
    return false;
}

const struct event *event_reader_peek(struct event_reader *reader, uint32_t number)
{
    struct thread *thread = &reader->threads[number];
    if (!thread->ready)
        thread->ready = read_event(reader, thread);
    return thread->ready ? &thread->event : NULL;
}

void event_reader_take(struct event_reader *reader, uint32_t number)
{
    reader->threads[number].ready = false;
}

uint64_t event_reader_nanoseconds(const struct event_reader *reader, uint64_t stamp)
{
    uint64_t stamps = reader->last_stamp - reader->first_stamp;
    if (stamps == 0 || stamp < reader->first_stamp)
        return 0;
    double nanoseconds = (double)(reader->last_nanoseconds - reader->first_nanoseconds);
    return (uint64_t)((double)(stamp - reader->first_stamp) * (nanoseconds / (double)stamps));
}

const char *event_reader_description(const struct event_reader *reader)
{
    return reader->description;
}

const char *event_reader_end(const struct event_reader *reader)
{
    return reader->end ? reader->end : "";
}

const char *event_reader_maps(const struct event_reader *reader)
{
    return reader->maps ? reader->maps : "";
}

const char *event_reader_error(const struct event_reader *reader)
{
    return reader->error[0] ? reader->error : NULL;
}
