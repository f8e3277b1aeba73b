/* SPDX-License-Identifier: MIT
 *
 * planted_holes: fragmentation. 40,000 records of 480 bytes, of which seven in eight are freed;
 * then 9,000 of 2,000 bytes, for which none of the holes has room. At no time does the program
 * hold more than 20 MiB.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 40000, LARGE = 9000, KEPT = 8 };

static void *filled(size_t size)
{
    void *block = malloc(size);
    if (!block)
        exit(1);
    return memset(block, 1, size);
}

int main(void)
{
    static void *small[SMALL], *large[LARGE];
    for (size_t i = 0; i < SMALL; i++)
        small[i] = filled(480);
    for (size_t i = 0; i < SMALL; i++)
        if (i % KEPT != 0)
            free(small[i]);
    for (size_t i = 0; i < LARGE; i++)
        large[i] = filled(2000);
    for (size_t i = 0; i < SMALL; i += KEPT)
        free(small[i]);
    for (size_t i = 0; i < LARGE; i++)
        free(large[i]);
    puts("done");
    return 0;
}
