/* SPDX-License-Identifier: MIT
 *
 * asked_roots.c: see asked_roots.h.
 *
 * Ranges are an array in no order. Pins are a hash table with open addressing, which is half full
 * at most. Both lie in the collector's own memory, so what they name is no root by itself.
 */
#include "vm/asked_roots.h"

#include <errno.h>
#include <string.h>

#include "vm/deferred.h"
#include "vm/fork_chain.h"
#include "vm/freeze.h"
#include "vm/lock.h"
#include "vm/private_memory.h"

enum { FIRST_ROOM = 4096 }; /* a power of 2 */

struct range {
    uintptr_t start;
    size_t bytes;
};

/* count: a number below any address, so that no collector takes it for one. address: 0 where the
 * place is empty. */
struct pin {
    uintptr_t address;
    size_t count;
};

static struct {
    struct lock lock;
    struct range *ranges;
    size_t range_room, range_count;
    struct pin *pins;
    size_t pin_room, pin_count;
    bool is_incomplete; /* see asked_roots_each */
} asked = {.lock = LOCK_INITIALIZER(RANK_ROOTS)};

void asked_roots_init(void)
{
    fork_chain_add(&asked.lock);
}

void asked_roots_lock(void)
{
    lock_acquire(&asked.lock);
}

bool asked_roots_try(void)
{
    return lock_try(&asked.lock);
}

void asked_roots_unlock(void)
{
    lock_release(&asked.lock);
}

/* Ranges. The lock is held. */

static bool grow_ranges(void)
{
    size_t room = asked.range_room ? 2 * asked.range_room : FIRST_ROOM;
    struct range *larger = private_memory_map(room * sizeof *larger);
    if (!larger)
        return false;
    if (asked.ranges) {
        memcpy(larger, asked.ranges, asked.range_count * sizeof *larger);
        private_memory_unmap(asked.ranges, asked.range_room * sizeof *larger);
    }
    asked.ranges = larger;
    asked.range_room = room;
    return true;
}

static int add(uintptr_t start, size_t bytes)
{
    if (asked.range_count == asked.range_room && !grow_ranges())
        return ENOMEM;
    asked.ranges[asked.range_count++] = (struct range){start, bytes};
    return 0;
}

static int take_away(uintptr_t start, size_t bytes)
{
    for (size_t i = asked.range_count; i-- > 0;)
        if (asked.ranges[i].start == start && asked.ranges[i].bytes == bytes) {
            asked.ranges[i] = asked.ranges[--asked.range_count];
            return 0;
        }
    return ENOENT;
}

/* Pins. The lock is held. */

/* Where the address is, or would be. There is an empty place. */
static struct pin *place_of(struct pin *pins, size_t room, uintptr_t address)
{
    static const uint64_t SPREAD = UINT64_C(0x9E3779B97F4A7C15); /* 2^64 by the golden ratio */
    size_t place = (size_t)(address * SPREAD >> 32) & (room - 1);
    while (pins[place].address != 0 && pins[place].address != address)
        place = (place + 1) & (room - 1);
    return &pins[place];
}

static bool grow_pins(void)
{
    size_t room = asked.pin_room ? 2 * asked.pin_room : FIRST_ROOM;
    struct pin *larger = private_memory_map(room * sizeof *larger);
    if (!larger)
        return false;
    for (size_t i = 0; i < asked.pin_room; i++)
        if (asked.pins[i].address != 0)
            *place_of(larger, room, asked.pins[i].address) = asked.pins[i];
    if (asked.pins)
        private_memory_unmap(asked.pins, asked.pin_room * sizeof *larger);
    asked.pins = larger;
    asked.pin_room = room;
    return true;
}

static int pin(uintptr_t address, size_t unused)
{
    (void)unused;
    if (asked.pin_count >= asked.pin_room / 2 && !grow_pins())
        return ENOMEM;
    struct pin *place = place_of(asked.pins, asked.pin_room, address);
    asked.pin_count += place->address == 0;
    place->address = address;
    place->count++;
    return 0;
}

/* Empties a place. The pins behind it may have been moved on because it was taken, so they are
 * entered anew. */
static void empty(struct pin *place)
{
    *place = (struct pin){0};
    asked.pin_count--;
    size_t next = (size_t)(place - asked.pins);
    for (;;) {
        next = (next + 1) & (asked.pin_room - 1);
        struct pin moved = asked.pins[next];
        if (moved.address == 0)
            return;
        asked.pins[next] = (struct pin){0};
        *place_of(asked.pins, asked.pin_room, moved.address) = moved;
    }
}

static int unpin(uintptr_t address, size_t unused)
{
    (void)unused;
    struct pin *place = asked.pins ? place_of(asked.pins, asked.pin_room, address) : NULL;
    if (!place || place->address == 0)
        return ENOENT;
    if (--place->count == 0)
        empty(place);
    return 0;
}

/* Changes. */

typedef int change(uintptr_t address, size_t bytes);

/* Makes a noted change, in the thread that forked, which holds the lock. Nobody hears the result
 * any more, so a change that failed for want of memory is remembered. */
static void change_deferred(const uintptr_t words[DEFERRED_WORDS])
{
    if (((change *)words[0])(words[1], words[2]) == ENOMEM)
        asked.is_incomplete = true;
}

static int make(change *wanted, uintptr_t address, size_t bytes)
{
    if (!lock_enter(&asked.lock)) {
        bool noted = defer(change_deferred,
                           (const uintptr_t[DEFERRED_WORDS]){(uintptr_t)wanted, address, bytes});
        frozen_end();
        return noted ? 0 : ENOMEM;
    }
    int error = wanted(address, bytes);
    lock_release(&asked.lock);
    return error;
}

int asked_roots_add(uintptr_t start, size_t bytes)
{
    return make(add, start, bytes);
}

int asked_roots_remove(uintptr_t start, size_t bytes)
{
    return make(take_away, start, bytes);
}

int asked_roots_pin(uintptr_t address)
{
    return make(pin, address, 0);
}

int asked_roots_unpin(uintptr_t address)
{
    return make(unpin, address, 0);
}

bool asked_roots_each(void (*words)(const void *start, const void *end),
                      void (*range)(uintptr_t start, uintptr_t end))
{
    if (asked.pin_count > 0)
        words(asked.pins, asked.pins + asked.pin_room);
    for (size_t i = 0; i < asked.range_count; i++)
        range(asked.ranges[i].start, asked.ranges[i].start + asked.ranges[i].bytes);
    return !asked.is_incomplete;
}
