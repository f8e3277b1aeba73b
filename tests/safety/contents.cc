/* SPDX-License-Identifier: MIT
 *
 * contents.cc: addresses that come back soon, contents that outlive their block, reads that leave
 * it.
 */
#include "tests/safety/misuse.h"

/* An address that the program still has a pointer to is handed out for something else. */
static const char *const REUSE = "address-reuse";

/* Among the next blocks of the size, of which the first alone is what most attacks need. */
template <size_t bytes, int next> static bool comes_back()
{
    char *block = block_of(bytes);
    uintptr_t address = (uintptr_t)opaque(block);
    free(opaque(block));
    bool same = false;
    for (int i = 0; i < next; i++)
        same |= (uintptr_t)opaque(malloc(bytes)) == address;
    return same;
}

/* Another object of the same size takes the place, and the stale pointer calls through it. */
static bool type_confusion()
{
    struct account {
        long balance, limit;
    };
    struct text {
        char bytes[16];
    };
    account *stale = opaque(new account{1, 2});
    delete stale;
    text *other = opaque(new text);
    memset(other->bytes, 'x', sizeof other->bytes);
    expect_fault(stale, sizeof *stale);
    return opaque(stale)->balance == 0x7878787878787878;
}

static bool by_realloc()
{
    char *block = block_of(100);
    uintptr_t address = (uintptr_t)opaque(block);
    void *moved = realloc(opaque(block), 30000);
    return (uintptr_t)moved != address && (uintptr_t)opaque(malloc(100)) == address;
}

static bool by_smaller()
{
    char *block = block_of(104);
    uintptr_t address = (uintptr_t)opaque(block);
    free(opaque(block));
    return (uintptr_t)opaque(malloc(98)) == address;
}

/* What was in a block is there for whoever has it next, or still points to it. */
static const char *const ZEROING = "zeroing";

static char *secret_block(size_t bytes)
{
    char *block = block_of(bytes);
    memset(block, 'S', bytes);
    return opaque(block);
}

static size_t secret_bytes(const char *block, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += block[i] == 'S';
    return count;
}

template <size_t bytes> static bool in_later_block()
{
    for (int i = 0; i < 40; i++)
        free(secret_block(bytes));
    size_t most = 0;
    for (int i = 0; i < 80; i++) {
        size_t count = secret_bytes(static_cast<char *>(opaque(malloc(bytes))), bytes);
        most = count > most ? count : most;
    }
    return most >= bytes / 4;
}

template <size_t bytes> static bool in_freed_block()
{
    char *block = secret_block(bytes);
    free(block);
    expect_fault(block, bytes);
    return secret_bytes(opaque(block), bytes) >= bytes / 4;
}

static bool behind_shrunk()
{
    char *block = secret_block(1000);
    block = static_cast<char *>(realloc(block, 600));
    free(block);
    size_t count = 0;
    for (int i = 0; i < 40; i++)
        count += secret_bytes(static_cast<char *>(opaque(malloc(1000))), 1000);
    return count >= 250;
}

static bool zeroed_block_is_zero()
{
    for (int i = 0; i < 40; i++)
        free(secret_block(200));
    size_t count = 0;
    for (int i = 0; i < 80; i++)
        count += secret_bytes(static_cast<char *>(opaque(calloc(1, 200))), 200);
    return count > 0;
}

/* Reads that leave the block, or come after its free. A heap without guards cannot see them. */
static const char *const OVER_READ = "over-read";

static bool reads(const char *start, size_t bytes)
{
    const volatile char *byte = start;
    expect_fault(start, bytes);
    for (size_t i = 0; i < bytes; i++)
        opaque(byte[i]);
    return true;
}

template <size_t bytes, ptrdiff_t from, size_t length> static bool over_read()
{
    char *block = block_of(bytes);
    bool read = reads(block + from, length);
    free(opaque(block));
    return read;
}

template <size_t bytes> static bool stale_read()
{
    char *block = block_of(bytes);
    free(opaque(block));
    expect_fault(block, bytes);
    size_t same = 0;
    for (size_t i = 0; i < bytes; i++)
        same += opaque(block)[i] == 'b';
    return same >= bytes / 4;
}

const misuse cases_of_contents[] = {
    {REUSE, "next-24", comes_back<24, 1>},
    {REUSE, "next-100", comes_back<100, 1>},
    {REUSE, "next-1000", comes_back<1000, 1>},
    {REUSE, "next-5000", comes_back<5000, 1>},
    {REUSE, "next-40000", comes_back<40000, 1>},
    {REUSE, "next-300000", comes_back<300000, 1>},
    {REUSE, "next-3000000", comes_back<3000000, 1>},
    {REUSE, "type-confusion", type_confusion},
    {REUSE, "by-realloc", by_realloc},
    {REUSE, "by-smaller", by_smaller},
    {ZEROING, "later-block-24", in_later_block<24>},
    {ZEROING, "later-block-100", in_later_block<100>},
    {ZEROING, "later-block-1000", in_later_block<1000>},
    {ZEROING, "later-block-5000", in_later_block<5000>},
    {ZEROING, "later-block-40000", in_later_block<40000>},
    {ZEROING, "later-block-300000", in_later_block<300000>},
    {ZEROING, "freed-block-100", in_freed_block<100>},
    {ZEROING, "freed-block-1000", in_freed_block<1000>},
    {ZEROING, "freed-block-300000", in_freed_block<300000>},
    {ZEROING, "behind-shrunk", behind_shrunk},
    {ZEROING, "calloc", zeroed_block_is_zero},
    {OVER_READ, "100-by-1", over_read<100, 100, 1>},
    {OVER_READ, "100-by-64", over_read<100, 100, 64>},
    {OVER_READ, "1000-by-4096", over_read<1000, 1000, 4096>},
    {OVER_READ, "40000-by-1", over_read<40000, 40000, 1>},
    {OVER_READ, "300000-by-1", over_read<300000, 300000, 1>},
    {OVER_READ, "300000-by-8192", over_read<300000, 300000, 8192>},
    {OVER_READ, "before-100", over_read<100, -1, 1>},
    {OVER_READ, "before-300000", over_read<300000, -1, 1>},
    {OVER_READ, "freed-24", stale_read<24>},
    {OVER_READ, "freed-1000", stale_read<1000>},
    {OVER_READ, "freed-300000", stale_read<300000>},
    {nullptr, nullptr, nullptr},
};
