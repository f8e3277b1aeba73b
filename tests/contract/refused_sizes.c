/* SPDX-License-Identifier: MIT
 *
 * refused_sizes.c: requests that the kernel refuses, and what a collector may do about them.
 *
 *     too-large   so many that no heap, however empty, has room for, by their size or by their
 *                 alignment: refused, many times over. Prints how many of the alignments there was
 *                 room for
 *     garbage     so much that there is room for it only where what was lost before is found
 */
#include <sys/resource.h>

#include "tests/contract/contract.h"

enum { LIMIT = 200 << 20, LOST = 60 << 20, REFUSALS = 200 };

static bool is_refused(void *block)
{
    return block == NULL && errno == ENOMEM;
}

static void *kept, *large;

static void require_all_refused(size_t size)
{
    require(is_refused(malloc(size)));
    require(is_refused(calloc(1, size)));
    require(is_refused(memalign(64, size)));
    require(is_refused(memalign(1 << 20, size)));
    require(is_refused(realloc(kept, size)));
    require(is_refused(realloc(large, size)));
    require(is_refused(reallocarray(kept, size / 2, 2)));
    require(is_refused(calloc(size / 4, 4)));
    require(is_refused(aligned_alloc(4096, size)));
    require(is_refused(pvalloc(size)));
    require(is_refused(valloc(size)));
    void *block = kept;
    require(posix_memalign(&block, 1 << 20, size) == ENOMEM && block == kept);
}

/* Few bytes: there may be room at such an address, or not. Returns how often there was. */
static unsigned try_alignment(size_t alignment)
{
    char *block = aligned_alloc(alignment, 100), *other = NULL;
    require(block ? (uintptr_t)block % alignment == 0 : errno == ENOMEM);
    require(posix_memalign((void **)&other, alignment, 100) == (other ? 0 : ENOMEM));
    if (block)
        block[0] = block[99] = 1;
    unsigned served = (block != NULL) + (other != NULL);
    free(block);
    free(other);
    return served;
}

static __attribute__((noinline)) void lose(void)
{
    char *block = malloc(LOST);
    require(block != NULL);
    block[LOST - 1] = block[0] = 1;
}

int main(int count, char **arguments)
{
    require(count == 2);
    if (strcmp(arguments[1], "too-large") == 0) {
        kept = malloc(100), large = malloc(300000);
        require(kept && large);
        unsigned served = 0;
        for (int i = 0; i < REFUSALS; i++) {
            require_all_refused((size_t)1 << (48 + i % 15));
            require_all_refused((size_t)PTRDIFF_MAX - (size_t)i * 4096);
            served += try_alignment((size_t)1 << (34 + i % 29));
        }
        printf("%u\n", served);
        return 0;
    }
    struct rlimit limit = {LIMIT, LIMIT};
    require(setrlimit(RLIMIT_DATA, &limit) == 0);
    for (int i = 0; i < 20; i++)
        lose();
    return 0;
}
