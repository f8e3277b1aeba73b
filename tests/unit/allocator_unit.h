/* SPDX-License-Identifier: MIT
 *
 * allocator_unit.h: what every whole allocator must do, for the unit test of each.
 */
#ifndef ALLOTROPE_TESTS_UNIT_ALLOCATOR_UNIT_H
#define ALLOTROPE_TESTS_UNIT_ALLOCATOR_UNIT_H

#include "tests/unit/model.h"
#include "tests/unit/unit.h"

/* A walk finds exactly the blocks of the models live, each where the program sees it, and the
 * account of free and cached blocks is that of the walk. No other thread may be at work. */
void assert_walk_meets(const struct model *models, size_t count);

struct allocator_case {
    const struct allocator *allocator;
    unsigned rounds;   /* of test_agrees_with_a_model */
    size_t most_bytes; /* see struct model */
};

#define ALLOCATOR_TEST(test, wanted) cmocka_unit_test_prestate(test, (void *)&(wanted))

/* Rounds of random requests and a walk. */
void test_agrees_with_a_model(void **state);
/* Four threads with a model each, which use the allocator after their end too. */
void test_threads_agree_with_models_and_free_each_others_blocks(void **state);
/* The child goes on, while others allocate in the parent. */
void test_fork_while_threads_allocate(void **state);
/* While a fork is prepared a thread uses the allocator from its start to its end, and waits for
 * nobody. Parent and child go on with what it has made. */
void test_a_thread_allocates_while_another_forks(void **state);
/* The child has what the parent's other threads kept of their free blocks. */
void test_a_forked_child_has_the_free_blocks_of_all_threads(void **state);
void test_impossible_sizes_are_refused_and_the_shim_is_told(void **state);
void test_foreign_pointers_are_reported_and_ignored(void **state);

#endif
