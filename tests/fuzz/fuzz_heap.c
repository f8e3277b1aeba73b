/* SPDX-License-Identifier: MIT
 *
 * fuzz_heap.c: plays sequences of requests against a policy heap and a shadow model of it.
 *
 * The model knows each live block's address, size and contents. After every request it checks
 * alignment, usable size, that contents are what was written and that no two blocks overlap; now
 * and then that the heap is valid and that a walk finds exactly the live blocks. The page source
 * refuses and jumps as the input says; NULL is accepted only if it has refused.
 *
 * With libFuzzer (make fuzz) the input comes from the fuzzer. Built with -DFUZZ_REPLAY it is a
 * program of its own:
 *
 *   fuzz_heap_replay [FILE | SEED-COUNT] ...   each kept input, or so many pseudo-random ones,
 *                                              against every heap and variant
 *
 * Input: one byte of variant, one of refusals, one of jumps; then three bytes a request:
 *
 *   | 4 bits: kind | 4 bits: of what | 16 bits: exponent and mantissa of a size |
 */
#include "tests/unit/heap_source.h"

enum { MOST_BLOCKS = 256, CHECK_EVERY = 32, LARGEST_LOG = 22, EDGE_BYTES = 512 };

static const struct {
    const char *heap;
    const char *options[4];
} variants[] = {
    {"bsd", {NULL}},
    {"knuth", {"counters=on", NULL}},
    {"knuth", {"cut=end", "search=short", "end=checked", NULL}},
    {"cartesian", {"counters=on", NULL}},
    {"cartesian", {"tree=fast", "least=32", NULL}},
    {"gnu", {"counters=on", NULL}},
    {"gnu", {"least_log=5", "parts=on", NULL}},
    {"knuth", {"search=short", NULL}},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

struct shadow_block {
    unsigned char *start;
    size_t size, usable;
    unsigned char pattern;
};

struct run {
    struct test_heap heap;
    struct shadow_block blocks[MOST_BLOCKS];
    size_t count, requests;
    unsigned char pattern;
    unsigned refuse_of_256, jump_of_256;
    uint64_t random;
    unsigned jumps; /* in this request */
    bool refused;   /* in this request; a heap may also give up after several jumps */
};

static struct run run;

#define REQUIRE(condition) ((condition) ? (void)0 : fail(#condition, __LINE__))

static _Noreturn void fail(const char *condition, int line)
{
    fprintf(stderr, "fuzz_heap.c:%d: %s is false for %s, request %zu\n", line, condition,
            run.heap.policy->name, run.requests);
    abort();
}

/* xorshift64*: Marsaglia 2003, Vigna 2016. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static enum source_decision decide(void *argument)
{
    (void)argument;
    unsigned number = next_random(&run.random) >> 56;
    if (number < run.refuse_of_256) {
        run.refused = true;
        return SOURCE_REFUSE;
    }
    if ((next_random(&run.random) >> 56) >= run.jump_of_256)
        return SOURCE_ADJOIN;
    run.refused = run.refused || ++run.jumps > 1;
    return SOURCE_JUMP;
}

/* Contents. Of large blocks only the ends, which is where a heap would write. */

/* The byte after `i` whose contents are kept. */
static size_t next_kept(const struct shadow_block *block, size_t i)
{
    bool at_gap = i + 1 == EDGE_BYTES && block->usable > 2 * EDGE_BYTES;
    return at_gap ? block->usable - EDGE_BYTES : i + 1;
}

static void fill(struct shadow_block *block)
{
    for (size_t i = 0; i < block->usable; i = next_kept(block, i))
        block->start[i] = (unsigned char)(block->pattern + i);
}

static void check_contents(const struct shadow_block *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i = next_kept(block, i))
        REQUIRE(block->start[i] == (unsigned char)(block->pattern + i));
}

static void check_place(const struct shadow_block *block, size_t alignment)
{
    REQUIRE((uintptr_t)block->start % alignment == 0);
    REQUIRE(block->usable >= block->size);
    for (size_t i = 0; i < run.count; i++) {
        const struct shadow_block *other = &run.blocks[i];
        REQUIRE(other == block || block->start >= other->start + other->usable ||
                other->start >= block->start + block->usable);
    }
}

static void add_block(void *start, size_t alignment, size_t size)
{
    if (!start) {
        REQUIRE(run.refused);
        return;
    }
    struct shadow_block *block = &run.blocks[run.count++];
    *block = (struct shadow_block){
        .start = start,
        .size = size,
        .usable = run.heap.policy->usable_size(run.heap.state, start),
        .pattern = run.pattern += 37,
    };
    check_place(block, alignment);
    fill(block);
}

static void free_block(size_t index)
{
    struct shadow_block *block = &run.blocks[index];
    REQUIRE(run.heap.policy->usable_size(run.heap.state, block->start) == block->usable);
    check_contents(block, block->usable);
    run.heap.policy->free(run.heap.state, block->start);
    *block = run.blocks[--run.count];
}

static void resize_block(size_t index, size_t size)
{
    struct shadow_block *block = &run.blocks[index];
    check_contents(block, block->usable);
    void *moved = heap_realloc(run.heap.policy, run.heap.state, block->start, size);
    if (!moved) {
        REQUIRE(run.refused);
        check_contents(block, block->usable);
        return;
    }
    size_t kept = block->usable < size ? block->usable : size;
    block->start = moved;
    check_contents(block, kept);
    block->size = size;
    block->usable = run.heap.policy->usable_size(run.heap.state, moved);
    check_place(block, BLOCK_ALIGNMENT);
    fill(block);
}

