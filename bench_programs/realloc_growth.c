/* SPDX-License-Identifier: MIT
 *
 * realloc_growth.c: blocks that grow piece by piece, several at a time.
 *
 * Strings are appended to in pieces of a few bytes with a realloc each time; tables grow by half
 * when they are full; a few buffers grow by whole pages to megabytes. They take turns, so that
 * what lies behind a block is usually in use when it wants to grow. Rewarded is growth in place,
 * a move of pages instead of a copy, and not too great a hole left behind. Now and then a block
 * is cut to the size of what it holds.
 *
 * Idea: ours; that realloc deserves a test of its own is Korn & Vo's point ("In Search of a
 * Better Malloc", USENIX Summer 1985).
 */
#include "bench_programs/bench.h"

enum growth { BY_PIECES, BY_HALF, BY_PAGES };

struct buffer {
    unsigned char *bytes;
    uint64_t length, capacity, limit;
    enum growth growth;
    uint64_t random;
};

static void buffer_start(struct buffer *buffer, uint64_t seed)
{
    uint64_t random = mix(seed), kind = random_below(&random, 16);
    enum growth growth = kind == 0 ? BY_PAGES : kind < 6 ? BY_HALF : BY_PIECES;
    uint64_t limit = growth == BY_PAGES  ? random_between(&random, 100000, 4000000)
                     : growth == BY_HALF ? random_between(&random, 1000, 100000)
                                         : random_between(&random, 20, 2000);
    *buffer = (struct buffer){.growth = growth, .limit = limit, .random = random};
}

static uint64_t next_capacity(const struct buffer *buffer, uint64_t needed)
{
    switch (buffer->growth) {
    case BY_HALF:
        return needed + buffer->capacity / 2;
    case BY_PAGES:
        return (needed + 4095) / 4096 * 4096;
    default:
        return needed;
    }
}

/* What stands at an offset: a check needs no second copy. */
static unsigned char content(const struct buffer *buffer, uint64_t offset)
{
    return (unsigned char)(buffer->limit + offset * 7);
}

static void buffer_append(struct buffer *buffer)
{
    uint64_t most = buffer->growth == BY_PAGES ? 20000 : buffer->growth == BY_HALF ? 500 : 40;
    uint64_t piece = random_between(&buffer->random, 1, most);
    if (buffer->length + piece > buffer->capacity) {
        buffer->capacity = next_capacity(buffer, buffer->length + piece);
        buffer->bytes = reallocate(buffer->bytes, buffer->capacity);
    }
    for (uint64_t end = buffer->length + piece; buffer->length < end; buffer->length++)
        buffer->bytes[buffer->length] = content(buffer, buffer->length);
}

/* Cuts the block to its contents, checks them and frees it. */
static uint64_t buffer_finish(struct buffer *buffer)
{
    uint64_t sum = 0;
    buffer->bytes = reallocate(buffer->bytes, buffer->length);
    for (uint64_t i = 0; i < buffer->length; i++) {
        if (buffer->bytes[i] != content(buffer, i))
            bench_corrupt("a buffer has lost its contents", buffer->bytes);
        sum += buffer->bytes[i];
    }
    free(buffer->bytes);
    return mix(sum + buffer->limit);
}

int main(int argc, char **argv)
{
    uint64_t count = 64, finished = 5000, checksum = 0, seed = 0;
    const struct bench_option options[] = {
        {"buffers", "buffers that grow in turn", 1, 1000000, &count},
        {"finished", "buffers grown to their end in all", 1, 1000000000, &finished},
        {0},
    };
    bench_arguments(argc, argv, "growth by realloc", options);
    struct buffer *buffers = allocate(count * sizeof *buffers);
    for (uint64_t i = 0; i < count; i++)
        buffer_start(&buffers[i], seed++);
    for (uint64_t at = 0; finished; at = (at + 1) % count) {
        buffer_append(&buffers[at]);
        if (buffers[at].length < buffers[at].limit)
            continue;
        checksum += buffer_finish(&buffers[at]);
        buffer_start(&buffers[at], seed++);
        finished--;
    }
    for (uint64_t i = 0; i < count; i++)
        free(buffers[i].bytes);
    free(buffers);
    print_checksum(checksum);
    return 0;
}
