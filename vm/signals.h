/* SPDX-License-Identifier: MIT
 *
 * signals.h: which signals the calling thread blocks, without libc. A set is a word, as the kernel
 * has it.
 */
#ifndef ALLOTROPE_VM_SIGNALS_H
#define ALLOTROPE_VM_SIGNALS_H

#include <signal.h>
#include <stdint.h>

#include "vm/syscall.h"

static inline uint64_t signal_bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

#define ALL_SIGNALS (~UINT64_C(0))

/* All but those of faults, and the two of libc's own, 32 and 33. The collector stops threads by 33,
 * which is not in the set: a thread that blocks the set can be stopped, so it may wait for a
 * collection. */
static inline uint64_t signals_of_program(void)
{
    return ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGFPE) | signal_bit(SIGILL) |
             signal_bit(SIGTRAP) | signal_bit(SIGSYS) | signal_bit(32) | signal_bit(33));
}

/* Blocks the signals of a set, too. Returns what was blocked before, for signals_restore(). */
static inline uint64_t signals_block(uint64_t set)
{
    uint64_t before = 0;
    SYSCALL_4(SYS_rt_sigprocmask, SIG_BLOCK, &set, &before, sizeof before);
    return before;
}

static inline void signals_restore(uint64_t before)
{
    SYSCALL_4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

#endif
