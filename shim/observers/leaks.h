/* SPDX-License-Identifier: MIT
 *
 * leaks.h: the leaks that an allocator finds, added up by allocation site.
 *
 * Another process asks for a report. It finds the structure by the name under which it is published
 * (`leaks/1`), writes a number to `asked`, and reads the report when `answered` has that number.
 * The next thread that allocates or frees answers. All threads of the process may be waiting; so
 * the other process also sends one of them a signal (gc/world/stop.c).
 *
 * The caller holds the lock of the table of sites, except for leaks_are_asked_for().
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_LEAKS_H
#define ALLOTROPE_SHIM_OBSERVERS_LEAKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/configuration/configuration.h"
#include "shim/observers/site_table.h"

struct leak_tally {
    uint64_t direct_blocks, direct_bytes, indirect_blocks, indirect_bytes;
};

struct leak_report {
    _Atomic uint64_t asked;    /* Writer: who asks, from outside. */
    _Atomic uint64_t answered; /* the last number in `asked` that was answered. Writer: who answers,
                                * after all else is written */
    /* 0: the allocator could not find out. What follows is then empty. Without memory it is still
     * that of the last report. */
    uint64_t was_found;
    uint64_t count; /* of tallies: sites that there were */
    struct leak_tally *tallies;
    struct leak_tally unknown; /* blocks whose site is not known; bytes are not either */
};

/* features/leaks/ask.py knows the structures as they are. */
_Static_assert(sizeof(struct leak_tally) == 32 && offsetof(struct leak_report, tallies) == 32,
               "the report's reader knows another layout");

extern struct leak_report leak_report;

/* Finds the leaks, in a stopped world; `was_found` tells whether. False: put off (LEAKS_LATER), and
 * the last report stays. */
bool leaks_find(const struct site_table *table, const struct allocator *allocator);

/* Answers a request: finds the leaks in a child that has a copy of the memory, while the program
 * runs on. If there can be no child, it finds them in a stopped world. To be called again until
 * `answered` equals `asked`. may_wait: see find_leaks (alloc/allocator.h). */
void leaks_answer(const struct site_table *table, const struct allocator *allocator, bool may_wait);

/* Any thread. */
static inline bool leaks_are_asked_for(void)
{
    return __builtin_expect(atomic_load_explicit(&leak_report.asked, memory_order_relaxed) !=
                                atomic_load_explicit(&leak_report.answered, memory_order_relaxed),
                            0);
}

/* The leaks of the site with this index in the last report. */
struct leak_tally leaks_of_site(size_t site);

/* Writes the last report to standard error, a line for each of the largest sites. */
void leaks_tell(const struct site_table *table);

#endif
