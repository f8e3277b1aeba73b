/* SPDX-License-Identifier: MIT
 *
 * own_memory.c: see own_memory.h.
 */
#include "vm/own_memory.h"

#include <stddef.h>
#include <sys/mman.h>

#include "vm/pages.h"
#include "vm/syscall.h"

static long process;
/* Not 0, except in a copy of the process for which own_memory_forked was not called: the kernel has
 * wiped its page there. NULL: own_memory_init was not called. */
static volatile char *byte;

void own_memory_init(char *page)
{
    byte = page;
    own_memory_forked();
    SYSCALL_3(SYS_madvise, page, PAGE_BYTES, MADV_WIPEONFORK);
}

void own_memory_forked(void)
{
    process = SYSCALL_0(SYS_getpid);
    if (byte)
        *byte = 1;
}

bool memory_is_own(void)
{
    return SYSCALL_0(SYS_getpid) == process;
}

bool memory_is_lent(void)
{
    return byte && *byte != 0 && !memory_is_own();
}

bool memory_is_copy(void)
{
    return byte && *byte == 0;
}
