/* SPDX-License-Identifier: MIT
 *
 * raw_state.h: what the files that understand the raw stream share.
 *
 *     raw.c            the words: executions and events
 *     superblocks.c    what the recorder says of superblocks, prepared for executing them
 *     attribution.c    doorbells: whom references belong to, and what the program allocates
 */
#ifndef ALLOTROPE_TRACE_REFERENCES_RAW_STATE_H
#define ALLOTROPE_TRACE_REFERENCES_RAW_STATE_H

#include <stdbool.h>

#include "trace/protocol/doorbell.h"
#include "trace/protocol/reference_ring.h"
#include "trace/references/raw.h"

enum {
    MOST_CLASSES_ENTERED = 256,
    /* Executions that are told to the sink at once: a few kilobytes. */
    EXECUTIONS = 256,
};

/* References up to a bell, or to the path's end. */
struct segment {
    uint32_t path; /* the sink's number */
    uint16_t first_word;
    uint16_t bell_slot; /* NO_BELL: none */
    uint16_t bell_word;
};
enum { NO_BELL = 0xffff };
static const uint32_t NO_HEADER = UINT32_MAX;

struct way {
    uint64_t target;
    uint32_t slots;
    uint32_t instructions;
    uint16_t stack_base; /* as of RAW_DEFINE */
    uint64_t stack_offset;
    uint32_t path;            /* the sink's number, where no bell divides it */
    struct segment *segments; /* up to the one with NO_BELL; NULL where no bell divides it */
};

/* As in RAW_DEFINE. */
struct raw_slot {
    uint64_t description;
    uint64_t offset;
    uint64_t instruction;
};

struct superblock {
    uint64_t entry;
    uint32_t number; /* the sink's */
    uint32_t slot_count;
    uint32_t word_count; /* that follow its header */
    uint32_t exit_count; /* ways that are exits; faults add further ways */
    uint32_t way_count;
    struct raw_slot *slots;
    struct way *ways;
};

/* What most executions ask for, half a cache line by header number. A superblock has a header for
 * itself, which leaves open how it was left, and one for each exit. */
struct header {
    uint64_t entry;
    uint64_t target; /* the superblock went on here by `path`, elsewhere by `other` */
    uint32_t path, other;
    uint16_t slot_count;
    uint16_t way; /* 0: told by where it goes on; else 1 + the exit */
    bool simple;  /* the paths say all: it has two ways at most, and no bells */
};

struct entered {
    uint64_t stack_pointer;
    uint8_t class;
    bool by_signal;
};

struct thread {
    uint32_t number;          /* Valgrind's numbers are used again, these are not */
    uint64_t size, site, old; /* told by doorbells, for the event that follows */
    uint32_t depth;
    struct entered entered[MOST_CLASSES_ENTERED];
};

struct raw_decoder {
    const struct raw_sink *sink;
    struct header *headers;
    struct superblock **superblocks; /* by header number too */
    uint16_t *word_counts; /* likewise: dense, since the next header's place waits for it */
    size_t header_count, header_capacity;
    uint32_t pending; /* header number; NO_HEADER */
    const uint64_t *pending_words;
    uint64_t kept_words[REFERENCE_RING_MAX_SLOTS];
    struct thread **threads;
    size_t thread_count;
    uint32_t threads_started;
    uint32_t running;
    uint32_t class;         /* as last told to the sink */
    size_t slots_taken;     /* by the present raw_take() */
    size_t execution_count; /* of those that the sink has not been told */
    struct trace_execution executions[EXECUTIONS];
    char error[TRACE_ERROR_BYTES];
};

/* Each notes an error and returns -1: of the stream, which is damaged; of the sink, or of memory,
 * as errno says. */
int raw_fail(struct raw_decoder *decoder, const char *what, uint64_t value);
int raw_sink_failed(struct raw_decoder *decoder);

/* What follows returns 0, or -1 having noted the error. */

/* Tells the sink the executions that it has not been told, and then an event. */
int raw_tell_executions(struct raw_decoder *decoder);
int raw_tell(struct raw_decoder *decoder, const struct trace_event *event);

/* attribution.c */

/* Makes sure that a thread's state exists. */
int raw_know_thread(struct raw_decoder *decoder, uint64_t thread);
struct thread *raw_running_thread(struct raw_decoder *decoder);
/* Tells the sink the class of the thread that runs, where it is another one. */
int raw_tell_class(struct raw_decoder *decoder);
int raw_enter_class(struct raw_decoder *decoder, uint32_t class, uint64_t stack_pointer,
                    bool by_signal);
int raw_return_from_signal(struct raw_decoder *decoder);
/* A value was stored to a doorbell; `slot` is the slot's description. */
int raw_bell(struct raw_decoder *decoder, uint64_t slot, uint64_t value);

/* superblocks.c */

/* RAW_DEFINE. */
int raw_define(struct raw_decoder *decoder, const uint64_t *words, size_t count);
/* Describes a way to the sink, in as many segments as its bells make of it. */
int raw_prepare_way(struct raw_decoder *decoder, const struct superblock *superblock,
                    struct way *way);
/* The way that a fault after so many instructions makes of a superblock. NULL: -1 as above. */
struct way *raw_interrupted_way(struct raw_decoder *decoder, struct superblock *superblock,
                                uint64_t instructions);
void raw_free_superblock(struct superblock *superblock);

#endif
