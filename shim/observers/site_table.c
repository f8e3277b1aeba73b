/* SPDX-License-Identifier: MIT
 *
 * site_table.c: see site_table.h.
 *
 * Open addressing with linear probing; tables double when they are half full (Knuth, TAOCP vol. 3,
 * 6.4, algorithms L and R).
 *
 * [whole sites]: the first `site_count` of `sites` can be read at any moment in a signal handler of
 * the thread that has the lock. A larger array is complete before it takes the place of the one
 * before, which is unmapped after that.
 */
#include "shim/observers/site_table.h"

#include <string.h>

#include "vm/pages.h"

enum { FIRST_SITES = 1024, FIRST_BLOCKS = 4096 };

static void *map(size_t bytes)
{
    return pages_map(round_up(bytes, PAGE_BYTES), PAGE_BYTES);
}

static void unmap(void *memory, size_t bytes)
{
    if (memory)
        pages_unmap(memory, round_up(bytes, PAGE_BYTES));
}

/* Sites. */

static uint64_t hash_of(const void *const *frames, uint32_t depth)
{
    uint64_t hash = depth + 1;
    for (uint32_t i = 0; i < depth; i++) {
        hash = (hash ^ (uintptr_t)frames[i]) * UINT64_C(0xFF51AFD7ED558CCD);
        hash ^= hash >> 32;
    }
    return hash ? hash : 1;
}

static void enter_slot(struct site_table *table, uint32_t index)
{
    size_t mask = 2 * table->site_room - 1;
    size_t slot = table->sites[index].hash & mask;
    while (table->slots[slot])
        slot = (slot + 1) & mask;
    table->slots[slot] = index + 1;
}

static bool grow_sites(struct site_table *table)
{
    size_t room = table->site_room ? 2 * table->site_room : FIRST_SITES;
    struct site *sites = map(room * sizeof *sites);
    uint32_t *slots = map(2 * room * sizeof *slots);
    if (!sites || !slots) {
        unmap(sites, room * sizeof *sites);
        unmap(slots, 2 * room * sizeof *slots);
        return false;
    }
    struct site_table old = {
        .sites = table->sites, .slots = table->slots, .site_room = table->site_room};
    if (table->site_count > 0)
        memcpy(sites, old.sites, table->site_count * sizeof *sites);
    atomic_signal_fence(memory_order_seq_cst);
    table->sites = sites;
    atomic_signal_fence(memory_order_seq_cst);
    unmap(old.sites, old.site_room * sizeof *sites);
    unmap(old.slots, 2 * old.site_room * sizeof *slots);
    table->slots = slots;
    table->site_room = room;
    for (uint32_t i = 0; i < table->site_count; i++)
        enter_slot(table, i);
    return true;
}

/* Frames are kept for ever, in pieces of 64 KiB. */
static const void **keep_frames(const void *const *frames, uint32_t depth)
{
    static const void **piece;
    static size_t left;
    enum { PIECE = 65536 / sizeof(void *) };
    if (left < depth) {
        piece = map(PIECE * sizeof *piece);
        left = piece ? PIECE : 0;
    }
    if (!piece)
        return NULL;
    const void **kept = piece;
    memcpy(kept, frames, depth * sizeof *kept);
    piece += depth;
    left -= depth;
    return kept;
}

static bool is_same(const struct site *site, uint64_t hash, const void *const *frames,
                    uint32_t depth)
{
    return site->hash == hash && site->depth == depth &&
           memcmp(site->frames, frames, depth * sizeof *frames) == 0;
}

uint32_t site_table_site(struct site_table *table, const void *const *frames, uint32_t depth)
{
    if (table->site_count == table->site_room && !grow_sites(table))
        return 0;
    uint64_t hash = hash_of(frames, depth);
    size_t mask = 2 * table->site_room - 1;
    for (size_t slot = hash & mask; table->slots[slot]; slot = (slot + 1) & mask) {
        if (is_same(&table->sites[table->slots[slot] - 1], hash, frames, depth))
            return table->slots[slot];
    }
    const void **kept = keep_frames(frames, depth);
    if (!kept)
        return 0;
    table->sites[table->site_count] = (struct site){.hash = hash, .frames = kept, .depth = depth};
    atomic_signal_fence(memory_order_seq_cst);
    enter_slot(table, (uint32_t)table->site_count++);
    return (uint32_t)table->site_count;
}

/* Called before the site's live tally changes. */
static void save_peak(struct site_table *table, struct site *site)
{
    if (site->epoch != table->epoch) {
        site->peak = site->live;
        site->epoch = table->epoch;
    }
}

/* Blocks. */

static uintptr_t hide(const void *block)
{
    return ~(uintptr_t)block;
}

/* room: of the table's blocks, a power of two. */
static size_t home_slot(size_t room, uintptr_t hidden)
{
    uint64_t hash = ~hidden / 16 * UINT64_C(0x9E3779B97F4A7C15);
    return (hash ^ hash >> 32) & (room - 1);
}

