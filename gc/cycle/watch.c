/* SPDX-License-Identifier: MIT
 *
 * watch.c: see watch.h.
 */
#include "gc/cycle/watch.h"

#include <stdatomic.h>
#include <stdint.h>

#include "gc/cycle/block_sites.h"

enum { PLACE_BITS = 22, MOST_REPORTED = 32 };

static struct {
    struct block_sites sites; /* of allocations */
    _Atomic uintptr_t reported[MOST_REPORTED];
    _Atomic unsigned count;
} watch;

bool watch_init(void)
{
    return block_sites_init(&watch.sites, PLACE_BITS);
}

void watch_note(const void *block, const void *site)
{
    block_sites_note(&watch.sites, block, site);
}

/* Once for each site, and not for ever. */
static bool is_new(uintptr_t site)
{
    unsigned count = atomic_load(&watch.count);
    for (unsigned i = 0; i < count && i < MOST_REPORTED; i++)
        if (watch.reported[i] == site)
            return false;
    unsigned at = atomic_fetch_add(&watch.count, 1);
    if (at < MOST_REPORTED)
        watch.reported[at] = site;
    return at < MOST_REPORTED;
}

void watch_report(const void *block, size_t bytes, const char *use)
{
    uintptr_t site = block_sites_of(&watch.sites, block);
    if (!is_new(site))
        return;
    struct message message;
    message_begin(&message);
    message_text(&message, "gc: watch: ");
    message_text(&message, use);
    message_text(&message, "(");
    message_pointer(&message, block);
    message_text(&message, "), a block of ");
    message_decimal(&message, bytes);
    message_text(&message, " bytes that nothing pointed to before, allocated by ");
    message_site(&message, site);
    message_send(&message);
}
