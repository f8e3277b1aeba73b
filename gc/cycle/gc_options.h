/* SPDX-License-Identifier: MIT
 *
 * gc_options.h: the options of `gc`, which gc.c explains.
 */
#ifndef ALLOTROPE_GC_CYCLE_GC_OPTIONS_H
#define ALLOTROPE_GC_CYCLE_GC_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/blocks/blocks.h"
#include "alloc/options.h"
#include "gc/cycle/pace.h"
#include "vm/kernel/dirty.h"
#include "vm/message.h"

enum gc_free { FREE_IGNORE, FREE_HONOUR, FREE_QUARANTINE };
enum gc_concurrent { CONCURRENT_OFF, CONCURRENT_ON, CONCURRENT_FORK };
enum gc_verify { VERIFY_OFF, VERIFY_ON };
enum gc_leaks { LEAKS_AUTO, LEAKS_COLLECT, LEAKS_KEEP, LEAKS_WATCH, LEAKS_REPORT };

struct gc_options {
    enum gc_free free;
    enum gc_leaks leaks;
    struct collection_options {
        enum pace_policy policy;
        uint64_t initial_bytes, limit_bytes;
        uint64_t pause_ms;
        uint64_t every; /* so many allocations */
        uint64_t markers;
        uint64_t stack_bytes;
        uint64_t generations;
        enum dirty_provider dirty;
        enum gc_concurrent concurrent;
        enum gc_verify verify;
    } collections;
    struct blocks_options blocks;
};

extern const struct option_description gc_options[];

/* See `conflict` in struct allocator. */
bool gc_options_conflict(const void *chosen, struct message *why);

#endif
