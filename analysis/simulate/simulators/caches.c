/* SPDX-License-Identifier: MIT
 *
 * caches.c: a cascade of filters, one for each number of sets, the coarsest first.
 *
 * A block that was the last one touched in its set among 2^k sets was so among 2^(k+1) too
 * (Hill and Smith's inclusion). So the touches of a batch run through the coarsest sets first,
 * and only those that found another block in front go on to the next finer sets. Each filter is
 * two loops without branches over a list that stays in the first-level cache, one that looks and
 * one that keeps:
 *
 *   touches --[32 sets]--> some --[64 sets]--> fewer --[128 sets]--> ... --[2^17 sets]
 *
 * What passes a filter missed in the direct-mapped cache of that many sets; for associativity
 * its place in the set's LRU stack is then looked up, sixteen entries at once, and the block
 * moved to the front. A set is one cache line:
 *
 *   recent[set]       | tag 31..5 | written 0 |           the block in front
 *   stacks[set][0]    | tag 31..5 | dirty level 4..0 |    the block in front again
 *   stacks[set][1...]  those behind it, most recent first
 *
 * A block's name has 32 bits: its number plus 32, so that no block has tag 0. That is enough for
 * all that a program touches under Valgrind. From the first block on whose number is too large,
 * the upper part of each is renamed to a number of 15 bits that is not in use yet, the lower 17
 * bits stay. All blocks of a set share the low five bits, so a tag needs 27 and leaves five for
 * the dirty level. Where misses alone are counted, recent[set] holds the whole name.
 *
 * Dirty levels (Thompson and Smith): a block is dirty in the caches of more than L ways, for one
 * L. A store makes L 0. A touch at depth D (blocks in front of it) finds it gone from caches of D
 * ways or fewer; where it was dirty, that is for L < ways <= D, it was written back, and the
 * block is clean there now: L becomes max(L, D). A block that falls off the end leaves all caches,
 * as if touched at the greatest depth. So one count of the pair (L of the block taken out, D)
 * yields misses and write-backs of every associativity.
 *
 * A store that stops at a coarse filter is not seen by the finer ones. It need not be until
 * another block comes to the front there: that one passes on to the finer sets, and brings the
 * news that the displaced block was written ("displaced", beside each touch in the list). In the
 * finer sets too the displaced block still stands in front.
 */
#include "analysis/simulate/simulators/caches.h"

#include <immintrin.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/touches.h"

enum {
    COARSE_SETS = 1 << CACHES_SMALLEST_SETS_LOG2,
    TAG_LOW_BITS = CACHES_SMALLEST_SETS_LOG2,
    FIRST_NAME = 1 << TAG_LOW_BITS,
    CHUNK_SHIFT = CACHES_LARGEST_SETS_LOG2,
    CHUNKS_LARGEST = 1 << (32 - CHUNK_SHIFT),
    CHUNK_TABLE = 2 * CHUNKS_LARGEST,
    /* Dirty levels and depths, 0 to 16. */
    DEPTHS = CACHES_LARGEST_WAYS + 1,
    OUTCOMES = DEPTHS * DEPTHS,
};

#define TAG_MASK (~0U << TAG_LOW_BITS)
#define INLINE static inline __attribute__((always_inline))

struct level {
    uint32_t *recent; /* [sets] */
    uint32_t *stacks; /* [sets][lanes] */
    /* [class][L of the block taken out][depth]. Where there are no stacks, [class][0][1] holds
     * the misses of the direct-mapped cache. */
    uint64_t *outcomes;
    uint64_t displaced_written; /* without stacks: write-backs of the direct-mapped cache */
};

struct caches {
    struct caches_options options;
    struct touch_source source;
    unsigned lanes; /* ways that a stack holds: 0, 8 or 16 */
    const char *error;
    char error_text[160];
    bool renames; /* some block's number is too large for a name */
    struct {
        uint64_t chunk; /* plus one; 0 in a free slot */
        uint32_t number;
    } * chunks; /* of 2^17 blocks; NULL until the first is renamed */
    uint32_t next_number;
    bool number_used[CHUNKS_LARGEST];
    struct level levels[CACHES_LEVELS];
    /* The list that runs through the filters: touches whose low 32 bits are the block's name, or
     * the names only where nothing else matters. */
    uint64_t touches[TOUCH_CAPACITY] __attribute__((aligned(64)));
    uint32_t names[TOUCH_CAPACITY] __attribute__((aligned(64)));
    uint32_t displaced[TOUCH_CAPACITY] __attribute__((aligned(64))); /* | tag 31..5 | written 0 | */
};

