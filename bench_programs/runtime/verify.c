/* SPDX-License-Identifier: MIT
 *
 * verify.c: see verify.h.
 */
#include "bench_programs/runtime/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/scavenge.h"

static uint8_t *young_starts; /* a byte for each place where a young object may start */

static _Noreturn void fault(const char *what, const void *where)
{
    fprintf(stderr, "runtime: %s: %s at %p after scavenge %lu\n", policy_name, what, where,
            (unsigned long)scavenges.count);
    exit(3);
}

static void find_young_objects(void)
{
    size_t places = heap.young_bytes / OBJECT_ALIGNMENT;
    if (!young_starts)
        young_starts = heap_reserve(places);
    memset(young_starts, 0, places);
    uintptr_t at = heap.space;
    while (at < heap.top) {
        young_starts[(at - heap.space) / OBJECT_ALIGNMENT] = 1;
        at += bytes_used((struct object *)at);
    }
    if (at != heap.top)
        fault("young objects do not end at the top", (void *)at);
}

static bool is_sound(value v)
{
    if (is_integer(v))
        return true;
    if (v % OBJECT_ALIGNMENT != 0)
        return false;
    if (v >= heap_old_start)
        return v < heap.old_top && starts_object(v);
    return v >= heap.space && v < heap.top && young_starts[(v - heap.space) / OBJECT_ALIGNMENT];
}

static void verify_object(struct object *object, bool is_old)
{
    if (is_integer(object->class) || is_young(object->class) || !is_sound(object->class))
        fault("an object's class is no old object", object);
    for (size_t i = 0; i < value_count(object); i++) {
        value *slot = &object->slots[i];
        if (!is_sound(*slot))
            fault("a slot holds no object", slot);
        if (is_old && is_young(*slot) && !policy_knows(slot))
            fault("the barrier does not know of an old slot with a young value", slot);
    }
}

void verify_heap(void)
{
    find_young_objects();
    for (uintptr_t at = heap.space; at < heap.top; at += bytes_used((struct object *)at))
        verify_object((struct object *)at, false);
    uintptr_t at = heap_old_start;
    while (at < heap.old_top) {
        struct object *object = (struct object *)at;
        if (!starts_object(at))
            fault("an old object's start is not noted", object);
        if (object->kind == KIND_FRAME)
            fault("a frame was promoted", object);
        verify_object(object, true);
        at += bytes_used(object);
    }
    if (at != heap.old_top)
        fault("old objects do not end at the top", (void *)at);
    for (size_t i = 0; i < root_count(); i++)
        if (!is_sound(*root_at(i)))
            fault("a root holds no object", root_at(i));
}
