/* SPDX-License-Identifier: MIT
 *
 * call_on_stack.c: see call_on_stack.h.
 */
#include "gc/world/call_on_stack.h"

__attribute__((naked, noinline)) void call_on_stack(
    __attribute__((unused)) void (*function)(void *argument, uintptr_t stack_pointer),
    __attribute__((unused)) void *argument,  // NOLINT(readability-non-const-parameter)
    __attribute__((unused)) char *stack_top) // NOLINT(readability-non-const-parameter)
{
    __asm__("push %rbp\n\t"
            "mov %rsp, %rbp\n\t"
            "push %rbx\n\t"
            "push %r12\n\t"
            "push %r13\n\t"
            "push %r14\n\t"
            "push %r15\n\t"
            "mov %rdi, %rax\n\t"
            "mov %rsi, %rdi\n\t"
            "mov %rsp, %rsi\n\t"
            "mov %rsp, %rbx\n\t"
            "sub %rsp, %rdx\n\t"
            "add %rdx, %rsp\n\t"
            "call *%rax\n\t"
            "mov %rbx, %rsp\n\t"
            "pop %r15\n\t"
            "pop %r14\n\t"
            "pop %r13\n\t"
            "pop %r12\n\t"
            "pop %rbx\n\t"
            "pop %rbp\n\t"
            "ret");
}