/* The whole heap. */

struct walk_check {
    size_t live, free;
};

static void check_visited(void *argument, const struct block_info *info)
{
    struct walk_check *walk = argument;
    if (info->state == BLOCK_FREE) {
        walk->free++;
        return;
    }
    REQUIRE(info->state == BLOCK_LIVE);
    walk->live++;
    for (size_t i = 0; i < run.count; i++) {
        unsigned char *payload = info->payload;
        if (run.blocks[i].start >= payload && run.blocks[i].start < payload + info->usable_bytes)
            return;
    }
    fail("a block that a walk calls live is one of ours", __LINE__);
}

static void check_heap(void)
{
    struct walk_check walk = {0};
    struct heap_statistics statistics = {0};
    REQUIRE(run.heap.policy->is_valid(run.heap.state));
    run.heap.policy->walk(run.heap.state, check_visited, &walk);
    REQUIRE(walk.live == run.count);
    run.heap.policy->statistics(run.heap.state, &statistics);
    REQUIRE(statistics.free_blocks <= walk.free);
    REQUIRE(statistics.free_blocks == walk.free || run.refuse_of_256 > 0 || run.jump_of_256 > 0);
}

static size_t size_from(unsigned argument)
{
    unsigned exponent = argument >> 11;
    size_t size = ((size_t)1 << (exponent % LARGEST_LOG)) + (argument & 2047);
    return exponent == 31 ? 0 : size;
}

static void play_request(const unsigned char *bytes)
{
    const struct heap_policy *policy = run.heap.policy;
    unsigned kind = bytes[0] >> 4, detail = bytes[0] & 15;
    unsigned argument = bytes[1] | (unsigned)bytes[2] << 8;
    size_t size = size_from(argument);
    run.requests++;
    run.refused = false;
    run.jumps = 0;
    if (kind < 7 && run.count < MOST_BLOCKS)
        add_block(policy->alloc(run.heap.state, size), BLOCK_ALIGNMENT, size);
    else if (kind < 11 && run.count > 0)
        free_block(argument % run.count);
    else if (kind < 14 && run.count > 0)
        resize_block((detail * 16 + kind) % run.count, size ? size : 1);
    else if (kind == 14 && run.count < MOST_BLOCKS) {
        size_t alignment = (size_t)32 << detail % 14;
        add_block(policy->alloc_aligned(run.heap.state, alignment, size), alignment, size);
    } else if (policy->trim && detail == 0)
        policy->trim(run.heap.state);
    if (run.requests % CHECK_EVERY == 0)
        check_heap();
}

/* One heap from its beginning to its end; every block is freed at last. */
static void play(unsigned variant, const unsigned char *data, size_t bytes)
{
    static bool prepared;
    if (!prepared)
        test_source_init(&run.heap.source);
    prepared = true;
    run.heap.policy = heap_policy_named(variants[variant].heap);
    run.heap.state = calloc(1, run.heap.policy->heap_bytes);
    test_source_reset(&run.heap.source);
    run.heap.source.decide = decide;
    init_with_options(run.heap.policy, run.heap.state, &run.heap.source.pages,
                      variants[variant].options);
    run.count = run.requests = 0;
    run.random = 88172645463325252;
    run.refuse_of_256 = data[0] < 128 ? 0 : data[0] - 128;
    run.jump_of_256 = data[1] < 128 ? 0 : data[1] - 128;
    for (size_t at = 2; at + 3 <= bytes; at += 3)
        play_request(data + at);
    check_heap();
    while (run.count > 0)
        free_block(run.count - 1);
    check_heap();
    free(run.heap.state);
}

#ifndef FUZZ_REPLAY

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes);

/* FUZZ_HEAP names the heap whose variants are played; without it the input chooses among all. */
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    if (bytes < 3)
        return -1;
    const char *wanted = getenv("FUZZ_HEAP");
    unsigned variant = data[0] % VARIANTS;
    for (unsigned i = 0; wanted && i < VARIANTS && strcmp(variants[variant].heap, wanted) != 0; i++)
        variant = (variant + 1) % VARIANTS;
    play(variant, data + 1, bytes - 1);
    return 0;
}

#else

static void play_file(const char *path)
{
    static unsigned char data[1 << 16];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(2);
    }
    size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    for (unsigned variant = 0; variant < VARIANTS && bytes >= 3; variant++)
        play(variant, data + 1, bytes - 1);
}

static void play_random(unsigned long seeds)
{
    enum { BYTES = 2 + 3 * 1500 };
    static unsigned char data[BYTES];
    uint64_t state = 1;
    for (unsigned long seed = 0; seed < seeds; seed++) {
        for (size_t i = 0; i < BYTES; i++)
            data[i] = (unsigned char)(next_random(&state) >> 56);
        if (seed % 2 == 0)
            data[0] = data[1] = 0;
        for (unsigned variant = 0; variant < VARIANTS; variant++)
            play(variant, data, BYTES);
    }
}

int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        char *end;
        unsigned long seeds = strtoul(words[i], &end, 10);
        if (*end == '\0')
            play_random(seeds);
        else
            play_file(words[i]);
    }
    return 0;
}

#endif
