/* SPDX-License-Identifier: MIT
 *
 * block_sites.c: see block_sites.h.
 */
#include "gc/cycle/block_sites.h"

#include <stdatomic.h>

#include "vm/code_place.h"
#include "vm/private_memory.h"

struct block_site {
    _Atomic uintptr_t block, site;
};

bool block_sites_init(struct block_sites *sites, unsigned bits)
{
    sites->bits = bits;
    sites->places = private_memory_map(sizeof *sites->places << bits);
    return sites->places != NULL;
}

static struct block_site *place_of(const struct block_sites *sites, const void *block)
{
    uint64_t hash = ((uintptr_t)block >> 4) * UINT64_C(0x9E3779B97F4A7C15);
    return &sites->places[hash >> (64 - sites->bits)];
}

void block_sites_note(const struct block_sites *sites, const void *block, const void *site)
{
    if (!sites->places)
        return;
    struct block_site *place = place_of(sites, block);
    atomic_store_explicit(&place->block, (uintptr_t)block, memory_order_relaxed);
    atomic_store_explicit(&place->site, (uintptr_t)site, memory_order_relaxed);
}

uintptr_t block_sites_of(const struct block_sites *sites, const void *block)
{
    const struct block_site *place = sites->places ? place_of(sites, block) : NULL;
    return place && place->block == (uintptr_t)block ? place->site : 0;
}

void message_site(struct message *message, uintptr_t site)
{
    if (site)
        message_code_place(message, (const void *)site);
    else
        message_text(message, "an unknown site");
}
