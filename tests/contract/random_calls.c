/* SPDX-License-Identifier: MIT
 *
 * random_calls.c: every function that allocates, at random, in threads that free each other's
 * blocks.
 *
 * Each block keeps a pattern of its address to its end, is aligned as was asked for, and overlaps
 * no other. Threads pass blocks on by shared slots, end, and are followed by others: as glibc's
 * random tests of malloc and memalign do, and mimalloc's stress test.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/contract/contract.h"

enum { OWN = 200, SHARED = 300, CALLS = 6000, THREADS = 4, GENERATIONS = 3 };

struct block {
    unsigned char *bytes;
    size_t size;
};

/* A block in a shared slot begins with its size. */
static void *_Atomic shared[SHARED];

static size_t some_size(uint64_t *random)
{
    uint32_t magnitude = random_next(random) % 100;
    return magnitude < 90   ? random_next(random) % 700
           : magnitude < 99 ? random_next(random) % 20000
                            : random_next(random) % 1000000;
}

static void *allocate(uint64_t *random, size_t size)
{
    size_t alignment = (size_t)16 << random_next(random) % 10;
    void *block = NULL;
    switch (random_next(random) % 8) {
    case 0:
        block = calloc(1, size);
        require(is_all(block, 0, size));
        return block;
    case 1:
        require(posix_memalign(&block, alignment, size) == 0);
        break;
    case 2:
        block = aligned_alloc(alignment, size);
        break;
    case 3:
        block = memalign(alignment, size);
        break;
    case 4:
        alignment = 4096;
        block = random_next(random) % 2 ? valloc(size) : pvalloc(size);
        break;
    case 5:
        return reallocarray(NULL, size, 1);
    default:
        return malloc(size);
    }
    require((uintptr_t)block % alignment == 0);
    return block;
}

static struct block new_block(uint64_t *random)
{
    size_t size = sizeof(size_t) + some_size(random);
    struct block block = {allocate(random, size), size};
    require(block.bytes != NULL && (uintptr_t)block.bytes % 16 == 0);
    require(malloc_usable_size(block.bytes) >= size);
    fill(block.bytes, size);
    return block;
}

static void resize(uint64_t *random, struct block *block)
{
    size_t size = sizeof(size_t) + some_size(random);
    size_t kept = size < block->size ? size : block->size;
    unsigned char pattern = block->bytes[0];
    block->bytes = realloc(block->bytes, size);
    require(block->bytes != NULL);
    require(is_all(block->bytes, pattern, kept));
    block->size = size;
    fill(block->bytes, size);
}

/* The block in the slot goes, whoever made it. */
static void pass_on(uint64_t *random, struct block block)
{
    memcpy(block.bytes, &block.size, sizeof block.size);
    unsigned char *other = atomic_exchange(&shared[random_next(random) % SHARED], block.bytes);
    if (!other)
        return;
    size_t size;
    memcpy(&size, other, sizeof size);
    for (size_t i = sizeof size; i < size; i++)
        require(other[i] == (unsigned char)((uintptr_t)other >> 4));
    free(other);
}

static void *call(void *seed)
{
    uint64_t random = (uint64_t)(uintptr_t)seed;
    struct block own[OWN] = {0};
    for (int i = 0; i < CALLS; i++) {
        struct block *block = &own[random_next(&random) % OWN];
        if (!block->bytes) {
            *block = new_block(&random);
            continue;
        }
        require(is_filled(block->bytes, block->size));
        uint32_t what = random_next(&random) % 4;
        if (what == 0) {
            resize(&random, block);
            continue;
        }
        if (what == 1)
            pass_on(&random, *block);
        else
            free(block->bytes);
        block->bytes = NULL;
    }
    for (int i = 0; i < OWN; i++)
        free(own[i].bytes);
    return NULL;
}

int main(void)
{
    for (uintptr_t generation = 0; generation < GENERATIONS; generation++) {
        pthread_t threads[THREADS];
        for (uintptr_t i = 0; i < THREADS; i++)
            require(pthread_create(&threads[i], NULL, call,
                                   (void *)(generation * THREADS + i + 1)) == 0);
        for (int i = 0; i < THREADS; i++)
            require(pthread_join(threads[i], NULL) == 0);
    }
    for (int i = 0; i < SHARED; i++)
        free(shared[i]);
    return 0;
}
