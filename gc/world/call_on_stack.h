/* SPDX-License-Identifier: MIT
 *
 * call_on_stack.h: leaves the program's stack, which may have only a few kilobytes left.
 */
#ifndef ALLOTROPE_GC_WORLD_CALL_ON_STACK_H
#define ALLOTROPE_GC_WORLD_CALL_ON_STACK_H

#include <stdint.h>

/* Calls function(argument, stack pointer) on another stack. The stack pointer is the program's: all
 * registers that a callee must keep have been saved there. stack_top: the end of the other stack.
 */
void call_on_stack(void (*function)(void *argument, uintptr_t stack_pointer), void *argument,
                   char *stack_top);

#endif
