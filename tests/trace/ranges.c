/* SPDX-License-Identifier: MIT */
/* ranges.c: succeeds when the recorder names its own ranges, none of which holds anything of
 * this program, for the recorder's tests. */
#include "trace/protocol/doorbell.h"

#include <stdio.h>
#include <stdlib.h>

DOORBELLS_DEFINE;
static uint64_t pairs[4096][2];

int main(void)
{
    uint64_t count = doorbell_recorder_ranges(pairs, 4096), bytes = 0;
    void *const ours[] = {pairs, &count, malloc(1), (void *)main, (void *)printf};
    for (uint64_t i = 0; i < count; i++) {
        bytes += pairs[i][1] - pairs[i][0];
        for (size_t j = 0; j < sizeof ours / sizeof *ours; j++)
            if ((uintptr_t)ours[j] >= pairs[i][0] && (uintptr_t)ours[j] < pairs[i][1])
                return 2;
    }
    return count > 5 && count < 4096 && bytes > (40 << 20) ? 0 : 1;
}
