/* SPDX-License-Identifier: MIT
 *
 * chunk.h: a file of allocation events (docs/events-format.md says it in words).
 *
 * A file is a head and a sequence of chunks, each of one thread's events as they stood in its
 * buffers (protocol/event_pool.h), so writing is a matter of compressing.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_CHUNK_H
#define ALLOTROPE_TRACE_EVENTS_CHUNK_H

#include <stdint.h>

enum { EVENT_FILE_VERSION = 1, EVENT_FILE_ERROR_BYTES = 256 };

#define EVENT_FILE_MAGIC \
    "\x89"               \
    "ALEVENT"
#define EVENT_CHUNK_MAGIC UINT32_C(0x4b484341) /* "ACHK" */

struct event_file_head {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes; /* of each chunk */
};

enum event_chunk_type {
    EVENT_CHUNK_DESCRIPTION = 1, /* a JSON object: what was recorded */
    EVENT_CHUNK_EVENTS,
    EVENT_CHUNK_MAPS, /* text of /proc/PID/maps */
    EVENT_CHUNK_END,  /* a JSON object: how the recording ended */
};

enum event_chunk_encoding { EVENT_RAW, EVENT_ZSTD };

/* Before each payload; little-endian, without padding. */
struct event_chunk {
    uint32_t magic;
    uint32_t type;
    uint32_t thread; /* of EVENTS */
    uint32_t encoding;
    uint64_t bytes;         /* of the content */
    uint64_t payload_bytes; /* as stored */
    uint64_t payload_hash;  /* XXH3, 64 bits, of the payload as stored */
    uint64_t stamp;         /* time stamp counter when the chunk was written; DESCRIPTION:
                             * when the process joined the recording */
    uint64_t nanoseconds;   /* CLOCK_MONOTONIC at the same moment */
    uint64_t header_hash;   /* XXH3 of all before it */
};
_Static_assert(sizeof(struct event_chunk) == 64, "no padding");

#endif
