/* SPDX-License-Identifier: MIT
 *
 * reader.h: reads a file of allocation events: each thread's in their order. allocations.h puts the
 * threads together.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_READER_H
#define ALLOTROPE_TRACE_EVENTS_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/events/chunk.h"

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
