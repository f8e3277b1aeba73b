/* SPDX-License-Identifier: MIT
 *
 * touches_avx512.c: references turned into touches, eight at a time.
 *
 * A group of eight takes the vector path when all are of the current class and none spans more
 * than two units; whatever else comes goes through touches_take_scalar, which knows every case. In
 * the vector path the units first touched and those touched by straddling are interleaved and the
 * unwanted ones squeezed out, so no branch depends on a reference's address.
 */
#include <immintrin.h>

#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/touches_state.h"

enum { GROUP = 8 };

/* Where the vector path stands, in registers; the source knows it only after leave_vectors(). */
struct progress {
    __m512i last;         /* the units that the references of the last group ended in */
    __m512i largest;      /* the largest units, lane by lane */
    __m512i class_vector; /* the current class, in each lane */
    unsigned class;
    unsigned last_store; /* 1 after a store, else 0 */
    unsigned store_mask; /* all ones where stores matter */
};

/* What eight references are to the vector path. */
struct group {
    __m512i first, last;
    __mmask8 straddling, stores;
    bool plain; /* the vector path may have it */
};

AVX512 INLINE struct group load_group(const struct reference *reference, unsigned shift,
                                      __m512i class)
{
    const __m512i evens = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    const __m512i odds = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    __m512i early = _mm512_loadu_si512(reference);
    __m512i late = _mm512_loadu_si512(reference + GROUP / 2);
    __m512i address = _mm512_permutex2var_epi64(early, evens, late);
    /* | class 63..56 | kind 55..48 | size 47..32 | function 31..0 | */
    __m512i rest = _mm512_permutex2var_epi64(early, odds, late);

    struct group group;
    __m512i size = _mm512_and_si512(_mm512_srli_epi64(rest, 32), _mm512_set1_epi64(0xffff));
    __m512i end = _mm512_add_epi64(address, _mm512_sub_epi64(size, _mm512_set1_epi64(1)));
    __m128i shift_vector = _mm_cvtsi32_si128((int)shift);
    group.first = _mm512_srl_epi64(address, shift_vector);
    group.last = _mm512_srl_epi64(end, shift_vector);
    group.straddling = _mm512_cmpneq_epu64_mask(group.first, group.last);
    group.stores = _mm512_test_epi64_mask(rest, _mm512_set1_epi64(1LL << 48));
    __m512i span = _mm512_sub_epi64(group.last, group.first);
    __mmask8 odd = _mm512_cmpgt_epu64_mask(span, _mm512_set1_epi64(1)) |
                   _mm512_cmpge_epu64_mask(address, _mm512_set1_epi64(REFERENCE_ADDRESS_LIMIT)) |
                   _mm512_cmpneq_epu64_mask(_mm512_srli_epi64(rest, 56), class);
    group.plain = odd == 0;
    return group;
}

/* Writes first touches (where `keep` says) and second touches (where `straddling` says) in the
 * references' order. Returns how many. */
AVX512 INLINE size_t store_group(__m512i first, __m512i last, unsigned keep, unsigned straddling,
                                 uint64_t *touches)
{
    if (straddling == 0) {
        _mm512_storeu_si512(touches, _mm512_maskz_compress_epi64((__mmask8)keep, first));
        return (size_t)__builtin_popcount(keep);
    }
    const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
    const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    unsigned both = _pdep_u32(keep, 0x5555) | _pdep_u32(straddling, 0xaaaa);
    __m512i early = _mm512_permutex2var_epi64(first, low, last);
    __m512i late = _mm512_permutex2var_epi64(first, high, last);
    size_t count = (size_t)__builtin_popcount(both & 0xff);
    _mm512_storeu_si512(touches, _mm512_maskz_compress_epi64((__mmask8)both, early));
    _mm512_storeu_si512(touches + count, _mm512_maskz_compress_epi64((__mmask8)(both >> 8), late));
    return count + (size_t)__builtin_popcount(both >> 8);
}

AVX512 INLINE void enter_vectors(struct progress *progress, const struct touch_source *source,
                                 unsigned class)
{
    progress->last = _mm512_set1_epi64((long long)source->last_unit);
    progress->last_store = source->last_was_store;
    progress->class = class;
    progress->class_vector = _mm512_set1_epi64(class);
}

AVX512 INLINE void leave_vectors(const struct progress *progress, struct touch_source *source)
{
    __m512i last = _mm512_alignr_epi64(progress->last, progress->last, 7);
    source->last_unit = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(last));
    source->last_was_store = progress->last_store;
}

AVX512 INLINE void note_largest(const struct progress *progress, struct touch_source *source)
{
    uint64_t largest = _mm512_reduce_max_epu64(progress->largest);
    source->largest_unit = largest > source->largest_unit ? largest : source->largest_unit;
}

/* A plain group. Returns how many touches it made. */
AVX512 INLINE size_t take_group(struct progress *progress, struct touch_source *source,
                                const struct group *group, uint64_t *touches)
{
    unsigned stores = group->stores;
    struct reference_totals *totals = &source->of_class[progress->class];
    totals->references += GROUP;
    totals->stores += (unsigned)__builtin_popcount(stores);
    totals->touches += GROUP + (unsigned)__builtin_popcount(group->straddling);

    unsigned same =
        _mm512_cmpeq_epu64_mask(group->first, _mm512_alignr_epi64(group->last, progress->last, 7));
    unsigned first_stores = stores & ~(stores << 1 | progress->last_store) & progress->store_mask;
    unsigned keep = (~same | first_stores) & 0xff;
    progress->last = group->last;
    progress->largest = _mm512_max_epu64(progress->largest, group->last);
    progress->last_store = stores >> 7;
    __m512i marks = _mm512_or_si512(
        _mm512_slli_epi64(progress->class_vector, TOUCH_CLASS_SHIFT),
        _mm512_maskz_set1_epi64((__mmask8)(stores & progress->store_mask), TOUCH_STORE));
    return store_group(_mm512_or_si512(group->first, marks), _mm512_or_si512(group->last, marks),
                       keep, group->straddling, touches);
}

AVX512 size_t touches_take_avx512(struct touch_source *source, const struct references *references,
                                  size_t *position, uint64_t *touches)
{
    /* Vector stores write whole groups: two of them may lie beyond what counts. */
    const size_t limit = TOUCH_CAPACITY - TOUCH_LARGEST_SPAN - 2 * GROUP;
    struct progress progress = {.largest = _mm512_setzero_si512(),
                                .store_mask = source->keep_stores ? 0xff : 0};
    enter_vectors(&progress, source, 0);
    size_t count = 0;
    size_t at = *position;
    for (; references->count - at >= GROUP && count <= limit; at += GROUP) {
        struct group group =
            load_group(references->reference + at, source->shift, progress.class_vector);
        if (__builtin_expect(group.plain, 1)) {
            count += take_group(&progress, source, &group, touches + count);
            continue;
        }
        struct references eight = *references;
        eight.count = at + GROUP;
        leave_vectors(&progress, source);
        *position = at;
        count +=
            touches_take_scalar(source, &eight, position, touches + count, TOUCH_CAPACITY - count);
        if (*position < eight.count) {
            note_largest(&progress, source);
            return count;
        }
        enter_vectors(&progress, source, references->reference[at + GROUP - 1].class);
    }
    leave_vectors(&progress, source);
    note_largest(&progress, source);
    *position = at;
    /* What is left of the batch, less than a group. */
    return count + touches_take_scalar(source, references, position, touches + count,
                                       count <= limit ? TOUCH_CAPACITY - count : 0);
}
