/* SPDX-License-Identifier: MIT
 *
 * memory_advice.c: the heap asks for no huge pages, and what is freed leaves the resident set.
 *
 * With transparent huge pages advised, a sparse heap is many times its size; MADV_FREE keeps
 * freed pages in the resident set until memory is short, which looks like a leak. With the
 * argument "kept" the allocator may keep what is freed.
 * Seen: jemalloc 1127, mimalloc 776.
 */
#include <fcntl.h>

#include "tests/contract/contract.h"

static char smaps[1 << 20]; /* in the program's own data: no heap is used to look */

static const char *read_whole(const char *path)
{
    int file = open(path, O_RDONLY);
    require(file >= 0);
    size_t length = 0;
    ssize_t got;
    while ((got = read(file, smaps + length, sizeof smaps - 1 - length)) > 0)
        length += (size_t)got;
    close(file);
    smaps[length] = '\0';
    return smaps;
}

static size_t resident_kilobytes(void)
{
    const char *line = strstr(read_whole("/proc/self/status"), "VmRSS:");
    require(line != NULL);
    return strtoul(line + 6, NULL, 10);
}

int main(int count, char **arguments)
{
    (void)arguments;
    bool may_keep = count == 2;
    enum { BLOCKS = 40, LARGE = 5 << 20 };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(LARGE);
        require(blocks[i] != NULL);
        fill(blocks[i], LARGE);
    }
    enum { SMALL_BLOCKS = 50000 };
    static void *small[SMALL_BLOCKS];
    for (int i = 0; i < SMALL_BLOCKS; i++)
        require((small[i] = malloc(300)) != NULL);
    const char *flags = read_whole("/proc/self/smaps");
    while ((flags = strstr(flags, "VmFlags:")) != NULL) {
        const char *end = strchr(flags, '\n');
        const char *huge = strstr(flags, " hg"), *none = strstr(flags, " nh");
        require((!huge || huge > end) && (!none || none > end));
        flags = end;
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (int i = 0; i < SMALL_BLOCKS; i++)
        free(small[i]);
    malloc_trim(0);
    require(may_keep || resident_kilobytes() < 80 * 1024); /* of 215 MB */
    return 0;
}
