/* SPDX-License-Identifier: MIT
 *
 * trailer.h: the canary at each slot's end, which also says what is known of the block in it.
 *
 * A trailer is a word of eight bytes, made of the block's address and of what is known of the
 * block. A write behind the block, or before the next one, changes the word, and it is no trailer
 * any more.
 *
 *     slot   | the program's bytes ........ | slack | trailer |  next slot
 *                                             up to 32 bytes of SLACK_BYTE, then anything
 *
 *     trailer, decoded     bits  1-15   slack: bytes between the program's and the trailer
 *                               16-30   allocation site, an index (sites.h)
 *                               31      the block is dead
 *                               32-46   dead: the free's site; live: operator and alignment
 *                               47-63   zero: the check
 *
 *     in memory    byte 0     0x80 | seven bits of hash
 *                  bytes 1-7  ((decoded ^ hash) * factor) modulo 2^56
 *
 *     hash = address * address_factor; the factors are secret and odd
 *
 *     change of                      is missed
 *     byte 0, next to the block      never: any wrong value sets bits of the check
 *     byte 7, next to the next one   never: all its changes fall on the check
 *     another byte                   once in 2^9: nine bits of the check must be zero by chance
 *     several, without byte 0        once in 2^9 at most
 *     several, with byte 0           once in 2^16 at most: its seven bits of hash must be met, too
 *
 * Byte 0 is neither text nor zero: a string that is a byte too long always changes it.
 *
 * Zero in memory is no trailer: the slot has not been handed out since its slab was made.
 *
 * Writer: whoever allocates or frees the block, whole words. A word that was a trailer once stays
 * one, so any thread may look at a neighbour's at any time: [always a trailer] (checked.h).
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_TRAILER_H
#define ALLOTROPE_ALLOC_CHECKED_TRAILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRAILER_BYTES = 8, SLACK_CHECKED = 32, SLACK_BYTE = 0xC5, TRAILER_CHECK_SHIFT = 47 };

/* Which function allocated a block, or frees it. */
enum block_operator { BY_MALLOC, BY_NEW, BY_NEW_ARRAY };

struct trailer_secret {
    uint64_t address_factor, factor, inverse; /* factor * inverse = 1 modulo 2^64 */
};

extern struct trailer_secret trailer_secret __attribute__((visibility("hidden")));

static inline uint64_t trailer_live(size_t slack, uint32_t site, unsigned how)
{
    return (uint64_t)slack << 1 | (uint64_t)site << 16 | (uint64_t)how << 32;
}

static inline uint64_t trailer_dead(uint64_t live, uint32_t free_site)
{
    return (live & UINT64_C(0x7FFFFFFE)) | UINT64_C(1) << 31 | (uint64_t)free_site << 32;
}

static inline size_t trailer_slack(uint64_t decoded)
{
    return decoded >> 1 & 0x7FFF;
}

static inline uint32_t trailer_site(uint64_t decoded)
{
    return decoded >> 16 & 0x7FFF;
}

static inline bool trailer_is_dead(uint64_t decoded)
{
    return (decoded >> 31 & 1) != 0;
}

/* Dead: the free's site. Live: operator and alignment, as trailer_live was handed it. */
static inline uint32_t trailer_detail(uint64_t decoded)
{
    return decoded >> 32 & 0x7FFF;
}

static inline bool trailer_is_valid(uint64_t decoded)
{
    return decoded >> TRAILER_CHECK_SHIFT == 0;
}

static inline uint64_t trailer_first_byte(uint64_t hash)
{
    return 0x80 | hash >> 57;
}

static inline uint64_t trailer_encode(const void *block, uint64_t decoded)
{
    uint64_t hash = (uintptr_t)block * trailer_secret.address_factor;
    return (decoded ^ hash) * trailer_secret.factor << 8 | trailer_first_byte(hash);
}

/* A first byte that is wrong sets bits of the check. */
static inline uint64_t trailer_decode(const void *block, uint64_t word)
{
    uint64_t hash = (uintptr_t)block * trailer_secret.address_factor;
    uint64_t decoded = ((word >> 8) * trailer_secret.inverse ^ hash) << 8 >> 8;
    return decoded | ((word & 0xFF) ^ trailer_first_byte(hash)) << 56;
}

/* With byte 0 as it should be: what the trailer said before the byte next to the block changed. */
static inline uint64_t trailer_decode_mended(const void *block, uint64_t word)
{
    uint64_t hash = (uintptr_t)block * trailer_secret.address_factor;
    return trailer_decode(block, (word & ~UINT64_C(0xFF)) | trailer_first_byte(hash));
}

static inline uint64_t *trailer_of(const void *block, size_t slot_bytes)
{
    return (uint64_t *)(uintptr_t)((const char *)block + slot_bytes - TRAILER_BYTES);
}

static inline uint64_t trailer_load(const void *block, size_t slot_bytes)
{
    return __atomic_load_n(trailer_of(block, slot_bytes), __ATOMIC_RELAXED);
}

static inline void trailer_store(void *block, size_t slot_bytes, uint64_t decoded)
{
    __atomic_store_n(trailer_of(block, slot_bytes), trailer_encode(block, decoded),
                     __ATOMIC_RELEASE);
}

/* Draws the secrets. */
void trailer_init(void);

#endif
