/* SPDX-License-Identifier: MIT
 *
 * allocator.c: what every allocator shares; see allocator.h.
 */
#include "alloc/allocator.h"
#include "vm/written.h"

WRITTEN_AT_START void (*allocator_thread_started)(void);
WRITTEN_AT_START void (*allocator_out_of_memory)(void);
WRITTEN_AT_START bool (*allocator_needs_sites)(void);
WRITTEN_AT_START void (*allocator_asked)(uintptr_t rip);
WRITTEN_AT_START uint32_t (*allocator_call_stack)(uintptr_t rip, uintptr_t rsp, uintptr_t rbp,
                                                  const void **sites, uint32_t most);

__attribute__((weak)) void allocator_first_use(void)
{
}
