/* SPDX-License-Identifier: MIT
 *
 * candidates.h: which words may be pointers into the heap, four halves of words at a time (SSE2,
 * which every x86-64 has).
 *
 * A pointer may begin at any multiple of four bytes, because compilers put one there when the
 * program packs its structures (ruby's buffers of files). So memory is looked at as halves of
 * words:
 *
 *     address    at        at + 4    at + 8    at + 12
 *     halves   | lower   | upper   | lower   | upper   |      a word that begins at a multiple of 8
 *                        | lower   | upper   |                one that does not
 *
 * The addresses in the heap have few upper halves, mostly one or two. A vector of four halves holds
 * no pointer if none of the four is one of these. That is the common case, and costs a subtraction
 * and a comparison. Otherwise a word is put together and compared with the bounds.
 *
 * In scalar terms: upper_halves tells for each half whether half - low_half < half_span; candidates
 * tells the same, or that the half may be the lower one of a word that setjmp has mangled.
 *
 * setjmp: glibc keeps rbp, rsp and the return address in a jmp_buf rotated and combined with a
 * secret (PTR_MANGLE). rbp may hold any pointer of the program. An address has 47 bits, so the top
 * bits of the secret stand in the lower half of a mangled word as they are.
 */
#ifndef ALLOTROPE_GC_MARK_CANDIDATES_H
#define ALLOTROPE_GC_MARK_CANDIDATES_H

#include <emmintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    PACKED_BYTES = 4, /* where words lie, at least */
    VECTOR_BYTES = 16,
    STRIDE_BYTES = 64, /* looked at in one go where there is no pointer */
    ADDRESS_BITS = 47,
};

/* Vectors are compared as signed numbers, so all bounds of halves have this bit turned. */
static const uint32_t SIGN = UINT32_C(1) << 31;

/* What words are compared with. */
struct heap_bounds {
    uintptr_t low, span;         /* where blocks are */
    uintptr_t guard;             /* setjmp's secret */
    __m128i low_half, half_span; /* of the upper halves of addresses there, with the sign turned */
    __m128i guard_top;           /* the secret's top bits, in every half */
};

/* Every thread has the same secret, at fs:0x30. */
static inline uintptr_t pointer_guard(void)
{
    uintptr_t guard;
    __asm__("mov %%fs:0x30, %0" : "=r"(guard));
    return guard;
}

static inline struct heap_bounds heap_bounds_of(uintptr_t low, uintptr_t span)
{
    uint32_t low_half = (uint32_t)(low >> 32), high_half = (uint32_t)((low + span) >> 32);
    return (struct heap_bounds){
        .low = low,
        .span = span,
        .guard = pointer_guard(),
        .low_half = _mm_set1_epi32((int32_t)(low_half ^ SIGN)),
        .half_span = _mm_set1_epi32((int32_t)((high_half - low_half + 1) ^ SIGN)),
        .guard_top = _mm_set1_epi32((int32_t)(pointer_guard() >> ADDRESS_BITS)),
    };
}

static inline bool may_point_to_block(const struct heap_bounds *bounds, uintptr_t word)
{
    return word - bounds->low < bounds->span;
}

/* What setjmp made the word of. */
static inline uintptr_t demangled(uintptr_t word, uintptr_t guard)
{
    return (word >> (64 - ADDRESS_BITS) | word << ADDRESS_BITS) ^ guard;
}

static inline uintptr_t word_at(const char *address)
{
    uintptr_t word;
    memcpy(&word, address, sizeof word);
    return word;
}

static inline __m128i halves_at(const char *address)
{
    return _mm_loadu_si128((const __m128i *)(const void *)address);
}

/* All bits of a half are set where it may be the upper half of an address in the heap. */
static inline __m128i upper_candidates(const struct heap_bounds *bounds, __m128i halves)
{
    return _mm_cmplt_epi32(_mm_sub_epi32(halves, bounds->low_half), bounds->half_span);
}

/* Like upper_candidates(), but the result has one bit for each half. */
static inline unsigned upper_halves(const struct heap_bounds *bounds, __m128i halves)
{
    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(upper_candidates(bounds, halves)));
}

/* All bits of a half are set where it may be the upper one of a pointer, or the lower one of a
 * mangled word. */
static inline __m128i candidates(const struct heap_bounds *bounds, __m128i halves)
{
    const __m128i low_bits = _mm_set1_epi32((1 << (64 - ADDRESS_BITS)) - 1);
    __m128i mangled = _mm_cmpeq_epi32(_mm_and_si128(halves, low_bits), bounds->guard_top);
    return _mm_or_si128(mangled, upper_candidates(bounds, halves));
}

/* Like candidates(), but the result has one bit for each half. */
static inline unsigned candidate_halves(const struct heap_bounds *bounds, __m128i halves)
{
    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(candidates(bounds, halves)));
}

static inline bool any_is_set(__m128i first, __m128i second, __m128i third, __m128i fourth)
{
    __m128i any = _mm_or_si128(_mm_or_si128(first, second), _mm_or_si128(third, fourth));
    return _mm_movemask_epi8(any) != 0;
}

/* Whether there is any in STRIDE_BYTES. */
static inline bool has_candidates(const struct heap_bounds *bounds, const char *stride)
{
    __m128i first = candidates(bounds, halves_at(stride));
    __m128i second = candidates(bounds, halves_at(stride + VECTOR_BYTES));
    __m128i third = candidates(bounds, halves_at(stride + 2 * VECTOR_BYTES));
    __m128i fourth = candidates(bounds, halves_at(stride + 3 * VECTOR_BYTES));
    return any_is_set(first, second, third, fourth);
}

/* The bytes that has_candidates_anywhere() reads from `at` on: all words that begin in
 * VECTOR_BYTES. */
enum { ANYWHERE_BYTES = VECTOR_BYTES + sizeof(uintptr_t) - 1 };

/* Whether a word that begins in VECTOR_BYTES, at any of them, may be a pointer. */
static inline bool has_candidates_anywhere(const struct heap_bounds *bounds, const char *at)
{
    const char *upper = at + sizeof(uintptr_t) / 2;
    __m128i first = upper_candidates(bounds, halves_at(upper));
    __m128i second = upper_candidates(bounds, halves_at(upper + 1));
    __m128i third = upper_candidates(bounds, halves_at(upper + 2));
    __m128i fourth = upper_candidates(bounds, halves_at(upper + 3));
    return any_is_set(first, second, third, fourth);
}

#endif
