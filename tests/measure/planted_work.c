/* SPDX-License-Identifier: MIT */
/* planted_work.c: allocates and frees as often as PLANTED_WORK says, so that a slow-down of a
 * known size can be planted: 1050 is 5% more than 1000. What the start costs is far below that. */
#include <stdlib.h>

enum { UNIT = 2400, BLOCKS = 64 };

int main(void)
{
    const char *work = getenv("PLANTED_WORK");
    long units = work ? atol(work) : 1000;
    static void *volatile blocks[BLOCKS];
    for (long i = 0; i < units * UNIT; i++) {
        size_t place = (size_t)(i * 7919) % BLOCKS;
        free(blocks[place]);
        blocks[place] = malloc(16 + (size_t)(i % 61) * 16);
    }
    return 0;
}
