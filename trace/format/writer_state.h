/* SPDX-License-Identifier: MIT
 *
 * writer_state.h: what the writer's files share.
 *
 *     writer.c    opening, what the caller describes, chunks
 *     encode.c    executions, to the chunk's streams
 *     events.c    and events
 */
#ifndef ALLOTROPE_TRACE_FORMAT_WRITER_STATE_H
#define ALLOTROPE_TRACE_FORMAT_WRITER_STATE_H

#include <zstd.h>

#include "trace/format/bytes.h"
#include "trace/format/chunk.h"
#include "trace/format/writer.h"

struct writer_superblock {
    uint64_t address;
    uint32_t function;
    uint32_t slot_count;
    uint32_t known_in; /* chunk in which `number` is valid */
    uint32_t number;
    struct trace_slot *slots;
    struct slot_state *states;
};

struct writer_path {
    struct slot_state *states; /* of its first slot */
    uint32_t count;            /* of its slots */
    uint32_t successor[2];     /* the last one and another, as indices of paths */
    uint32_t known_in;
    uint32_t number;
    uint32_t instructions;
    uint32_t stores;
    uint32_t superblock;
    uint32_t first;
};

struct writer_function {
    char *name;
    char *object;
    uint32_t known_in;
};

struct mapping {
    uint64_t start, bytes, kind;
    char *name;
};

struct trace_writer {
    int fd;
    int level;
    int error; /* of the first write that failed */
    uint64_t offset;
    uint64_t sequence;
    bool has_whole;
    struct trace_totals totals;
    struct trace_totals whole;

    struct writer_superblock *superblocks;
    size_t superblock_count, superblock_capacity;
    struct writer_path *paths; /* 0 is the path before the first one of a chunk */
    size_t path_count, path_capacity;
    uint32_t most_slots;               /* of a path */
    bool vectors;                      /* may be used */
    struct writer_function *functions; /* by id */
    size_t function_capacity;
    struct mapping *mappings; /* at present; each chunk restates them */
    size_t mapping_count, mapping_capacity;

    /* The chunk at hand. */
    struct chunk_header header;
    uint32_t chunk; /* its number, from 1 */
    uint32_t number_of_paths, number_of_superblocks;
    uint32_t last_path;
    uint64_t last_address;
    uint64_t executions, event_executions;
    uint32_t thread, class;
    struct recent_differences recent;
    struct bytes stream[STREAMS];

    struct bytes compressed;
    struct bytes index;
    ZSTD_CCtx *zstd;
};

/* Writes the chunk, if anything is in it, and begins the next. Returns 0, or -1 with errno. */
int writer_end_chunk(struct trace_writer *writer);

#endif
