/* SPDX-License-Identifier: MIT
 *
 * second_allocator.c: a program that is linked with jemalloc (Debian's bind9, redis), tcmalloc or
 * mimalloc, allocates by that library's own functions and frees by the standard ones. With
 * BY_ADDRESS the name is never called, its address is taken.
 *
 * Preloaded, another allocator serves malloc and free, but not those functions: their blocks come
 * to a free that does not know them.
 */
#include "tests/contract/contract.h"

#if defined JEMALLOC
void *mallocx(size_t size, int flags);
#define FUNCTION mallocx
#define ALLOCATE(size) allocate(size, 0)
#elif defined TCMALLOC
void *tc_malloc(size_t size);
#define FUNCTION tc_malloc
#define ALLOCATE(size) allocate(size)
#else
void *mi_malloc(size_t size);
#define FUNCTION mi_malloc
#define ALLOCATE(size) allocate(size)
#endif

#ifdef BY_ADDRESS
static __typeof__(&FUNCTION) volatile allocate = FUNCTION;
#else
#define allocate FUNCTION
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
