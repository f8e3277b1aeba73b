/* SPDX-License-Identifier: MIT
 *
 * writer_state.h: what the writer's files share.
 *
 *     writer.c    opening, what the caller describes, chunks
 *     pack.c      finished chunks, into the file
 *     encode.c    executions, to the chunk's streams
 *     events.c    and events
 */
#ifndef ALLOTROPE_TRACE_FORMAT_WRITER_STATE_H
#define ALLOTROPE_TRACE_FORMAT_WRITER_STATE_H

#include <pthread.h>
#include <zstd.h>

#include "trace/format/bytes.h"
#include "trace/format/chunk.h"
#include "trace/format/writer.h"

struct writer_superblock {
    uint64_t address;
    uint32_t function;
    uint32_t slot_count;
    uint32_t told_count;
    uint32_t known_in; /* chunk in which `number` is valid */
    uint32_t number;
    struct trace_slot *slots;
    struct slot_state *states; /* of the told slots */
};

struct writer_path {
    struct slot_state *states; /* of its first told slot */
    uint32_t told;             /* number of its told slots */
    uint32_t successor[2];     /* the last one and another, as indices of paths */
    uint32_t known_in;
    uint32_t number;
    uint32_t instructions;
    uint64_t counted;      /* references, and << 32 stores */
    uint64_t stack_offset; /* of the stack pointer behind it, from ... */
    int32_t stack_word;    /* ... the address of this told slot, or STACK_MOVES or STACK_IS */
    uint32_t first_word;   /* the superblock's told slots before it */
    struct trace_path path;
};
enum { STACK_MOVES = -1, STACK_IS = -2 }; /* from what it was; from nothing */

struct writer_function {
    char *name;
    char *object;
    uint32_t known_in;
};

struct mapping {
    uint64_t start, bytes, kind;
    char *name;
};

/* Takes chunks to the file. What stands below `lock` is changed under it, and tells whose the rest
 * is: the thread's while busy, else the writer's. */
struct packer {
    int fd;
    int level;
    int error;       /* of the first write that failed */
    uint64_t offset; /* read by the writer at any time */
    uint64_t sequence;
    struct chunk_header header; /* of the chunk that the thread packs, and its streams */
    struct bytes stream[STREAMS];
    struct bytes compressed;
    struct bytes index;
    ZSTD_CCtx *zstd;
    pthread_t thread;
    bool has_thread; /* the writer's alone */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy, stop;
    int failed; /* errno of a chunk that the thread could not pack */
};

struct trace_writer {
    struct packer packer;
    bool has_whole;
    struct trace_totals totals;
    struct trace_totals whole;

    struct writer_superblock *superblocks;
    size_t superblock_count, superblock_capacity;
    struct writer_path *paths; /* 0 is the path before the first one of a chunk */
    size_t path_count, path_capacity;
    uint32_t most_slots;               /* of a path */
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
    uint64_t stack;        /* the stack pointer */
    uint64_t stack_untold; /* how far it is from what a reader takes it for */
    struct recent_differences recent;
    struct bytes stream[STREAMS];
};

/* Packs the chunk, if anything is in it, and begins the next. Returns 0, or -1 with errno: of this
 * chunk or of the one before. */
int writer_end_chunk(struct trace_writer *writer);
/* Room for all that a chunk's executions can come to; false when memory is short. */
bool writer_reserve_streams(struct bytes *stream);

/* pack.c. What returns an int returns 0, or -1 with errno. */

bool packer_begin(struct packer *packer, int fd, int level);
/* Waits for the thread's end. */
void packer_end(struct packer *packer);
/* Takes the writer's streams to the file, now or by the thread; the writer has others then. */
int pack_streams_of(struct trace_writer *writer);
/* Waits until the thread has nothing to do. Before what follows the writer has done so. */
int pack_wait(struct packer *packer);
int pack_bytes(struct packer *packer, const void *data, size_t bytes);
int pack_chunk(struct packer *packer, struct chunk_header *header, enum chunk_type type,
               const void *payload, size_t bytes);

#endif
