/* SPDX-License-Identifier: MIT
 *
 * writes.cc: writes behind a block, before it, and after its free.
 *
 * Two neighbours of the same size stand by; the block and they are freed, and the heap is used on,
 * so that an allocator that looks at what it keeps between blocks has its chance.
 */
#include <fcntl.h>
#include <unistd.h>

#include "tests/safety/misuse.h"

enum last { FREED, KEPT };

struct neighbours {
    char *before, *block, *after;

    explicit neighbours(size_t bytes)
        : before(block_of(bytes)), block(block_of(bytes)), after(block_of(bytes))
    {
    }

    /* harmed: a write has left the block. */
    bool end(size_t bytes, bool harmed, last what = FREED)
    {
        if (what == FREED)
            free(opaque(block));
        hands_out_twice(bytes);
        if (what == FREED) {
            free(opaque(after));
            free(opaque(before));
        }
        hands_out_twice(bytes);
        return harmed;
    }
};

static const char *const OVERFLOW = "overflow";

template <size_t bytes, ptrdiff_t behind = 0, char value = 'A'> static bool over_by_a_byte()
{
    neighbours three(bytes);
    return three.end(bytes, write_outside(three.block, (ptrdiff_t)bytes + behind, value));
}

template <size_t bytes, size_t length> static bool over_by_many()
{
    neighbours three(bytes);
    bool harmed = false;
    for (size_t i = 0; i < length; i++)
        harmed |= write_outside(three.block, (ptrdiff_t)(bytes + i), 'A');
    return three.end(bytes, harmed);
}

/* The block is never freed. */
template <size_t bytes> static bool over_and_kept()
{
    neighbours three(bytes);
    return three.end(bytes, write_outside(three.block, (ptrdiff_t)bytes, 'A'), KEPT);
}

/* A text that fills the block: its end does not fit. */
template <size_t bytes> static bool over_by_text()
{
    neighbours three(bytes);
    bool harmed = malloc_usable_size(three.block) <= bytes;
    std::string text(bytes, 't');
    expect_fault(three.block + bytes, 1);
    strcpy(opaque(three.block), text.c_str());
    return three.end(bytes, harmed);
}

static bool over_calloc()
{
    char *block = static_cast<char *>(opaque(calloc(10, 20)));
    bool harmed = write_outside(block, 200, 'A');
    free(block);
    return hands_out_twice(200) || harmed;
}

static bool over_aligned()
{
    char *block = static_cast<char *>(opaque(memalign(128, 120)));
    bool harmed = write_outside(block, 120, 'A');
    free(block);
    return hands_out_twice(120) || harmed;
}

static bool over_array()
{
    char *block = opaque(new char[56]);
    bool harmed = write_outside(block, 56, 'A');
    delete[] block;
    return hands_out_twice(56) || harmed;
}

template <size_t from, size_t to> static bool over_resized()
{
    char *block = static_cast<char *>(realloc(opaque(block_of(from)), to));
    bool harmed = write_outside(block, (ptrdiff_t)to, 'A');
    free(opaque(block));
    return hands_out_twice(to) || harmed;
}

static bool over_then_realloc()
{
    char *block = block_of(88);
    bool harmed = write_outside(block, 88, 'A');
    block = static_cast<char *>(realloc(opaque(block), 8000));
    free(opaque(block));
    return hands_out_twice(88) || harmed;
}

static bool over_by_thread()
{
    char *block = block_of(104);
    bool harmed = false;
    std::thread([block, &harmed] { harmed = write_outside(block, 104, 'A'); }).join();
    free(opaque(block));
    return hands_out_twice(104) || harmed;
}

static bool over_freed_by_thread()
{
    char *block = block_of(104);
    bool harmed = write_outside(block, 104, 'A');
    std::thread([block] { free(opaque(block)); }).join();
    return hands_out_twice(104) || harmed;
}

/* read() writes: a call of the kernel, which gets EFAULT where a program gets a signal. */
static bool over_by_read()
{
    neighbours three(72);
    bool harmed = malloc_usable_size(three.block) < 80;
    int zeros = open("/dev/zero", O_RDONLY);
    if (read(zeros, opaque(three.block), 80) < 0)
        harmed = false;
    close(zeros);
    return three.end(72, harmed);
}

/* As in a list: the link of the next block is overwritten, then that one is used. */
static bool over_a_link()
{
    struct node {
        char name[16];
        node *next;
    };
    neighbours three(sizeof(node));
    reinterpret_cast<node *>(three.block)->next = nullptr;
    bool harmed = false;
    for (int i = 0; i < 16; i++)
        harmed |= write_outside(three.block, (ptrdiff_t)sizeof(node) + i, 0);
    return three.end(sizeof(node), harmed);
}

static const char *const UNDERFLOW = "underflow";

template <size_t bytes, ptrdiff_t before = 1, char value = 'A'> static bool under_by_a_byte()
{
    neighbours three(bytes);
    return three.end(bytes, write_outside(three.block, -before, value));
}

