/* SPDX-License-Identifier: MIT
 *
 * free_log.c: see free_log.h.
 *
 * A signal handler may free too, between any two instructions of a note. It fills another place,
 * or the same place before the thread does. A note reads and writes the thread's word once, so
 * whatever the two leave there is the number of a place.
 */
#include "gc/cycle/free_log.h"

#include <stdatomic.h>
#include <stddef.h>

#include "vm/private_memory.h"
#include "vm/single_threaded.h"

enum { CHUNKS = FREE_LOG_PLACES / FREE_LOG_CHUNK };

struct place {
    _Atomic uintptr_t block, site;
};

static struct {
    struct place *places;
    _Atomic size_t taken; /* chunks, ever */
} frees;

bool free_log_init(void)
{
    frees.places = private_memory_map(FREE_LOG_PLACES * sizeof *frees.places);
    return frees.places != NULL;
}

static struct place *chunk_at(size_t number)
{
    return &frees.places[number % CHUNKS * FREE_LOG_CHUNK];
}

/* Its places are emptied: they hold the oldest frees, which must not be taken for the latest.
 * Returns the number of the first. */
static __attribute__((noinline)) uint32_t take_chunk(void)
{
    size_t number = atomic_fetch_add_explicit(&frees.taken, 1, memory_order_relaxed);
    struct place *chunk = chunk_at(number);
    for (size_t i = 0; i < FREE_LOG_CHUNK; i++)
        atomic_store_explicit(&chunk[i].block, 0, memory_order_relaxed);
    return (uint32_t)(chunk - frees.places);
}

/* In a process of one thread all frees are in one order anyway. */
static inline bool needs_chunk(uint32_t next, uint32_t taken_at, uint32_t releases)
{
    return next % FREE_LOG_CHUNK == 0 || (taken_at != releases && !single_threaded());
}

/* The word of a thread. Lower half: the number of the place to fill next; a multiple of
 * FREE_LOG_CHUNK if a new chunk is due. Upper half: the count of releases when the chunk was
 * taken. */
static _Atomic uint64_t
    common; /* of the threads that have no word of their own: exchanged, not stored */

/* [one fills a chunk] */
void free_log_note(_Atomic uint64_t *own, const void *block, const void *site, uint64_t releases)
{
    uint64_t before = atomic_load_explicit(own ? own : &common, memory_order_relaxed), after;
    uint32_t number;
    if (!frees.places)
        return;
    do {
        uint32_t taken_at = (uint32_t)(before >> 32);
        number = (uint32_t)before;
        if (__builtin_expect(needs_chunk(number, taken_at, (uint32_t)releases), 0)) {
            number = take_chunk();
            taken_at = (uint32_t)releases;
        }
        after = (uint64_t)taken_at << 32 | (number + 1);
    } while (!own && !atomic_compare_exchange_weak_explicit(
                         &common, &before, after, memory_order_relaxed, memory_order_relaxed));
    if (own)
        atomic_store_explicit(own, after, memory_order_relaxed);
    struct place *place = &frees.places[number];
    atomic_store_explicit(&place->site, (uintptr_t)site, memory_order_relaxed);
    atomic_store_explicit(&place->block, (uintptr_t)block, memory_order_release);
}

static uintptr_t site_in(const struct place *chunk, const void *block)
{
    for (size_t i = FREE_LOG_CHUNK; i-- > 0;)
        if (atomic_load_explicit(&chunk[i].block, memory_order_acquire) == (uintptr_t)block)
            return atomic_load_explicit(&chunk[i].site, memory_order_relaxed);
    return 0;
}

uintptr_t free_log_site(const void *block)
{
    size_t taken = frees.places ? atomic_load(&frees.taken) : 0, oldest = 0;
    if (taken > CHUNKS)
        oldest = taken - CHUNKS;
    while (taken > oldest) {
        uintptr_t site = site_in(chunk_at(--taken), block);
        if (site)
            return site;
    }
    return 0;
}
