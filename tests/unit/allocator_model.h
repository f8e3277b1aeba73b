/* SPDX-License-Identifier: MIT
 *
 * allocator_model.h: any whole allocator against a table of what was asked of it.
 *
 * Random requests of every kind; each block is filled with a pattern of its own, which is looked
 * at before the block is changed or freed. So blocks that overlap, move without their contents,
 * are handed out twice or are not zero are found. Threads may each have a model, and pass each
 * other blocks.
 */
#ifndef ALLOTROPE_TESTS_UNIT_ALLOCATOR_MODEL_H
#define ALLOTROPE_TESTS_UNIT_ALLOCATOR_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/allocator.h"

enum { MODEL_BLOCKS = 512 };

struct model_block {
    unsigned char *start; /* NULL: none */
    size_t bytes;
    unsigned char pattern;
};

struct model {
    const struct allocator *allocator;
    uint64_t random; /* not 0 */
    struct model_block blocks[MODEL_BLOCKS];
};

/* Makes so many random requests. NULL, or what is wrong: assertions belong to the test's own
 * thread. */
const char *model_run(struct model *model, size_t requests);

/* Frees everything that the model holds, after a last look at it. */
const char *model_drop(struct model *model);

/* Frees a block that another thread's model may have allocated. */
const char *model_free(const struct allocator *allocator, struct model_block *block);

/* Asserts that a walk finds exactly the blocks of the models live, each where the program sees
 * it, and that the account of free and cached blocks is that of the walk. No other thread may be
 * at work. */
void model_assert_walk(const struct model *models, size_t count);

/* Asserts that the child of a fork can go on while other threads allocate in the parent. */
void model_assert_forks(const struct allocator *allocator);

#endif
