/* SPDX-License-Identifier: MIT
 *
 * operations.h: allocations as the replay's player takes them: a head, then one operation for
 * each. Objects lie in slots, which are used again, so that the player needs one word for each
 * object that is live at one time and nothing else.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_OPERATIONS_H
#define ALLOTROPE_TRACE_EVENTS_OPERATIONS_H

#include <stdint.h>

#define OPERATIONS_MAGIC UINT64_C(0x31534f5041544c41)

struct operations_head {
    uint64_t magic;
    uint64_t count;
    uint64_t slots;
    uint64_t bytes; /* asked for in all */
};

struct operation {
    uint32_t slot;
    uint8_t type;      /* enum allocation_type of allocations.h */
    uint8_t alignment; /* log2 of what was asked for; 0: nothing */
    uint8_t zeroed;
    uint8_t unused;
    uint64_t size;
};
_Static_assert(sizeof(struct operation) == 16, "no padding");

#endif
