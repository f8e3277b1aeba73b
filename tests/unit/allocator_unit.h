/* SPDX-License-Identifier: MIT
 *
 * allocator_unit.h: what every whole allocator must do, for the unit test of each.
 */
#ifndef ALLOTROPE_TESTS_UNIT_ALLOCATOR_UNIT_H
#define ALLOTROPE_TESTS_UNIT_ALLOCATOR_UNIT_H

#include "tests/unit/model.h"
#include "tests/unit/unit.h"

/* Rounds of random requests and a walk. most_bytes: see struct model. */
void assert_agrees_with_model(const struct allocator *allocator, unsigned rounds,
                              size_t most_bytes);

/* Four threads with a model each, which also free each other's blocks, and use the allocator after
 * their end. */
void assert_threads_agree_with_models(const struct allocator *allocator);

/* The child of a fork goes on while other threads allocate in the parent. */
void assert_forked_child_goes_on(const struct allocator *allocator);

/* A walk finds exactly the blocks of the models live, each where the program sees it, and the
 * account of free and cached blocks is that of the walk. No other thread may be at work. */
void assert_walk_meets(const struct model *models, size_t count);

void assert_impossible_sizes_are_refused(const struct allocator *allocator);
void assert_foreign_pointers_are_ignored(const struct allocator *allocator);

#endif