static bool make_level(struct level *level, size_t sets, unsigned lanes)
{
    level->recent = calloc(sets, sizeof *level->recent);
    level->outcomes = calloc((size_t)REFERENCE_CLASSES * OUTCOMES, sizeof *level->outcomes);
    if (!level->recent || !level->outcomes)
        return false;
    if (lanes == 0)
        return true;
    size_t entries = sets * lanes;
    level->stacks = aligned_alloc(64, entries * sizeof *level->stacks);
    if (!level->stacks)
        return false;
    /* Tag 0 names no block, and what is not there is clean at every level. */
    for (size_t entry = 0; entry < entries; entry++)
        level->stacks[entry] = lanes;
    return true;
}

struct caches *caches_new(const struct caches_options *options)
{
    struct caches *caches = aligned_alloc(64, (sizeof *caches + 63) / 64 * 64);
    if (!caches)
        return NULL;
    memset(caches, 0, sizeof *caches);
    caches->options = *options;
    caches->lanes = options->ways == 1 ? 0 : options->ways <= 8 ? 8 : 16;
    touches_init(&caches->source, options->block_bytes, options->everything);
    bool made = true;
    for (unsigned i = 0; i < CACHES_LEVELS && made; i++)
        made = make_level(&caches->levels[i], (size_t)COARSE_SETS << i, caches->lanes);
    if (!made) {
        caches_free(caches);
        return NULL;
    }
    return caches;
}

void caches_free(struct caches *caches)
{
    if (!caches)
        return;
    for (unsigned i = 0; i < CACHES_LEVELS; i++) {
        free(caches->levels[i].recent);
        free(caches->levels[i].stacks);
        free(caches->levels[i].outcomes);
    }
    free(caches->chunks);
    free(caches);
}

const char *caches_error(const struct caches *caches)
{
    return caches->error;
}

static void fail(struct caches *caches, const char *format, uint64_t value)
{
    snprintf(caches->error_text, sizeof caches->error_text, format, value);
    caches->error = caches->error_text;
}

/* The slot of a chunk, which may be free. */
static size_t slot_of_chunk(const struct caches *caches, uint64_t chunk)
{
    size_t slot = chunk * 0x9e3779b97f4a7c15ULL >> (64 - 16);
    _Static_assert(CHUNK_TABLE == 1 << 16, "the hash yields 16 bits");
    while (caches->chunks[slot].chunk != chunk + 1 && caches->chunks[slot].chunk != 0)
        slot = (slot + 1) % CHUNK_TABLE;
    return slot;
}

static void number_chunk(struct caches *caches, size_t slot, uint64_t chunk, uint32_t number)
{
    caches->chunks[slot].chunk = chunk + 1;
    caches->chunks[slot].number = number;
    caches->number_used[number] = true;
}

static void number_chunk_of_name(struct caches *caches, uint32_t name)
{
    uint32_t chunk = name >> CHUNK_SHIFT;
    if (!caches->number_used[chunk])
        number_chunk(caches, slot_of_chunk(caches, chunk), chunk, chunk);
}

/* Gives the chunks that stand in any cache the numbers which they have there already. The chunk of
 * the lowest names has its own in any case: with another its blocks could have tag 0. */
static bool begin_renaming(struct caches *caches)
{
    caches->chunks = calloc(CHUNK_TABLE, sizeof *caches->chunks);
    if (!caches->chunks)
        return false;
    number_chunk_of_name(caches, 0);
    for (unsigned i = 0; i < CACHES_LEVELS; i++) {
        const struct level *level = &caches->levels[i];
        size_t sets = (size_t)COARSE_SETS << i;
        for (size_t set = 0; set < sets; set++)
            number_chunk_of_name(caches, level->recent[set]);
        for (size_t entry = 0; entry < sets * caches->lanes; entry++)
            number_chunk_of_name(caches, level->stacks[entry]);
    }
    caches->renames = true;
    return true;
}

static uint32_t number_of_chunk(struct caches *caches, uint64_t chunk)
{
    size_t slot = slot_of_chunk(caches, chunk);
    if (caches->chunks[slot].chunk == 0) {
        while (caches->next_number < CHUNKS_LARGEST && caches->number_used[caches->next_number])
            caches->next_number++;
        if (caches->next_number == CHUNKS_LARGEST) {
            fail(caches,
                 "more than %" PRIu64 " separate stretches of memory are touched; "
                 "simulate a part of the trace, or larger blocks",
                 CHUNKS_LARGEST - 1);
            return 0;
        }
        number_chunk(caches, slot, chunk, caches->next_number);
    }
    return caches->chunks[slot].number;
}