template <size_t bytes, size_t length> static bool under_by_many()
{
    neighbours three(bytes);
    for (size_t i = 1; i <= length; i++)
        write_outside(three.block, -(ptrdiff_t)i, 'A');
    return three.end(bytes, true);
}

template <size_t bytes> static bool under_and_kept()
{
    neighbours three(bytes);
    return three.end(bytes, write_outside(three.block, -1, 'A'), KEPT);
}

static bool under_aligned()
{
    char *block = static_cast<char *>(opaque(memalign(256, 240)));
    bool harmed = write_outside(block, -1, 'A');
    free(block);
    return hands_out_twice(240) || harmed;
}

static bool under_array()
{
    long *block = opaque(new long[12]);
    bool harmed = write_outside(reinterpret_cast<char *>(block), -8, 'A');
    delete[] block;
    return hands_out_twice(96) || harmed;
}

static bool under_then_realloc()
{
    char *block = block_of(88);
    bool harmed = write_outside(block, -1, 'A');
    block = static_cast<char *>(realloc(opaque(block), 8000));
    free(opaque(block));
    return hands_out_twice(88) || harmed;
}

static bool under_by_thread()
{
    neighbours three(104);
    bool harmed = false; // not if that is the byte that is there
    std::thread([&] { harmed = write_outside(three.block, -1, 'A'); }).join();
    return three.end(104, harmed);
}

static const char *const AFTER_FREE = "write-after-free";

/* What a heap that keeps links in free blocks would take for one. */
alignas(64) static char target[4096];

static void write_stale(char *block, size_t offset, size_t length)
{
    volatile char *bytes = block + offset;
    expect_fault(bytes, length);
    for (size_t i = 0; i < length; i++)
        bytes[i] = 's';
}

template <size_t bytes, size_t offset, size_t length> static bool stale()
{
    char *block = block_of(bytes);
    free(opaque(block));
    write_stale(block, offset, length);
    bool harmed = hands_out_twice(bytes, target, sizeof target);
    for (int i = 0; i < 40; i++)
        harmed |= hands_out_twice(bytes, target, sizeof target);
    return harmed;
}

/* All words of the block, as a link to the target. */
template <size_t bytes> static bool stale_link()
{
    char *block = block_of(bytes), *other = block_of(bytes);
    free(opaque(other));
    free(opaque(block));
    expect_fault(block, bytes);
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        char *link = target + 64;
        memcpy(opaque(block + i), &link, sizeof link);
    }
    bool harmed = false;
    for (int i = 0; i < 40; i++)
        harmed |= hands_out_twice(bytes, target, sizeof target);
    return harmed;
}

/* Blocks that were handed out since must not change. */
template <size_t bytes> static bool stale_in_new_block()
{
    char *block = block_of(bytes);
    free(opaque(block));
    char *blocks[20];
    for (char *&each : blocks)
        each = block_of(bytes);
    write_stale(block, 0, bytes < 64 ? bytes : 64);
    bool harmed = false;
    for (char *each : blocks) {
        harmed |= each[0] != 'b' || each[(bytes < 64 ? bytes : 64) - 1] != 'b';
        free(opaque(each));
    }
    return hands_out_twice(bytes) || harmed;
}

static bool stale_by_thread()
{
    char *block = block_of(200);
    free(opaque(block));
    std::thread([block] { write_stale(block, 16, 8); }).join();
    return hands_out_twice(200, target, sizeof target);
}

static bool stale_freed_by_thread()
{
    char *block = block_of(200);
    std::thread([block] { free(opaque(block)); }).join();
    write_stale(block, 0, 16);
    return hands_out_twice(200, target, sizeof target);
}

static bool stale_after_realloc()
{
    char *block = block_of(64);
    char *moved = static_cast<char *>(realloc(opaque(block), 20000));
    if (moved == block)
        return false;
    write_stale(block, 0, 64);
    free(opaque(moved));
    return hands_out_twice(64, target, sizeof target);
}

static bool stale_object()
{
    struct counted {
        long links, count;
    };
    counted *object = opaque(new counted{1, 1});
    delete object;
    expect_fault(&opaque(object)->count, sizeof(long));
    opaque(object)->count--;
    return hands_out_twice(sizeof(counted), target, sizeof target);
}

