/* SPDX-License-Identifier: MIT
 *
 * allocator.c: what every allocator shares; see allocator.h.
 */
#include "alloc/allocator.h"

void (*allocator_thread_started)(void);
void (*allocator_out_of_memory)(void);
bool (*allocator_needs_sites)(void);

__attribute__((weak)) void allocator_first_use(void)
{
}
