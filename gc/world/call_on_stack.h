/* SPDX-License-Identifier: MIT
 *
 * call_on_stack.h: leaves the program's stack, which may have only a few kilobytes left.
 */
#ifndef ALLOTROPE_GC_WORLD_CALL_ON_STACK_H
#define ALLOTROPE_GC_WORLD_CALL_ON_STACK_H

#include <stdint.h>

/* Calls function(stack pointer) on another stack, with all registers that a callee keeps saved
 * where that stack pointer points. stack_top: the end of the other stack. */
void call_on_stack(void (*function)(uintptr_t), char *stack_top);

#endif
