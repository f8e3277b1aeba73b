/* SPDX-License-Identifier: MIT
 *
 * site_table.h: what sampled allocations add up to, by the stack they came from.
 *
 * Two hash tables in memory of their own: of sites, which only grow, and of the sampled blocks
 * that are live. What each site held when all held most is known without ever copying the table:
 * a new peak only counts up an epoch, and a site that changes afterwards first puts aside what it
 * held until then.
 *
 * All but site_table_may_hold() are called under the table's lock.
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
    uint64_t hash; /* of the frames; 0: this place of the table is free */
    const void **frames;
    uint32_t depth;
    uint64_t epoch;
    struct tally total, live, peak;
};

struct sampled_block {
    uintptr_t hidden; /* the block's address inverted, so that no collector takes it for a pointer
                         to the block; 0: free place */
    uint32_t site;    /* index into the sites */
    uint64_t bytes;
    double weight;
};

struct site_table {
    struct site *sites;
    size_t site_room, site_count; /* room: a power of two */
    uint32_t *places;             /* by hash: 1 + index into sites, 0 free; twice the room */
    struct sampled_block *blocks;
    size_t block_room, block_count;
    double live_bytes, peak_bytes;
    uint64_t epoch;
    uint64_t lost; /* samples that there was no memory for */
    /* How many sampled blocks fall on each place; counts that reach 255 stay there. */
    _Atomic uint8_t filter[1 << FILTER_BITS];
};

static inline size_t filter_place(const void *block)
{
    return (uintptr_t)block / 16 * UINT64_C(0x9E3779B97F4A7C15) >> (64 - FILTER_BITS);
}

/* False: it is no sampled block. Any thread that may free the block, no lock. */
static inline bool site_table_may_hold(const struct site_table *table, const void *block)
{
    return atomic_load_explicit(&table->filter[filter_place(block)], memory_order_relaxed) != 0;
}

/* The site with these frames, made if need be: 1 + its index, which it keeps. 0: no memory. */
uint32_t site_table_site(struct site_table *table, const void *const *frames, uint32_t depth);

/* Enters a block of `bytes` that stands for `weight` of its kind. True when all that is live has
 * thereby reached a new peak. */
bool site_table_add(struct site_table *table, uint32_t site, const void *block, uint64_t bytes,
                    double weight);

/* Takes a block out and returns what it was; its `hidden` is 0 if it is not there. */
struct sampled_block site_table_remove(struct site_table *table, const void *block);

/* Undoes site_table_remove(). */
void site_table_restore(struct site_table *table, const struct sampled_block *removed);

/* What the site held when the table held most. */
static inline struct tally site_at_peak(const struct site_table *table, const struct site *site)
{
    return site->epoch == table->epoch ? site->peak : site->live;
}

#endif