/* Puts the names' values, less FIRST_NAME, in the place of the blocks' numbers. */
static void rename_blocks(struct caches *caches, size_t count)
{
    for (size_t i = 0; i < count && !caches->error; i++) {
        uint64_t block = touch_unit(caches->touches[i]) + FIRST_NAME;
        uint32_t name = number_of_chunk(caches, block >> CHUNK_SHIFT) << CHUNK_SHIFT |
                        (block & ((1U << CHUNK_SHIFT) - 1));
        caches->touches[i] = (caches->touches[i] & ~TOUCH_UNIT_MASK) | (name - FIRST_NAME);
    }
}

static bool name_large(struct caches *caches, size_t count)
{
    if (!caches->renames && !begin_renaming(caches))
        fail(caches, "memory is short", 0);
    else
        rename_blocks(caches, count);
    return !caches->error;
}

/* Keeps the touches of the slices that are simulated. */
static size_t select_slices(uint32_t slices, uint64_t *touches, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        touches[kept] = touches[i];
        kept += slices >> (touches[i] % COARSE_SETS) & 1;
    }
    return kept;
}

INLINE uint32_t set_mask_of(unsigned level)
{
    return (COARSE_SETS << level) - 1;
}

/* A filter where misses alone are counted: puts each block in front of its set, and what stood
 * there before into `displaced`. The coarsest one takes the touches as they are. */
INLINE void touch_names(struct caches *caches, const struct level *level, uint32_t set_mask,
                        size_t count, unsigned lanes)
{
    uint32_t *names = caches->names;
    uint32_t *recent = level->recent;
    bool coarsest = set_mask == COARSE_SETS - 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t name = coarsest ? (uint32_t)caches->touches[i] + FIRST_NAME : names[i];
        uint32_t *front = &recent[name & set_mask];
        caches->displaced[i] = *front;
        *front = name;
        if (coarsest)
            names[i] = name;
        if (lanes != 0)
            __builtin_prefetch(&level->stacks[(size_t)(name & set_mask) * lanes], 1);
    }
}

/* The same where everything is counted. */
INLINE void touch_all(struct caches *caches, const struct level *level, uint32_t set_mask,
                      size_t count, unsigned lanes)
{
    uint64_t *touches = caches->touches;
    uint32_t *displaced = caches->displaced;
    uint32_t *recent = level->recent;
    bool coarsest = set_mask == COARSE_SETS - 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = coarsest ? touches[i] + FIRST_NAME : touches[i];
        uint32_t name = (uint32_t)touch;
        uint32_t tag = name & TAG_MASK;
        if (coarsest) {
            touches[i] = touch;
        } else {
            uint32_t gone = displaced[i];
            uint32_t gone_set = ((gone & TAG_MASK) | (name & ~TAG_MASK)) & set_mask;
            recent[gone_set] |= gone & 1;
        }
        uint32_t *front = &recent[name & set_mask];
        uint32_t before = *front;
        bool same = ((before ^ tag) & TAG_MASK) == 0;
        *front = tag | touch_is_store(touch) | (same ? before & 1 : 0);
        displaced[i] = before;
        if (lanes != 0)
            __builtin_prefetch(&level->stacks[(size_t)(name & set_mask) * lanes], 1);
    }
}

/* Keeps in the list what did not find its block in front. This is a pass of its own so that no
 * address in the pass before depends on what was found there. */
INLINE size_t keep_misses(struct caches *caches, size_t count, bool everything)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t before = caches->displaced[i];
        if (everything) {
            uint64_t touch = caches->touches[i];
            caches->touches[kept] = touch;
            caches->displaced[kept] = before;
            kept += ((before ^ (uint32_t)touch) & TAG_MASK) != 0;
        } else {
            uint32_t name = caches->names[i];
            caches->names[kept] = name;
            kept += before != name;
        }
    }
    return kept;
}

