/* SPDX-License-Identifier: MIT
 *
 * writer.c: see writer.h.
 */
#include "trace/events/writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>
#include <zstd.h>

#include "trace/base/write_all.h"

struct event_writer {
    int fd;
    int level;
    ZSTD_CCtx *compressor;
    void *room;
    size_t room_bytes;
};

/* Compresses into the writer's own room; 0 when that saves nothing or cannot be done. */
static size_t compress(struct event_writer *writer, const void *content, size_t bytes)
{
    size_t bound = ZSTD_compressBound(bytes);
    if (bound > writer->room_bytes) {
        free(writer->room);
        writer->room = malloc(bound);
        writer->room_bytes = writer->room ? bound : 0;
        if (!writer->room)
            return 0;
    }
    size_t result =
        ZSTD_compressCCtx(writer->compressor, writer->room, bound, content, bytes, writer->level);
    return ZSTD_isError(result) || result >= bytes ? 0 : result;
}

static int add_chunk(struct event_writer *writer, const struct event_chunk *head,
                     const void *content)
{
    /* Descriptions stay readable for whoever looks at the bytes. */
    bool is_large = head->type == EVENT_CHUNK_EVENTS || head->type == EVENT_CHUNK_MAPS;
    size_t compressed = writer->level && is_large ? compress(writer, content, head->bytes) : 0;
    const void *payload = compressed ? writer->room : content;
    struct event_chunk chunk = *head;
    chunk.magic = EVENT_CHUNK_MAGIC;
    chunk.encoding = compressed ? EVENT_ZSTD : EVENT_RAW;
    chunk.payload_bytes = compressed ? compressed : head->bytes;
    chunk.payload_hash = XXH3_64bits(payload, chunk.payload_bytes);
    chunk.header_hash = XXH3_64bits(&chunk, offsetof(struct event_chunk, header_hash));
    if (write_all(writer->fd, &chunk, sizeof chunk) < 0)
        return -1;
    return write_all(writer->fd, payload, chunk.payload_bytes);
}

int event_writer_add(struct event_writer *writer, enum event_chunk_type type, uint32_t thread,
                     const void *content, size_t bytes)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct event_chunk head = {
        .type = type,
        .thread = thread,
        .bytes = bytes,
        .stamp = __builtin_ia32_rdtsc(),
        .nanoseconds = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
    };
    return add_chunk(writer, &head, content);
}

static void free_writer(struct event_writer *writer)
{
    ZSTD_freeCCtx(writer->compressor);
    free(writer->room);
    free(writer);
}

struct event_writer *event_writer_open(int fd, const char *description, int level, uint64_t stamp,
                                       uint64_t nanoseconds)
{
    struct event_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return NULL;
    struct event_file_head head = {.version = EVENT_FILE_VERSION,
                                   .header_bytes = sizeof(struct event_chunk)};
    memcpy(head.magic, EVENT_FILE_MAGIC, sizeof head.magic);
    writer->fd = fd;
    writer->level = level;
    writer->compressor = ZSTD_createCCtx();
    struct event_chunk first = {.type = EVENT_CHUNK_DESCRIPTION,
                                .bytes = strlen(description),
                                .stamp = stamp,
                                .nanoseconds = nanoseconds};
    if (!writer->compressor || write_all(writer->fd, &head, sizeof head) < 0 ||
        add_chunk(writer, &first, description) < 0) {
        free_writer(writer);
        return NULL;
    }
    return writer;
}

int event_writer_close(struct event_writer *writer, const char *end)
{
    int result = event_writer_add(writer, EVENT_CHUNK_END, 0, end, strlen(end));
    int saved = errno;
    free_writer(writer);
    errno = saved;
    return result;
}
