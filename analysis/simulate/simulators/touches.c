/* SPDX-License-Identifier: MIT
 *
 * touches.c: one pass over the references, eight at a time where the machine has AVX-512.
 *
 * A group of eight takes the vector path when all are of the current class and none spans more
 * than two units; whatever else comes goes through take_one, which knows every case. In the
 * vector path the units first touched and those touched by straddling are interleaved and the
 * unwanted ones squeezed out, so no branch depends on a reference's address.
 */
#include "analysis/simulate/simulators/touches.h"

#include <immintrin.h>
#include <string.h>

#include "analysis/simulate/simulators/dispatch.h"

void touches_init(struct touch_source *source, uint64_t unit_bytes, bool keep_stores)
{
    memset(source, 0, sizeof *source);
    source->shift = (unsigned)__builtin_ctzll(unit_bytes);
    source->keep_stores = keep_stores;
    source->last_unit = UINT64_MAX;
    source->class_count = 1;
}

/* Appends the touches of one reference at `touches` and returns how many they were. */
static inline size_t take_one(struct touch_source *source, const struct reference *reference,
                              uint64_t *touches)
{
    uint64_t end = reference->address + reference->size - (reference->size != 0);
    uint64_t first = reference->address >> source->shift;
    uint64_t last = end >> source->shift;
    bool store = reference->kind == REFERENCE_STORE;
    struct reference_totals *totals = &source->of_class[reference->class];
    if (totals->references++ == 0 && reference->class != 0)
        source->classes[source->class_count++] = reference->class;
    totals->stores += store;
    totals->touches += last - first + 1;

    uint64_t marks = (uint64_t)reference->class << TOUCH_CLASS_SHIFT;
    bool first_store = false;
    if (source->keep_stores) {
        marks |= store ? TOUCH_STORE : 0;
        first_store = store && !source->last_was_store;
    }
    size_t count = 0;
    touches[count] = first | marks;
    count += first != source->last_unit || first_store;
    for (uint64_t unit = first + 1; unit <= last; unit++)
        touches[count++] = unit | marks;
    source->last_unit = last;
    source->last_was_store = store;
    source->largest_unit = last > source->largest_unit ? last : source->largest_unit;
    return count;
}

/* Converts while the largest reference would still fit in `room`. */
static size_t take_scalar(struct touch_source *source, const struct references *references,
                          size_t *position, uint64_t *touches, size_t room)
{
    size_t count = 0;
    size_t at = *position;
    for (; at < references->count && count + TOUCH_LARGEST_SPAN <= room; at++) {
        const struct reference *reference = &references->reference[at];
        if (reference->address >= REFERENCE_ADDRESS_LIMIT) {
            source->bad_address = reference->address;
            break;
        }
        count += take_one(source, reference, touches + count);
    }
    *position = at;
    return count;
}

enum { GROUP = 8 };

/* What eight references are to the vector path. */
struct group {
    __m512i first, last;
    __mmask8 straddling, stores;
    bool plain; /* the vector path may have it */
};

AVX512 static inline struct group load_group(const struct reference *reference, unsigned shift,
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
AVX512 static inline size_t store_group(__m512i first, __m512i last, unsigned keep,
                                        unsigned straddling, uint64_t *touches)
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

AVX512 static inline uint64_t last_of(__m512i units)
{
    return (uint64_t)_mm_cvtsi128_si64(
        _mm512_castsi512_si128(_mm512_alignr_epi64(units, units, 7)));
}

AVX512 static inline void note_largest(struct touch_source *source, __m512i units)
{
    uint64_t largest = _mm512_reduce_max_epu64(units);
    source->largest_unit = largest > source->largest_unit ? largest : source->largest_unit;
}

AVX512 static size_t take_avx512(struct touch_source *source, const struct references *references,
                                 size_t *position, uint64_t *touches)
{
    /* Vector stores write whole groups: two of them may lie beyond what counts. */
    const size_t limit = TOUCH_CAPACITY - TOUCH_LARGEST_SPAN - 2 * GROUP;
    const unsigned store_mask = source->keep_stores ? 0xff : 0;
    unsigned class = 0;
    __m512i class_vector = _mm512_setzero_si512();
    __m512i last = _mm512_set1_epi64((long long)source->last_unit);
    __m512i largest = _mm512_setzero_si512();
    unsigned last_store = source->last_was_store;
    size_t count = 0;
    size_t at = *position;
    for (; references->count - at >= GROUP && count <= limit; at += GROUP) {
        struct group group = load_group(references->reference + at, source->shift, class_vector);
        if (__builtin_expect(!group.plain, 0)) {
            struct references eight = *references;
            eight.count = at + GROUP;
            source->last_unit = last_of(last);
            source->last_was_store = last_store;
            *position = at;
            count += take_scalar(source, &eight, position, touches + count, TOUCH_CAPACITY - count);
            if (*position < eight.count) {
                note_largest(source, largest);
                return count;
            }
            last = _mm512_set1_epi64((long long)source->last_unit);
            last_store = source->last_was_store;
            class = references->reference[at + GROUP - 1].class;
            class_vector = _mm512_set1_epi64(class);
            continue;
        }
        unsigned stores = group.stores;
        struct reference_totals *totals = &source->of_class[class];
        totals->references += GROUP;
        totals->stores += (unsigned)__builtin_popcount(stores);
        totals->touches += GROUP + (unsigned)__builtin_popcount(group.straddling);

        unsigned same =
            _mm512_cmpeq_epu64_mask(group.first, _mm512_alignr_epi64(group.last, last, 7));
        unsigned first_stores = stores & ~(stores << 1 | last_store) & store_mask;
        unsigned keep = (~same | first_stores) & 0xff;
        last = group.last;
        largest = _mm512_max_epu64(largest, last);
        last_store = stores >> 7;
        __m512i all_marks =
            _mm512_or_si512(_mm512_slli_epi64(class_vector, TOUCH_CLASS_SHIFT),
                            _mm512_maskz_set1_epi64((__mmask8)(stores & store_mask), TOUCH_STORE));
        count += store_group(_mm512_or_si512(group.first, all_marks),
                             _mm512_or_si512(group.last, all_marks), keep, group.straddling,
                             touches + count);
    }
    source->last_unit = last_of(last);
    source->last_was_store = last_store;
    note_largest(source, largest);
    *position = at;
    /* What is left of the batch, less than a group. */
    return count + take_scalar(source, references, position, touches + count,
                               count <= limit ? TOUCH_CAPACITY - count : 0);
}

size_t touches_take(struct touch_source *source, const struct references *references,
                    size_t *position, uint64_t *touches)
{
    if (dispatch_avx512())
        return take_avx512(source, references, position, touches);
    return take_scalar(source, references, position, touches, TOUCH_CAPACITY);
}
