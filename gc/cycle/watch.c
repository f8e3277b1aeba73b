/* SPDX-License-Identifier: MIT
 *
 * watch.c: see watch.h.
 *
 * The table has one place for each block, found by the block's address. Two blocks of one place
 * overwrite each other: the older one's site is then not known. Two threads may do so at once. So a
 * site is believed only if the block's address stands beside it, and may still be wrong then.
 */
#include "gc/cycle/watch.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "vm/message.h"
#include "vm/private_memory.h"

enum { PLACE_BITS = 22, MOST_REPORTED = 32 };

struct place {
    _Atomic uintptr_t block, site;
};

static struct {
    struct place *places;
    _Atomic uintptr_t reported[MOST_REPORTED];
    _Atomic unsigned count;
} watch;

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

bool watch_init(void)
{
    watch.places = private_memory_map(sizeof *watch.places << PLACE_BITS);
    return watch.places != NULL;
}

static struct place *place_of(const void *block)
{
    return &watch.places[((uintptr_t)block >> 4) * UINT64_C(0x9E3779B97F4A7C15) >>
                         (64 - PLACE_BITS)];
}

void watch_note(const void *block, const void *site)
{
    if (!watch.places)
        return;
    struct place *place = place_of(block);
    atomic_store_explicit(&place->block, (uintptr_t)block, memory_order_relaxed);
    atomic_store_explicit(&place->site, (uintptr_t)site, memory_order_relaxed);
}

static uintptr_t site_of(const void *block)
{
    const struct place *place = watch.places ? place_of(block) : NULL;
    return place && place->block == (uintptr_t)block ? place->site : 0;
}

/* "libfontconfig.so.1+0x1b2c3", as symbolizers want it. */
static void write_site(struct message *message, uintptr_t site)
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
    uintptr_t site = site_of(block);
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
    write_site(&message, site);
    message_send(&message);
}
