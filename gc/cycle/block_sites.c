/* SPDX-License-Identifier: MIT
 *
 * block_sites.c: see block_sites.h.
 */
#include "gc/cycle/block_sites.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "vm/private_memory.h"

struct block_site {
    _Atomic uintptr_t block, site;
};

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

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
    struct dl_find_object object;
    if (site == 0 || !_dl_find_object || _dl_find_object((void *)site, &object) != 0) {
        message_text(message, site ? "" : "an unknown site");
        if (site)
            message_pointer(message, (const void *)site);
        return;
    }
    const char *name = object.dlfo_link_map->l_name, *slash = strrchr(name, '/');
    message_text(message, *name ? slash ? slash + 1 : name : "the program");
    message_text(message, "+");
    message_pointer(message, (const void *)(site - object.dlfo_link_map->l_addr));
}
