/* SPDX-License-Identifier: MIT
 *
 * file.h: writing and reading files of allocation events (docs/events-format.md).
 *
 * A file is a sequence of chunks, each of one thread's events as they stood in its buffers
 * (event_pool.h), so writing is a matter of compressing. The reader gives each thread's events in
 * their order; allocations.h puts the threads together.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_FILE_H
#define ALLOTROPE_TRACE_EVENTS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVENT_FILE_VERSION = 1, EVENT_FILE_ERROR_BYTES = 256 };

enum event_chunk_type {
    EVENT_CHUNK_DESCRIPTION = 1, /* a JSON object: what was recorded */
    EVENT_CHUNK_EVENTS,
    EVENT_CHUNK_MAPS, /* text of /proc/PID/maps */
    EVENT_CHUNK_END,  /* a JSON object: how the recording ended */
};

/* Writing. */

struct event_writer;

/* fd: stays the caller's. level: zstd's, 0 for none. NULL: memory is short, or errno. */
struct event_writer *event_writer_open(int fd, const char *description, int level);
/* Returns 0, or -1 with errno. */
int event_writer_add(struct event_writer *writer, enum event_chunk_type type, uint32_t thread,
                     const void *content, size_t bytes);
/* Writes the end, and frees the writer in any case. Returns as event_writer_add(). */
int event_writer_close(struct event_writer *writer, const char *end);

/* Reading. */

struct event {
    uint32_t type;     /* enum event_type of event_pool.h, never TIME */
    uint8_t alignment; /* log2 of what was asked for; 0: nothing */
    bool zeroed;
    uint64_t pointer;
    uint64_t size;
    uint64_t stamp; /* of the last TIME before it */
    uint64_t site;
    const uint64_t *frames; /* further return addresses; the reader's, until the thread's next */
    uint32_t frame_count;
};

struct event_reader;

/* Reads what the file holds; fd must be seekable and stays the caller's. Where the file is cut or
 * damaged, everything before is read and event_reader_error() tells of it. NULL: `error`, of
 * EVENT_FILE_ERROR_BYTES, says why nothing can be read. */
struct event_reader *event_reader_open(int fd, char *error);
void event_reader_close(struct event_reader *reader);

uint32_t event_reader_threads(const struct event_reader *reader);
/* The next event of a thread, again until it is taken; NULL at the thread's end. */
const struct event *event_reader_peek(struct event_reader *reader, uint32_t thread);
void event_reader_take(struct event_reader *reader, uint32_t thread);

/* Nanoseconds since the recording began. */
uint64_t event_reader_nanoseconds(const struct event_reader *reader, uint64_t stamp);

const char *event_reader_description(const struct event_reader *reader);
const char *event_reader_end(const struct event_reader *reader); /* "" where there is none */
const char *event_reader_maps(const struct event_reader *reader);
/* NULL while all is well. */
const char *event_reader_error(const struct event_reader *reader);

#endif
