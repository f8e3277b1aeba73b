/* SPDX-License-Identifier: MIT
 *
 * resizing.c: realloc keeps what both sizes have in common, for every pair of sizes.
 *
 * In place, moved, from a small block to a mapping of its own and back.
 */
#include "tests/contract/contract.h"

static unsigned char expected(size_t index)
{
    return (unsigned char)(index * 31 + (index >> 8));
}

static void write_from(unsigned char *block, size_t start, size_t end)
{
    for (size_t i = start; i < end; i++)
        block[i] = expected(i);
}

static void require_kept(const unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        require(block[i] == expected(i));
}

int main(void)
{
    static const size_t sizes[] = {1,     16,    24,     100,    500,     2000,    2040,   4096,
                                   10000, 65000, 140000, 270000, 1000000, 1500000, 5000000};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int from = 0; from < SIZES; from++) {
        for (int to = 0; to < SIZES; to++) {
            unsigned char *block = malloc(sizes[from]);
            require(block != NULL);
            write_from(block, 0, sizes[from]);
            block = realloc(block, sizes[to]);
            require(block != NULL);
            require_kept(block, sizes[from] < sizes[to] ? sizes[from] : sizes[to]);
            write_from(block, 0, sizes[to]);
            free(block);
        }
    }
    /* Two that grow in turn, so that neither can always stay where it is. */
    unsigned char *a = NULL, *b = NULL;
    for (size_t size = 1, before = 0; size < 3000000; before = size, size += size / 8 + 1) {
        a = realloc(a, size);
        b = realloc(b, size);
        require(a && b);
        write_from(a, before, size);
        write_from(b, before, size);
    }
    require_kept(a, 2000000);
    require_kept(b, 2000000);
    free(a);
    free(b);
    return 0;
}
