/* SPDX-License-Identifier: MIT
 *
 * large_blocks.c: blocks of 64 KiB to 8 MiB that come and go.
 *
 * One page in eight of a block is touched. What a large block costs is the kernel's work: fresh
 * pages are cleared and faulted in one by one, so an allocator that gives every block back pays
 * for it again, and one that never does keeps the peak for ever. Some blocks are resized, some
 * come from calloc, whose zeroes are free only on pages that are known to be fresh.
 *
 * Idea: ours; the trade-off is that of the dynamic mmap threshold of glibc and the purging
 * policies that Evans describes ("A Scalable Concurrent malloc(3) Implementation for FreeBSD",
 * BSDCan 2006).
 */
#include "bench_programs/bench.h"

enum { PAGE = 4096, TOUCH_EVERY = 8 * PAGE };

struct slot {
    unsigned char *block;
    uint64_t bytes, signature;
};

static uint64_t large_size(uint64_t *random)
{
    uint64_t power = random_between(random, 16, 22);
    return (UINT64_C(1) << power) + random_below(random, UINT64_C(1) << power);
}

static void touch(struct slot *slot)
{
    block_sign(slot->block, slot->bytes, slot->signature);
    for (uint64_t i = PAGE; i + PAGE < slot->bytes; i += TOUCH_EVERY)
        slot->block[i] = (unsigned char)(slot->signature + i / PAGE);
}

static void verify(const struct slot *slot)
{
    block_check(slot->block, slot->bytes, slot->signature);
    for (uint64_t i = PAGE; i + PAGE < slot->bytes; i += TOUCH_EVERY)
        if (slot->block[i] != (unsigned char)(slot->signature + i / PAGE))
            bench_corrupt("a large block has lost its contents", slot->block);
}

static unsigned char *zeroed(uint64_t bytes)
{
    unsigned char *block = calloc(1, bytes);
    if (!block)
        bench_no_memory(bytes);
    for (uint64_t i = 0; i < bytes; i += PAGE)
        if (block[i])
            bench_corrupt("calloc gave a block that is not zero", block);
    return block;
}

/* The old contents must be there up to the shorter length; then the whole is signed anew. */
static void resize(struct slot *slot, uint64_t bytes)
{
    uint64_t head;
    slot->block = reallocate(slot->block, bytes);
    memcpy(&head, slot->block, sizeof head);
    if (head != slot->signature)
        bench_corrupt("realloc has lost a block's contents", slot->block);
    slot->bytes = bytes;
    touch(slot);
}

static void replace(struct slot *slot, uint64_t *random)
{
    verify(slot);
    free(slot->block);
    slot->bytes = large_size(random);
    slot->signature = random_next(random);
    slot->block = random_below(random, 4) ? allocate(slot->bytes) : zeroed(slot->bytes);
    touch(slot);
}

int main(int argc, char **argv)
{
    uint64_t count = 16, operations = 20000, checksum = 0, random = 1;
    const struct bench_option options[] = {
        {"blocks", "blocks that live at any time", 1, 1000000, &count},
        {"operations", "blocks replaced or resized", 0, 1000000000, &operations},
        {0},
    };
    bench_arguments(argc, argv, "large blocks", options);
    struct slot *slots = allocate(count * sizeof *slots);
    for (uint64_t i = 0; i < count; i++) {
        slots[i] = (struct slot){allocate(UINT64_C(1) << 16), UINT64_C(1) << 16, i};
        touch(&slots[i]);
    }
    for (uint64_t i = 0; i < operations; i++) {
        struct slot *slot = &slots[random_below(&random, count)];
        if (random_below(&random, 3))
            replace(slot, &random);
        else
            resize(slot, large_size(&random));
        checksum += mix(slot->bytes + slot->signature);
    }
    for (uint64_t i = 0; i < count; i++) {
        verify(&slots[i]);
        free(slots[i].block);
    }
    free(slots);
    print_checksum(checksum);
    return 0;
}
