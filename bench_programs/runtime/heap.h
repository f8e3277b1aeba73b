/* SPDX-License-Identifier: MIT
 *
 * heap.h: two generations in one range of addresses.
 *
 *   | young: semispace | young: semispace | old ............................... |
 *   heap.young                             heap_old_start    heap.old_top
 *
 * New objects come from the current semispace. A scavenge copies what lives there: to the other
 * semispace at first, to the old generation what has survived `TENURE_AGE` scavenges. Frames are
 * never promoted, so that a store into a frame needs no barrier: all active frames are copied at
 * each scavenge (Hosking & Moss 1993, footnote 6). The old generation is not collected.
 *
 * An object is old if and only if its address is at or above heap_old_start.
 *
 * object_starts has a bit for each 16 bytes of the old generation: an object starts here. By it the
 * object is found that lies across the start of a card.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_HEAP_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_HEAP_H

#include "bench_programs/runtime/object.h"

enum { TENURE_AGE = 1, RUNTIME_PAGE = 4096 };

struct heap {
    uintptr_t young, young_bytes; /* the first semispace; bytes of one */
    uintptr_t space, top, limit;  /* the current semispace: start, first free byte, end */
    uintptr_t survivors_end;      /* below: copies, which do not lie in the order of their ages */
    uintptr_t old_top, old_end;
    uint64_t *object_starts;
    uint64_t store_checks, promoted_bytes, survived_bytes;
};

extern struct heap heap;
extern uintptr_t heap_old_start; /* by itself, because the barriers' instructions name it */

/* Reserves address space; sizes in bytes, that of the old generation a multiple of a page. Ends the
 * program if there is none. */
void heap_open(size_t young_bytes, size_t old_bytes);

/* Address space that is zero and takes memory when it is touched. */
void *heap_reserve(size_t bytes);

_Noreturn void heap_fail(const char *what);

static inline bool is_young(value v)
{
    return !(v & 1) && v < heap_old_start;
}

/* A new object, all slots `fill` or all bytes 0. May scavenge, which moves objects: whoever calls
 * it looks for its own again, from a root. A large one is old from the start. */
struct object *allocate(value class, enum kind kind, size_t size, value fill);

/* The same in the old generation; never scavenges. */
struct object *allocate_old(value class, enum kind kind, size_t size, value fill);

/* Room for an object in the old generation. */
struct object *take_old(size_t bytes);

/* Whether an old object starts at this address. */
bool starts_object(uintptr_t address);

/* Calls `visit` for each slot of old objects in [start, end), in order of addresses, and returns
 * how many of the calls returned true. */
typedef bool slot_visitor(value *slot);
size_t visit_slots(uintptr_t start, uintptr_t end, slot_visitor *visit);

#endif
