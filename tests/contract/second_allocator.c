/* SPDX-License-Identifier: MIT
 *
 * second_allocator.c: a program that is linked with jemalloc (Debian's bind9, redis), tcmalloc or
 * mimalloc, allocates by that library's own functions and frees by the standard ones.
 *
 * Preloaded, another allocator serves malloc and free, but not those functions: their blocks come
 * to a free that does not know them.
 */
#include "tests/contract/contract.h"

#if defined JEMALLOC
void *mallocx(size_t size, int flags);
#define ALLOCATE(size) mallocx(size, 0)
#elif defined TCMALLOC
void *tc_malloc(size_t size);
#define ALLOCATE(size) tc_malloc(size)
#else
void *mi_malloc(size_t size);
#define ALLOCATE(size) mi_malloc(size)
#endif

int main(void)
{
    enum { BLOCKS = 200 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = 1 + (size_t)i * i * 17;
        blocks[i] = ALLOCATE(size);
        require(blocks[i] != NULL);
        fill(blocks[i], size);
        require(malloc_usable_size(blocks[i]) >= size);
    }
    for (int i = 0; i < BLOCKS; i += 3) {
        size_t size = 1 + (size_t)i * i * 17;
        int pattern = blocks[i][0];
        blocks[i] = realloc(blocks[i], size + 10000);
        require(blocks[i] != NULL);
        require(is_all(blocks[i], pattern, size));
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    exercise();
    return 0;
}
