/* SPDX-License-Identifier: MIT
 *
 * syscall.h: system calls without libc.
 *
 * An allocator is called before libc is ready, inside its locks and in the middle of fork, and
 * free() must leave errno alone. So everything that a heap asks of the kernel goes through here.
 * A result in [-4095, -1] is a negated errno.
 */
#ifndef ALLOTROPE_VM_SYSCALL_H
#define ALLOTROPE_VM_SYSCALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

static inline long raw_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#define SYSCALL_0(number) raw_syscall(number, 0, 0, 0, 0, 0, 0)
#define SYSCALL_1(number, a) raw_syscall(number, (long)(a), 0, 0, 0, 0, 0)
#define SYSCALL_2(number, a, b) raw_syscall(number, (long)(a), (long)(b), 0, 0, 0, 0)
#define SYSCALL_3(number, a, b, c) raw_syscall(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYSCALL_4(number, a, b, c, d) \
    raw_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define SYSCALL_5(number, a, b, c, d, e) \
    raw_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define SYSCALL_6(number, a, b, c, d, e, f) \
    raw_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline bool syscall_failed(long result)
{
    return (unsigned long)result > -4096UL;
}

#endif
