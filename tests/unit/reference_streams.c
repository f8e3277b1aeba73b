/* SPDX-License-Identifier: MIT */
/* reference_streams.c: a stream is a rule for the next address, and a mixture of sizes. */
#include "tests/unit/reference_streams.h"

#include <stdlib.h>

#include "bench_programs/random.h"

static uint64_t state;

static uint64_t below(uint64_t limit)
{
    return random_below(&state, limit);
}

/* Heap and stack, most references near the last, as programs do. */
static uint64_t next_local(size_t i, uint64_t last)
{
    (void)i;
    switch (below(8)) {
    case 0:
        return 0x4a00000 + below(1 << 20);
    case 1:
        return 0x1ffeff8000 + below(4096);
    case 2:
        return 0x4a00000 + below(1 << 13);
    default:
        return last + below(64) - below(48);
    }
}

static uint64_t next_uniform(size_t i, uint64_t last)
{
    (void)i, (void)last;
    return 0x10000000 + below(3 << 20);
}

/* LRU's worst case: a loop over slightly more than fits. */
static uint64_t next_loop(size_t i, uint64_t last)
{
    (void)last;
    return 0x10000000 + i % 1100 * 32;
}

/* All in one set of every cache, around the largest associativity. */
static uint64_t next_same_set(size_t i, uint64_t last)
{
    (void)last;
    return 0x7f0000000000 + below(i % 4096 < 2048 ? 18 : 12) * (1ULL << 23);
}

/* Powers of two apart: sets that differ at some numbers of sets and collide at others. */
static uint64_t next_strides(size_t i, uint64_t last)
{
    (void)i, (void)last;
    return 0x40000000 + (below(3) << (5 + below(19))) + (below(2) << (5 + below(19)));
}

/* Everywhere a user's address can be, pages far apart. */
static uint64_t next_sparse(size_t i, uint64_t last)
{
    (void)i, (void)last;
    return below(300) * 0x3fffffd1000ULL % (REFERENCE_ADDRESS_LIMIT - 65536);
}

/* Two blocks in turn, the least that a filter of repeated touches must get right. */
static uint64_t next_turns(size_t i, uint64_t last)
{
    (void)last;
    return 0x2000 + i % 2 * 0x100000 + below(64);
}

/* More units than the short rows of an LRU stack hold, at all distances. */
static uint64_t next_deep(size_t i, uint64_t last)
{
    (void)i, (void)last;
    uint64_t spread = 1ULL << below(15);
    return 0x50000000 + below(spread) * 4096;
}

/* Near addresses, and after a while far ones among them; more stretches of memory all the time. */
static uint64_t next_far(size_t i, uint64_t last)
{
    (void)last;
    uint64_t far = i > 3000 && below(2) ? 0x7f0000000000 + (below(4) << 40) : 0;
    return far + (below(1 + i / 500) << 22) + below(1 << 13);
}

static const struct {
    const char *name;
    uint64_t (*next)(size_t i, uint64_t last);
} rules[STREAMS] = {
    {"local", next_local},       {"uniform", next_uniform}, {"loop", next_loop},
    {"same-set", next_same_set}, {"strides", next_strides}, {"sparse", next_sparse},
    {"turns", next_turns},       {"deep", next_deep},       {"far", next_far},
};

/* Mostly words, some vectors that may straddle, a few larger than blocks, and none at all. */
static unsigned next_size(void)
{
    static const unsigned sizes[] = {1, 2, 4, 4, 8, 8, 8, 8, 8, 8, 8, 16, 16, 32, 64};
    unsigned pick = (unsigned)below(200);
    if (pick == 0)
        return (unsigned)below(600);
    if (pick == 1)
        return 0;
    return sizes[pick % (sizeof sizes / sizeof *sizes)];
}

struct stream stream_make(unsigned number, size_t count)
{
    struct stream stream = {
        .name = rules[number].name,
        .count = count,
        .reference = malloc(count * sizeof *stream.reference),
        .region = malloc(count * sizeof *stream.region),
    };
    state = 88172645463325252ULL + number;
    unsigned class = 0, classes = number % 2 ? 1 : 4;
    uint64_t address = 0x10000;
    for (size_t i = 0; i < count; i++) {
        if (below(40) == 0)
            class = (unsigned)below(4) == 3 ? 255 : (unsigned)below(classes);
        address = rules[number].next(i, address);
        stream.reference[i] = (struct reference){
            .address = address,
            .function = (uint32_t)below(700),
            .size = (uint16_t)next_size(),
            .kind = below(3) == 0 ? REFERENCE_STORE : REFERENCE_LOAD,
            .class = (uint8_t) class,
        };
        stream.region[i] = (uint8_t)below(5);
    }
    return stream;
}

void stream_free(struct stream *stream)
{
    free(stream->reference);
    free(stream->region);
}

struct references stream_batch(const struct stream *stream, size_t start, size_t count)
{
    if (count > stream->count - start)
        count = stream->count - start;
    return (struct references){
        .count = count,
        .reference = stream->reference + start,
        .region = stream->region + start,
    };
}

bool stream_feed(const struct stream *stream, bool (*feed)(void *, const struct references *),
                 void *simulator)
{
    size_t start = 0;
    for (size_t length = 1; start < stream->count; length = length * 7 % 20011) {
        struct references batch = stream_batch(stream, start, length);
        if (!feed(simulator, &batch))
            return false;
        start += batch.count;
    }
    return true;
}
