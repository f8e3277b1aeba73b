/* SPDX-License-Identifier: MIT
 *
 * small_alignment.c: every block is aligned to 16, the smallest too.
 *
 * Compilers use movaps on what malloc returns, whatever its size: the ABI promises
 * alignof(max_align_t). Allocators with 8-byte headers or 8-byte classes broke it.
 * Seen: jemalloc 1073.
 */
#include "tests/contract/contract.h"

static bool is_aligned(const void *block)
{
    return block && (uintptr_t)block % 16 == 0;
}

int main(void)
{
    for (size_t size = 0; size < 5000; size++) {
        void *plain = malloc(size), *zeroed = calloc(1, size);
        require(is_aligned(plain) && is_aligned(zeroed));
        plain = realloc(plain, size + 1 + size / 2);
        require(is_aligned(plain));
        void *halved = realloc(zeroed, size / 3 + 1);
        require(is_aligned(halved));
        free(plain);
        free(halved);
    }
    for (size_t size = 5000; size < 40000000; size += size / 5 + 3) {
        void *plain = malloc(size);
        require(is_aligned(plain));
        plain = realloc(plain, size + size / 4);
        require(is_aligned(plain));
        free(plain);
    }
    return 0;
}
