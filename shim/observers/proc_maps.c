/* SPDX-License-Identifier: MIT
 *
 * proc_maps.c: see proc_maps.h.
 */
#include "shim/observers/proc_maps.h"

#include <fcntl.h>

#include "vm/syscall.h"

long proc_maps_open(void)
{
    return SYSCALL_4(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
}

size_t proc_maps_read(long maps, char *text, size_t room)
{
    size_t length = 0;
    long got = syscall_failed(maps) ? 0 : 1;
    while (got > 0 && length < room) {
        got = SYSCALL_3(SYS_read, maps, text + length, room - length);
        if (got > 0)
            length += (size_t)got;
    }
    return length;
}

void proc_maps_close(long maps)
{
    if (!syscall_failed(maps))
        SYSCALL_1(SYS_close, maps);
}
