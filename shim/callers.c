/* SPDX-License-Identifier: MIT
 *
 * callers.c: see callers.h.
 */
#include "shim/callers.h"

#include <execinfo.h>
#include <fcntl.h>

#include "vm/syscall.h"

extern __typeof__(backtrace) backtrace __attribute__((weak)); /* a static program has none */

enum { OWN_FRAMES = 8 }; /* at most between the program and here */

static bool can_unwind;

void callers_prepare(void)
{
    void *frame[1];
    can_unwind = backtrace && backtrace(frame, 1) == 1;
}

bool callers_are_known(void)
{
    return can_unwind;
}

uint32_t callers_of(const void *caller, const void **frames, uint32_t most)
{
    void *all[CALLERS_MOST + OWN_FRAMES];
    int count = 0, first = 0;
    if (can_unwind && most > 1)
        count = backtrace(all, (int)most + OWN_FRAMES);
    while (first < count && all[first] != caller)
        first++;
    if (first >= count) {
        frames[0] = caller;
        return 1;
    }
    uint32_t depth = 0;
    while (first < count && depth < most)
        frames[depth++] = all[first++];
    return depth;
}

long maps_open(void)
{
    return SYSCALL_4(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
}

size_t maps_read(long maps, char *to, size_t room)
{
    size_t length = 0;
    long got = syscall_failed(maps) ? 0 : 1;
    while (got > 0 && length < room) {
        got = SYSCALL_3(SYS_read, maps, to + length, room - length);
        if (got > 0)
            length += (size_t)got;
    }
    return length;
}

void maps_close(long maps)
{
    if (!syscall_failed(maps))
        SYSCALL_1(SYS_close, maps);
}
