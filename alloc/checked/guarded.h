/* SPDX-License-Identifier: MIT
 *
 * guarded.h: large blocks, between pages without access; see guarded.c.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_GUARDED_H
#define ALLOTROPE_ALLOC_CHECKED_GUARDED_H

#include "alloc/checked/slots.h"

enum large_wish {
    LARGE_PLAIN,
    LARGE_ZERO,
    LARGE_TO_GROW, /* with an eighth more to grow into */
};

/* alignment: a power of two, at least 16. NULL: no memory, and refuse_memory() was called. */
void *guarded_alloc(size_t alignment, size_t size, unsigned how, const void *site,
                    enum large_wish wish);
/* Makes a block of what `blocks` has made large by itself, during a fork. */
void *guarded_enter_found(struct slab *slab, size_t size, unsigned how, const void *site);

/* slab: large, of any address within. */
void guarded_free(struct slab *slab, const struct freeing *freeing);
/* Whether the address is the start of a live block of the slab; its facts, dead or alive. */
bool guarded_is_live(struct slab *slab, const void *address);
struct block_facts guarded_facts(struct slab *slab);
/* Another size where the block is. False: it must move. */
bool guarded_resize_in_place(struct slab *slab, size_t size);
/* However small: for where there is no memory to move the block. */
void guarded_shrink(struct slab *slab, size_t size);

/* Gives the freed blocks that wait back to the heap. False: there was none. */
bool guarded_drain(void);
/* How many wait, and their bytes with guards: what another thread gives back meanwhile may be
 * counted. */
void guarded_count_waiting(uint64_t *blocks, uint64_t *bytes);

/* Reports a live block that was written before its start or behind its end. function: as in
 * report_misuse(). */
void guarded_look(struct slab *slab, const char *function);

/* As fault_reporter (faults.h). */
bool guarded_report_fault(const char *access, const void *address, const void *at);

#endif
