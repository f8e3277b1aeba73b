/* SPDX-License-Identifier: MIT
 *
 * sizes.cc: blocks of no bytes, blocks that can be executed, sizes that nobody can have.
 */
#include <cstdio>

#include "tests/safety/misuse.h"

/* A block of no bytes has none to write to or to read. */
static const char *const ZERO_SIZE = "zero-size";

static bool touch(void *block, ptrdiff_t offset, size_t length)
{
    if (!block)
        return false;
    volatile char *bytes = static_cast<char *>(opaque(block)) + offset;
    expect_fault(bytes, length);
    for (size_t i = 0; i < length; i++)
        bytes[i] = 'z';
    free(opaque(block));
    hands_out_twice(16);
    return true;
}

static bool malloc_write()
{
    return touch(malloc(opaque<size_t>(0)), 0, 1);
}

static bool malloc_write_word()
{
    return touch(malloc(opaque<size_t>(0)), 0, 8);
}

static bool malloc_write_before()
{
    return touch(malloc(opaque<size_t>(0)), -1, 1);
}

static bool malloc_write_line()
{
    return touch(malloc(opaque<size_t>(0)), 0, 64);
}

static bool calloc_write()
{
    return touch(calloc(0, opaque<size_t>(8)), 0, 8);
}

static bool calloc_other_write()
{
    return touch(calloc(8, opaque<size_t>(0)), 0, 8);
}

static bool array_write()
{
    char *block = opaque(new char[opaque<size_t>(0)]);
    volatile char *byte = block;
    expect_fault(byte, 1);
    *byte = 'z';
    delete[] block;
    return true;
}

static bool memalign_write()
{
    return touch(memalign(64, opaque<size_t>(0)), 0, 1);
}

static bool posix_memalign_write()
{
    void *block = nullptr;
    if (posix_memalign(&block, 32, opaque<size_t>(0)) != 0)
        return false;
    return touch(block, 0, 8);
}

static bool malloc_read()
{
    char *block = static_cast<char *>(opaque(malloc(opaque<size_t>(0))));
    expect_fault(block, 1);
    opaque(*static_cast<volatile char *>(block));
    return true;
}

static bool twice_freed()
{
    void *block = opaque(malloc(opaque<size_t>(0)));
    free(block);
    free(opaque(block));
    return hands_out_twice(0);
}

/* Two of them must differ, and the allocator must not say that there are bytes in one. */
static bool are_unique()
{
    void *one = opaque(malloc(opaque<size_t>(0))), *other = opaque(malloc(opaque<size_t>(0)));
    return one == other || malloc_usable_size(one) > 0;
}

static const char *const EXECUTABLE_OR_HUGE = "executable-or-huge";

template <size_t bytes> static bool is_executable()
{
    uintptr_t block = (uintptr_t)block_of(bytes);
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    bool executable = false;
    while (maps && fgets(line, sizeof line, maps)) {
        char *rest;
        uintptr_t start = strtoul(line, &rest, 16), end = strtoul(rest + 1, &rest, 16);
        executable |= block >= start && block < end && rest[3] == 'x';
    }
    return executable;
}

static bool malloc_huge()
{
    return opaque(malloc(opaque((size_t)PTRDIFF_MAX + 1))) != nullptr;
}

static bool malloc_all()
{
    return opaque(malloc(opaque(SIZE_MAX))) != nullptr;
}

static bool calloc_wraps()
{
    return opaque(calloc(opaque((size_t)1 << 33), opaque((size_t)1 << 31 | 1))) != nullptr;
}

static bool realloc_huge()
{
    char *block = block_of(100);
    bool given = opaque(realloc(block, opaque(SIZE_MAX - 8))) != nullptr;
    return given || block[99] != 'b';
}

static bool reallocarray_wraps()
{
    char *block = block_of(100);
    return opaque(reallocarray(block, opaque((size_t)1 << 60), 32)) != nullptr;
}

static bool new_huge()
{
    return opaque(operator new(opaque(SIZE_MAX - 16), std::nothrow)) != nullptr;
}

static bool memalign_huge()
{
    return opaque(memalign(opaque((size_t)1 << 62), opaque(SIZE_MAX - 4096))) != nullptr;
}

static bool posix_memalign_huge()
{
    void *block = nullptr;
    return posix_memalign(&block, 64, opaque(SIZE_MAX - 32)) == 0 && block;
}

static bool pvalloc_wraps()
{
    return opaque(pvalloc(opaque(SIZE_MAX - 100))) != nullptr;
}

const misuse cases_of_sizes[] = {
    {ZERO_SIZE, "malloc-write", malloc_write},
    {ZERO_SIZE, "malloc-write-word", malloc_write_word},
    {ZERO_SIZE, "malloc-write-before", malloc_write_before},
    {ZERO_SIZE, "malloc-write-line", malloc_write_line},
    {ZERO_SIZE, "calloc-write", calloc_write},
    {ZERO_SIZE, "calloc-other-write", calloc_other_write},
    {ZERO_SIZE, "array-write", array_write},
    {ZERO_SIZE, "memalign-write", memalign_write},
    {ZERO_SIZE, "posix-memalign-write", posix_memalign_write},
    {ZERO_SIZE, "malloc-read", malloc_read},
    {ZERO_SIZE, "twice-freed", twice_freed},
    {ZERO_SIZE, "unique-and-empty", are_unique},
    {EXECUTABLE_OR_HUGE, "executable-100", is_executable<100>},
    {EXECUTABLE_OR_HUGE, "executable-40000", is_executable<40000>},
    {EXECUTABLE_OR_HUGE, "executable-3000000", is_executable<3000000>},
    {EXECUTABLE_OR_HUGE, "malloc-huge", malloc_huge},
    {EXECUTABLE_OR_HUGE, "malloc-all", malloc_all},
    {EXECUTABLE_OR_HUGE, "calloc-wraps", calloc_wraps},
    {EXECUTABLE_OR_HUGE, "realloc-huge", realloc_huge},
    {EXECUTABLE_OR_HUGE, "reallocarray-wraps", reallocarray_wraps},
    {EXECUTABLE_OR_HUGE, "new-huge", new_huge},
    {EXECUTABLE_OR_HUGE, "memalign-huge", memalign_huge},
    {EXECUTABLE_OR_HUGE, "posix-memalign-huge", posix_memalign_huge},
    {EXECUTABLE_OR_HUGE, "pvalloc-wraps", pvalloc_wraps},
    {nullptr, nullptr, nullptr},
};
