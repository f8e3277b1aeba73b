/* SPDX-License-Identifier: MIT
 *
 * chunk.h: what the writer and the reader of event files share beyond events/file.h.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_CHUNK_H
#define ALLOTROPE_TRACE_EVENTS_CHUNK_H

#include <stdint.h>

#define EVENT_FILE_MAGIC \
    "\x89"               \
    "ALEVENT"
#define EVENT_CHUNK_MAGIC UINT32_C(0x4b484341) /* "ACHK" */

struct event_file_head {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes; /* of each chunk */
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
    uint64_t stamp;         /* the time stamp counter when the chunk was written */
    uint64_t nanoseconds;   /* CLOCK_MONOTONIC at the same moment */
    uint64_t header_hash;   /* XXH3 of all before it */
};
_Static_assert(sizeof(struct event_chunk) == 64, "no padding");

#endif
