/* SPDX-License-Identifier: MIT
 *
 * policy_cards.c: a byte for each card, zero when the card is dirty.
 *
 * The store is unconditional, so the table has bytes for the young generation too, which nobody
 * reads. card_base is biased: the entry of address a is card_base + a / CARD_BYTES.
 *
 * A byte cannot be told from its neighbours without reading it; eight clean ones can be skipped at
 * once.
 */
#include <string.h>

#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/remembered_set.h"

#ifndef CARD_BYTES
#define CARD_BYTES 512
#endif
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

enum { CARD_DIRTY = 0, CARD_CLEAN = 0xff };

#ifdef PURE_SCAN
const char policy_name[] = "scan-" TEXT(CARD_BYTES);
#else
const char policy_name[] = "cards-" TEXT(CARD_BYTES);
#endif
uintptr_t card_base;

static uint8_t *card_of(uintptr_t address)
{
    return (uint8_t *)(card_base + address / CARD_BYTES);
}

void policy_open(const char *file)
{
    if (file)
        heap_fail("cards have no use for a file");
    size_t cards = (heap.old_end - heap.young) / CARD_BYTES + RUNTIME_PAGE;
    card_base = (uintptr_t)heap_reserve(cards) - heap.young / CARD_BYTES;
    remembered_open();
}

/* Up to the first address behind the old generation, rounded up to eight cards. */
static size_t cards_in_use(void)
{
    size_t cards = (heap.old_top - heap_old_start + CARD_BYTES - 1) / CARD_BYTES;
    return (cards + 7) & ~(size_t)7;
}

void policy_start(void)
{
    memset(card_of(heap_old_start), CARD_CLEAN, (heap.old_end - heap_old_start) / CARD_BYTES);
}

/* Looks through the dirty cards; those in which `visit` finds something stay dirty if they are to
 * be found again. */
static void scan_dirty_cards(slot_visitor *visit)
{
    uint8_t *table = card_of(heap_old_start);
    size_t cards = cards_in_use();
    for (size_t i = 0; i < cards; i++) {
        uint64_t eight;
        if (i % 8 == 0 && (memcpy(&eight, table + i, sizeof eight), eight == UINT64_MAX)) {
            i += 7;
            continue;
        }
        if (table[i] != CARD_DIRTY)
            continue;
        uintptr_t start = heap_old_start + i * CARD_BYTES;
        policy_counters.dirty++;
        size_t found = visit_slots(start, start + CARD_BYTES, visit);
#ifdef PURE_SCAN
        if (found)
            continue;
#else
        (void)found;
#endif
        table[i] = CARD_CLEAN;
    }
}

#ifdef PURE_SCAN
void policy_visit_roots(slot_visitor *visit)
{
    scan_dirty_cards(visit);
}

void policy_remember(value *slot)
{
    *card_of((uintptr_t)slot) = CARD_DIRTY;
}

bool policy_knows(value *slot)
{
    return *card_of((uintptr_t)slot) == CARD_DIRTY;
}
#else
void policy_visit_roots(slot_visitor *visit)
{
    scan_dirty_cards(remember_if_young);
    remembered_visit(visit);
}

#endif
