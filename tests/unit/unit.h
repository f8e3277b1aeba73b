/* SPDX-License-Identifier: MIT
 *
 * unit.h: what the unit tests share.
 *
 * Some things can only be seen from outside: an abort, a refused system call, a state that a
 * process can be in only once. They are tried in a forked child. An assertion of cmocka would
 * jump back into the child's copy of the test runner, so a child says `require`.
 */
#ifndef ALLOTROPE_TESTS_UNIT_UNIT_H
#define ALLOTROPE_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "bench_programs/random.h"
/* Whether a sanitizer is at work: it keeps shadows too large for a limit on address space. */
#include "vm/sanitizer.h"

struct ending {
    int exit_status;   /* -1: ended by a signal */
    int signal;        /* 0: none */
    char errors[8192]; /* what was written to standard error */
};

typedef void child_body(void *argument);

/* Runs `body` in a forked child, which exits with 0 if it returns. The child's standard error is
 * a pipe, known to message.h. */
struct ending run_child(child_body *body, void *argument);

/* Exit status of a child that cannot be brought into the state that it is to test. */
enum { CHILD_CANNOT_TELL = 77 };

/* Fails the test, with what the child said, unless it exited with 0; skips the test if the child
 * cannot tell. */
void assert_child_succeeds(child_body *body, void *argument);
/* The same, of a child that run_child has run. */
void assert_succeeded(const struct ending *ending);

/* Fails the test unless a child aborts after one line on standard error, which is ours and contains
 * `text`. */
void assert_aborts(child_body *body, void *argument, const char *text);

/* A forked child that does nothing, so that it has what its parent has until it is ended. */
pid_t start_idle_child(void);
void end_idle_child(pid_t child);

/* For children: ends the process when the condition is false. */
#define require(condition)                                                     \
    do {                                                                       \
        if (!(condition)) {                                                    \
            dprintf(2, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _exit(99);                                                         \
        }                                                                      \
    } while (0)

/* Whether a thread of this process waits in the kernel for a futex. A thread that runs or could
 * run does not, nor does one that has ended. */
bool sleeps_in_futex(pid_t thread);

/* Limits the address space to what is mapped now and `bytes` more. */
void limit_address_space(size_t bytes);

/* Maps pages of alternating protection until the kernel refuses to split another mapping. False
 * when its limit is too high to be reached. */
bool exhaust_mappings(void);

/* Whether the kernel can read a byte there. */
bool is_readable(const void *address);
bool is_zero(const void *start, size_t bytes);

#endif
