/* SPDX-License-Identifier: MIT
 *
 * stack_trace.c: see stack_trace.h.
 */
#include "shim/observers/stack_trace.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <string.h>
#include <unwind.h>

#include "shim/observers/unwind.h"

/* A static program has none of these. _Unwind_Backtrace is there where the program has libgcc_s
 * from its start, as under the commands, which preload it. Otherwise libc's backtrace() loads it,
 * by the program's malloc, so that the load stands in the program's account. */
extern __typeof__(backtrace) backtrace __attribute__((weak));
extern __typeof__(_Unwind_Backtrace) _Unwind_Backtrace __attribute__((weak));
extern __typeof__(_Unwind_GetIP) _Unwind_GetIP __attribute__((weak));

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

enum { OWN_FRAMES = 12 }; /* at most between the program and here */

static bool is_deep;

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

/* All frames from this one up, by libgcc. Returns how many. */
static int walk_by_libgcc(void **frames, int room)
{
    struct walk walk = {frames, 0, room};
    if (!_Unwind_Backtrace || !_Unwind_GetIP)
        return backtrace ? backtrace(frames, room) : 0;
    _Unwind_Backtrace(take_frame, &walk);
    while (walk.count > 0 && !frames[walk.count - 1]) /* what is above _start */
        walk.count--;
    return walk.count;
}

void stack_trace_prepare(void)
{
    void *frame[1];
    is_deep = walk_by_libgcc(frame, 1) == 1;
}

bool stack_trace_is_deep(void)
{
    return is_deep;
}

/* Those frames from the return address `first` on. Any frame can be walked, at some 600
 * instructions for each. */
static __attribute__((noinline)) uint32_t trace_by_libgcc(const void *first, const void **frames,
                                                          uint32_t most)
{
    void *all[MOST_FRAMES + OWN_FRAMES];
    int count = walk_by_libgcc(all, (int)most + OWN_FRAMES), at = 0;
    while (at < count && all[at] != first)
        at++;
    uint32_t depth = 0;
    while (at < count && depth < most)
        frames[depth++] = all[at++];
    return depth;
}

/* libgcc allocates while it has a lock that each of its walks takes: where a program has told it of
 * frames by __register_frame, and it sorts them. */
static bool is_within_libgcc(const void *const *frames, uint32_t depth)
{
    struct dl_find_object object;
    for (uint32_t i = 0; i < depth; i++)
        if (_dl_find_object((void *)frames[i], &object) == 0 &&
            strstr(object.dlfo_link_map->l_name, "libgcc_s.so"))
            return true;
    return false;
}

uint32_t stack_trace(const uintptr_t *frame, const void **frames, uint32_t *offsets, uint32_t most)
{
    const struct unwind_frame program = {
        .rip = frame[1], .rsp = (uintptr_t)(frame + 2), .rbp = frame[0]};
    const void *first = (const void *)frame[1];
    uint32_t depth = 0;
    if (most > 1 && is_deep) {
        bool is_whole;
        depth = unwind(program, frames, offsets, most, &is_whole);
        bool is_enough = is_whole || is_within_libgcc(frames, depth);
        if (offsets)
            *offsets = is_enough ? depth : 0;
        if (!is_enough)
            depth = trace_by_libgcc(first, frames, most);
    } else if (offsets) {
        *offsets = 0;
    }
    if (depth == 0)
        frames[depth++] = first;
    return depth;
}
