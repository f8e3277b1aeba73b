/* SPDX-License-Identifier: MIT
 *
 * kernel_action.c: see kernel_action.h.
 */
#include "vm/kernel_action.h"

#include "vm/syscall.h"

/* Unwinders recognise the frame of a signal by exactly these bytes, as long as no table describes
 * them or the byte before them. So this is no function of C, and a nop stands in front. */
__asm__(".pushsection .text\n\t"
        ".p2align 4\n\t"
        "nop\n\t"
        ".globl restore_from_signal\n\t"
        ".hidden restore_from_signal\n\t"
        ".type restore_from_signal, @function\n"
        "restore_from_signal:\n\t"
        "movq $15, %rax\n\t" /* rt_sigreturn */
        "syscall\n\t"
        ".size restore_from_signal, . - restore_from_signal\n\t"
        ".popsection");

long kernel_set_action(int signal, const struct kernel_action *action, struct kernel_action *old)
{
    return SYSCALL_4(SYS_rt_sigaction, signal, action, old, KERNEL_MASK_BYTES);
}