const misuse cases_of_writes[] = {
    {OVERFLOW, "24-by-1", over_by_a_byte<24>},
    {OVERFLOW, "24-by-8", over_by_many<24, 8>},
    {OVERFLOW, "24-by-40", over_by_many<24, 40>},
    {OVERFLOW, "20-by-1", over_by_a_byte<20>},
    {OVERFLOW, "1-by-1", over_by_a_byte<1>},
    {OVERFLOW, "16-by-1", over_by_a_byte<16>},
    {OVERFLOW, "100-by-1", over_by_a_byte<100>},
    {OVERFLOW, "100-by-64", over_by_many<100, 64>},
    {OVERFLOW, "1000-by-1", over_by_a_byte<1000>},
    {OVERFLOW, "1000-by-16", over_by_many<1000, 16>},
    {OVERFLOW, "4096-by-1", over_by_a_byte<4096>},
    {OVERFLOW, "5000-by-1", over_by_a_byte<5000>},
    {OVERFLOW, "40000-by-1", over_by_a_byte<40000>},
    {OVERFLOW, "300000-by-1", over_by_a_byte<300000>},
    {OVERFLOW, "300000-by-4096", over_by_many<300000, 4096>},
    {OVERFLOW, "3000000-by-1", over_by_a_byte<3000000>},
    {OVERFLOW, "zero-byte-24", over_by_a_byte<24, 0, 0>},
    {OVERFLOW, "zero-byte-30", over_by_a_byte<30, 0, 0>},
    {OVERFLOW, "zero-byte-1016", over_by_a_byte<1016, 0, 0>},
    {OVERFLOW, "text-40", over_by_text<40>},
    {OVERFLOW, "text-1000", over_by_text<1000>},
    {OVERFLOW, "kept-24", over_and_kept<24>},
    {OVERFLOW, "kept-1000", over_and_kept<1000>},
    {OVERFLOW, "calloc", over_calloc},
    {OVERFLOW, "memalign", over_aligned},
    {OVERFLOW, "new-array", over_array},
    {OVERFLOW, "grown", over_resized<100, 152>},
    {OVERFLOW, "shrunk", over_resized<152, 100>},
    {OVERFLOW, "then-realloc", over_then_realloc},
    {OVERFLOW, "by-a-thread", over_by_thread},
    {OVERFLOW, "freed-by-a-thread", over_freed_by_thread},
    {OVERFLOW, "by-read", over_by_read},
    {OVERFLOW, "link-of-neighbour", over_a_link},
    {OVERFLOW, "skips-64", over_by_a_byte<100, 64>},
    {UNDERFLOW, "24-by-1", under_by_a_byte<24>},
    {UNDERFLOW, "24-by-8", under_by_many<24, 8>},
    {UNDERFLOW, "24-by-24", under_by_many<24, 24>},
    {UNDERFLOW, "1-by-1", under_by_a_byte<1>},
    {UNDERFLOW, "16-by-1", under_by_a_byte<16>},
    {UNDERFLOW, "100-by-1", under_by_a_byte<100>},
    {UNDERFLOW, "100-by-16", under_by_many<100, 16>},
    {UNDERFLOW, "1000-by-1", under_by_a_byte<1000>},
    {UNDERFLOW, "4096-by-1", under_by_a_byte<4096>},
    {UNDERFLOW, "5000-by-1", under_by_a_byte<5000>},
    {UNDERFLOW, "40000-by-1", under_by_a_byte<40000>},
    {UNDERFLOW, "300000-by-1", under_by_a_byte<300000>},
    {UNDERFLOW, "300000-by-16", under_by_many<300000, 16>},
    {UNDERFLOW, "3000000-by-1", under_by_a_byte<3000000>},
    {UNDERFLOW, "zero-byte-24", under_by_a_byte<24, 1, 0>},
    {UNDERFLOW, "zero-byte-1000", under_by_a_byte<1000, 1, 0>},
    {UNDERFLOW, "kept-24", under_and_kept<24>},
    {UNDERFLOW, "kept-1000", under_and_kept<1000>},
    {UNDERFLOW, "memalign", under_aligned},
    {UNDERFLOW, "new-array", under_array},
    {UNDERFLOW, "then-realloc", under_then_realloc},
    {UNDERFLOW, "by-a-thread", under_by_thread},
    {AFTER_FREE, "24-first-word", stale<24, 0, 8>},
    {AFTER_FREE, "24-last-word", stale<24, 16, 8>},
    {AFTER_FREE, "100-first-word", stale<100, 0, 8>},
    {AFTER_FREE, "100-middle-byte", stale<100, 50, 1>},
    {AFTER_FREE, "200-all", stale<200, 0, 200>},
    {AFTER_FREE, "1000-first-word", stale<1000, 0, 8>},
    {AFTER_FREE, "1000-last-byte", stale<1000, 999, 1>},
    {AFTER_FREE, "5000-middle", stale<5000, 2500, 8>},
    {AFTER_FREE, "40000-middle", stale<40000, 20000, 8>},
    {AFTER_FREE, "300000-first-word", stale<300000, 0, 8>},
    {AFTER_FREE, "link-24", stale_link<24>},
    {AFTER_FREE, "link-200", stale_link<200>},
    {AFTER_FREE, "link-2000", stale_link<2000>},
    {AFTER_FREE, "in-new-block-24", stale_in_new_block<24>},
    {AFTER_FREE, "in-new-block-500", stale_in_new_block<500>},
    {AFTER_FREE, "by-a-thread", stale_by_thread},
    {AFTER_FREE, "freed-by-a-thread", stale_freed_by_thread},
    {AFTER_FREE, "after-realloc", stale_after_realloc},
    {AFTER_FREE, "object", stale_object},
    {nullptr, nullptr, nullptr},
};
