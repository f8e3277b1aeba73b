/* SPDX-License-Identifier: MIT
 *
 * page_bits.h: a bit for each page of the old generation, set when the page is dirty.
 *
 * For policies that find dirty pages without instructions at the stores: nothing is gained by a
 * byte, and the table should be small (Hosking & Moss 1993, 3.2.1).
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_PAGE_BITS_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_PAGE_BITS_H

#include "bench_programs/runtime/heap.h"

static uint64_t *page_bits;

static inline void page_bits_open(void)
{
    page_bits = heap_reserve((heap.old_end - heap_old_start) / RUNTIME_PAGE / 8 + RUNTIME_PAGE);
}

static inline size_t page_of(uintptr_t address)
{
    return (address - heap_old_start) / RUNTIME_PAGE;
}

static inline uintptr_t page_start(size_t page)
{
    return heap_old_start + page * RUNTIME_PAGE;
}

/* Pages that have an old object, or a part of one. */
static inline size_t pages_in_use(void)
{
    return page_of(heap.old_top + RUNTIME_PAGE - 1);
}

static inline bool page_is_dirty(size_t page)
{
    return page_bits[page / 64] >> page % 64 & 1;
}

static inline void page_set_dirty(size_t page)
{
    page_bits[page / 64] |= (uint64_t)1 << page % 64;
}

static inline void page_set_clean(size_t page)
{
    page_bits[page / 64] &= ~((uint64_t)1 << page % 64);
}

/* The first page at or behind `page` that is dirty; pages_in_use() if there is none. */
static inline size_t next_dirty_page(size_t page)
{
    size_t pages = pages_in_use();
    while (page < pages) {
        uint64_t rest = page_bits[page / 64] >> page % 64;
        if (rest) {
            page += (size_t)__builtin_ctzl(rest);
            break;
        }
        page = (page / 64 + 1) * 64;
    }
    return page < pages ? page : pages;
}

#endif
