/* SPDX-License-Identifier: MIT */
/* event_chunk.h: what the writer and the reader of event files share beyond event_file.h. */
#ifndef TRACE_EVENT_CHUNK_H
#define TRACE_EVENT_CHUNK_H

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

#endif
