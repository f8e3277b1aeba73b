/* SPDX-License-Identifier: MIT
 *
 * reader_state.h: what the reader's files share.
 *
 *     reader.c    opening, going from chunk to chunk, batches, seeking
 *     unpack.c    a chunk from the file to its streams and tables
 *     decode.c    executions and events from the streams
 *     copy.c      what is read, to a writer
 *
 * A chunk's definitions are turned into tables when it is opened. A slot's table entry is half of
 * a finished reference already (function, size, kind), and says where its base stands; per
 * reference remains an addition and two stores, and for told slots their prediction and, in
 * executions that were not predicted, a code.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_READER_STATE_H
#define ALLOTROPE_TRACE_FORMAT_READER_STATE_H

#include <zstd.h>

#include "trace/base/functions.h"
#include "trace/base/instructions.h"
#include "trace/format/bytes.h"
#include "trace/format/chunk.h"
#include "trace/format/reader.h"

enum { NO_PATH = 0 }; /* the path before a chunk's first */

/* How a reference is made: its address is `*base + offset`. */
struct maker {
    const uint64_t *base; /* a told slot's last address, the stack pointer, or 0 */
    uint64_t offset;
    uint64_t meaning; /* second word of struct trace_reference, class not yet set */
};

struct superblock {
    uint64_t address;
    uint32_t function;
    uint32_t slot_count;
    size_t first_slot, first_state, first_maker;
};

struct path {
    struct slot_state *states; /* of its told slots */
    const struct maker *makers;
    uint32_t told;
    uint32_t references;
    uint32_t instructions;
    uint32_t stores;
    uint32_t successor[2];
    const uint64_t *stack_base; /* the stack pointer behind it: from here, */
    uint64_t stack_offset;      /* ... so far */
    struct trace_path path;
    int64_t copied; /* number at the writer copied to, -1 before */
};

struct trace_reader {
    int fd;
    uint64_t offset;
    uint64_t chunk_offset;
    bool at_end;
    bool resumed; /* after a seek: restated mappings are told as events */
    char error[TRACE_ERROR_BYTES];
    char *description;
    uint64_t data_offset; /* of the first chunk behind the description */

    struct functions functions;
    struct instructions instructions;
    struct trace_totals totals;
    struct trace_totals whole;
    bool has_whole;

    /* The chunk at hand. */
    struct chunk_header header;
    struct bytes payload;
    struct bytes raw; /* its streams, decompressed */
    struct cursor stream[STREAMS];
    ZSTD_DCtx *zstd;
    struct superblock *superblocks;
    size_t superblock_count, superblock_capacity;
    struct path *paths;
    size_t path_count, path_capacity;
    struct trace_slot *slots; /* of all superblocks; those that follow likewise */
    size_t slot_count, slot_capacity;
    struct slot_state *states;
    size_t state_count, state_capacity;
    struct maker *makers;
    size_t maker_count, maker_capacity;
    uint64_t stack;      /* the stack pointer */
    bool some_absent;    /* of the execution at hand, as its codes say */
    uint64_t nothing;    /* 0, what constant addresses are based on */
    uint32_t introduced; /* paths met so far */
    uint32_t last_path;
    uint64_t executions; /* done */
    uint64_t execution_count;
    uint64_t next_event; /* execution before which it comes; UINT64_MAX after the last */
    uint32_t thread, class;
    struct recent_differences recent;
    struct bytes names; /* of the batch's events */

    struct trace_reference references[BATCH_REFERENCES + MOST_SLOTS];
    struct trace_event events[BATCH_EVENTS];
    size_t name_offset[BATCH_EVENTS];
    size_t event_count;
};

/* Notes what is wrong, and at which byte of the file; nothing more is read. Returns -1. */
int reader_fail(struct trace_reader *reader, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int reader_short_of_memory(struct trace_reader *reader);

/* Opens the next chunk when the present one is used up. Returns 1, 0 at the end, -1. */
int reader_ensure_chunk(struct trace_reader *reader);

/* Reads exactly so many bytes. Returns 1, 0 when there is not a single one, -1 on failure. */
int reader_read_all(struct trace_reader *reader, void *data, size_t bytes);
/* Reads the next chunk's header and payload. Returns 1, 0 at the end of the file, -1. */
int reader_read_chunk(struct trace_reader *reader);
/* Makes streams and tables of a data chunk's payload. Returns 0 or -1. */
int reader_unpack_chunk(struct trace_reader *reader);

/* Notes before which execution the next event comes. */
void reader_find_next_event(struct trace_reader *reader);
/* Decodes executions up to the next event, or until the batch is full. Returns where their
 * references end, NULL on damage. */
struct trace_reference *reader_decode_run(struct trace_reader *reader, struct trace_reference *out);
/* Decodes one execution, and puts the addresses of its told slots where the caller has room for
 * MOST_SLOTS; accesses that did not take place stand as TRACE_ABSENT. Its references are not
 * counted. Returns the path, NULL on damage. */
struct path *reader_decode_addresses(struct trace_reader *reader, uint64_t *addresses);
/* Decodes the next event into the batch, unless it is of those that readers keep to themselves.
 * Returns 0 or -1. */
int reader_next_event(struct trace_reader *reader);
bool reader_next_event_switches_thread(const struct trace_reader *reader);
/* After a seek: the mappings of this moment, as events of the batch. Returns 0 or -1. */
int reader_restate_regions(struct trace_reader *reader);

/* Fills in what the batch's events and references are. */
void reader_fill_batch(struct trace_reader *reader, struct trace_batch *batch, size_t count);

#endif
