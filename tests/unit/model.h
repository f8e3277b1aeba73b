/* SPDX-License-Identifier: MIT
 *
 * model.h: the naive model of an allocator: a table of the blocks that it has handed out.
 *
 * Random requests of every kind are made and the table says what each must do (see held_block.h).
 * A walk of the heap must find exactly the blocks of the table live. Each thread may have a model
 * of its own, and free blocks of the others.
 *
 * Functions that return text return NULL, or what is wrong: assertions belong to the test's own
 * thread, and programs without cmocka have none.
 */
#ifndef ALLOTROPE_TESTS_UNIT_MODEL_H
#define ALLOTROPE_TESTS_UNIT_MODEL_H

#include "tests/unit/held_block.h"

enum { MODEL_BLOCKS = 2000 };

struct model {
    const struct allocator *allocator;
    uint64_t random;
    size_t entries;    /* of the table, that are used; 0: all */
    size_t most_bytes; /* that a request of model_run asks for; 0: 1 MiB */
    struct held_block blocks[MODEL_BLOCKS];
};

/* One request: an empty entry of the table is filled, a block is resized or freed. bytes: for a
 * new size. */
const char *model_request(struct model *model, size_t bytes);

/* So many requests: mostly of small blocks, now and then of any size. */
const char *model_run(struct model *model, size_t requests);

/* Frees everything that the model holds, after a last look at it. */
const char *model_drop(struct model *model);

/* What a walk meets, of each state, and how it compares with what the models hold. */
struct meeting {
    size_t held;      /* by the models */
    size_t live;      /* met */
    size_t unknown;   /* of these: none of the models' */
    size_t elsewhere; /* of these: a block of a model lies in it, but not at its start */
    uint64_t free_blocks, free_bytes;
    uint64_t cached_blocks, cached_bytes;
};

/* models: at least one, all of one allocator. */
struct meeting model_meet(const struct model *models, size_t count);

#endif
