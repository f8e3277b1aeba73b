/* SPDX-License-Identifier: MIT
 *
 * slots.h: what the files of this folder share: looking at a slot, entering and ending a block.
 *
 * `how` is a block's operator (trailer.h), with the binary logarithm of the alignment above it if
 * an operator for aligned memory made it.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_SLOTS_H
#define ALLOTROPE_ALLOC_CHECKED_SLOTS_H

#include <emmintrin.h>
#include <string.h>

#include "alloc/blocks/heap.h"
#include "alloc/checked/report.h"
#include "alloc/checked/sites.h"
#include "alloc/checked/trailer.h"

#define UNKNOWN_SIZE SIZE_MAX

/* HOW_MOST: above all that how_aligned() returns for a block in a slot. */
enum { FILL_BYTE = 0xDF, HOW_ALIGNMENT_SHIFT = 2, HOW_MOST = 64 };

/* How many bytes of a dead block are filled and looked at, at most; a multiple of 16. */
extern size_t checked_fill_most __attribute__((visibility("hidden")));

/* Whether operators come by entries of their own, so that a mismatch is a real one. False once an
 * observer stands between. */
extern bool checked_tells_operators __attribute__((visibility("hidden")));

/* What a free says of the block that it is for. */
struct freeing {
    void *block;
    const char *function;
    const void *site;
    size_t size;  /* UNKNOWN_SIZE: it does not say */
    unsigned how; /* as of the block */
};

static inline unsigned how_aligned(enum block_operator by, size_t alignment)
{
    return (unsigned)by | (unsigned)__builtin_ctzl(alignment) << HOW_ALIGNMENT_SHIFT;
}

const char *how_name(unsigned how);

/* The bytes of a slot that are filled when its block is dead: the first so many, in steps of 16;
 * and the last eight before the trailer if all up to them are. */
static inline size_t filled_bytes(size_t slot_bytes)
{
    return slot_bytes - 16 <= checked_fill_most ? slot_bytes - 16 : checked_fill_most;
}

static inline void fill_slot(char *block, size_t slot_bytes)
{
    const __m128i pattern = _mm_set1_epi8((char)FILL_BYTE);
    size_t bytes = filled_bytes(slot_bytes);
    for (size_t i = 0; i < bytes; i += 16)
        _mm_store_si128((__m128i *)(void *)(block + i), pattern);
    if (bytes == slot_bytes - 16)
        _mm_storel_epi64((__m128i *)(void *)(block + bytes), pattern);
}

static inline bool fill_is_whole(const char *block, size_t slot_bytes)
{
    const __m128i pattern = _mm_set1_epi8((char)FILL_BYTE);
    __m128i same = _mm_set1_epi8(-1);
    size_t bytes = filled_bytes(slot_bytes);
    for (size_t i = 0; i < bytes; i += 16)
        same = _mm_and_si128(
            same,
            _mm_cmpeq_epi8(_mm_load_si128((const __m128i *)(const void *)(block + i)), pattern));
    if (bytes == slot_bytes - 16) {
        __m128i last = _mm_loadl_epi64((const __m128i *)(const void *)(block + bytes));
        last = _mm_or_si128(_mm_cmpeq_epi8(last, pattern), _mm_set_epi64x(-1, 0));
        same = _mm_and_si128(same, last);
    }
    return _mm_movemask_epi8(same) == 0xFFFF;
}

/* Fills the slack of a block, and writes to nothing before it: the program may have the block. */
static inline void fill_slack(char *end, size_t slack)
{
    size_t bytes = slack < SLACK_CHECKED ? slack : SLACK_CHECKED;
    for (size_t i = 0; i < bytes; i++)
        __atomic_store_n(end + i, (char)SLACK_BYTE, __ATOMIC_RELAXED);
}

static inline bool slack_is_whole(const char *end, size_t slack)
{
    size_t bytes = slack < SLACK_CHECKED ? slack : SLACK_CHECKED;
    for (size_t i = 0; i < bytes; i++)
        if (__atomic_load_n(end + i, __ATOMIC_RELAXED) != (char)SLACK_BYTE)
            return false;
    return true;
}

#define SLACK_WORD (UINT64_C(0x0101010101010101) * SLACK_BYTE)

/* Fills the slack of a slot, as fill_slack() does. Nobody has a byte of the slot yet, so what lies
 * before the slack may be written, too. */
static inline void fill_slot_slack(char *block, size_t slot_bytes, size_t slack)
{
    char *end = block + slot_bytes - TRAILER_BYTES;
    if (__builtin_expect(slack > 16, 0)) {
        fill_slack(end - slack, slack);
        return;
    }
    uint64_t word = SLACK_WORD;
    memcpy(end - 8, &word, 8);
    if (slack > 8)
        memcpy(end - 16, &word, 8);
}

static inline bool slot_slack_is_whole(const char *block, size_t slot_bytes, size_t slack)
{
    const char *end = block + slot_bytes - TRAILER_BYTES;
    if (__builtin_expect(slack > 16, 0))
        return slack_is_whole(end - slack, slack);
    uint64_t last, before;
    memcpy(&last, end - 8, 8);
    last ^= SLACK_WORD;
    if (slack <= 8) /* the highest so many bytes; a shift by 64 is two of 32 */
        return last >> (32 - 4 * slack) >> (32 - 4 * slack) == 0;
    memcpy(&before, end - 16, 8);
    return last == 0 && (before ^ SLACK_WORD) >> (128 - 8 * slack) == 0;
}

/* Facts of the block of a slot, from a valid trailer. */
struct block_facts slot_facts(const void *block, size_t slot_bytes, uint64_t decoded);

/* A dead slot that was written to, in the fill or in its trailer. */
void report_dead_slot(const char *function, char *block, size_t slot_bytes)
    __attribute__((noinline, cold));

/* The live block of a slot whose trailer or slack is not whole. */
void report_overwritten(const char *function, const void *block, size_t slot_bytes,
                        const void *site) __attribute__((noinline, cold));

/* What is wrong with the operator, the size or the alignment by which the block is freed. */
void report_mismatch(const struct freeing *freeing, struct block_facts facts, unsigned how)
    __attribute__((noinline, cold));

/* The pointer is no live block of the slab. */
void report_dead_pointer(const struct freeing *freeing, struct slab *slab)
    __attribute__((noinline, cold));
void report_foreign_pointer(const struct freeing *freeing) __attribute__((noinline, cold));

#endif