AVX512 INLINE size_t keep_misses_avx512(struct caches *caches, size_t count, bool everything)
{
    size_t kept = 0;
    for (size_t at = 0; at < count; at += 16) {
        uint32_t valid = _bzhi_u32(0xffff, (unsigned)(count - at < 16 ? count - at : 16));
        __m512i before = _mm512_load_si512(&caches->displaced[at]);
        if (everything) {
            __m512i early = _mm512_load_si512(&caches->touches[at]);
            __m512i late = _mm512_load_si512(&caches->touches[at + 8]);
            __m512i names = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(early)),
                                               _mm512_cvtepi64_epi32(late), 1);
            uint32_t missed =
                _mm512_mask_test_epi32_mask((__mmask16)valid, _mm512_xor_si512(before, names),
                                            _mm512_set1_epi32((int)TAG_MASK));
            uint32_t of_early = missed & 0xff;
            size_t middle = kept + (unsigned)__builtin_popcount(of_early);
            _mm512_storeu_si512(&caches->displaced[kept],
                                _mm512_maskz_compress_epi32((__mmask16)missed, before));
            _mm512_storeu_si512(&caches->touches[kept],
                                _mm512_maskz_compress_epi64((__mmask8)of_early, early));
            _mm512_storeu_si512(&caches->touches[middle],
                                _mm512_maskz_compress_epi64((__mmask8)(missed >> 8), late));
            kept += (unsigned)__builtin_popcount(missed);
        } else {
            __m512i names = _mm512_load_si512(&caches->names[at]);
            uint32_t missed = _mm512_mask_cmpneq_epi32_mask((__mmask16)valid, before, names);
            _mm512_storeu_si512(&caches->names[kept],
                                _mm512_maskz_compress_epi32((__mmask16)missed, names));
            kept += (unsigned)__builtin_popcount(missed);
        }
    }
    return kept;
}

INLINE void touch_fronts(struct caches *caches, unsigned level, size_t count, bool everything,
                         unsigned lanes)
{
    if (everything)
        touch_all(caches, &caches->levels[level], set_mask_of(level), count, lanes);
    else
        touch_names(caches, &caches->levels[level], set_mask_of(level), count, lanes);
}

/* Counts misses and write-backs where there are no stacks. */
INLINE void count_direct_mapped(const struct caches *caches, struct level *level, size_t count,
                                bool everything)
{
    if (!everything) {
        level->outcomes[1] += count;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        level->outcomes[touch_class(caches->touches[i]) * OUTCOMES + 1]++;
        level->displaced_written += caches->displaced[i] & 1;
    }
}

AVX512 INLINE void count_direct_mapped_avx512(const struct caches *caches, struct level *level,
                                              size_t count, bool everything)
{
    const struct touch_source *source = &caches->source;
    if (!everything || source->class_count > 4) {
        count_direct_mapped(caches, level, count, everything);
        return;
    }
    /* All but the first class are counted; the first has what is left. */
    size_t left = count;
    const __m512i class_bits = _mm512_set1_epi64(0xffLL << TOUCH_CLASS_SHIFT);
    for (unsigned i = 1; i < source->class_count; i++) {
        uint64_t class = source->classes[i], bits = class << TOUCH_CLASS_SHIFT;
        const __m512i wanted = _mm512_set1_epi64((long long)bits);
        size_t found = 0;
        for (size_t at = 0; at < count; at += 8) {
            __mmask8 valid = (__mmask8)_bzhi_u32(0xff, (unsigned)(count - at < 8 ? count - at : 8));
            __m512i touches = _mm512_loadu_si512(&caches->touches[at]);
            found += (unsigned)__builtin_popcount(
                _mm512_mask_cmpeq_epi64_mask(valid, _mm512_and_si512(touches, class_bits), wanted));
        }
        level->outcomes[class * OUTCOMES + 1] += found;
        left -= found;
    }
    level->outcomes[source->classes[0] * OUTCOMES + 1] += left;
    for (size_t at = 0; at < count; at += 16) {
        __mmask16 valid =
            (__mmask16)_bzhi_u32(0xffff, (unsigned)(count - at < 16 ? count - at : 16));
        __m512i displaced = _mm512_loadu_si512(&caches->displaced[at]);
        level->displaced_written += (unsigned)__builtin_popcount(
            _mm512_mask_test_epi32_mask(valid, displaced, _mm512_set1_epi32(1)));
    }
}

INLINE size_t outcome_index(uint64_t touch, uint32_t dirty, uint32_t depth)
{
    return touch_class(touch) * OUTCOMES + dirty * DEPTHS + depth;
}

