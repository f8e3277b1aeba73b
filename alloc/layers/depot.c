/* SPDX-License-Identifier: MIT
 *
 * depot.c: see depot.h.
 */
#include "alloc/layers/depot.h"

#include <stdbool.h>

#include "vm/metadata.h"

enum { RECORDS_AT_ONCE = 16 };

static struct stored_chain *take_record(struct depot *depot)
{
    if (!depot->unused) {
        struct stored_chain *records = metadata_alloc(RECORDS_AT_ONCE * sizeof *records);
        for (int i = 0; records && i < RECORDS_AT_ONCE; i++) {
            records[i].next = depot->unused;
            depot->unused = &records[i];
        }
    }
    struct stored_chain *record = depot->unused;
    if (record)
        depot->unused = record->next;
    return record;
}

/* What ending threads leave is often a block or two: a short chain joins another. */
static bool join(struct stored_chain *stored, struct chain chain)
{
    enum { SHORT = 16 };
    if (!stored || chain.count > SHORT || stored->chain.count + chain.count > chain.longest)
        return false;
    void **last = chain.blocks;
    while (*last)
        last = *last;
    *last = stored->chain.blocks;
    stored->chain.blocks = chain.blocks;
    stored->chain.count += chain.count;
    return true;
}

/* Atomic: depot_get looks without the lock whether a bin is empty. */
static void set_first(struct depot *depot, unsigned bin, struct stored_chain *record)
{
    __atomic_store_n(&depot->bins[bin], record, __ATOMIC_RELAXED);
}

static bool store(struct depot *depot, unsigned bin, struct chain chain)
{
    if (join(depot->bins[bin], chain))
        return true;
    struct stored_chain *record = take_record(depot);
    if (!record)
        return false;
    *record = (struct stored_chain){chain, depot->bins[bin]};
    set_first(depot, bin, record);
    return true;
}

static struct chain take(struct depot *depot, unsigned bin)
{
    struct stored_chain *record = depot->bins[bin];
    if (!record)
        return (struct chain){0};
    struct chain chain = record->chain;
    set_first(depot, bin, record->next);
    record->next = depot->unused;
    depot->unused = record;
    depot->blocks -= chain.count;
    depot->bytes -= chain.count * chain.block_bytes;
    return chain;
}

/* The bins take turns, so that what a program no longer asks for leaves too. */
static struct chain take_any(struct depot *depot)
{
    struct chain chain = {0};
    for (unsigned tries = 0; !chain.blocks && tries < BINS; tries++) {
        chain = take(depot, depot->next_to_leave);
        depot->next_to_leave = (depot->next_to_leave + 1) % BINS;
    }
    return chain;
}

struct chain depot_put(struct depot *depot, unsigned bin, struct chain chain, size_t most)
{
    lock_acquire(&depot->lock);
    if (chain.blocks && store(depot, bin, chain)) {
        depot->blocks += chain.count;
        depot->bytes += chain.count * chain.block_bytes;
        chain = (struct chain){0};
    }
    if (!chain.blocks && depot->bytes > most)
        chain = take_any(depot);
    lock_release(&depot->lock);
    return chain;
}

struct chain depot_get(struct depot *depot, unsigned bin)
{
    struct chain chain = {0};
    /* An empty bin is seen without the lock; what is put in meanwhile may be missed. */
    if (!__atomic_load_n(&depot->bins[bin], __ATOMIC_RELAXED))
        return chain;
    lock_acquire(&depot->lock);
    chain = take(depot, bin);
    lock_release(&depot->lock);
    return chain;
}
