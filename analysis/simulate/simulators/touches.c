/* SPDX-License-Identifier: MIT
 *
 * touches.c: one pass over the references.
 */
#include "analysis/simulate/simulators/touches.h"

#include <string.h>

#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/touches_state.h"

void touches_init(struct touch_source *source, uint64_t unit_bytes, bool keep_stores)
{
    memset(source, 0, sizeof *source);
    source->shift = (unsigned)__builtin_ctzll(unit_bytes);
    source->keep_stores = keep_stores;
    source->last_unit = UINT64_MAX;
    source->class_count = 1;
}

/* Appends the touches of one reference at `touches` and returns how many they were. */
static inline size_t take_one(struct touch_source *source, const struct reference *reference,
                              uint64_t *touches)
{
    uint64_t end = reference->address + reference->size - (reference->size != 0);
    uint64_t first = reference->address >> source->shift;
    uint64_t last = end >> source->shift;
    bool store = reference->kind == REFERENCE_STORE;
    struct reference_totals *totals = &source->of_class[reference->class];
    if (totals->references++ == 0 && reference->class != 0)
        source->classes[source->class_count++] = reference->class;
    totals->stores += store;
    totals->touches += last - first + 1;

    uint64_t marks = (uint64_t)reference->class << TOUCH_CLASS_SHIFT;
    bool first_store = false;
    if (source->keep_stores) {
        marks |= store ? TOUCH_STORE : 0;
        first_store = store && !source->last_was_store;
    }
    size_t count = 0;
    touches[count] = first | marks;
    count += first != source->last_unit || first_store;
    for (uint64_t unit = first + 1; unit <= last; unit++)
        touches[count++] = unit | marks;
    source->last_unit = last;
    source->last_was_store = store;
    source->largest_unit = last > source->largest_unit ? last : source->largest_unit;
    return count;
}

size_t touches_take_scalar(struct touch_source *source, const struct references *references,
                           size_t *position, uint64_t *touches, size_t room)
{
    size_t count = 0;
    size_t at = *position;
    for (; at < references->count && count + TOUCH_LARGEST_SPAN <= room; at++) {
        const struct reference *reference = &references->reference[at];
        if (reference->address >= REFERENCE_ADDRESS_LIMIT) {
            source->bad_address = reference->address;
            break;
        }
        count += take_one(source, reference, touches + count);
    }
    *position = at;
    return count;
}

size_t touches_take(struct touch_source *source, const struct references *references,
                    size_t *position, uint64_t *touches)
{
    if (dispatch_avx512())
        return touches_take_avx512(source, references, position, touches);
    return touches_take_scalar(source, references, position, touches, TOUCH_CAPACITY);
}

void touches_join(struct touch_source *source, const struct touch_source *later)
{
    for (unsigned i = 0; i < later->class_count; i++) {
        uint8_t class = later->classes[i];
        const struct reference_totals *more = &later->of_class[class];
        struct reference_totals *totals = &source->of_class[class];
        if (totals->references == 0 && class != 0)
            source->classes[source->class_count++] = class;
        totals->references += more->references;
        totals->stores += more->stores;
        totals->touches += more->touches;
    }
    if (later->last_unit == UINT64_MAX)
        return;
    source->last_unit = later->last_unit;
    source->last_was_store = later->last_was_store;
    if (later->largest_unit > source->largest_unit)
        source->largest_unit = later->largest_unit;
}
