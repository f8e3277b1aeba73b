/* SPDX-License-Identifier: MIT
 *
 * large_set.c: a set of blocks of some MB, each replaced by one of another size.
 *
 * The new block is there before the old one is freed, and is written: all of it, as a buffer that
 * is filled, or the first bytes, as one that was asked for to be safe. An allocator that gives
 * each freed block back pays for every page of the next one; one that keeps what it frees pays
 * with memory where sizes do not fit.
 *
 * Idea: malloc-large of mimalloc-bench (D. Leijen, after a report by L. Stefani).
 */
#include "bench_programs/bench.h"

enum { MIB = 1 << 20, SIGNED_LEAST = 16 };

static uint64_t least = 5, most = 25, written = 0;

static void *make(uint64_t *random, uint64_t *bytes)
{
    *bytes = least * MIB + random_below(random, (most - least) * MIB + 1);
    void *block = allocate(*bytes);
    uint64_t some = written == 0 || written > *bytes ? *bytes : written;
    memset(block, (int)*bytes, some);
    block_sign(block, some < SIGNED_LEAST ? SIGNED_LEAST : some, *bytes);
    return block;
}

static void end(void *block, uint64_t bytes)
{
    uint64_t some = written == 0 || written > bytes ? bytes : written;
    block_check(block, some < SIGNED_LEAST ? SIGNED_LEAST : some, bytes);
    free(block);
}

int main(int argc, char **argv)
{
    uint64_t count = 20, operations = 1000, checksum = 0, random = 1;
    const struct bench_option options[] = {
        {"blocks", "in the set", 1, 100000, &count},
        {"operations", "blocks replaced", 0, 1000000000, &operations},
        {"least", "MiB of a block", 0, 1024, &least},
        {"most", "MiB of a block", 1, 1024, &most},
        {"written", "bytes of each; 0: all", 0, UINT64_C(1) << 30, &written},
        {0},
    };
    bench_arguments(argc, argv, "large blocks of a set are replaced", options);
    if (most < least)
        most = least;
    void **set = allocate(count * sizeof *set);
    uint64_t *bytes = allocate(count * sizeof *bytes);
    for (uint64_t i = 0; i < count; i++)
        set[i] = make(&random, &bytes[i]);
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t at = random_below(&random, count), new_bytes;
        void *block = make(&random, &new_bytes);
        end(set[at], bytes[at]);
        set[at] = block;
        bytes[at] = new_bytes;
        checksum += mix(new_bytes + at);
    }
    for (uint64_t i = 0; i < count; i++)
        end(set[i], bytes[i]);
    free(set);
    free(bytes);
    print_checksum(checksum);
    return 0;
}
