/* SPDX-License-Identifier: MIT
 *
 * recorder.c: see recorder.h.
 *
 * Inside Valgrind the program and the recorder share one address space. Valgrind's own memory is
 * full of words that look like pointers: in its copy of the program's code, and in the ring of the
 * last references, for instance. So it is no root.
 */
#include "gc/world/recorder.h"

#include <errno.h>

#include "vm/private_memory.h"

DOORBELLS_DEFINE;

enum { MOST_RANGES = 4096 };
static uint64_t (*ranges)[2];
static size_t range_count;

bool recorder_init(void)
{
    if (doorbell_recorder_ranges(NULL, 0) == 0)
        return true;
    ranges = private_memory_map(MOST_RANGES * sizeof *ranges);
    return ranges != NULL;
}

bool recorder_refresh_ranges(void)
{
    range_count = ranges ? doorbell_recorder_ranges(ranges, MOST_RANGES) : 0;
    return range_count <= MOST_RANGES;
}

long recorder_userfaultfd(long flags)
{
    return doorbell_recorder_ranges(NULL, 0) == 0 ? -ENOSYS : doorbell_userfaultfd((uint64_t)flags);
}

const uint64_t (*recorder_ranges(size_t *count))[2]
{
    *count = range_count;
    return (const uint64_t(*)[2])ranges;
}
