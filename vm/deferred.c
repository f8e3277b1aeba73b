/* SPDX-License-Identifier: MIT
 *
 * deferred.c: see deferred.h.
 */
#include "vm/deferred.h"

#include <stdatomic.h>
#include <stddef.h>

#include "vm/pages.h"

struct noted_call {
    deferred_call *_Atomic call;
    uintptr_t words[DEFERRED_WORDS];
};

enum { CALLS = 72 };

struct extent {
    struct extent *_Atomic next;
    struct noted_call calls[CALLS];
};

_Static_assert(sizeof(struct extent) <= PAGE_BYTES, "an extent is a page");

/* The first extent lies in the library's data, where a collector may look for roots: blocks that
 * wait for their free stay live. It is a common symbol, which lies behind what every process
 * writes, because few processes defer a call. */
extern struct extent deferred_first __attribute__((visibility("hidden")));
struct extent deferred_first __attribute__((common));
static _Atomic size_t count;

/* The extent behind another. */
static struct extent *next_extent(struct extent *extent)
{
    struct extent *next = atomic_load_explicit(&extent->next, memory_order_acquire);
    if (next)
        return next;
    struct extent *made = pages_map(PAGE_BYTES, PAGE_BYTES);
    if (!made || atomic_compare_exchange_strong(&extent->next, &next, made))
        return made;
    pages_unmap(made, PAGE_BYTES); /* another thread was first */
    return next;
}

bool defer(deferred_call *call, const uintptr_t words[DEFERRED_WORDS])
{
    size_t place = atomic_fetch_add(&count, 1);
    struct extent *extent = &deferred_first;
    for (; extent && place >= CALLS; place -= CALLS)
        extent = next_extent(extent);
    if (!extent)
        return false;
    for (size_t i = 0; i < DEFERRED_WORDS; i++)
        extent->calls[place].words[i] = words[i];
    atomic_store_explicit(&extent->calls[place].call, call, memory_order_release);
    return true;
}

bool defer_one(deferred_call *call, const void *word)
{
    return defer(call, (const uintptr_t[DEFERRED_WORDS]){(uintptr_t)word});
}

/* The words are cleared after each call: in the first extent they would be roots for as long as no
 * other call takes the place. */
static void run_extent(struct extent *extent, size_t calls)
{
    for (size_t i = 0; i < calls; i++) {
        struct noted_call *noted = &extent->calls[i];
        deferred_call *call = atomic_exchange(&noted->call, NULL);
        if (call)
            call(noted->words);
        for (size_t word = 0; word < DEFERRED_WORDS; word++)
            noted->words[word] = 0;
    }
}

/* [function last]. Every fork comes here twice, and mostly finds nothing. Then it writes to no
 * page. */
void deferred_run(void)
{
    size_t left = atomic_load(&count);
    if (left == 0)
        return;
    struct extent *extent = &deferred_first;
    while (extent && left > 0) {
        size_t calls = left < CALLS ? left : CALLS;
        run_extent(extent, calls);
        left -= calls;
        struct extent *next = extent->next;
        if (extent != &deferred_first)
            pages_unmap(extent, PAGE_BYTES);
        extent = next;
    }
    deferred_first.next = NULL;
    atomic_store(&count, 0);
}