/* Moves each touched block to the front of its set's stack and counts where it was found. */
INLINE void move_to_front_portable(const struct caches *caches, struct level *level,
                                   uint32_t set_mask, size_t count, bool everything, unsigned lanes)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = everything ? caches->touches[i] : caches->names[i];
        uint32_t name = (uint32_t)touch;
        uint32_t *stack = &level->stacks[(size_t)(name & set_mask) * lanes];
        if (everything && (caches->displaced[i] & 1))
            stack[0] &= TAG_MASK;
        uint32_t tag = name & TAG_MASK;
        uint32_t depth = 1;
        while (depth < lanes && ((stack[depth] ^ tag) & TAG_MASK) != 0)
            depth++;
        uint32_t end = depth < lanes ? depth : lanes - 1;
        uint32_t dirty = stack[end] & ~TAG_MASK;
        memmove(stack + 1, stack, end * sizeof *stack);
        if (!everything) {
            level->outcomes[depth]++;
            stack[0] = tag;
            continue;
        }
        level->outcomes[outcome_index(touch, dirty, depth)]++;
        dirty = dirty > depth ? dirty : depth;
        stack[0] = tag | (touch_is_store(touch) ? 0 : dirty);
    }
}

AVX512 INLINE void move_to_front_16(const struct caches *caches, struct level *level,
                                    uint32_t set_mask, size_t count, bool everything)
{
    const __m512i tag_mask = _mm512_set1_epi32((int)TAG_MASK);
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = everything ? caches->touches[i] : caches->names[i];
        uint32_t name = (uint32_t)touch;
        uint32_t *line = &level->stacks[(size_t)(name & set_mask) * 16];
        __m512i stack = _mm512_load_si512(line);
        __m512i wanted = _mm512_set1_epi32((int)name);
        __mmask16 other = _mm512_test_epi32_mask(_mm512_xor_si512(stack, wanted), tag_mask);
        uint32_t depth = (uint32_t)__builtin_ctz(~(uint32_t)other);
        uint32_t key = name & TAG_MASK;
        if (everything) {
            stack = _mm512_mask_and_epi32(stack, (__mmask16)(caches->displaced[i] & 1), stack,
                                          tag_mask);
            uint32_t dirty = line[depth < 15 ? depth : 15] & ~TAG_MASK;
            level->outcomes[outcome_index(touch, dirty, depth)]++;
            dirty = dirty > depth ? dirty : depth;
            key |= touch_is_store(touch) ? 0 : dirty;
        } else {
            level->outcomes[depth]++;
        }
        __m512i others = _mm512_maskz_compress_epi32(other, stack);
        _mm512_store_si512(line, _mm512_alignr_epi32(others, _mm512_set1_epi32((int)key), 15));
    }
}

AVX512 INLINE void move_to_front_8(const struct caches *caches, struct level *level,
                                   uint32_t set_mask, size_t count, bool everything)
{
    const __m256i tag_mask = _mm256_set1_epi32((int)TAG_MASK);
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = everything ? caches->touches[i] : caches->names[i];
        uint32_t name = (uint32_t)touch;
        uint32_t *line = &level->stacks[(size_t)(name & set_mask) * 8];
        __m256i stack = _mm256_load_si256((const __m256i *)line);
        __m256i wanted = _mm256_set1_epi32((int)name);
        __mmask8 other = _mm256_test_epi32_mask(_mm256_xor_si256(stack, wanted), tag_mask);
        uint32_t depth = (uint32_t)__builtin_ctz(~(uint32_t)other);
        uint32_t key = name & TAG_MASK;
        if (everything) {
            stack =
                _mm256_mask_and_epi32(stack, (__mmask8)(caches->displaced[i] & 1), stack, tag_mask);
            uint32_t dirty = line[depth < 7 ? depth : 7] & ~TAG_MASK;
            level->outcomes[outcome_index(touch, dirty, depth)]++;
            dirty = dirty > depth ? dirty : depth;
            key |= touch_is_store(touch) ? 0 : dirty;
        } else {
            level->outcomes[depth]++;
        }
        __m256i others = _mm256_maskz_compress_epi32(other, stack);
        _mm256_store_si256((__m256i *)line,
                           _mm256_alignr_epi32(others, _mm256_set1_epi32((int)key), 7));
    }
}

/* One batch through all levels; `everything` and `lanes` are constants where this is inlined. */
INLINE void run_portable(struct caches *caches, size_t count, bool everything, unsigned lanes)
{
    for (unsigned i = 0; i < CACHES_LEVELS && count > 0; i++) {
        touch_fronts(caches, i, count, everything, lanes);
        count = keep_misses(caches, count, everything);
        if (lanes == 0)
            count_direct_mapped(caches, &caches->levels[i], count, everything);
        else
            move_to_front_portable(caches, &caches->levels[i], set_mask_of(i), count, everything,
                                   lanes);
    }
}

