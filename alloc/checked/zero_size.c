/* SPDX-License-Identifier: MIT
 *
 * zero_size.c: see zero_size.h.
 */
#include "alloc/checked/zero_size.h"

#include <stdatomic.h>

#include "alloc/checked/report.h"
#include "vm/granule_map.h"
#include "vm/owner.h"
#include "vm/pages.h"

enum { UNIT = 16, WORD_BITS = 64, WORDS = ZERO_SIZE_BYTES / UNIT / WORD_BITS };

char *zero_size_range;
static _Atomic uint64_t used[WORDS];
static _Atomic uint32_t next_word;
static struct owner owner = {.kind = OWNER_RECORDS};

void zero_size_init(void)
{
    char *range = pages_reserve(ZERO_SIZE_BYTES, GRANULE_BYTES);
    used[0] = ~UINT64_C(0); /* what lies before the first block has no access either */
    if (range && granule_map_set(range, ZERO_SIZE_BYTES, &owner))
        zero_size_range = range;
}

/* The bits of a word at which an alignment up to 1024 holds. */
static uint64_t aligned_bits(size_t alignment)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < WORD_BITS; i += alignment / UNIT)
        bits |= UINT64_C(1) << i;
    return bits;
}

void *zero_size_alloc(size_t alignment)
{
    alignment = alignment < UNIT ? UNIT : alignment;
    if (!zero_size_range || alignment > UNIT * WORD_BITS)
        return NULL;
    uint64_t wanted = aligned_bits(alignment);
    for (uint32_t tries = 0; tries < WORDS; tries++) {
        uint32_t word = atomic_fetch_add_explicit(&next_word, 1, memory_order_relaxed) % WORDS;
        uint64_t bits = atomic_load_explicit(&used[word], memory_order_relaxed);
        if (!(wanted & ~bits))
            continue;
        unsigned bit = (unsigned)__builtin_ctzl(wanted & ~bits);
        if (!(atomic_fetch_or(&used[word], UINT64_C(1) << bit) >> bit & 1))
            return zero_size_range + ((size_t)word * WORD_BITS + bit) * UNIT;
    }
    return NULL;
}

static size_t unit_of(const void *block)
{
    return (size_t)((const char *)block - zero_size_range) / UNIT;
}

/* The first word has no blocks (zero_size_init). */
static bool may_be_block(const void *address)
{
    return (uintptr_t)address % UNIT == 0 && unit_of(address) >= WORD_BITS;
}

bool zero_size_is_live(const void *block)
{
    size_t unit = unit_of(block);
    return may_be_block(block) && (used[unit / WORD_BITS] >> unit % WORD_BITS & 1) != 0;
}

bool zero_size_free(const void *block)
{
    size_t unit = unit_of(block);
    uint64_t bit = UINT64_C(1) << unit % WORD_BITS;
    return may_be_block(block) && (atomic_fetch_and(&used[unit / WORD_BITS], ~bit) & bit);
}

void zero_size_walk(heap_visitor *visit, void *argument)
{
    for (size_t unit = WORD_BITS; zero_size_range && unit < (size_t)WORDS * WORD_BITS; unit++) {
        char *block = zero_size_range + unit * UNIT;
        struct block_info info = {
            .payload = block, .usable_bytes = UNIT, .block_bytes = UNIT, .state = BLOCK_LIVE};
        if (zero_size_is_live(block))
            visit(argument, &info);
    }
}

/* What lies behind a block's address up to the next one counts as behind the block. */
bool zero_size_report_fault(const char *access, const void *address, const void *at)
{
    if (!zero_size_holds(address))
        return false;
    const char *unit = zero_size_range + unit_of(address) * UNIT;
    struct block_facts facts = {.block = zero_size_is_live(unit) ? unit : NULL,
                                .offset = (const char *)address - unit};
    return report_access(access, address, "outside a block", &facts, at);
}
