/* SPDX-License-Identifier: MIT
 *
 * callers.c: see callers.h.
 */
#include "shim/observers/callers.h"

#include <execinfo.h>
#include <fcntl.h>
#include <unwind.h>

#include "shim/observers/unwind.h"
#include "vm/syscall.h"

/* A static program has none of these. The unwinder's own are there where the program has libgcc_s
 * from its start, as under the commands, which preload it: what libc's backtrace() loads otherwise
 * comes from the program's malloc, and stands in the program's account. */
extern __typeof__(backtrace) backtrace __attribute__((weak));
extern __typeof__(_Unwind_Backtrace) _Unwind_Backtrace __attribute__((weak));
extern __typeof__(_Unwind_GetIP) _Unwind_GetIP __attribute__((weak));

enum { OWN_FRAMES = 12 }; /* at most between the program and here */

static bool can_unwind;

struct walk {
    void **frames;
    int count, room;
};

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    walk->frames[walk->count++] = (void *)_Unwind_GetIP(context);
    return walk->count < walk->room ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static int walk_up(void **frames, int room)
{
    struct walk walk = {frames, 0, room};
    if (!_Unwind_Backtrace || !_Unwind_GetIP)
        return backtrace ? backtrace(frames, room) : 0;
    _Unwind_Backtrace(take_frame, &walk);
    while (walk.count > 0 && !frames[walk.count - 1]) /* what is above _start */
        walk.count--;
    return walk.count;
}

void callers_prepare(void)
{
    void *frame[1];
    can_unwind = walk_up(frame, 1) == 1;
}

bool callers_are_known(void)
{
    return can_unwind;
}

/* As callers_of(), by libgcc: from any frame, at some 600 instructions for each. */
static __attribute__((noinline)) uint32_t callers_by_libgcc(const void *caller, const void **frames,
                                                            uint32_t most)
{
    void *all[CALLERS_MOST + OWN_FRAMES];
    int count = walk_up(all, (int)most + OWN_FRAMES), first = 0;
    while (first < count && all[first] != caller)
        first++;
    uint32_t depth = 0;
    while (first < count && depth < most)
        frames[depth++] = all[first++];
    return depth;
}

uint32_t callers_of(const uintptr_t *frame, const void **frames, uint32_t *places, uint32_t most)
{
    const struct frame program = {
        .address = frame[1], .stack = (uintptr_t)(frame + 2), .base = frame[0]};
    const void *caller = (const void *)frame[1];
    uint32_t depth = 0;
    if (most > 1 && can_unwind) {
        depth = unwind(program, frames, places, most);
        if (places)
            *places = depth;
        if (depth == 0)
            depth = callers_by_libgcc(caller, frames, most);
    } else if (places) {
        *places = 0;
    }
    if (depth == 0)
        frames[depth++] = caller;
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
