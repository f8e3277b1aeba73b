/* SPDX-License-Identifier: MIT
 *
 * pointer_free.c: a picture in memory that collections do not read.
 *
 * It takes no time to mark, and numbers in it that look like addresses keep nothing.
 */
#include <allotrope/gc.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 1000, HEIGHT = 500 };

static uint32_t *new_picture(size_t bytes)
{
    if (allotrope_gc_malloc_pointer_free)
        return allotrope_gc_malloc_pointer_free(bytes);
    return malloc(bytes);
}

int main(void)
{
    uint32_t *picture = new_picture(WIDTH * HEIGHT * sizeof *picture);
    uint64_t sum = 0;
    if (!picture) {
        perror("no memory");
        return 1;
    }
    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
        picture[i] = i % 256;
    if (allotrope_gc_collect)
        allotrope_gc_collect(); /* `picture` points to it: it stays */
    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
        sum += picture[i];
    printf("%d pixels, sum %llu\n", WIDTH * HEIGHT, (unsigned long long)sum);
    free(picture);
    return 0;
}
