/* SPDX-License-Identifier: MIT
 *
 * recorded_process.h: what is known of the process whose references are simulated while it runs:
 * by these facts a reader judges whether it is the one that did the work, and who served it.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_RECORDED_PROCESS_H
#define ALLOTROPE_ANALYSIS_SIMULATE_RECORDED_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/base/json.h"
#include "trace/format/format.h"

/* The loader maps the program and what it is linked with first, in the order in which it looks for
 * symbols. What comes behind so many files is of no interest. */
enum { RECORDED_MOST_FILES = 256 };

struct recorded_process {
    uint64_t allocations; /* blocks handed out, as its library's doorbells tell */
    char *files[RECORDED_MOST_FILES];
    size_t file_count;
};

/* False when memory is short. */
bool recorded_process_take(struct recorded_process *process, const struct trace_event *events,
                           size_t count);

/* The object "process". children: processes that it made. */
void recorded_process_put(struct json *json, const struct recorded_process *process,
                          uint32_t children);

void recorded_process_free(struct recorded_process *process);

#endif
