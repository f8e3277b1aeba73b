/* SPDX-License-Identifier: MIT
 *
 * map_count.c: the process has all the mappings that max_map_count allows.
 *
 * munmap in the middle of a mapping then fails with ENOMEM, mmap of anything new too. malloc may
 * return NULL; free must not fail, and afterwards all is as before.
 * Seen: jemalloc 193, 1328.
 */
#include <sys/mman.h>

#include "tests/contract/contract.h"

enum { BLOCKS = 400, LARGE = 400000, PAGE = 4096 };
static void *blocks[BLOCKS];

static void replace(int i, size_t size)
{
    errno = 4711;
    free(blocks[i]);
    require(errno == 4711);
    blocks[i] = malloc(size);
    if (blocks[i])
        fill(blocks[i], size);
}

int main(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(LARGE);
        require(blocks[i] != NULL);
        fill(blocks[i], LARGE);
    }
    /* Pages in turn readable and not are a mapping each. */
    enum { PAGES = 1 << 18 };
    char *pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(pages != MAP_FAILED);
    for (size_t page = 1; page < PAGES; page += 2)
        if (mprotect(pages + page * PAGE, PAGE, PROT_READ) != 0)
            break;
    while (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED)
        ;
    for (int i = 1; i < BLOCKS; i += 2)
        replace(i, i % 4 == 1 ? LARGE : 5000);
    for (int i = 0; i < BLOCKS; i += 2) {
        require(is_filled(blocks[i], LARGE));
        replace(i, 100);
    }
    malloc_trim(0);
    require(munmap(pages, (size_t)PAGES * PAGE) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        replace(i, LARGE);
        require(blocks[i] != NULL);
    }
    for (int i = 0; i < BLOCKS; i++) {
        require(is_filled(blocks[i], LARGE));
        free(blocks[i]);
    }
    exercise();
    return 0;
}
