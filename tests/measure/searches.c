/* SPDX-License-Identifier: MIT
 *
 * searches.c: patterns that leave an allocator's heap full of holes, and requests that most of them
 * do not serve. PATTERN COUNT: prints the CPU seconds of so many operations, and the peak in MB.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static uint64_t state = 88172645463325252;
static char **blocks;

static size_t below(size_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

/* Of every magnitude from 16 to 16,384. */
static size_t any_size(void)
{
    size_t size = (size_t)16 << below(10);
    return size + below(size);
}

static char *get(size_t size)
{
    char *block = malloc(size);
    if (!block) {
        fprintf(stderr, "searches: refused\n");
        exit(3);
    }
    *block = 1;
    return block;
}

static void put(char **block)
{
    free(*block);
    *block = NULL;
}

static void shuffle(char **list, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = below(i);
        char *block = list[i - 1];
        list[i - 1] = list[j];
        list[j] = block;
    }
}

/* Every other block is freed; none of the holes serves. */
static void holes(size_t count, size_t size, size_t larger)
{
    for (size_t i = 0; i < count; i++)
        blocks[i] = get(size);
    for (size_t i = 0; i < count; i += 2)
        put(&blocks[i]);
    for (size_t i = 0; i < count; i += 2)
        blocks[i] = get(larger);
}

static void holes_small(size_t count)
{
    holes(count, 48, 64);
}

static void holes_large(size_t count)
{
    holes(count / 32, 20000, 24000);
}

/* Eight times over, a third of the new blocks is kept. */
static void third(size_t count)
{
    size_t kept = 0, each = count / 8;
    for (int round = 0; round < 8; round++) {
        size_t last = kept + each;
        for (size_t i = kept; i < last; i++)
            blocks[i] = get(16 + below(700));
        for (size_t i = kept; i < last; i++) {
            if (below(3) == 0)
                blocks[kept++] = blocks[i];
            else
                free(blocks[i]);
        }
    }
    memset(blocks + kept, 0, (count - kept) * sizeof *blocks);
}

static void replace(size_t count, size_t live, int oldest_first, size_t (*size)(void))
{
    for (size_t i = 0; i < count; i++) {
        char **block = &blocks[oldest_first ? i % live : below(live)];
        put(block);
        *block = get(size());
    }
}

static void oldest(size_t count)
{
    replace(count, count / 8, 1, any_size);
}

static void random_blocks(size_t count)
{
    replace(count, count / 8, 0, any_size);
}

static size_t above_bins(void)
{
    return 16384 + below(180000);
}

static void random_runs(size_t count)
{
    replace(count / 4, count / 32, 0, above_bins);
}

/* Sixteen generations of one size each; three blocks of four are freed in random order. */
static void generations(size_t count, int shrinking)
{
    size_t each = count / 16, kept = 0;
    for (size_t number = 0; number < 16; number++) {
        size_t start = kept, size = 40 + (shrinking ? 15 - number : number) * 112;
        for (size_t i = 0; i < each; i++)
            blocks[kept++] = get(size);
        shuffle(blocks + start, each);
        for (size_t i = 0; i < each * 3 / 4; i++)
            put(&blocks[--kept]);
    }
}

static void growing(size_t count)
{
    generations(count, 0);
}

static void shrinking(size_t count)
{
    generations(count, 1);
}

static void growing_runs(size_t count)
{
    size_t each = count / 64, kept = 0;
    for (size_t number = 0; number < 16; number++) {
        size_t start = kept;
        for (size_t i = 0; i < each; i++)
            blocks[kept++] = get(16000 + number * 4096 + below(4000));
        for (size_t i = start; i < kept; i += 2)
            put(&blocks[i]);
    }
}

static void small_then_large(size_t count)
{
    for (size_t i = 0; i < count; i++)
        blocks[i] = get(16 + below(112));
    shuffle(blocks, count);
    for (size_t i = count / 8; i < count; i++)
        put(&blocks[i]);
    for (int round = 0; round < 4; round++) {
        char **large = blocks + count / 8;
        for (size_t i = 0; i < count / 64; i++)
            large[i] = get(1000 + below(30000));
        shuffle(large, count / 64);
        for (size_t i = 0; i < count / 64; i++)
            put(&large[i]);
    }
}

static void aligned(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char **block = &blocks[below(count / 8)];
        put(block);
        *block = below(2) ? aligned_alloc((size_t)64 << below(6), 64 + below(4000))
                          : get(16 + below(2000));
    }
}

static const struct {
    const char *name;
    void (*play)(size_t count);
} patterns[] = {
    {"holes-small", holes_small},
    {"holes-large", holes_large},
    {"third", third},
    {"oldest", oldest},
    {"random", random_blocks},
    {"random-runs", random_runs},
    {"growing", growing},
    {"shrinking", shrinking},
    {"growing-runs", growing_runs},
    {"small-then-large", small_then_large},
    {"aligned", aligned},
};

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int words, char **word)
{
    size_t count = words == 3 ? strtoul(word[2], NULL, 10) : 0;
    blocks = calloc(count + 64, sizeof *blocks);
    for (size_t i = 0; count >= 64 && i < sizeof patterns / sizeof *patterns; i++) {
        if (strcmp(patterns[i].name, word[1]) != 0)
            continue;
        double start = seconds();
        patterns[i].play(count);
        for (size_t j = 0; j < count; j++)
            put(&blocks[j]);
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf("%.3f %ld\n", seconds() - start, usage.ru_maxrss / 1024);
        return 0;
    }
    fprintf(stderr, "searches: PATTERN COUNT; the patterns:");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        fprintf(stderr, " %s", patterns[i].name);
    fprintf(stderr, "\n");
    return 2;
}