static size_t slot_among(const struct sampled_block *blocks, size_t room, uintptr_t hidden)
{
    size_t slot = home_slot(room, hidden);
    while (blocks[slot].hidden && blocks[slot].hidden != hidden)
        slot = (slot + 1) & (room - 1);
    return slot;
}

static size_t slot_of(const struct site_table *table, uintptr_t hidden)
{
    return slot_among(table->blocks, table->block_room, hidden);
}

/* Who looks in from outside finds all blocks in either table, or too few and looks again. */
static bool grow_blocks(struct site_table *table)
{
    struct sampled_block *old = table->blocks;
    size_t old_room = table->block_room, room = old_room ? 2 * old_room : FIRST_BLOCKS;
    struct sampled_block *blocks = map(room * sizeof *blocks);
    if (!blocks)
        return false;
    for (size_t i = 0; i < old_room; i++)
        if (old[i].hidden)
            blocks[slot_among(blocks, room, old[i].hidden)] = old[i];
    table->blocks = blocks;
    table->block_room = room;
    unmap(old, old_room * sizeof *old);
    return true;
}

/* Moves what was probed past the slot back into it (algorithm R). */
static void empty_slot(struct site_table *table, size_t gap)
{
    size_t mask = table->block_room - 1;
    for (size_t i = (gap + 1) & mask; table->blocks[i].hidden; i = (i + 1) & mask) {
        size_t home = home_slot(mask + 1, table->blocks[i].hidden);
        if (((i - home) & mask) < ((i - gap) & mask))
            continue;
        table->blocks[gap] = table->blocks[i];
        gap = i;
    }
    table->blocks[gap].hidden = 0;
}

static void count_in_filter(struct site_table *table, const void *block, int change)
{
    _Atomic uint8_t *count = &table->filter[filter_index(block)];
    uint8_t now = atomic_load_explicit(count, memory_order_relaxed);
    if (now < UINT8_MAX)
        atomic_store_explicit(count, (uint8_t)(now + change), memory_order_relaxed);
}

/* Enters a live block, for which there is room. */
static void enter_block(struct site_table *table, struct sampled_block sampled)
{
    struct site *site = &table->sites[sampled.site];
    double bytes = sampled.weight * (double)sampled.bytes;
    table->blocks[slot_of(table, sampled.hidden)] = sampled;
    table->block_count++;
    count_in_filter(table, (const void *)~sampled.hidden, 1);
    save_peak(table, site);
    site->live.blocks += sampled.weight;
    site->live.bytes += bytes;
    table->live_bytes += bytes;
}

bool site_table_add(struct site_table *table, uint32_t site, const void *block, uint64_t bytes,
                    double weight, uint64_t now)
{
    if (!site || (2 * table->block_count >= table->block_room && !grow_blocks(table))) {
        table->lost++;
        return false;
    }
    site_table_remove(table, block); /* if it was freed where nobody could see it */
    struct tally *total = &table->sites[site - 1].total;
    total->blocks += weight;
    total->bytes += weight * (double)bytes;
    enter_block(table, (struct sampled_block){.hidden = hide(block),
                                              .site = site - 1,
                                              .bytes = bytes,
                                              .weight = weight,
                                              .born = now});
    if (table->live_bytes <= table->peak_bytes)
        return false;
    table->peak_bytes = table->live_bytes;
    table->epoch++;
    return true;
}

const struct sampled_block *site_table_find(const struct site_table *table, const void *block)
{
    if (table->block_count == 0)
        return NULL;
    const struct sampled_block *found = &table->blocks[slot_of(table, hide(block))];
    return found->hidden ? found : NULL;
}

struct sampled_block site_table_remove(struct site_table *table, const void *block)
{
    struct sampled_block none = {0};
    if (table->block_count == 0)
        return none;
    size_t slot = slot_of(table, hide(block));
    struct sampled_block sampled = table->blocks[slot];
    if (!sampled.hidden)
        return none;
    struct site *site = &table->sites[sampled.site];
    double bytes = sampled.weight * (double)sampled.bytes;
    empty_slot(table, slot);
    table->block_count--;
    count_in_filter(table, block, -1);
    save_peak(table, site);
    site->live.blocks -= sampled.weight;
    site->live.bytes -= bytes;
    table->live_bytes -= bytes;
    return sampled;
}

static void add_to(struct tally *tally, const struct sampled_block *block)
{
    tally->blocks += block->weight;
    tally->bytes += block->weight * (double)block->bytes;
}

void site_table_count_end(struct site_table *table, const struct sampled_block *removed,
                          uint64_t now, bool is_temporary)
{
    uint64_t age = now > removed->born ? now - removed->born : 1;
    add_to(&table->lifetimes[63 - __builtin_clzll(age)], removed);
    if (is_temporary)
        add_to(&table->sites[removed->site].temporary, removed);
}

void site_table_restore(struct site_table *table, const struct sampled_block *removed)
{
    if (removed->hidden)
        enter_block(table, *removed);
}
