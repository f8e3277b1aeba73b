/* SPDX-License-Identifier: MIT
 *
 * report.c: see report.h.
 */
#include "alloc/checked/report.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "vm/fork_chain.h"
#include "vm/kernel/maps.h"
#include "vm/lock.h"
#include "vm/message.h"
#include "vm/pages.h"

enum { PATH_BYTES = 512, REPORT_BYTES = 4096 };

static bool goes_on;
static uint64_t most_reports;
static _Atomic uint64_t reports;

/* `lock` guards `report`, which is the report that is made now: whoever makes it holds the lock.
 * Some reports are made with the locks of the heap held. */
static struct lock lock = LOCK_INITIALIZER(RANK_PAGES);
static struct {
    char text[REPORT_BYTES];
    size_t bytes;
    char path[PATH_BYTES], maps[MAPS_LINE_BYTES];
} report;

void report_init(bool on_error_report, uint64_t most)
{
    goes_on = on_error_report;
    most_reports = most;
    fork_chain_add(&lock);
}

/* Takes the lock. False: this thread has it, because a handler has interrupted the reporter, or the
 * reporter has touched what it reports. */
static bool begin_report(void)
{
    if (lock_is_own(&lock))
        return false;
    lock_acquire(&lock);
    report.bytes = 0;
    return true;
}

static void end_report(void)
{
    message_write(report.text, report.bytes);
    lock_release(&lock);
}

/* Moves a piece to the report. What does not fit is cut. */
static void add(struct message *message)
{
    size_t room = REPORT_BYTES - report.bytes;
    size_t bytes = message->length < room ? message->length : room;
    memcpy(report.text + report.bytes, message->text, bytes);
    report.bytes += bytes;
    message->length = 0;
}

/* Which file an address lies in. */

struct file_of_address {
    uintptr_t address, start; /* where the file's first mapping begins */
    bool found;               /* report.path is it; until then it is that of the last lines */
};

/* False: the address lies there. A path may be cut. */
static bool look_at_mapping(void *argument, const char *line, const struct mapping *mapping)
{
    struct file_of_address *file = argument;
    const char *name = mapping_name_begins(mapping, "/") ? mapping->name : "";
    (void)line;
    if (strncmp(name, report.path, sizeof report.path - 1) != 0) {
        file->start = mapping->start;
        strncpy(report.path, name, sizeof report.path - 1);
    }
    file->found = file->address >= mapping->start && file->address < mapping->end && *name;
    return !file->found;
}

/* Not in a sandbox, which may end the process where a file is opened: the address is told then. */
static void find_file(struct file_of_address *file)
{
    report.path[0] = '\0';
    if (pages_are_in_sandbox())
        return;
    maps_each_line(report.maps, sizeof report.maps, look_at_mapping, file);
}

static void add_site(struct message *message, const char *what, const void *site)
{
    struct file_of_address file = {.address = (uintptr_t)site};
    if (!site)
        return;
    message_text(message, what);
    find_file(&file);
    if (!file.found) {
        message_pointer(message, site);
        return;
    }
    const char *name = strrchr(report.path, '/') + 1;
    message_bytes(message, name, strlen(name));
    message_text(message, "+");
    message_pointer(message, (const void *)(file.address - file.start));
}

static void add_stack(struct message *message, const struct call_stack *stack)
{
    for (uint32_t i = 1; stack && i < stack->frames; i++) {
        add_site(message, "\n    from ", stack->sites[i]);
        add(message);
    }
}

static void add_site_line(struct message *message, const char *what, const void *site,
                          const char *by, const struct call_stack *stack)
{
    if (!site)
        return;
    message_text(message, "\n  ");
    add_site(message, what, site);
    if (by) {
        message_text(message, " (");
        message_text(message, by);
        message_text(message, ")");
    }
    add(message);
    add_stack(message, stack);
}

/* "16 bytes into", "1 byte before", "8 bytes behind". */
static void add_place(struct message *message, const struct block_facts *facts)
{
    if (facts->offset == 0)
        return;
    ptrdiff_t behind = facts->offset - (ptrdiff_t)facts->bytes + 1; /* the first byte is 1 behind */
    ptrdiff_t distance = facts->offset < 0 ? -facts->offset : behind > 0 ? behind : facts->offset;
    message_decimal(message, (uint64_t)distance);
    message_text(message, distance == 1 ? " byte " : " bytes ");
    message_text(message, facts->offset < 0 ? "before" : behind > 0 ? "behind" : "into");
    message_text(message, " a ");
}

static void add_block(struct message *message, const struct block_facts *facts)
{
    message_text(message, ": ");
    add_place(message, facts);
    message_text(message, "block of ");
    message_decimal(message, facts->bytes);
    message_text(message, facts->bytes == 1 ? " byte at " : " bytes at ");
    message_pointer(message, facts->block);
}

static void add_sites(struct message *message, const struct block_facts *facts)
{
    add_site_line(message, "allocated at ", facts->allocated_at, facts->by, facts->allocation);
    add_site_line(message, "freed at ", facts->freed_at, NULL, facts->freeing);
}

static void begin_line(struct message *message, const char *function, const void *address)
{
    message_begin(message);
    message_text(message, function);
    message_text(message, "(");
    message_pointer(message, address);
    message_text(message, "): ");
}

/* how: ", called at ". */
static void send(const char *function, const void *address, const char *fault,
                 const struct block_facts *facts, const char *how, const void *site)
{
    struct message message;
    if (!begin_report())
        return;
    begin_line(&message, function, address);
    message_text(&message, fault);
    if (facts && facts->block)
        add_block(&message, facts);
    add_site(&message, how, site);
    add(&message);
    if (facts && facts->block)
        add_sites(&message, facts);
    message_text(&message, "\n");
    add(&message);
    end_report();
}

static void say_no_more(void)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "further misuses of the heap are only counted (reports=)");
    message_send(&message);
}

/* Whether one more is to be told. */
static bool is_told(bool ends)
{
    uint64_t earlier = atomic_fetch_add_explicit(&reports, 1, memory_order_relaxed);
    if (earlier == most_reports && !ends)
        say_no_more();
    return earlier < most_reports || ends;
}

void report_misuse(enum report_severity severity, const char *function, const void *address,
                   const char *fault, const struct block_facts *facts, const void *site)
{
    bool ends = severity == REPORT_FATAL && !goes_on;
    if (is_told(ends))
        send(function, address, fault, facts, ", called at ", site);
    if (ends)
        abort();
}

bool report_access(const char *access, const void *address, const char *fault,
                   const struct block_facts *facts, const void *at)
{
    bool told = is_told(false);
    if (told)
        send(access, address, fault, facts, ", at ", at);
    return told;
}

void report_callers(const char *access, const void *address, const struct call_stack *stack)
{
    struct message message;
    if (stack->frames < 2 || !begin_report())
        return;
    begin_line(&message, access, address);
    message_text(&message, "called");
    add(&message);
    add_stack(&message, stack);
    message_text(&message, "\n");
    add(&message);
    end_report();
}
