/* SPDX-License-Identifier: MIT
 *
 * quarantine.c: see quarantine.h.
 *
 * A second free ends the process: a program that frees twice no longer knows who owns the block. A
 * write after a free is reported, and the process goes on, since the write hit nobody's data. Such
 * a write is found before the memory is used again, which may be long after the write. Only the
 * last frees are in the log of sites (free_log.h); the site of an earlier free is unknown. free
 * notes the site after it has retired the block. So if the block is released in between, the site
 * may come too late for a report, or stand behind the site of the block's next free.
 */
#include "gc/cycle/quarantine.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/quarantine.h"
#include "alloc/own_text.h"
#include "gc/cycle/block_sites.h"
#include "gc/cycle/free_log.h"

enum { MOST_REPORTED = 64 };

static struct {
    _Atomic bool is_said, rest_is_counted;
    _Atomic unsigned reported;
    _Atomic uint64_t written_before; /* how many were found up to the last report */
} quarantine;

static void begin_report(struct message *message, const char *function, const void *address,
                         const char *fault)
{
    message_begin(message);
    message_text(message, function);
    message_text(message, "(");
    message_pointer(message, address);
    message_text(message, "): ");
    message_text(message, fault);
}

static void add_block(struct message *message, const void *block, size_t bytes)
{
    message_text(message, "block of ");
    message_decimal(message, bytes);
    message_text(message, " bytes at ");
    message_pointer(message, block);
}

/* Also of a block that is released already. */
static size_t bytes_of(const void *block)
{
    const struct slab *slab = blocks_slab_of(block);
    return slab ? slab->block_bytes : 0;
}

static void add_first_free(struct message *message, const void *block)
{
    message_text(message, "\n  freed at ");
    message_site(message, free_log_site(block));
}

static __attribute__((noinline, cold)) void freed_twice(const char *function, const void *block,
                                                        const void *site)
{
    struct message message;
    begin_report(&message, function, block, "freed twice: ");
    add_block(&message, block, bytes_of(block));
    message_text(&message, ", called at ");
    message_site(&message, (uintptr_t)site);
    add_first_free(&message, block);
    message_send(&message);
    abort();
}

void quarantine_free(void *block, const void *site)
{
    if (!quarantine_block(block, "free"))
        freed_twice("free", block, site);
    free_log_note(quarantine_place_in_log(), block, site, quarantine_releases());
}

void *quarantine_realloc(void *block, size_t size, const void *site)
{
    bool twice;
    void *resized = quarantine_resize(block, size, &twice);
    if (twice)
        freed_twice("realloc", block, site);
    if (resized != block)
        free_log_note(quarantine_place_in_log(), block, site, quarantine_releases());
    return resized;
}

static void say_written(const struct quarantine_written *written)
{
    const char *block = written->block;
    struct message message;
    begin_report(&message, "quarantine", block + written->offset, "written after its free: ");
    if (written->offset > 0) {
        message_decimal(&message, written->offset);
        message_text(&message, written->offset == 1 ? " byte into a " : " bytes into a ");
    }
    add_block(&message, block, written->bytes);
    add_first_free(&message, block);
    message_send(&message);
}

static void say_not_all_is_told(void)
{
    struct message message;
    message_begin(&message);
    message_text(&message,
                 "gc: further blocks that were written after their free are only counted");
    message_send(&message);
}

static void say_all_written(void)
{
    uint64_t found = quarantine_written_blocks();
    if (atomic_exchange(&quarantine.written_before, found) == found)
        return;
    struct quarantine_written written[MOST_WRITTEN];
    size_t count = quarantine_take_written(written), i;
    size_t known = count < MOST_WRITTEN ? count : MOST_WRITTEN;
    for (i = 0; i < known && atomic_fetch_add(&quarantine.reported, 1) < MOST_REPORTED; i++)
        say_written(&written[i]);
    if (i < count && !atomic_exchange(&quarantine.rest_is_counted, true))
        say_not_all_is_told();
}

void quarantine_init(void)
{
    own_text_find();
    free_log_init();
    quarantine_found_written = say_all_written;
    quarantine_on = true;
}

void quarantine_at_exit(void)
{
    if (quarantine_look_at_released())
        say_all_written();
}

void quarantine_without_collections(void)
{
    quarantine_begin_ageing();
    if (atomic_exchange(&quarantine.is_said, true))
        return;
    struct message message;
    message_begin(&message);
    message_text(
        &message,
        "gc: no collections (/proc cannot be read, a sandbox, threads that do not stop, or "
        "no memory): what is freed is handed out again after a delay, whatever points to "
        "it");
    message_send(&message);
}

bool quarantine_after_collection(bool works)
{
    bool freed = false;
    if (!works) {
        quarantine_without_collections();
        freed = quarantine_age();
    }
    say_all_written();
    return freed;
}
