/* SPDX-License-Identifier: MIT
 *
 * instructions.h: small numbers for instructions, in the order in which they are met.
 *
 * A reference has room for one number. Who asks for misses by instruction gets the instruction's
 * number there, in the place of its function's.
 */
#ifndef ALLOTROPE_TRACE_BASE_INSTRUCTIONS_H
#define ALLOTROPE_TRACE_BASE_INSTRUCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct instruction {
    uint64_t address; /* 0 where it is not known */
    uint32_t function;
};

/* All zero is an empty one, that is not in use. */
struct instructions {
    bool in_use;
    bool short_of_memory; /* all that were met since have the number 0 */
    struct instruction *list;
    size_t count, capacity;
    uint32_t *table; /* numbers + 1 by address and function; a power of two */
    size_t table_size;
};

/* The number of an instruction; the function's own, where instructions are not in use. */
uint32_t instructions_number(struct instructions *instructions, uint64_t address,
                             uint32_t function);

/* What a number is; NULL where there is no such. */
const struct instruction *instructions_find(const struct instructions *instructions,
                                            uint32_t number);

void instructions_free(struct instructions *instructions);

#endif
