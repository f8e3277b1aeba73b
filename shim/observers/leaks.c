/* SPDX-License-Identifier: MIT
 *
 * leaks.c: see leaks.h.
 */
#include "shim/observers/leaks.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "vm/message.h"
#include "vm/pages.h"

enum { MOST_TOLD = 20, MOST_FRAMES_TOLD = 4 };

struct leak_report leak_report;

static size_t room; /* of tallies */

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

static void unmap(struct leak_tally *tallies, size_t count)
{
    if (tallies)
        pages_unmap(tallies, round_up(count * sizeof *tallies, PAGE_BYTES));
}

/* The last report stays as it is. */
static bool make_room(size_t count)
{
    if (count <= room)
        return true;
    struct leak_tally *old = leak_report.tallies;
    struct leak_tally *tallies =
        pages_map(round_up(2 * count * sizeof *tallies, PAGE_BYTES), PAGE_BYTES);
    if (!tallies)
        return false;
    if (leak_report.count > 0)
        memcpy(tallies, old, leak_report.count * sizeof *tallies);
    leak_report.tallies = tallies;
    unmap(old, room);
    room = 2 * count;
    return true;
}

static void clear_tallies(size_t count)
{
    if (count > 0)
        memset(leak_report.tallies, 0, count * sizeof *leak_report.tallies);
    leak_report.count = count;
    leak_report.unknown = (struct leak_tally){0};
}

static void count(struct leak_tally *tally, uint64_t bytes, bool is_direct)
{
    if (is_direct) {
        tally->direct_blocks++;
        tally->direct_bytes += bytes;
    } else {
        tally->indirect_blocks++;
        tally->indirect_bytes += bytes;
    }
}

/* One search. Until the first leak is visited it is not known whether it is put off, and the last
 * report may be read still. */
struct search {
    const struct site_table *table;
    bool has_begun;
};

static void count_leak(void *argument, const void *block, bool is_direct)
{
    struct search *search = argument;
    if (!search->has_begun)
        clear_tallies(search->table->site_count);
    search->has_begun = true;
    const struct sampled_block *known = site_table_find(search->table, block);
    if (known && known->site < leak_report.count)
        count(&leak_report.tallies[known->site], known->bytes, is_direct);
    else
        count(&leak_report.unknown, 0, is_direct);
}

bool leaks_find(const struct site_table *table, const struct allocator *allocator, bool may_wait)
{
    uint64_t asked = atomic_load(&leak_report.asked);
    enum leaks_found found = LEAKS_UNKNOWN;
    struct search search = {.table = table};
    bool has_room = make_room(table->site_count);
    if (has_room)
        found = allocator->find_leaks(count_leak, &search, may_wait);
    if (found == LEAKS_LATER)
        return false;
    if (!search.has_begun)
        clear_tallies(has_room ? table->site_count : 0);
    leak_report.was_found = found == LEAKS_FOUND;
    atomic_store(&leak_report.answered, asked);
    return true;
}

struct leak_tally leaks_of_site(size_t site)
{
    return site < leak_report.count ? leak_report.tallies[site] : (struct leak_tally){0};
}

/* Words. */

static void write_blocks(struct message *message, uint64_t blocks, uint64_t bytes)
{
    message_decimal(message, blocks);
    message_text(message, blocks == 1 ? " block of " : " blocks of ");
    message_decimal(message, bytes);
    message_text(message, " bytes");
}

static void write_tally(struct message *message, const struct leak_tally *tally)
{
    write_blocks(message, tally->direct_blocks, tally->direct_bytes);
    if (tally->indirect_blocks == 0)
        return;
    message_text(message, ", and ");
    message_decimal(message, tally->indirect_blocks);
    message_text(message, " of ");
    message_decimal(message, tally->indirect_bytes);
    message_text(message, " that hang on leaks");
}

/* "server+0x12ab", as symbolizers want it. */
static void write_frame(struct message *message, const void *address)
{
    struct dl_find_object object;
    if (!_dl_find_object || _dl_find_object((void *)(uintptr_t)address, &object) != 0) {
        message_pointer(message, address);
        return;
    }
    const char *name = object.dlfo_link_map->l_name, *slash = strrchr(name, '/');
    if (!*name)
        name = "program";
    message_text(message, slash ? slash + 1 : name);
    message_text(message, "+");
    message_pointer(message, (const char *)address - object.dlfo_link_map->l_addr);
}

static void tell_site(const struct site *site, const struct leak_tally *tally)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "leaks: ");
    write_tally(&message, tally);
    message_text(&message, ", allocated at ");
    for (uint32_t i = 0; i < site->depth && i < MOST_FRAMES_TOLD; i++) {
        message_text(&message, i ? " < " : "");
        write_frame(&message, site->frames[i]);
    }
    message_send(&message);
}

static uint64_t size_of(const struct leak_tally *tally)
{
    return tally->direct_bytes + tally->indirect_bytes;
}

/* The largest site that comes behind another in the order of the report; `count` if none does. */
static size_t next_site(size_t before)
{
    const struct leak_tally *tallies = leak_report.tallies;
    size_t next = leak_report.count;
    uint64_t most = before < leak_report.count ? size_of(&tallies[before]) : UINT64_MAX;
    for (size_t i = 0; i < leak_report.count; i++) {
        uint64_t size = size_of(&tallies[i]);
        bool is_leak = tallies[i].direct_blocks + tallies[i].indirect_blocks > 0;
        bool comes_behind = size < most || (size == most && i > before);
        if (is_leak && comes_behind &&
            (next == leak_report.count || size > size_of(&tallies[next])))
            next = i;
    }
    return next;
}

static struct leak_tally all_leaks(void)
{
    struct leak_tally all = {0};
    for (size_t i = 0; i < leak_report.count; i++) {
        const struct leak_tally *tally = &leak_report.tallies[i];
        all.direct_blocks += tally->direct_blocks;
        all.direct_bytes += tally->direct_bytes;
        all.indirect_blocks += tally->indirect_blocks;
        all.indirect_bytes += tally->indirect_bytes;
    }
    return all;
}

/* There was no memory to keep what is known of them. */
static void tell_unknown(void)
{
    uint64_t blocks = leak_report.unknown.direct_blocks + leak_report.unknown.indirect_blocks;
    if (blocks == 0)
        return;
    struct message message;
    message_begin(&message);
    message_text(&message, "leaks: ");
    message_decimal(&message, blocks);
    message_text(&message, blocks == 1 ? " block" : " blocks");
    message_text(&message, " of unknown size, allocated at unknown places");
    message_send(&message);
}

void leaks_tell(const struct site_table *table)
{
    struct message message;
    if (!leak_report.was_found) {
        message_begin(&message);
        message_text(&message,
                     "leaks: not known: there was no collection, or no memory to list them");
        message_send(&message);
        return;
    }
    struct leak_tally all = all_leaks();
    if (all.direct_blocks + all.indirect_blocks > 0) {
        message_begin(&message);
        message_text(&message, "leaks: ");
        write_tally(&message, &all);
        message_send(&message);
    }
    tell_unknown();
    size_t site = leak_report.count;
    for (unsigned told = 0; told < MOST_TOLD; told++) {
        site = next_site(site);
        if (site == leak_report.count)
            return;
        tell_site(&table->sites[site], &leak_report.tallies[site]);
    }
}
