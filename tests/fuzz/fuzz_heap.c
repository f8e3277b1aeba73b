/* SPDX-License-Identifier: MIT
 *
 * fuzz_heap.c: plays sequences of requests against a policy heap and the model (model.h).
 *
 * After every request it checks what the model checks of a block, and that no two blocks overlap;
 * now and then that the heap is valid and that a walk finds exactly the live blocks. The page
 * source refuses and jumps as the input says; NULL is accepted only if it has refused.
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
#include "bench_programs/random.h"
#include "tests/unit/heap_allocator.h"
#include "tests/unit/model.h"

enum { MOST_BLOCKS = 256, CHECK_EVERY = 32, LARGEST_LOG = 22 };

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
    {"gnu", {"clusters=binned", "counters=on", NULL}},
    {"gnu", {"clusters=binned", "parts=on", "least_log=5", NULL}},
    {"knuth", {"search=binned", "end=checked", NULL}},
    {"knuth", {"search=binned", "cut=end", NULL}},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static struct model model = {.allocator = &heap_allocator, .entries = MOST_BLOCKS};
static size_t block_count; /* the model's first so many blocks are live */

static struct run {
    size_t requests;
    unsigned refuse_of_256, jump_of_256;
    uint64_t random;
    unsigned jumps; /* in this request */
    bool refused;   /* in this request; a heap may also give up after several jumps */
} run;

#define REQUIRE(condition) ((condition) ? (void)0 : fail(#condition, __LINE__))

static _Noreturn void fail(const char *condition, int line)
{
    fprintf(stderr, "fuzz_heap.c:%d: %s is false for %s, request %zu\n", line, condition,
            heap.policy->name, run.requests);
    abort();
}

static enum source_decision decide(void *argument)
{
    (void)argument;
    unsigned number = random_next(&run.random) >> 56;
    if (number < run.refuse_of_256) {
        run.refused = true;
        return SOURCE_REFUSE;
    }
    if ((random_next(&run.random) >> 56) >= run.jump_of_256)
        return SOURCE_ADJOIN;
    run.refused = run.refused || ++run.jumps > 1;
    return SOURCE_JUMP;
}

/* wrong: what the model says of a request. */
static void require_right(const char *wrong)
{
    if (wrong == held_refused)
        REQUIRE(run.refused);
    else if (wrong)
        fail(wrong, __LINE__);
}

static void require_apart(const struct held_block *block)
{
    for (size_t i = 0; i < block_count; i++) {
        const struct held_block *other = &model.blocks[i];
        REQUIRE(other == block || block->start >= other->start + other->usable ||
                other->start >= block->start + block->usable);
    }
}

static void add_block(enum how_allocated how, size_t alignment, size_t bytes)
{
    struct held_block *block = &model.blocks[block_count];
    const struct wish wish = {how, bytes, alignment, random_next(&model.random), .ends_only = true};
    require_right(held_alloc(block, &heap_allocator, &wish));
    if (!block->start)
        return;
    block_count++;
    require_apart(block);
}

/* The last block takes the place. */
static void remove_block(size_t index)
{
    require_right(held_free(&model.blocks[index], &heap_allocator));
    model.blocks[index] = model.blocks[--block_count];
    model.blocks[block_count].start = NULL;
}

static void resize_block(size_t index, size_t bytes)
{
    struct held_block *block = &model.blocks[index];
    require_right(held_resize(block, &heap_allocator, bytes, random_next(&model.random)));
    require_apart(block);
}

/* The whole heap. */
static void check_heap(void)
{
    struct heap_statistics statistics = {0};
    REQUIRE(heap_is_valid());
    struct meeting meeting = model_meet(&model, 1);
    REQUIRE(meeting.unknown == 0);
    REQUIRE(meeting.cached_blocks == 0);
    REQUIRE(meeting.live == block_count);
    heap.policy->statistics(heap.state, &statistics);
    REQUIRE(statistics.free_blocks <= meeting.free_blocks);
    REQUIRE(statistics.free_blocks == meeting.free_blocks || run.refuse_of_256 > 0 ||
            run.jump_of_256 > 0);
}

static size_t size_from(unsigned argument)
{
    unsigned exponent = argument >> 11;
    size_t size = ((size_t)1 << (exponent % LARGEST_LOG)) + (argument & 2047);
    return exponent == 31 ? 0 : size;
}

static void play_request(const unsigned char *bytes)
{
    unsigned kind = bytes[0] >> 4, detail = bytes[0] & 15;
    unsigned argument = bytes[1] | (unsigned)bytes[2] << 8;
    size_t size = size_from(argument);
    run.requests++;
    run.refused = false;
    run.jumps = 0;
    if (kind < 7 && block_count < MOST_BLOCKS)
        add_block(PLAIN, 0, size);
    else if (kind < 11 && block_count > 0)
        remove_block(argument % block_count);
    else if (kind < 14 && block_count > 0)
        resize_block((detail * 16 + kind) % block_count, size ? size : 1);
    else if (kind == 14 && block_count < MOST_BLOCKS)
        add_block(ALIGNED, (size_t)32 << detail % 14, size);
    else if (heap.policy->trim && detail == 0)
        heap.policy->trim(heap.state);
    if (run.requests % CHECK_EVERY == 0)
        check_heap();
}

/* One heap from its beginning to its end; every block is freed at last. */
static void play(unsigned variant, const unsigned char *data, size_t bytes)
{
    if (!heap.source.base)
        test_source_init(&heap.source);
    test_source_reset(&heap.source);
    heap.source.decide = decide;
    init_with_options(&heap, heap_policy_named(variants[variant].heap), variants[variant].options);
    run = (struct run){
        .refuse_of_256 = data[0] < 128 ? 0 : data[0] - 128,
        .jump_of_256 = data[1] < 128 ? 0 : data[1] - 128,
    };
    for (size_t at = 2; at + 3 <= bytes; at += 3)
        play_request(data + at);
    check_heap();
    while (block_count > 0)
        remove_block(block_count - 1);
    check_heap();
    free(heap.state);
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
            data[i] = (unsigned char)(random_next(&state) >> 56);
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
