/* SPDX-License-Identifier: MIT
 *
 * heap_walk.c: how many blocks of which size there are. The visitor allocates itself.
 */
#include <allotrope/gc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OURS = 100, OUR_BYTES = 3000 };

/* A size, and how many live blocks have it. */
struct size {
    struct size *next;
    size_t bytes, blocks;
};

static int count_block(void *argument, void *address, size_t bytes, enum allotrope_gc_state state)
{
    struct size **first = argument, *size = *first;
    (void)address;
    if (state != ALLOTROPE_GC_LIVE)
        return 0;
    while (size && size->bytes != bytes)
        size = size->next;
    if (!size) {
        size = calloc(1, sizeof *size);
        if (!size)
            return 1; /* ends the walk */
        *size = (struct size){*first, bytes, 0};
        *first = size;
    }
    size->blocks++;
    return 0;
}

static size_t blocks_from(const struct size *size, size_t least, size_t most)
{
    size_t blocks = 0;
    for (; size; size = size->next)
        blocks += size->bytes >= least && size->bytes < most ? size->blocks : 0;
    return blocks;
}

int main(void)
{
    static char *ours[OURS];
    struct size *sizes = NULL;
    for (int i = 0; i < OURS; i++)
        ours[i] = malloc(OUR_BYTES);
    if (!allotrope_gc_walk) {
        puts("no library");
        return 0;
    }
    int error = allotrope_gc_walk(count_block, &sizes);
    if (error) {
        printf("no walk: %s\n", strerror(error));
        return 1;
    }
    size_t found = blocks_from(sizes, OUR_BYTES, 2 * OUR_BYTES);
    printf("our blocks: %s\n", found >= OURS ? "all found" : "not all found");
    for (int i = 0; i < OURS; i++)
        free(ours[i]);
    return found >= OURS ? 0 : 1;
}
