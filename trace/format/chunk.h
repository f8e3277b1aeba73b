/* SPDX-License-Identifier: MIT
 *
 * chunk.h: what writer and reader must agree on; docs/trace-format.md says it in words.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_CHUNK_H
#define ALLOTROPE_TRACE_FORMAT_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/format/bytes.h"
#include "trace/format/format.h"

/* All numbers of a file are little-endian, which is this machine's own order. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "x86-64 only, so far");

#define TRACE_FILE_MAGIC \
    "\x89"               \
    "ALTRACE"
#define TRACE_CHUNK_MAGIC 0x4b434c41u /* "ALCK" */

struct trace_file_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes; /* of every chunk's header */
};

/* A chunk ends at the first execution after so many references or executions, or so many bytes of
 * events; a batch holds no more than these. Fuzzers build with less, to meet the boundaries. */
#ifndef TRACE_CHUNK_REFERENCES
#define TRACE_CHUNK_REFERENCES (4 << 20)
#define TRACE_BATCH_REFERENCES 16384
#endif
enum {
    CHUNK_REFERENCES = TRACE_CHUNK_REFERENCES,
    CHUNK_EXECUTIONS = TRACE_CHUNK_REFERENCES,
    CHUNK_EVENT_BYTES = 8 * TRACE_CHUNK_REFERENCES,
    MOST_SLOTS = TRACE_MOST_SLOTS,
    BATCH_REFERENCES = TRACE_BATCH_REFERENCES,
    BATCH_EVENTS = TRACE_BATCH_REFERENCES / 2,
};

/* Larger sizes in a header are damage, not data. */
enum { MOST_PAYLOAD_BYTES = 1 << 30 };

enum chunk_type { CHUNK_DESCRIPTION = 1, CHUNK_DATA, CHUNK_END };

/* Clocks and state at the chunk's start, and what it adds. */
struct chunk_header {
    uint32_t magic;
    uint32_t type;
    uint64_t sequence;
    uint64_t payload_bytes;
    uint64_t payload_hash; /* XXH3, 64 bits */
    uint32_t thread;
    uint32_t class;
    struct trace_totals start;
    struct trace_totals added;
    uint64_t header_hash; /* of all before it */
};

/* An end chunk's payload: totals of the run, then an array of these, one a data chunk. */
struct chunk_index_entry {
    uint64_t offset;
    uint64_t first_reference;
    uint64_t references;
};

enum chunk_stream {
    STREAM_TOKENS, /* a byte an execution */
    STREAM_IDS16,  /* paths that were not predicted */
    STREAM_IDS32,
    STREAM_CODES,   /* a byte a told slot, of executions that are not as predicted */
    STREAM_DELTAS8, /* differences to the slot's last address */
    STREAM_DELTAS16,
    STREAM_DELTAS32,
    STREAM_DELTAS64,
    STREAM_DEFINITIONS, /* paths in the order of their first use, with their superblocks */
    STREAM_FUNCTIONS,
    STREAM_EVENTS,
    STREAM_REGIONS, /* mappings at the chunk's start */
    STREAMS,
};

struct stream_size {
    uint32_t raw_bytes;
    uint32_t stored_bytes; /* equal: stored as it is; else a zstd frame */
};

/* A token: 0 when path and addresses are as predicted, else 1 + 2 * how the path is told +
 * whether codes follow. */
enum token_path {
    PATH_LAST_SUCCESSOR,
    PATH_OTHER_SUCCESSOR,
    PATH_ID16,
    PATH_ID32,
    PATH_NEW,
    PATH_WAYS,
};

/* How a slot's address follows from the slot's last one. */
enum slot_code {
    CODE_STRIDE, /* by the stride that was seen twice */
    CODE_RECENT, /* by the difference that was told last, anywhere */
    CODE_SAME,   /* not at all */
    CODE_OLDER,  /* by the one told before that */
    CODE_DELTA8,
    CODE_DELTA16,
    CODE_DELTA32,
    CODE_DELTA64,
    CODE_ABSENT, /* the access did not take place */
    SLOT_CODES,
};

/* An event that readers keep to themselves: the stack pointer is not what the paths make of it. Its
 * value is the zigzag difference. */
enum { EVENT_STACK = TRACE_EVENT_TYPES };

/* What is remembered of a told slot within a chunk. Writer and reader keep it alike. */
struct slot_state {
    uint64_t last; /* first: what is based on the slot points here */
    uint64_t stride;
    uint64_t difference;
};

/* The differences told last. */
struct recent_differences {
    uint64_t newest;
    uint64_t older;
};

/* How many of the slots before `end` are told. */
static inline uint32_t count_told(const struct trace_slot *slots, uint32_t end)
{
    uint32_t told = 0;
    for (uint32_t i = 0; i < end; i++)
        told += slots[i].base == TRACE_TOLD;
    return told;
}

/* An address differed from the prediction. A stride is believed when it is seen twice. */
static inline void slot_moved(struct slot_state *slot, uint64_t difference)
{
    slot->last += difference;
    if (difference == slot->difference)
        slot->stride = difference;
    slot->difference = difference;
}

static inline void slot_as_predicted(struct slot_state *slot)
{
    slot->last += slot->stride;
    slot->difference = slot->stride;
}

static inline void remember_difference(struct recent_differences *recent, uint64_t difference)
{
    recent->older = recent->newest;
    recent->newest = difference;
}

/* Number of values of each event type. */
static inline unsigned event_values(uint32_t type)
{
    static const uint8_t counts[EVENT_STACK + 1] = {
        [TRACE_EVENT_CLASS] = 1,
        [TRACE_EVENT_THREAD] = 1,
        [TRACE_EVENT_THREAD_START] = 2,
        [TRACE_EVENT_THREAD_END] = 1,
        [TRACE_EVENT_MALLOC] = 3,
        [TRACE_EVENT_REALLOC] = 4,
        [TRACE_EVENT_FREE] = 2,
        [TRACE_EVENT_MAP] = 3,
        [TRACE_EVENT_UNMAP] = 2,
        [TRACE_EVENT_SIGNAL] = 1,
        [TRACE_EVENT_COLLECTION_BEGIN] = 1,
        [TRACE_EVENT_COLLECTION_END] = 1,
        [TRACE_EVENT_MARK] = 1,
        [EVENT_STACK] = 1,
    };
    return counts[type];
}

/* Bytes handed out by an event. */
static inline uint64_t event_bytes(const struct trace_event *event)
{
    bool allocates = event->type == TRACE_EVENT_MALLOC || event->type == TRACE_EVENT_REALLOC;
    return allocates && event->value[0] != 0 ? event->value[1] : 0;
}

/* Appends an event but for its position; false when memory is short. */
static inline bool put_event(struct bytes *bytes, const struct trace_event *event)
{
    if (!bytes_reserve(bytes, 6 * VARINT_BYTES))
        return false;
    put_varint(bytes, event->type);
    for (unsigned i = 0; i < event_values(event->type); i++)
        put_varint(bytes, event->value[i]);
    return event->type != TRACE_EVENT_MAP || put_string(bytes, event->name ? event->name : "");
}

#endif
