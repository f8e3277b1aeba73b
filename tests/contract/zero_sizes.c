/* SPDX-License-Identifier: MIT
 *
 * zero_sizes.c: blocks of no bytes.
 *
 * malloc(0) and its like give a unique pointer, realloc(p, 0) frees and gives NULL, as glibc
 * does: programs depend on the one and leak or crash on the other.
 * Seen: jemalloc 1629.
 */
#include "tests/contract/contract.h"

int main(void)
{
    void *a = malloc(0), *b = malloc(0), *c = calloc(0, 10), *d = calloc(10, 0);
    void *e = realloc(NULL, 0), *f = memalign(64, 0), *g = aligned_alloc(4096, 0), *h = NULL;
    require(posix_memalign(&h, 64, 0) == 0);
    void *all[] = {a, b, c, d, e, f, g, h};
    enum { ALL = sizeof all / sizeof *all };
    for (int i = 0; i < ALL; i++) {
        require(all[i] != NULL);
        for (int j = 0; j < i; j++)
            require(all[i] != all[j]);
    }
    for (int i = 0; i < ALL; i++)
        free(all[i]);

    static const size_t sizes[] = {0, 1, 100, 100000, 10000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int round = 0; round < 200; round++) { /* 2 GB in all, were they not freed */
            void *block = malloc(sizes[i]);
            require(block != NULL);
            errno = 0;
            require(realloc(block, 0) == NULL && errno == 0);
        }
    }
    return 0;
}
