/* SPDX-License-Identifier: MIT
 *
 * cxx_second_malloc.cc: a program brings a malloc of its own, and no operators.
 *
 * As Rust's jemalloc with the plain names does. libstdc++'s operator new calls that malloc, so the
 * program may hand what new returns to its own functions: RocksDB, linked with it, asks
 * malloc_usable_size for its blocks. A library that serves the operators itself has them ask for
 * blocks of a heap that they do not know.
 */
#include <new>

#include "tests/contract/contract.h"

alignas(4096) static char memory[1 << 20];
static size_t used;

static bool is_own(const void *block)
{
    return block >= memory && block < memory + sizeof memory;
}

extern "C" {

void *aligned_alloc(size_t alignment, size_t size)
{
    used = (used + alignment - 1) / alignment * alignment;
    require(used + size <= sizeof memory);
    void *block = memory + used;
    used += size;
    return block;
}

/* The aligned forms of libstdc++ 12 call aligned_alloc, those of 14 this. */
int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = aligned_alloc(alignment, size);
    return 0;
}

void *malloc(size_t size)
{
    return aligned_alloc(16, size);
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* memory is never used twice */
}

void *realloc(void *block, size_t size)
{
    void *moved = malloc(size);
    return block ? memcpy(moved, block, size) : moved; /* too much is read, of our own memory */
}

void free(void *block)
{
    require(!block || is_own(block));
}

size_t malloc_usable_size(void *block)
{
    require(is_own(block));
    return 0;
}
}

int main()
{
    const std::align_val_t page{4096};
    void *blocks[] = {operator new(100), operator new[](100), operator new(100, std::nothrow),
                                                              operator new(100, page),
                                                              operator new[](100, page)};
    for (void *block : blocks)
        malloc_usable_size(block);
    require(reinterpret_cast<uintptr_t>(blocks[3]) % 4096 == 0);
    free(blocks[0]);
    operator delete[](blocks[1], 100);
    operator delete(blocks[2]);
    operator delete(blocks[3], 100, page);
    operator delete[](blocks[4], page);
    return 0;
}
