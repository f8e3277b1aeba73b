/* SPDX-License-Identifier: MIT
 *
 * caches_avx512.c: the cascade with vector instructions: the list sixteen touches at a time, a
 * set's stack in one register.
 */
#include <immintrin.h>

#include "analysis/simulate/simulators/cascade.h"
#include "analysis/simulate/simulators/dispatch.h"

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

AVX512 INLINE void move_to_front_16(const struct caches *caches, struct level *level,
                                    struct indexing indexing, size_t count, bool everything)
{
    const __m512i tag_mask = _mm512_set1_epi32((int)TAG_MASK);
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = everything ? caches->touches[i] : caches->names[i];
        uint32_t name = (uint32_t)touch;
        uint32_t *line = &level->stacks[(size_t)set_of(name, indexing) * 16];
        __m512i stack = _mm512_load_si512(line);
        __m512i wanted = _mm512_set1_epi32((int)name);
        __mmask16 other = _mm512_test_epi32_mask(_mm512_xor_si512(stack, wanted), tag_mask);
        uint32_t depth = (uint32_t)__builtin_ctz(~(uint32_t)other);
        if (everything)
            stack = _mm512_mask_and_epi32(stack, (__mmask16)(caches->displaced[i] & 1), stack,
                                          tag_mask);
        uint32_t dirty = line[depth < 15 ? depth : 15] & ~TAG_MASK;
        uint32_t front = count_outcome(level, touch, dirty, depth, everything);
        __m512i others = _mm512_maskz_compress_epi32(other, stack);
        _mm512_store_si512(line, _mm512_alignr_epi32(others, _mm512_set1_epi32((int)front), 15));
    }
}

AVX512 INLINE void move_to_front_8(const struct caches *caches, struct level *level,
                                   struct indexing indexing, size_t count, bool everything)
{
    const __m256i tag_mask = _mm256_set1_epi32((int)TAG_MASK);
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = everything ? caches->touches[i] : caches->names[i];
        uint32_t name = (uint32_t)touch;
        uint32_t *line = &level->stacks[(size_t)set_of(name, indexing) * 8];
        __m256i stack = _mm256_load_si256((const __m256i *)line);
        __m256i wanted = _mm256_set1_epi32((int)name);
        __mmask8 other = _mm256_test_epi32_mask(_mm256_xor_si256(stack, wanted), tag_mask);
        uint32_t depth = (uint32_t)__builtin_ctz(~(uint32_t)other);
        if (everything)
            stack =
                _mm256_mask_and_epi32(stack, (__mmask8)(caches->displaced[i] & 1), stack, tag_mask);
        uint32_t dirty = line[depth < 7 ? depth : 7] & ~TAG_MASK;
        uint32_t front = count_outcome(level, touch, dirty, depth, everything);
        __m256i others = _mm256_maskz_compress_epi32(other, stack);
        _mm256_store_si256((__m256i *)line,
                           _mm256_alignr_epi32(others, _mm256_set1_epi32((int)front), 7));
    }
}

AVX512 INLINE void run_avx512(struct caches *caches, size_t count, struct variant variant)
{
    bool everything = variant.everything;
    for (unsigned i = 0; i < CACHES_LEVELS && count > 0; i++) {
        struct level *level = &caches->levels[i];
        struct indexing indexing = indexing_of(caches, i, variant.shift);
        touch_fronts(caches, level, indexing, count, everything, variant.lanes);
        count = keep_misses_avx512(caches, count, everything);
        if (variant.lanes == 16)
            move_to_front_16(caches, level, indexing, count, everything);
        else if (variant.lanes == 8)
            move_to_front_8(caches, level, indexing, count, everything);
        else
            count_direct_mapped_avx512(caches, level, count, everything);
    }
}

AVX512 void caches_run_avx512(struct caches *caches, size_t count)
{
    run_specialised(caches, count, run_avx512);
}
