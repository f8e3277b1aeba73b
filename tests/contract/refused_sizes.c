/* SPDX-License-Identifier: MIT
 *
 * refused_sizes.c: requests that the kernel refuses, and what a collector may do about them.
 *
 *     too-large   so many that no heap, however empty, has room for: refused, many times over
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
        for (int i = 0; i < REFUSALS; i++) {
            require_all_refused((size_t)1 << (48 + i % 15));
            require_all_refused((size_t)PTRDIFF_MAX - (size_t)i * 4096);
        }
        return 0;
    }
    struct rlimit limit = {LIMIT, LIMIT};
    require(setrlimit(RLIMIT_DATA, &limit) == 0);
    for (int i = 0; i < 20; i++)
        lose();
    return 0;
}
