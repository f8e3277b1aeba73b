/* SPDX-License-Identifier: MIT
 *
 * publish.c: see publish.h.
 */
#include "shim/reports/publish.h"

#include <string.h>

#include "trace/protocol/counters.h"
#include "vm/pages.h"
#include "vm/window.h"

static struct published_counters published __attribute__((aligned(16), used));

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
    publish_counter("mapped_bytes", &heap_account.mapped);
    publish_counter("mapped_peak_bytes", &heap_account.peak);
    publish_counter("metadata_bytes", &heap_account.metadata);
    publish_counter("area_bytes", &heap_account.areas);
    publish_counter("mmap", &page_calls.mmap);
    publish_counter("munmap", &page_calls.munmap);
    publish_counter("mremap", &page_calls.mremap);
    publish_counter("madvise", &page_calls.madvise);
    publish_counter("window_start", &window.base);
    publish_counter("window_units", &window.used_units);
    /* Reversed, so that the library's file does not contain the magic. */
    static const char reversed[] = "1/evil-eportolla";
    for (size_t i = 0; i < sizeof published.magic; i++)
        published.magic[i] = reversed[sizeof published.magic - 1 - i];
}
