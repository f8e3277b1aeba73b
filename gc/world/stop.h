/* SPDX-License-Identifier: MIT
 *
 * stop.h: stops every other thread of the process, and lets them go on; see stop.c.
 *
 * A thread is stopped while it waits in the handler of our signal. The kernel has put its registers
 * on its stack, or on its alternate signal stack, where they are roots. A thread may be stopped
 * between any two of its instructions, in a handler of the program's, and in a system call, which
 * goes on afterwards. One that is being born is waited for: it answers when it unblocks signals.
 * One that is ending is left out once it runs no code of the program any more.
 */
#ifndef ALLOTROPE_GC_WORLD_STOP_H
#define ALLOTROPE_GC_WORLD_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SIGSETXID of glibc. */
enum { STOP_SIGNAL = 33 };

/* Where a stopped thread is. */
struct stopped_thread {
    uintptr_t stack_pointer;  /* when the signal came */
    uintptr_t frame;          /* the lowest address of its saved registers, on either stack */
    uintptr_t thread_pointer; /* FS base: in glibc the thread control block */
    uintptr_t gs_base;        /* of the segment register that libc leaves to programs */
    uintptr_t alternate_start, alternate_end; /* its alternate signal stack; equal: none */
};

enum stop_failure {
    STOP_DONE,
    STOP_NO_THREAD_LIST, /* /proc cannot be read */
    STOP_NO_SIGNAL,      /* the kernel refuses to queue it, or refuses its handler */
    STOP_TIMEOUT,        /* a thread does not answer: it blocks every signal, or waits for a disk or
                          * its vfork child */
    STOP_TOO_MANY,       /* threads */
    STOP_FAILURES
};

/* Called once. False: without memory. */
bool stop_init(void);

/* Stops all threads but the calling one, which must have blocked all signals. Unless it returns
 * STOP_DONE everything runs on as if it had not been called. */
enum stop_failure stop_world(void);

/* Records of the threads that stop_world stopped. Threads that ended meanwhile are counted too;
 * stopped_thread then returns zeros. */
size_t stopped_count(void);
struct stopped_thread stopped_thread(size_t index);

void resume_world(void);

/* From now on another process may send a request: the signal of a stop, with a code of its own
 * (ASK_CODE in stop.c). If the thread that gets it is in a system call, `asked` is called, in the
 * signal handler, with all signals blocked, unless an alternate stack lacks the room. rip: where
 * the thread was interrupted. A thread that is in no system call ignores the request. False: the
 * handler could not be installed. */
bool stop_listen(void (*asked)(uintptr_t rip));

/* The GS base of the calling thread. 0 where it cannot be read cheaply (before Linux 5.9, under
 * Valgrind). */
uintptr_t stop_own_gs_base(void);

/* Takes away what is pending for the calling thread of signals of stops that were given up, and of
 * requests. They would end a program that comes by execve. */
void stop_take_late_signals(void);

/* Waits a moment until the threads that were stopped are back in the program: they still have to
 * return from the signal, which is a system call. */
void wait_for_resumed(void);

#endif
