/* SPDX-License-Identifier: MIT
 *
 * address_limit_sizes.c: under a limit of 64 MB all memory goes to blocks of one size, is freed,
 * and goes to blocks of the next.
 *
 * An allocator that keeps records of one kind for one size and of another for the next finds,
 * when the kernel has nothing left, that all memory is free and no record of the right kind. The
 * first argument is "as" or "data" (the limit), the others are the sizes in turn; the limit is set,
 * then the program executed anew, so that the start is under it too. The blocks hold each other,
 * for a table would be a block of its own.
 */
#include <sys/resource.h>

#include "tests/contract/contract.h"

enum { LIMIT = 64 << 20 };

static void **last;

static size_t fill_memory(size_t size)
{
    size_t bytes = 0;
    errno = 0;
    for (void **block; (block = malloc(size)) != NULL; bytes += size) {
        *block = last;
        last = block;
    }
    require(errno == ENOMEM);
    return bytes;
}

static void empty_memory(void)
{
    while (last) {
        void **block = last;
        last = *block;
        free(block);
    }
}

int main(int count, char **arguments)
{
    require(count >= 3);
    if (strcmp(arguments[0], "limited") != 0) {
        struct rlimit limit = {LIMIT, LIMIT};
        require(setrlimit(strcmp(arguments[1], "as") == 0 ? RLIMIT_AS : RLIMIT_DATA, &limit) == 0);
        arguments[0] = "limited";
        execv("/proc/self/exe", arguments);
        require(!"execv");
    }
    for (int i = 2; i < count; i++) {
        size_t bytes = fill_memory(strtoul(arguments[i], NULL, 10));
        printf("%s: %zu\n", arguments[i], bytes);
        fflush(stdout);
        require(bytes >= LIMIT / 5 * 2); /* a collector has tables of its own */
        empty_memory();
    }
    return 0;
}
