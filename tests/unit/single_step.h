/* SPDX-License-Identifier: MIT
 *
 * single_step.h: a signal after each instruction, by the processor's trap flag.
 */
#ifndef ALLOTROPE_TESTS_UNIT_SINGLE_STEP_H
#define ALLOTROPE_TESTS_UNIT_SINGLE_STEP_H

#include <stdbool.h>

/* SIGTRAP after each instruction, or no longer. The flags are pushed below the red zone, which the
 * compiler may be using. */
static inline void step(bool on)
{
    if (on)
        __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq;"
                         "lea 128(%%rsp), %%rsp" ::
                             : "memory", "cc");
    else
        __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq;"
                         "lea 128(%%rsp), %%rsp" ::
                             : "memory", "cc");
}

#endif
