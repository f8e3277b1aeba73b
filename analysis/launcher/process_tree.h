/* SPDX-License-Identifier: MIT
 *
 * process_tree.h: how much memory a tree of processes holds, seen from outside by sampling.
 */
#ifndef ALLOTROPE_ANALYSIS_LAUNCHER_PROCESS_TREE_H
#define ALLOTROPE_ANALYSIS_LAUNCHER_PROCESS_TREE_H

#include <stdbool.h>
#include <stdio.h>

struct process_tree {
    FILE *samples;        /* where each look is written; NULL: nowhere */
    int most_processes;   /* the most that were seen at once; 0: not looked yet */
    long long peak_bytes; /* largest sum of proportional set sizes; -1: no tree was measured */
    long long next_nanoseconds; /* when the next look is due, CLOCK_MONOTONIC */
};

/* Looks at all descendants of the calling process if a look is due at `now`, and settles when
 * the next one is: every 10 ms, and rarer when looking takes long, so that it stays below 5% of
 * one CPU. Processes are counted; `weighs`: their memory is read, too.
 * Memory is read from the time there are two processes, for a single one the kernel's own peak is
 * exact. With `samples` it is read from one process on, every 50 ms. A look in which a process
 * could not be read does not count. */
void process_tree_look(struct process_tree *tree, long long now, bool weighs);

/* Sends a signal to all descendants of the calling process, 0: to none. Returns whether there are
 * any; who has ended and was not waited for is one. */
bool process_tree_signal(int signal);

/* CLOCK_MONOTONIC in nanoseconds. */
long long monotonic_nanoseconds(void);

#endif
