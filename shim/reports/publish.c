/* SPDX-License-Identifier: MIT
 *
 * publish.c: see publish.h.
 */
#include "shim/reports/publish.h"

#include <string.h>

#include "trace/protocol/counters.h"
#include "vm/pages.h"
#include "vm/window.h"

/* The counters that every process has. Their names are arrays in this structure, filled by the
 * linker. A copy of them at start would touch one more page, that of the strings. */
static struct published_counters published
    __attribute__((section(COUNTERS_SECTION), aligned(16), used)) = {
        .count = 10,
        .counters = {{"mapped_bytes", &heap_account.mapped},
                     {"mapped_peak_bytes", &heap_account.peak},
                     {"metadata_bytes", &heap_account.metadata},
                     {"area_bytes", &heap_account.areas},
                     {"mmap", &page_calls.mmap},
                     {"munmap", &page_calls.munmap},
                     {"mremap", &page_calls.mremap},
                     {"madvise", &page_calls.madvise},
                     {"window_start", &window.base},
                     {"window_units", &window.used_units}},
};

static void copy_name(char name[COUNTERS_NAME_BYTES], const char *text)
{
    strncpy(name, text, COUNTERS_NAME_BYTES - 1);
}

void publish_counter(const char *name, const void *counter)
{
    if (published.count == MOST_COUNTERS)
        return;
    copy_name(published.counters[published.count].name, name);
    published.counters[published.count].address = counter;
    published.count++;
}

void publish_start(const struct configuration *configuration)
{
    copy_name(published.allocator, configuration->allocator->name);
    copy_name(published.preset, configuration->allocator->preset);
    if (configuration->allocator->counters)
        configuration->allocator->counters(publish_counter);
    /* Reversed, so that the library's file does not contain the magic. */
    static const char reversed[] = "1/evil-eportolla";
    for (size_t i = 0; i < sizeof published.magic; i++)
        published.magic[i] = reversed[sizeof published.magic - 1 - i];
}
