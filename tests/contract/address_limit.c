/* SPDX-License-Identifier: MIT
 *
 * address_limit.c: a limit of 64 MB on the address space.
 *
 * Allocators that reserve large ranges fail at once or get nothing. malloc must return NULL with
 * ENOMEM when memory is used up, the program goes on, what it holds is whole, and what it frees
 * can be had again. The first argument is "as" or "data" (the limit), the second the size of the
 * blocks; the limit is set, then the program executed anew, so that the start is under it too.
 * Seen: hardened_malloc 235.
 */
#include <sys/resource.h>

#include "tests/contract/contract.h"

enum { LIMIT = 64 << 20, MOST = 1 << 22 };

static size_t fill_memory(void **blocks, size_t size)
{
    size_t count = 0;
    errno = 0;
    while (count < MOST && (blocks[count] = malloc(size)) != NULL)
        fill(blocks[count++], size);
    require(count < MOST && errno == ENOMEM);
    return count;
}

int main(int count, char **arguments)
{
    require(count == 3 || count == 4);
    size_t size = strtoul(arguments[2], NULL, 10);
    if (count == 3) {
        struct rlimit limit = {LIMIT, LIMIT};
        require(setrlimit(strcmp(arguments[1], "as") == 0 ? RLIMIT_AS : RLIMIT_DATA, &limit) == 0);
        execl("/proc/self/exe", arguments[0], arguments[1], arguments[2], "limited", NULL);
        require(!"execl");
    }
    size_t table_bytes = (LIMIT / size + 1) * sizeof(void *);
    void **blocks = malloc(table_bytes);
    require(blocks != NULL);
    size_t held = fill_memory(blocks, size);
    require(held * size > LIMIT / 5); /* a power-of-two heap may waste half, not more */
    void *more = calloc(1, size), *aligned = memalign(4096, size);
    errno = 0;
    require(malloc(LIMIT) == NULL && errno == ENOMEM);
    errno = 0;
    require(realloc(blocks[0], LIMIT) == NULL && errno == ENOMEM);
    free(more);
    free(aligned);
    for (size_t i = 0; i < held; i++) {
        require(is_filled(blocks[i], size));
        free(blocks[i]);
    }
    require(fill_memory(blocks, size) >= held - held / 8 - 1);
    printf("%zu\n", held * size);
    return 0;
}
