/* SPDX-License-Identifier: MIT
 *
 * record.h: runs a program and writes the allocation events that its processes hand over
 * (protocol/event_pool.h) to files (writer.h).
 */
#ifndef ALLOTROPE_TRACE_EVENTS_RECORD_H
#define ALLOTROPE_TRACE_EVENTS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVENTS_RECORD_SETTINGS = 32 };

struct events_record_options {
    const char *output;      /* %p in it: each process has a file, named by its number */
    const char *description; /* a JSON object, to be completed */
    int level;               /* zstd's, 0: raw */
    uint32_t frames;
    bool quiet;
    char *environment[EVENTS_RECORD_SETTINGS]; /* NAME=VALUE, for the command alone */
    size_t environment_count;
    char **command; /* NULL-terminated */
};

/* Returns the status of the command, 128 and the number of the signal that ended it, or 1 where
 * the recording failed, of which it has told on standard error. */
int events_record(const struct events_record_options *options);

#endif
