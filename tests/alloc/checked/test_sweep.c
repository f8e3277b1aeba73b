/* SPDX-License-Identifier: MIT
 *
 * test_sweep.c: the look at all slots that a process takes at its end, while a thread is anywhere
 * in malloc, free or realloc.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "tests/unit/checked_unit.h"
#include "tests/unit/single_step.h"

/* Slots of 32 and of 1024 bytes; a slack of up to 8 bytes, of more than 8, of more than 16. */
static const size_t sizes[] = {20, 12, 1012, 980};
enum { SIZES = 4, BLOCKS = 4096, ROUNDS = 16, LARGE = 40001 };

static void *blocks[BLOCKS], *kept[SIZES * ROUNDS];
static volatile size_t steps;

/* As a thread that ends the process while the one under test stands here sees the slots. */
static void sweep(int number)
{
    (void)number;
    steps++;
    blocks_checked.at_exit();
}

static void expect_no_report_at_any_step(child_body *body)
{
    const struct ending ending = run_child(body, NULL);
    assert_succeeded(&ending);
    assert_string_equal(ending.errors, "");
}

static void watch(void)
{
    const struct sigaction action = {.sa_handler = sweep};
    require(sigaction(SIGTRAP, &action, NULL) == 0);
}

/* So that the next come from slots that had a block before. */
static void use_slots(size_t size)
{
    for (size_t i = 0; i < BLOCKS; i++)
        require((blocks[i] = blocks_checked.alloc(size)) != NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks_checked.free(blocks[i]);
}

static void *stepped_alloc(size_t size)
{
    step(true);
    void *block = blocks_checked.alloc(size);
    step(false);
    return memset(block, 'A', size);
}

static void stepped_free(void *block)
{
    step(true);
    blocks_checked.free(block);
    step(false);
}

static void alloc_and_free(void *unused)
{
    (void)unused;
    watch();
    for (size_t i = 0; i < SIZES; i++) {
        use_slots(sizes[i]);
        for (size_t round = 0; round < ROUNDS; round++)
            stepped_free(stepped_alloc(sizes[i]));
    }
    require(steps > (size_t)ROUNDS * SIZES * 100);
}

static void test_a_block_that_is_handed_out_or_freed_is_no_fault(void **state)
{
    (void)state;
    expect_no_report_at_any_step(alloc_and_free);
}

static pthread_barrier_t made, freed;

static void *make_blocks(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < SIZES; i++) {
        use_slots(sizes[i]);
        for (size_t round = 0; round < ROUNDS; round++)
            kept[i * ROUNDS + round] = memset(blocks_checked.alloc(sizes[i]), 'A', sizes[i]);
    }
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&freed);
    return NULL;
}

static void free_of_another(void *unused)
{
    pthread_t thread;
    (void)unused;
    watch();
    pthread_barrier_init(&made, NULL, 2);
    pthread_barrier_init(&freed, NULL, 2);
    require(pthread_create(&thread, NULL, make_blocks, NULL) == 0);
    pthread_barrier_wait(&made);
    for (size_t i = 0; i < (size_t)SIZES * ROUNDS; i++)
        stepped_free(kept[i]);
    pthread_barrier_wait(&freed);
    pthread_join(thread, NULL);
}

static void test_a_block_that_another_thread_frees_is_no_fault(void **state)
{
    (void)state;
    expect_no_report_at_any_step(free_of_another);
}

/* A handler that ends the process may interrupt malloc, too; this is the process's one thread. */
static void alloc_and_free_large(void *unused)
{
    (void)unused;
    watch();
    for (size_t round = 0; round < ROUNDS; round++)
        stepped_free(stepped_alloc(LARGE));
}

static void test_a_large_block_that_is_handed_out_or_freed_is_no_fault(void **state)
{
    (void)state;
    expect_no_report_at_any_step(alloc_and_free_large);
}

static void stepped_resize(char *block, size_t size)
{
    step(true);
    void *moved = blocks_checked.resize(block, size);
    step(false);
    require(moved == block);
    memset(block, 'A', size);
}

/* In a slot of 416 bytes, with more slack than is filled, to any other size that stays there; and
 * of a large block. */
static void resize_in_place(void *unused)
{
    static const size_t resized[] = {210, 300, 360, 400, 300, 390, 210, 400};
    (void)unused;
    watch();
    char *block = memset(blocks_checked.alloc(400), 'A', 400);
    char *large = memset(blocks_checked.alloc(LARGE), 'A', LARGE);
    for (size_t i = 0; i < sizeof resized / sizeof *resized; i++) {
        stepped_resize(block, resized[i]);
        stepped_resize(large, 32800 + 18 * resized[i]);
    }
}

static void test_a_block_that_is_resized_in_place_is_no_fault(void **state)
{
    (void)state;
    expect_no_report_at_any_step(resize_in_place);
}

/* What the sweep is for, or the tests above would pass without it. */
static void write_to_a_freed_block(void *unused)
{
    char *block = blocks_checked.alloc(40);
    (void)unused;
    blocks_checked.free(block);
    block[8] = 'A';
    blocks_checked.at_exit();
}

static void test_a_write_after_free_is_reported(void **state)
{
    (void)state;
    const struct ending ending = run_child(write_to_a_freed_block, NULL);
    assert_int_equal(ending.signal, SIGABRT);
    assert_non_null(strstr(ending.errors, "written after its free"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_that_is_handed_out_or_freed_is_no_fault),
        cmocka_unit_test(test_a_block_that_another_thread_frees_is_no_fault),
        cmocka_unit_test(test_a_large_block_that_is_handed_out_or_freed_is_no_fault),
        cmocka_unit_test(test_a_block_that_is_resized_in_place_is_no_fault),
        cmocka_unit_test(test_a_write_after_free_is_reported),
    };
    return cmocka_run_group_tests_name("sweep at exit", tests, start_checked, NULL);
}
