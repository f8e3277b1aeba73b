/* SPDX-License-Identifier: MIT */
/* names.c: allocates by several names, once each, with sizes that tell them apart, for the
 * recorder's tests. */
#include <malloc.h>
#include <stdlib.h>

int main(void)
{
    void *volatile blocks[5];
    blocks[0] = malloc(101);
    blocks[1] = calloc(3, 34);
    blocks[2] = memalign(64, 103);
    void *aligned = NULL;
    if (posix_memalign(&aligned, 32, 104) != 0)
        return 1;
    blocks[3] = aligned;
    blocks[4] = aligned_alloc(16, 105);
    blocks[0] = realloc(blocks[0], 206);
    for (int i = 0; i < 5; i++)
        free(blocks[i]);
    return 0;
}
