/* SPDX-License-Identifier: MIT
 *
 * block_sites.h: a return address for each of many blocks, as far as they are remembered.
 *
 * A table with one place for each block, found by the block's address. Two blocks of one place
 * overwrite each other: the older one's site is then not known. Two threads may do so at once. So a
 * site is believed only if the block's address stands beside it, and may still be wrong then.
 */
#ifndef ALLOTROPE_GC_CYCLE_BLOCK_SITES_H
#define ALLOTROPE_GC_CYCLE_BLOCK_SITES_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/message.h"

struct block_site;

struct block_sites {
    struct block_site *places;
    unsigned bits;
};

/* 2^bits places. False: no memory; nothing is remembered then. */
bool block_sites_init(struct block_sites *sites, unsigned bits);

void block_sites_note(const struct block_sites *sites, const void *block, const void *site);

/* 0: not known. */
uintptr_t block_sites_of(const struct block_sites *sites, const void *block);

/* As message_code_place() writes it. 0: an unknown site. */
void message_site(struct message *message, uintptr_t site);

#endif
