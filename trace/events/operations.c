/* SPDX-License-Identifier: MIT
 *
 * operations.c: allocations as the replay's player takes them.
 */
#include "trace/events/operations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/events/commands.h"

/* Slots of objects, and the slots that are free. */
struct slots {
    uint32_t *of_object;
    size_t objects;
    uint32_t *spare;
    size_t spares, spare_capacity;
    uint32_t used;
};

static void take_slot(struct slots *slots, uint64_t object)
{
    if (object >= slots->objects) {
        slots->objects *= 2;
        slots->of_object = grown(slots->of_object, slots->objects, sizeof *slots->of_object);
    }
    slots->of_object[object] = slots->spares ? slots->spare[--slots->spares] : slots->used++;
}

static void give_slot(struct slots *slots, uint32_t slot)
{
    if (slots->spares == slots->spare_capacity) {
        slots->spare_capacity = slots->spare_capacity ? 2 * slots->spare_capacity : 1 << 12;
        slots->spare = grown(slots->spare, slots->spare_capacity, sizeof *slots->spare);
    }
    slots->spare[slots->spares++] = slot;
}

int command_operations(const char *path, const char *output)
{
    struct allocations *all = open_file(path);
    struct slots slots = {.objects = 1 << 16};
    struct operations_head head = {.magic = OPERATIONS_MAGIC};
    slots.of_object = grown(NULL, slots.objects, sizeof *slots.of_object);
    struct allocation one;
    FILE *file = fopen(output, "we");
    if (!file)
        refuse(EXIT_DAMAGED, "%s: %s", output, strerror(errno));
    bool written = fwrite(&head, sizeof head, 1, file) == 1;
    for (; written && allocations_next(all, &one); head.count++) {
        if (one.type == ALLOCATION_NEW)
            take_slot(&slots, one.object);
        struct operation operation = {.slot = slots.of_object[one.object],
                                      .type = (uint8_t)one.type,
                                      .alignment = one.alignment,
                                      .zeroed = one.zeroed,
                                      .size = one.size};
        if (one.type == ALLOCATION_FREE)
            give_slot(&slots, operation.slot);
        written = fwrite(&operation, sizeof operation, 1, file) == 1;
    }
    head.slots = slots.used;
    head.bytes = allocations_counts(all)->bytes;
    written = written && fseek(file, 0, SEEK_SET) == 0 && fwrite(&head, sizeof head, 1, file) == 1;
    if (fclose(file) != 0 || !written)
        refuse(EXIT_DAMAGED, "%s: %s", output, strerror(errno));
    free(slots.of_object);
    free(slots.spare);
    print_facts(all);
    return close_file(all, path);
}
