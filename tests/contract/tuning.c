/* SPDX-License-Identifier: MIT
 *
 * tuning.c: what mallopt answers, and what it changes.
 *
 *     answers   1 for what is set or not known, 0 for values out of glibc's bounds
 *     perturb   M_PERTURB: new blocks are overwritten, calloc's are not, realloc keeps contents
 *               (glibc's own cache is left out of it)
 *     refused   M_PERTURB in a library that has no place for it: 0, each time
 *     keeps     M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: freed memory stays resident
 *     maps      M_MMAP_THRESHOLD: a block of that size is mapped by itself
 */
#include <pthread.h>

#include "tests/contract/contract.h"

static void require_answers(void)
{
    require(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    require(mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1);
    require(mallopt(M_MMAP_THRESHOLD, -1) == 1);
    require(mallopt(M_MMAP_MAX, 0) == 1);
    require(mallopt(M_MMAP_MAX, 65536) == 1);
    require(mallopt(M_TRIM_THRESHOLD, -1) == 1);
    require(mallopt(M_TRIM_THRESHOLD, 0) == 1);
    require(mallopt(M_TOP_PAD, 0) == 1);
    require(mallopt(M_ARENA_TEST, 1) == 1);
    require(mallopt(M_ARENA_MAX, 1) == 1);
    require(mallopt(M_ARENA_MAX, 0) == 1);
    require(mallopt(M_CHECK_ACTION, 3) == 1);
    require(mallopt(M_PERTURB, 0) == 1);
    require(mallopt(M_MXFAST, 0) == 1);
    require(mallopt(M_MXFAST, 160) == 1);
    require(mallopt(M_MXFAST, 161) == 0);
    require(mallopt(12345, 6) == 1);
    exercise();
}

static void require_perturbed(size_t size)
{
    unsigned char *block = malloc(size);
    require(block && is_all(block, 0x5A, size));
    memset(block, 7, size);
    block = realloc(block, 3 * size);
    require(block && is_all(block, 7, size));
    memset(block, 7, 3 * size);
    free(block);
    block = memalign(256, size);
    require(block && is_all(block, 0x5A, size));
    free(block);
    block = calloc(size, 1);
    require(block && is_all(block, 0, size));
    free(block);
}

static void *exercise_often(void *unused)
{
    for (int i = 0; i < 50; i++)
        exercise();
    return unused;
}

static void require_perturb(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, exercise_often, NULL) == 0);
    void *before = malloc(1000);
    require(mallopt(M_PERTURB, 0xA5) == 1);
    for (size_t size = 1; size < 3000000; size = size * 3 + 1)
        require_perturbed(size);
    free(before);
    require(mallopt(M_PERTURB, 0) == 1);
    exercise();
    require(pthread_join(thread, NULL) == 0);
}

static void require_refused(void)
{
    require(mallopt(M_PERTURB, 0xA5) == 0);
    require(mallopt(M_PERTURB, 0xA5) == 0);
    require(mallopt(M_PERTURB, 0) == 1);
    exercise();
}

static size_t resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    require(file && fscanf(file, "%lu %lu", &size, &resident) == 2);
    fclose(file);
    return resident * 4096;
}

enum { BLOCKS = 10, BLOCK_BYTES = 5 << 20 };

static void require_kept(void)
{
    char *blocks[BLOCKS];
    require(mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1);
    require(mallopt(M_TRIM_THRESHOLD, 100 << 20) == 1);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        require(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    size_t full = resident_bytes();
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    require(resident_bytes() + 2 * BLOCK_BYTES >= full);
}

static void require_mapped(void)
{
    struct mallinfo2 before = mallinfo2();
    require(mallopt(M_MMAP_THRESHOLD, 70000) == 1);
    void *block = malloc(200000);
    require(block != NULL);
    require(mallinfo2().hblks == before.hblks + 1);
    require(mallinfo2().hblkhd >= before.hblkhd + 200000);
    free(block);
    require(mallinfo2().hblks == before.hblks);
    require(mallopt(M_MMAP_MAX, 0) == 1);
    block = malloc(200000);
    require(block && mallinfo2().hblks == before.hblks);
    free(block);
}

int main(int count, char **arguments)
{
    require(count == 2);
    switch (*arguments[1]) {
    case 'a':
        require_answers();
        break;
    case 'p':
        require_perturb();
        break;
    case 'r':
        require_refused();
        break;
    case 'k':
        require_kept();
        break;
    default:
        require_mapped();
    }
    return 0;
}
