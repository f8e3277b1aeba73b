/* SPDX-License-Identifier: MIT
 *
 * watch.h: shows the caller every process of the run, by ptrace, at the moments that matter.
 */
#ifndef ALLOTROPE_ANALYSIS_LAUNCHER_WATCH_H
#define ALLOTROPE_ANALYSIS_LAUNCHER_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

struct watch {
    int caller; /* a socket, both ways; -1: nobody watches */
    int gate;   /* the command waits for this pipe to close before it begins; -1: no gate */
};

/* In the parent, when the command's process is there and waits at the gate: attaches to it and
 * opens the gate. False where the kernel forbids it; the command then runs unwatched. */
bool watch_attach(struct watch *watch, pid_t child);

/* A traced thread has stopped: tells the caller, and lets it go on. status: as wait4 gives it. */
void watch_stopped(struct watch *watch, pid_t thread, int status);

#endif
