/* SPDX-License-Identifier: MIT
 *
 * errno_kept.c: free leaves errno alone.
 *
 * POSIX.1-2024 requires it. Error paths free their buffers before they look at errno, and free
 * may have called munmap or madvise.
 * Seen: hardened_malloc 324.
 */
#include "tests/contract/contract.h"

int main(void)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 200000, 2000000, 50000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *plain = malloc(sizes[i]);
        void *zeroed = calloc(1, sizes[i]);
        void *aligned = memalign(8192, sizes[i]);
        require(plain && zeroed && aligned);
        errno = 4711;
        free(plain);
        free(zeroed);
        free(aligned);
        free(NULL);
        require(errno == 4711);
    }
    /* Enough of them that lists overflow and memory goes back. */
    enum { BLOCKS = 100000 };
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        require((blocks[i] = malloc(128)) != NULL);
    errno = 4711;
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    require(errno == 4711);
    return 0;
}
