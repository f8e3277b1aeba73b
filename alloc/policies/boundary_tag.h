/* SPDX-License-Identifier: MIT
 *
 * boundary_tag.h: size and state of a block in a word that knows where it stands.
 *
 *   | 24 bits: magic | 37 bits: size / 8 | 3 bits: state |
 *
 * A size is a multiple of 8 and leaves the low bits to the state. The magic is a part of the
 * word's own address; it tells a tag from ordinary data, a stale copy or an interior pointer at the
 * cost of a shift and without a further memory reference. (header_magic.h does the same for words
 * that hold no size.)
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_BOUNDARY_TAG_H
#define ALLOTROPE_ALLOC_POLICIES_BOUNDARY_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/message.h"

enum tag_state {
    TAG_FREE = 3,
    TAG_LIVE = 5,
    TAG_FENCEPOST = 6, /* where a heap's memory begins or ends */
    /* As LIVE and FENCEPOST, where the block below is free (tagged_heap.c). */
    TAG_AFTER_FREE = 1, /* exclusive or */
    TAG_LIVE_AFTER_FREE = TAG_LIVE ^ TAG_AFTER_FREE,
    TAG_FENCEPOST_AFTER_FREE = TAG_FENCEPOST ^ TAG_AFTER_FREE,
};

enum { TAG_BYTES = 8, TAG_SIZE_BITS = 40, TAG_STATE_MASK = 7 };

/* A tag's address is a multiple of 8: bits 3 to 26 of it go to the top, zeros to the rest. */
static inline uint64_t tag_magic(const void *tag)
{
    return (uint64_t)(uintptr_t)tag << (TAG_SIZE_BITS - 3);
}

/* size: a multiple of 8 below 2^40. */
static inline void tag_write(void *tag, size_t size, enum tag_state state)
{
    *(uint64_t *)tag = tag_magic(tag) | size | (uint64_t)state;
}

/* The tag without its magic: its state is the low 3 bits, its size the rest. A damaged tag is
 * recognised by tag_is_intact. */
static inline uint64_t tag_read(const void *tag)
{
    return *(const uint64_t *)tag ^ tag_magic(tag);
}

static inline bool tag_is_intact(uint64_t opened)
{
    return opened >> TAG_SIZE_BITS == 0;
}

static inline size_t tag_size(uint64_t opened)
{
    return opened & ~(uint64_t)TAG_STATE_MASK;
}

/* The state of a tag that tag_read() has returned. The result may be any state if the tag is
 * damaged. Whoever looks for one state calls tag_is() instead. */
static inline enum tag_state tag_state(uint64_t opened)
{
    return (enum tag_state)(opened & TAG_STATE_MASK);
}

static inline bool tag_is(uint64_t opened, enum tag_state state)
{
    return tag_is_intact(opened) && tag_state(opened) == state;
}

/* For a tag of the heap's own, which only an overrun can have damaged. */
_Noreturn static inline void report_damaged_tag(const void *tag)
{
    abort_on_pointer_fault("boundary tag", tag, "overwritten, probably by a block beside it");
}

#endif
