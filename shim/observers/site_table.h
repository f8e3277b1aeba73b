/* SPDX-License-Identifier: MIT
 *
 * site_table.h: what the sampled allocations of each allocation site add up to.
 *
 * Two hash tables in memory of their own: of the sites, which only grow, and of the sampled blocks
 * that are live.
 *
 * What each site held at the peak is known without a copy of the table. A new peak only counts up
 * the table's epoch. A site that changes afterwards first saves what it holds as its share of that
 * peak (save_peak):
 *
 *   site's epoch = table's epoch    it has changed since the peak; its share is `peak`
 *   otherwise                       it has not changed since; its share is `live`
 *
 * A signal handler may have interrupted who holds the lock, and end the process: it may read the
 * sites, and nothing else ([whole sites], site_table.c).
 *
 * The caller holds a lock round every function but site_table_may_hold(), which reads the filter
 * without one. Writer of a filter's count: whoever holds the lock. Reader: a thread that frees a
 * block. The count was raised before the program was handed the block, and falls only after its
 * free: so the reader never misses a sampled block. A count that is too high only costs a look-up.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_SITE_TABLE_H
#define ALLOTROPE_SHIM_OBSERVERS_SITE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILTER_BITS = 15 };

/* Estimates: sums of weights. */
struct tally {
    double blocks, bytes;
};

struct site {
    uint64_t hash; /* of the frames */
    const void **frames;
    uint32_t depth;
    uint64_t epoch;
    struct tally total, live, peak;
    struct tally temporary; /* their frees were the next that their threads asked for */
};

struct sampled_block {
    uintptr_t hidden; /* the block's address inverted, so that no collector takes it for a pointer
                         to the block; 0: the slot is free */
    uint32_t site;    /* index into the sites */
    uint64_t bytes;
    double weight;
    uint64_t born; /* ticks of the processor's time-stamp counter */
};

enum { LIFETIME_BUCKETS = 64 };

struct site_table {
    struct site *sites;
    size_t site_room, site_count; /* room: a power of two */
    uint32_t *slots;              /* by hash: 1 + index into sites, 0 free; twice the room */
    struct sampled_block *blocks;
    size_t block_room, block_count;
    double live_bytes, peak_bytes;
    uint64_t epoch;
    uint64_t lost; /* samples that there was no memory for */
    /* What was freed, by how long it lived: from 2^i ticks to below 2^(i+1); 0 and 1 in the
     * first. */
    struct tally lifetimes[LIFETIME_BUCKETS];
    /* How many sampled blocks fall on each index; a count that reaches 255 stays there. */
    _Atomic uint8_t filter[1 << FILTER_BITS];
};

/* `allotrope sites --pid` reads the table from outside (features/sites/snapshot.py) and knows these
 * structures as they are; one that changes takes another number in the name by which the table is
 * published (sites.c). */
_Static_assert(sizeof(struct site) == 96 && sizeof(struct sampled_block) == 40 &&
                   offsetof(struct site_table, lost) == 80,
               "the table's reader knows another layout");

static inline size_t filter_index(const void *block)
{
    return (uintptr_t)block / 16 * UINT64_C(0x9E3779B97F4A7C15) >> (64 - FILTER_BITS);
}

/* False: it is no sampled block. Any thread that may free the block. */
static inline bool site_table_may_hold(const struct site_table *table, const void *block)
{
    return atomic_load_explicit(&table->filter[filter_index(block)], memory_order_relaxed) != 0;
}

/* The site with these return addresses, made if need be: 1 + its index, which it keeps. 0: no
 * memory. */
uint32_t site_table_site(struct site_table *table, const void *const *frames, uint32_t depth);

/* Enters a live block of `bytes` that stands for `weight` blocks of its kind. now: ticks. True when
 * the sum of live bytes thereby reaches a new peak. */
bool site_table_add(struct site_table *table, uint32_t site, const void *block, uint64_t bytes,
                    double weight, uint64_t now);

/* Takes a block out and returns it; its `hidden` is 0 if it was not there. */
struct sampled_block site_table_remove(struct site_table *table, const void *block);

/* NULL: it is not there. Until the table changes. */
const struct sampled_block *site_table_find(const struct site_table *table, const void *block);

/* Counts the end of a block that site_table_remove() returned. now: ticks. */
void site_table_count_end(struct site_table *table, const struct sampled_block *removed,
                          uint64_t now, bool is_temporary);

/* Undoes site_table_remove(). */
void site_table_restore(struct site_table *table, const struct sampled_block *removed);

/* What the site held at the peak. */
static inline struct tally site_at_peak(const struct site_table *table, const struct site *site)
{
    return site->epoch == table->epoch ? site->peak : site->live;
}

#endif
