/* SPDX-License-Identifier: MIT
 *
 * live.c: see live.h. analysis/allotrope/features/stats/process.py knows the same layout.
 */
#include "shim/live.h"

#include <string.h>

#include "vm/pages.h"
#include "vm/window.h"

enum { NAME_BYTES = 24, MOST_COUNTERS = 32 };

static struct {
    char magic[16]; /* written at the start, so that the library's file does not contain it */
    char allocator[NAME_BYTES], preset[NAME_BYTES];
    uint64_t count;
    struct {
        char name[NAME_BYTES];
        const void *address; /* of 8 bytes */
    } counters[MOST_COUNTERS];
} live __attribute__((aligned(16), used));

static void copy_name(char name[NAME_BYTES], const char *text)
{
    strncpy(name, text, NAME_BYTES - 1);
}

void live_add(const char *name, const void *counter)
{
    if (live.count == MOST_COUNTERS)
        return;
    copy_name(live.counters[live.count].name, name);
    live.counters[live.count].address = counter;
    live.count++;
}

void live_start(const struct configuration *configuration)
{
    copy_name(live.allocator, configuration->allocator->name);
    copy_name(live.preset, configuration->allocator->preset);
    live_add("mapped_bytes", &heap_account.mapped);
    live_add("mapped_peak_bytes", &heap_account.peak);
    live_add("metadata_bytes", &heap_account.metadata);
    live_add("mmap", &page_calls.mmap);
    live_add("munmap", &page_calls.munmap);
    live_add("mremap", &page_calls.mremap);
    live_add("madvise", &page_calls.madvise);
    live_add("window_start", &window.base);
    live_add("window_units", &window.used_units);
    static const char reversed[] = "1/evil-eportolla";
    for (size_t i = 0; i < sizeof live.magic; i++)
        live.magic[i] = reversed[sizeof live.magic - 1 - i];
}
