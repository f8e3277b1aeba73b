/* SPDX-License-Identifier: MIT
 *
 * free_most.c: fills a heap of a given number of megabytes with blocks of 16 to 4096 bytes and
 * some larger ones, frees nine of ten at random, and prints the resident megabytes at the full
 * heap, at once after freeing, and five seconds later while the program does a little work.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t state = 1;

static uint64_t next_random(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 33;
}

static unsigned resident_megabytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total, resident;
    if (!file || fscanf(file, "%lu %lu", &total, &resident) != 2)
        exit(1);
    fclose(file);
    return (unsigned)(resident * 4096 >> 20);
}

/* Most blocks are small; one in 500 is of 64 KiB to 1 MiB and they hold a fifth of the bytes. */
static size_t some_size(void)
{
    uint64_t number = next_random();
    return number % 500 == 0 ? 65536 + next_random() % (1 << 20) : 16 << next_random() % 9;
}

int main(int count, char **arguments)
{
    size_t bytes = strtoul(count > 1 ? arguments[1] : "1024", NULL, 10) << 20;
    size_t most = bytes / 100, blocks = 0;
    void **all = malloc(most * sizeof *all);
    for (size_t held = 0; held < bytes && blocks < most; blocks++) {
        size_t size = some_size();
        if (!(all[blocks] = malloc(size)))
            exit(1);
        memset(all[blocks], 1, size);
        held += size;
    }
    unsigned full = resident_megabytes();
    for (size_t i = 0; i < blocks; i++)
        if (next_random() % 10 != 0) {
            free(all[i]);
            all[i] = NULL;
        }
    unsigned freed = resident_megabytes();
    for (int i = 0; i < 50; i++) {
        usleep(100000);
        for (int j = 0; j < 100; j++)
            free(malloc(some_size()));
    }
    printf("%u %u %u\n", full, freed, resident_megabytes());
    return 0;
}
