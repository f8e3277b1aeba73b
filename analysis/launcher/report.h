/* SPDX-License-Identifier: MIT
 *
 * report.h: what a run cost.
 */
#ifndef ALLOTROPE_ANALYSIS_LAUNCHER_REPORT_H
#define ALLOTROPE_ANALYSIS_LAUNCHER_REPORT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "analysis/launcher/process_tree.h"

struct outcome {
    pid_t pid;           /* of the command, and of its process group */
    struct rusage usage; /* summed over everything that was waited for */
    long long started;   /* CLOCK_MONOTONIC, nanoseconds */
    long long wall_nanoseconds;
    int status;             /* as wait4 gave it; only if exec_error is 0 */
    int exec_error;         /* errno of what kept the command from running */
    const char *exec_stage; /* ... and what that was */
    int interrupted_by;     /* the signal that stopped us, or 0 */
    bool timed_out;
    bool killed;           /* TERM, or the signal that stopped us, was not enough */
    bool leftovers;        /* processes of the group had to be killed after the command */
    long long cgroup_peak; /* -1: no cgroup */
    struct process_tree tree;
};

/* Prints it as JSON. */
void report_print(FILE *to, const struct outcome *outcome);

#endif
