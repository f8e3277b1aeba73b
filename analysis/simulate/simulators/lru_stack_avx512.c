/* SPDX-License-Identifier: MIT
 *
 * lru_stack_avx512.c: the LRU stack's front in three registers, its middle searched sixteen slots
 * at a time.
 */
#include <immintrin.h>

#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/lru_stack_state.h"

enum { LANES = 8 }; /* units in a vector register */

AVX512 static size_t run_front(struct lru_stack *stack, const uint64_t *touches, size_t count)
{
    _Static_assert(FRONT == 16, "two registers of units, one of stamps");
    const __m512i unit_mask = _mm512_set1_epi64(TOUCH_UNIT_MASK);
    __m512i low = _mm512_load_si512(stack->front);
    __m512i high = _mm512_load_si512(stack->front + 8);
    __m512i stamps = _mm512_load_si512(stack->front_stamps);
    uint32_t stamp = stack->front_stamp;
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = touches[i];
        __m512i unit = _mm512_and_si512(_mm512_set1_epi64((long long)touch), unit_mask);
        __mmask16 found = _mm512_kunpackb(_mm512_cmpeq_epi64_mask(high, unit),
                                          _mm512_cmpeq_epi64_mask(low, unit));
        stamp++;
        if (__builtin_expect(_mm512_kortestz(found, found), 0)) {
            __m512i least = _mm512_set1_epi32((int)_mm512_reduce_min_epu32(stamps));
            unsigned slot = (unsigned)__builtin_ctz(_mm512_cmpeq_epi32_mask(stamps, least));
            found = (__mmask16)(1U << slot);
            low = _mm512_mask_mov_epi64(low, (__mmask8)found, unit);
            high = _mm512_mask_mov_epi64(high, (__mmask8)(found >> 8), unit);
            stack->absent[missing++] = (struct absent){touch, slot};
        } else {
            __m512i own = _mm512_broadcastd_epi32(
                _mm512_castsi512_si128(_mm512_maskz_compress_epi32(found, stamps)));
            unsigned larger = _mm512_cmpgt_epu32_mask(stamps, own);
            stack->front_distances[touch_class(touch)][__builtin_popcount(larger)]++;
        }
        stamps = _mm512_mask_set1_epi32(stamps, found, (int)stamp);
    }
    _mm512_store_si512(stack->front, low);
    _mm512_store_si512(stack->front + 8, high);
    _mm512_store_si512(stack->front_stamps, stamps);
    stack->front_stamp = stamp;
    return missing;
}

AVX512 static inline unsigned find_in_middle(const struct lru_stack *stack, uint64_t unit)
{
    const __m512i wanted = _mm512_set1_epi64((long long)unit);
    for (unsigned slot = 0; slot < MIDDLE; slot += 2 * LANES) {
        __mmask8 early = _mm512_cmpeq_epi64_mask(_mm512_load_si512(stack->middle + slot), wanted);
        __mmask8 late =
            _mm512_cmpeq_epi64_mask(_mm512_load_si512(stack->middle + slot + LANES), wanted);
        if (early | late)
            return slot + (unsigned)__builtin_ctz(early | (unsigned)late << LANES);
    }
    return MIDDLE;
}

AVX512 static inline unsigned count_larger(const struct lru_stack *stack, unsigned slot)
{
    const uint32_t *stamps = stack->middle_stamps;
    const __m512i own = _mm512_set1_epi32((int)stamps[slot]);
    unsigned larger = 0;
    for (unsigned i = 0; i < MIDDLE; i += 2 * LANES)
        larger += (unsigned)__builtin_popcount(
            _mm512_cmpgt_epu32_mask(_mm512_load_si512(stamps + i), own));
    return larger;
}

AVX512 static inline unsigned least_recent(const struct lru_stack *stack)
{
    const uint32_t *stamps = stack->middle_stamps;
    __m512i least = _mm512_load_si512(stamps);
    for (unsigned i = 2 * LANES; i < MIDDLE; i += 2 * LANES)
        least = _mm512_min_epu32(least, _mm512_load_si512(stamps + i));
    least = _mm512_set1_epi32((int)_mm512_reduce_min_epu32(least));
    unsigned i = 0;
    __mmask16 found;
    while ((found = _mm512_cmpeq_epi32_mask(least, _mm512_load_si512(stamps + i))) == 0)
        i += 2 * LANES;
    return i + (unsigned)__builtin_ctz(found);
}

AVX512 bool lru_stack_touch_avx512(struct lru_stack *stack, const uint64_t *touches, size_t count)
{
    return look_up(stack, run_front(stack, touches, count),
                   (struct middle_search){find_in_middle, count_larger, least_recent});
}
