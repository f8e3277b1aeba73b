/* SPDX-License-Identifier: MIT
 *
 * plan.h: what the launcher is told to run, and how.
 */
#ifndef ALLOTROPE_ANALYSIS_LAUNCHER_PLAN_H
#define ALLOTROPE_ANALYSIS_LAUNCHER_PLAN_H

#include <sched.h>
#include <stdbool.h>

enum {
    NANOSECONDS = 1000 * 1000 * 1000,
    STATUS_TIMED_OUT = 124, /* as timeout(1) has it */
    STATUS_USAGE = 125,
    STATUS_CANNOT_EXECUTE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNALLED = 128,
};

struct plan {
    char **command;
    const char *report;            /* file for the report; NULL: descriptor 2 */
    const char *redirects[3];      /* files for descriptors 0, 1, 2, or NULL */
    long long timeout_nanoseconds; /* 0: none */
    long long grace_nanoseconds;   /* between TERM and KILL */
    bool fixed_addresses;          /* no address space randomisation */
    bool whole_tree;               /* what left the process group is stopped too */
    const char *samples;           /* file for the tree's memory over time, or NULL */
    bool has_processors;           /* the command is kept on ... */
    cpu_set_t processors;          /* ... these, and we keep off them */
    int watch;                     /* a socket on which each process is shown; -1: none */
    int gate;                      /* a socket on which it is told to begin; -1: none */
};

/* Ends the launcher where the arguments make no sense. Settings for the environment are made at
 * once: we ourselves read it no more. */
struct plan plan_parse(int argc, char **argv);

/* Ends the launcher with one line, and STATUS_USAGE. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
