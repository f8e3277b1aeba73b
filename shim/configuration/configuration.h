/* SPDX-License-Identifier: MIT
 *
 * configuration.h: which allocator, which preset, which options.
 *
 *     allocator[:option[,option...]]      option = key=value, or the bare name of a preset
 *
 *     bsd      bsd:classic      bsd:cache=64K,arenas=2
 */
#ifndef ALLOTROPE_SHIM_CONFIGURATION_CONFIGURATION_H
#define ALLOTROPE_SHIM_CONFIGURATION_CONFIGURATION_H

#include "alloc/allocator.h"
#include "vm/message.h"

struct configuration {
    const struct allocator *allocator;
    /* The struct that the allocator's table describes. */
    _Alignas(uint64_t) unsigned char options[OPTIONS_BYTES];
};

/* Every allocator and preset there is; the presets of one allocator stand together, its default
 * first. NULL-terminated. The first is what runs when nothing is asked for. */
extern const struct allocator *const allocators[];

/* Reads `text`; NULL or "" is the default. False: `error` holds the line to show, which names
 * what is wrong and what would be valid. Allocates nothing. */
bool configuration_parse(const char *text, struct configuration *configuration,
                         struct message *error);

/* How many options users may choose: the first rows of the allocator's table. */
size_t option_count(const struct allocator *allocator);

#endif
