/* SPDX-License-Identifier: MIT
 *
 * scavenge.c: see scavenge.h.
 *
 * A copying collection in the order of Cheney (CACM 13, 11, 1970), with two places to copy to: the
 * other semispace and the end of the old generation. What lies there between the scan pointer and
 * the end is copied but not looked through. Each policy finds the same roots, perhaps in another
 * order; so the same objects live and the same are promoted.
 */
#include "bench_programs/runtime/scavenge.h"

#include <string.h>
#include <time.h>

#include "bench_programs/runtime/verify.h"

enum { MAX_ROOTS = 64, FORWARDED = 1 };

struct scavenges scavenges;

static struct {
    value *roots[MAX_ROOTS];
    size_t count;
    void (*on_scavenge)(void);
    uint64_t phase_start;
    uintptr_t to_start, to_top; /* the semispace that is copied to */
} state;

void root_add(value *root)
{
    if (state.count == MAX_ROOTS)
        heap_fail("too many roots");
    state.roots[state.count++] = root;
}

size_t root_count(void)
{
    return state.count;
}

value *root_at(size_t index)
{
    return state.roots[index];
}

void on_scavenge(void (*call)(void))
{
    state.on_scavenge = call;
}

static uint64_t nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t bookkeeping_begin(void)
{
    return nanoseconds();
}

void bookkeeping_end(uint64_t start)
{
    uint64_t spent = nanoseconds() - start;
    scavenges.nanoseconds[PHASE_OTHER] += spent;
    state.phase_start += spent;
}

static void end_phase(enum phase phase)
{
    uint64_t now = nanoseconds();
    scavenges.nanoseconds[phase] += now - state.phase_start;
    state.phase_start = now;
}

static bool in_from_space(value v)
{
    return is_young(v) && v - state.to_start >= heap.young_bytes;
}

static struct object *place_for(const struct object *object, size_t bytes)
{
    if (object->age >= TENURE_AGE && object->kind != KIND_FRAME) {
        heap.promoted_bytes += bytes;
        struct object *place = take_old(bytes);
        policy_before_write((uintptr_t)place, (uintptr_t)place + bytes);
        return place;
    }
    struct object *place = (struct object *)state.to_top;
    state.to_top += bytes;
    heap.survived_bytes += bytes;
    return place;
}

/* Where the value is now: copies the object if it has not moved yet. */
static value forwarded(value v)
{
    if (!in_from_space(v))
        return v;
    struct object *object = object_of(v);
    if (object->class & FORWARDED)
        return object->class - FORWARDED;
    size_t bytes = bytes_used(object);
    struct object *copy = place_for(object, bytes);
    memcpy(copy, object, bytes);
    copy->age++;
    object->class = value_of(copy) + FORWARDED;
    return value_of(copy);
}

static bool forward_old_slot(value *slot)
{
    value now = forwarded(*slot);
    if (now != *slot) {
        policy_before_write((uintptr_t)slot, (uintptr_t)(slot + 1));
        *slot = now;
    }
    return is_young(now);
}

/* Looks through copies; returns how far it came. */
static uintptr_t scan_survivors(uintptr_t scan)
{
    while (scan < state.to_top) {
        struct object *object = (struct object *)scan;
        for (size_t i = 0; i < value_count(object); i++)
            object->slots[i] = forwarded(object->slots[i]);
        scan += bytes_used(object);
    }
    return scan;
}

static uintptr_t scan_promoted(uintptr_t scan)
{
    while (scan < heap.old_top) {
        struct object *object = (struct object *)scan;
        for (size_t i = 0; i < value_count(object); i++) {
            object->slots[i] = forwarded(object->slots[i]);
            if (is_young(object->slots[i]))
                policy_remember(&object->slots[i]);
        }
        scan += bytes_used(object);
    }
    return scan;
}

/* What the verifier may still find there is no address of an object. */
static void flip(void)
{
    if (scavenges.verify)
        memset((void *)heap.space, 0xfd, heap.young_bytes);
    heap.space = state.to_start;
    heap.top = heap.survivors_end = state.to_top;
    heap.limit = heap.space + heap.young_bytes;
}

void scavenge(void)
{
    uintptr_t old_scan = heap.old_top;
    end_phase(PHASE_RUNNING);
    state.to_start = state.to_top = 2 * heap.young + heap.young_bytes - heap.space;
    policy_visit_roots(forward_old_slot);
    for (size_t i = 0; i < state.count; i++)
        *state.roots[i] = forwarded(*state.roots[i]);
    end_phase(PHASE_ROOTS);
    uintptr_t scan = state.to_start;
    while (scan < state.to_top || old_scan < heap.old_top) {
        scan = scan_survivors(scan);
        old_scan = scan_promoted(old_scan);
    }
    end_phase(PHASE_PROMOTED);
    flip();
    policy_clean();
    if (state.on_scavenge)
        state.on_scavenge();
    scavenges.count++;
    if (scavenges.verify)
        verify_heap();
    end_phase(PHASE_OTHER);
}

static struct measured measured;
static bool has_ended;

void measure_begin(void)
{
    for (int i = 0; i <= TENURE_AGE; i++)
        scavenge();
    memset(scavenges.nanoseconds, 0, sizeof scavenges.nanoseconds);
    policy_counters = (struct policy_counters){0};
    scavenges.count = heap.store_checks = heap.promoted_bytes = heap.survived_bytes = 0;
}

struct measured measure_end(void)
{
    if (has_ended)
        return measured;
    has_ended = true;
    end_phase(PHASE_RUNNING);
    measured = (struct measured){
        .scavenges = scavenges.count,
        .store_checks = heap.store_checks,
        .survived_bytes = heap.survived_bytes,
        .promoted_bytes = heap.promoted_bytes,
        .old_bytes = heap.old_top - heap_old_start,
        .counters = policy_counters,
    };
    memcpy(measured.nanoseconds, scavenges.nanoseconds, sizeof measured.nanoseconds);
    return measured;
}
