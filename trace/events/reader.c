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

struct stored_chunk {
    uint64_t offset; /* of the payload */
    struct event_chunk chunk;
};

struct thread {
    struct stored_chunk *chunks;
    size_t chunk_count, capacity, next_chunk;
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
static void *read_content(struct event_reader *reader, const struct stored_chunk *stored)
{
    const struct event_chunk *chunk = &stored->chunk;
    char *payload = malloc(chunk->payload_bytes + 1), *content = malloc(chunk->bytes + 1);
    bool sound = payload && content;
    if (!sound)
        fault(reader, "memory is short");
    if (sound && (!read_at(reader, payload, chunk->payload_bytes, stored->offset) ||
                  XXH3_64bits(payload, chunk->payload_bytes) != chunk->payload_hash))
        sound = fault(reader, "damaged at byte %" PRIu64, stored->offset);
    if (sound && chunk->encoding == EVENT_ZSTD &&
        ZSTD_decompress(content, chunk->bytes, payload, chunk->payload_bytes) != chunk->bytes)
        sound = fault(reader, "damaged at byte %" PRIu64, stored->offset);
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

static bool note_chunk(struct event_reader *reader, const struct stored_chunk *stored)
{
    uint32_t number = stored->chunk.thread;
    if (!array_reserve(&reader->threads, &reader->thread_capacity, number, sizeof *reader->threads))
        return fault(reader, "memory is short");
    if (number >= reader->thread_count)
        reader->thread_count = number + 1;
    struct thread *thread = &reader->threads[number];
    if (!array_reserve(&thread->chunks, &thread->capacity, thread->chunk_count,
                       sizeof *thread->chunks))
        return fault(reader, "memory is short");
    thread->chunks[thread->chunk_count++] = *stored;
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

static bool take_chunk(struct event_reader *reader, const struct stored_chunk *stored)
{
    if (stored->chunk.type == EVENT_CHUNK_EVENTS)
        return note_chunk(reader, stored);
    char *text = read_content(reader, stored);
    if (!text)
        return false;
    bool taken = true;
    if (stored->chunk.type == EVENT_CHUNK_DESCRIPTION && !reader->description)
        reader->description = text;
    else if (stored->chunk.type == EVENT_CHUNK_END && !reader->end)
        reader->end = text;
    else {
        if (stored->chunk.type == EVENT_CHUNK_MAPS)
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
    struct stored_chunk stored = {.offset = sizeof(struct event_file_head)};
    while (!reader->end) {
        uint64_t offset = stored.offset;
        if (!read_at(reader, &stored.chunk, sizeof stored.chunk, offset)) {
            fault(reader, "ends early, at byte %" PRIu64 " of a recording without an end", size);
            return;
        }
        stored.offset = offset + sizeof stored.chunk;
        if (!is_sound(&stored.chunk)) {
            fault(reader, "damaged at byte %" PRIu64, offset);
            return;
        }
        if (stored.chunk.payload_bytes > size - stored.offset) {
            fault(reader, "ends early, at byte %" PRIu64 ", within a chunk", size);
            return;
        }
        if (!reader->first_stamp) {
            reader->first_stamp = stored.chunk.stamp;
            reader->first_nanoseconds = stored.chunk.nanoseconds;
        }
        reader->last_stamp = stored.chunk.stamp;
        reader->last_nanoseconds = stored.chunk.nanoseconds;
        if (!take_chunk(reader, &stored))
            return;
        stored.offset += stored.chunk.payload_bytes;
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
        free(reader->threads[i].chunks);
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
    if (thread->next_chunk == thread->chunk_count)
        return false;
    const struct stored_chunk *stored = &thread->chunks[thread->next_chunk++];
    thread->words = read_content(reader, stored);
    thread->count = thread->words ? stored->chunk.bytes / sizeof *thread->words : 0;
    if (!thread->words)
        thread->next_chunk = thread->chunk_count; /* what follows stands in the air */
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
                  thread->chunks[thread->next_chunk - 1].offset);
            thread->next_chunk = thread->chunk_count;
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
