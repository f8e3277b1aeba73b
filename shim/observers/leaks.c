/* SPDX-License-Identifier: MIT
 *
 * leaks.c: see leaks.h.
 */
#include "shim/observers/leaks.h"

#include <string.h>

#include "vm/code_place.h"
#include "vm/message.h"
#include "vm/private_memory.h"
#include "vm/syscall.h"

enum { MOST_TOLD = 20, MOST_FRAMES_SHOWN = 4 };

struct leak_report leak_report;

/* What a search writes: shared with the child that may do it. */
struct found {
    struct leak_tally unknown;
    struct leak_tally tallies[];
};

struct search {
    const struct site_table *table;
    struct found *found; /* NULL: there is no search */
    size_t count, bytes; /* of tallies; of the mapping */
    uint64_t asked;      /* which request it answers */
    long process;        /* that searches */
};

static struct search begun; /* in a child */

/* The tallies of the last report, and the bytes of their mapping. */
static struct found *reported;
static size_t reported_bytes;

static bool begin_search(struct search *search, const struct site_table *table)
{
    size_t count = table->site_count,
           bytes = sizeof(struct found) + count * sizeof(struct leak_tally);
    *search = (struct search){.table = table, .count = count, .bytes = bytes};
    search->asked = atomic_load(&leak_report.asked);
    search->process = SYSCALL_0(SYS_getpid);
    search->found = private_memory_map_shared(bytes);
    return search->found != NULL;
}

static void drop(struct search *search)
{
    if (search->found)
        private_memory_unmap(search->found, search->bytes);
    search->found = NULL;
}

/* The search's numbers take the place of the last report's. */
static void report(struct search *search)
{
    struct found *before = reported;
    size_t before_bytes = reported_bytes;
    leak_report.count = search->count;
    leak_report.tallies = search->found->tallies;
    leak_report.unknown = search->found->unknown;
    reported = search->found;
    reported_bytes = search->bytes;
    if (before)
        private_memory_unmap(before, before_bytes);
    search->found = NULL;
}

/* was_found: with `search` done. Else the report is empty, where there is memory for that. */
static void answer(struct search *search, bool was_found)
{
    if (search->found)
        report(search);
    leak_report.was_found = was_found;
    atomic_store(&leak_report.answered, search->asked);
}

static void add_block(struct leak_tally *tally, uint64_t bytes, bool is_direct)
{
    if (is_direct) {
        tally->direct_blocks++;
        tally->direct_bytes += bytes;
    } else {
        tally->indirect_blocks++;
        tally->indirect_bytes += bytes;
    }
}

static void count_leak(void *argument, const void *block, bool is_direct)
{
    const struct search *search = argument;
    const struct sampled_block *known = site_table_find(search->table, block);
    if (known && known->site < search->count)
        add_block(&search->found->tallies[known->site], known->bytes, is_direct);
    else
        add_block(&search->found->unknown, 0, is_direct);
}

/* In a stopped world. False: put off. */
static bool find(const struct site_table *table, const struct allocator *allocator, bool may_wait)
{
    struct search search;
    enum leaks_found found = LEAKS_UNKNOWN;
    if (begin_search(&search, table))
        found = allocator->find_leaks(count_leak, &search, may_wait);
    if (found == LEAKS_LATER)
        drop(&search);
    else
        answer(&search, found == LEAKS_FOUND);
    return found != LEAKS_LATER;
}

bool leaks_find(const struct site_table *table, const struct allocator *allocator)
{
    drop(&begun);
    return find(table, allocator, true);
}

/* LEAKS_LATER: it goes on, or the next call is to try again. */
static enum leaks_found go_on(const struct site_table *table, const struct allocator *allocator,
                              bool may_wait)
{
    if (begun.found && begun.process != SYSCALL_0(SYS_getpid)) {
        drop(&begun);
        atomic_store(&leak_report.answered, leak_report.asked); /* nobody asks a child of a fork */
        return LEAKS_LATER;
    }
    if (begun.found)
        return allocator->leaks_begun();
    if (!begin_search(&begun, table))
        return LEAKS_UNKNOWN;
    enum leaks_found found = allocator->begin_leaks(count_leak, &begun, may_wait);
    if (found != LEAKS_BEGUN)
        drop(&begun);
    return found == LEAKS_BEGUN ? LEAKS_LATER : found;
}

void leaks_answer(const struct site_table *table, const struct allocator *allocator, bool may_wait)
{
    enum leaks_found found = go_on(table, allocator, may_wait);
    if (found == LEAKS_FOUND)
        answer(&begun, true);
    if (found != LEAKS_UNKNOWN)
        return;
    drop(&begun);
    find(table, allocator, may_wait);
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

static void tell_site(const struct site *site, const struct leak_tally *tally)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "leaks: ");
    write_tally(&message, tally);
    message_text(&message, ", allocated at ");
    for (uint32_t i = 0; i < site->depth && i < MOST_FRAMES_SHOWN; i++) {
        message_text(&message, i ? " < " : "");
        message_code_place(&message, site->frames[i]);
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
