/* SPDX-License-Identifier: MIT
 *
 * record_state.h: what the files share that record a program's events.
 *
 *     record.c       runs the command, and sees processes come and go
 *     pool.c         takes full buffers out of the pool
 *     recording.c    one process's file
 */
#ifndef ALLOTROPE_TRACE_EVENTS_RECORD_STATE_H
#define ALLOTROPE_TRACE_EVENTS_RECORD_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "trace/base/output_file.h"
#include "trace/events/record.h"
#include "trace/events/writer.h"
#include "trace/protocol/event_pool.h"

/* What of a thread has come, and not yet been written. */
struct recorded_thread {
    uint64_t next_sequence;
    size_t bytes;
    char *content;
};

/* One process that is recorded. */
struct recording {
    bool on;
    pid_t pid;
    int pidfd; /* -1: it has ended */
    struct output_file file;
    char *name;
    char *program;
    char *replaced; /* JSON strings, comma-separated: the programs before it */
    struct event_writer *writer;
    struct recorded_thread *threads;
    size_t thread_count;
    bool failed;
};

struct events_recorder {
    const struct events_record_options *options;
    struct event_pool *pool;
    int pool_fd;
    pid_t child;
    bool child_ended;
    int status;
    struct rusage usage; /* of the child alone, unless it waited for children of its own */
    struct recording recordings[EVENT_PROCESSES]; /* by their place in the pool */
    uint64_t files;
    bool failed;
};

/* recording.c. Errors are told on standard error and noted; the recording then ends. */

/* Prints one line: the format takes the name and the error's text. */
void report(const char *format, const char *name, int error);

/* Begins the recording of the process at `place` in the pool. */
void recording_begin(struct events_recorder *recorder, uint32_t place, pid_t pid);
/* The process of `before` replaced its program: the file is the new program's, at `place`. */
void recording_take_over(struct events_recorder *recorder, uint32_t place,
                         struct recording *before);
/* Adds what stood in a buffer of a thread, in the order of its buffers. False when another buffer
 * of the thread comes first. */
bool recording_add_events(struct events_recorder *recorder, struct recording *recording,
                          const struct event_buffer *buffer, const uint64_t *words);
void recording_add_maps(struct events_recorder *recorder, struct recording *recording,
                        const char *text, size_t bytes);
/* Writes what is left and the end. */
void recording_end(struct events_recorder *recorder, struct recording *recording);

/* pool.c */

/* Saves what is full, and what is half full where `rest` says so; of one recording alone unless
 * `only` is NULL. Returns how many buffers. */
unsigned pool_save(struct events_recorder *recorder, struct recording *only, bool rest);
/* Sets free what a process left behind that is saved by nobody, and its place. */
void pool_drop(struct events_recorder *recorder, uint32_t place);
/* Threads that ended without a word, as those of raw clone do, are found when buffers get few. */
void pool_collect_dead_threads(struct events_recorder *recorder);

#endif