AVX512 INLINE void run_avx512(struct caches *caches, size_t count, bool everything, unsigned lanes)
{
    for (unsigned i = 0; i < CACHES_LEVELS && count > 0; i++) {
        struct level *level = &caches->levels[i];
        touch_fronts(caches, i, count, everything, lanes);
        count = keep_misses_avx512(caches, count, everything);
        if (lanes == 16)
            move_to_front_16(caches, level, set_mask_of(i), count, everything);
        else if (lanes == 8)
            move_to_front_8(caches, level, set_mask_of(i), count, everything);
        else
            count_direct_mapped_avx512(caches, level, count, everything);
    }
}

static void run_batch_portable(struct caches *caches, size_t count)
{
    switch (caches->lanes | (unsigned)caches->options.everything) {
    case 0:
        return run_portable(caches, count, false, 0);
    case 1:
        return run_portable(caches, count, true, 0);
    case 8:
        return run_portable(caches, count, false, 8);
    case 9:
        return run_portable(caches, count, true, 8);
    case 16:
        return run_portable(caches, count, false, 16);
    default:
        return run_portable(caches, count, true, 16);
    }
}

AVX512 static void run_batch_avx512(struct caches *caches, size_t count)
{
    switch (caches->lanes | (unsigned)caches->options.everything) {
    case 0:
        return run_avx512(caches, count, false, 0);
    case 1:
        return run_avx512(caches, count, true, 0);
    case 8:
        return run_avx512(caches, count, false, 8);
    case 9:
        return run_avx512(caches, count, true, 8);
    case 16:
        return run_avx512(caches, count, false, 16);
    default:
        return run_avx512(caches, count, true, 16);
    }
}

bool caches_feed(struct caches *caches, const struct references *references)
{
    size_t position = 0;
    while (position < references->count && !caches->error) {
        size_t count = touches_take(&caches->source, references, &position, caches->touches);
        if (caches->options.slices != UINT32_MAX)
            count = select_slices(caches->options.slices, caches->touches, count);
        if (caches->source.largest_unit + FIRST_NAME > UINT32_MAX && !name_large(caches, count))
            break;
        if (dispatch_avx512())
            run_batch_avx512(caches, count);
        else
            run_batch_portable(caches, count);
        if (caches->source.bad_address != 0)
            fail(caches, "address 0x%" PRIx64 " is no user's address (2^56 or above)",
                 caches->source.bad_address);
    }
    return !caches->error;
}

uint64_t caches_misses(const struct caches *caches, unsigned sets_log2, unsigned ways,
                       unsigned class)
{
    const uint64_t *outcomes =
        &caches->levels[sets_log2 - CACHES_SMALLEST_SETS_LOG2].outcomes[class * OUTCOMES];
    uint64_t misses = 0;
    for (unsigned dirty = 0; dirty < DEPTHS; dirty++)
        for (unsigned depth = ways; depth < DEPTHS; depth++)
            misses += outcomes[dirty * DEPTHS + depth];
    return misses;
}

/* Blocks that a cache of `ways` ways has displaced dirty and that were not touched since: they
 * stand deeper than `ways` in their stack. */
static uint64_t displaced_in_stacks(const struct caches *caches, unsigned level, unsigned ways)
{
    size_t entries = ((size_t)COARSE_SETS << level) * caches->lanes;
    uint64_t sum = 0;
    for (size_t entry = 0; entry < entries; entry++) {
        uint32_t dirty = caches->levels[level].stacks[entry] & ~TAG_MASK;
        sum += dirty < ways && ways <= entry % caches->lanes;
    }
    return sum;
}

uint64_t caches_write_backs(const struct caches *caches, unsigned sets_log2, unsigned ways)
{
    unsigned level = sets_log2 - CACHES_SMALLEST_SETS_LOG2;
    if (caches->lanes == 0)
        return caches->levels[level].displaced_written;
    uint64_t sum = displaced_in_stacks(caches, level, ways);
    for (size_t class = 0; class < REFERENCE_CLASSES; class ++) {
        const uint64_t *outcomes = &caches->levels[level].outcomes[class * OUTCOMES];
        for (unsigned dirty = 0; dirty < ways; dirty++)
            for (unsigned depth = ways; depth < DEPTHS; depth++)
                sum += outcomes[dirty * DEPTHS + depth];
    }
    return sum;
}

struct reference_totals caches_class_totals(const struct caches *caches, unsigned class)
{
    return caches->source.of_class[class];
}
