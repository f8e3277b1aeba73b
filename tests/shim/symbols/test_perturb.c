/* SPDX-License-Identifier: MIT
 *
 * test_perturb.c: which memory mallopt's M_PERTURB overwrites, with what, and when.
 */
#include "tests/unit/unit.h"

/* Included, not linked: its state is made anew for each test. */
#include "shim/symbols/perturb.c"

enum { BYTES = 64, LARGER_BYTES = 128, VALUE = 0x5A, NEW = VALUE ^ 0xFF, OLD = 0x11 };

/* An allocator of two blocks, the second one larger. */
static char small[BYTES], larger[LARGER_BYTES];
static bool is_empty;      /* has no block to give */
static char *freed;        /* the last */
static char first_byte;    /* of it, when it was freed */
static char *in_place;     /* the block that the allocator itself resized last */
static struct route route; /* what the program calls */
static unsigned wraps;     /* how often it was asked for */
static bool has_route;

static void *give_larger(size_t size)
{
    return is_empty || size > LARGER_BYTES ? NULL : larger;
}

static void *give_larger_aligned(size_t alignment, size_t size)
{
    assert_int_equal(alignment, 32);
    return give_larger(size);
}

static void take_back(void *block)
{
    freed = block;
    first_byte = *freed;
}

static void *resize_in_place(void *block, size_t size)
{
    (void)size;
    return in_place = block;
}

static size_t bytes_of(const void *block)
{
    return block == small ? BYTES : LARGER_BYTES;
}

static bool has(const void *address)
{
    return address == small || address == larger;
}

static const struct route behind = {.alloc = give_larger,
                                    .alloc_zeroed = give_larger,
                                    .alloc_aligned = give_larger_aligned,
                                    .free = take_back,
                                    .resize = resize_in_place,
                                    .usable_size = bytes_of,
                                    .owns = has};

bool route_wrap(struct route (*wrapper)(struct route behind))
{
    wraps++;
    if (has_route)
        route = wrapper(route);
    return has_route;
}

/* perturb() wraps the route once in a process. So what comes before that is tried before the first
 * test: a value of 0, which needs no route; and a library that has none. */
static unsigned wraps_for_zero, wraps_without_route, wraps_with_one;
static bool done_for_zero, done_without_route;

static int wrap_route(void **state)
{
    (void)state;
    route = behind;
    done_for_zero = perturb(0);
    wraps_for_zero = wraps;
    done_without_route = perturb(VALUE);
    wraps_without_route = wraps - wraps_for_zero;
    has_route = true;
    bool done = perturb(VALUE);
    wraps_with_one = wraps - wraps_for_zero - wraps_without_route;
    return done ? 0 : -1;
}

static int start(void **state)
{
    (void)state;
    memset(small, OLD, BYTES);
    memset(larger, OLD, LARGER_BYTES);
    is_empty = false;
    freed = in_place = NULL;
    return perturb(VALUE) ? 0 : -1;
}

static void assert_bytes(const char *memory, size_t from, size_t to, int byte)
{
    for (size_t i = from; i < to; i++)
        assert_int_equal((unsigned char)memory[i], byte);
}

static void test_a_new_block_has_the_complement_as_far_as_it_was_asked_for(void **state)
{
    (void)state;
    assert_ptr_equal(route.alloc(100), larger);
    assert_bytes(larger, 0, 100, NEW);
    assert_bytes(larger, 100, LARGER_BYTES, OLD);
    memset(larger, OLD, LARGER_BYTES);
    assert_ptr_equal(route.alloc_aligned(32, 50), larger);
    assert_bytes(larger, 0, 50, NEW);
    assert_bytes(larger, 50, LARGER_BYTES, OLD);
}

static void test_a_block_of_zeros_stays_so(void **state)
{
    (void)state;
    memset(larger, 0, LARGER_BYTES);
    assert_ptr_equal(route.alloc_zeroed(LARGER_BYTES), larger);
    assert_bytes(larger, 0, LARGER_BYTES, 0);
}

static void test_no_block_is_no_block(void **state)
{
    (void)state;
    is_empty = true;
    assert_null(route.alloc(1));
    assert_null(route.alloc_aligned(32, 1));
}

static void test_a_freed_block_has_the_value_over_its_whole_length_before_it_is_free(void **state)
{
    (void)state;
    route.free(small);
    assert_ptr_equal(freed, small);
    assert_int_equal(first_byte, VALUE);
    assert_bytes(small, 0, BYTES, VALUE);
    assert_bytes(larger, 0, LARGER_BYTES, OLD);
}

/* The allocator reports it. */
static void test_what_is_not_the_allocators_is_not_overwritten(void **state)
{
    (void)state;
    char foreign[LARGER_BYTES];
    memset(foreign, OLD, sizeof foreign);
    route.free(foreign);
    assert_ptr_equal(freed, foreign);
    assert_bytes(foreign, 0, sizeof foreign, OLD);
}

static void test_a_block_that_grows_is_moved_and_both_are_overwritten(void **state)
{
    (void)state;
    assert_ptr_equal(route.resize(small, 100), larger);
    assert_null(in_place);
    assert_bytes(larger, 0, BYTES, OLD);
    assert_bytes(larger, BYTES, 100, NEW);
    assert_bytes(larger, 100, LARGER_BYTES, OLD);
    assert_ptr_equal(freed, small);
    assert_bytes(small, 0, BYTES, VALUE);
}

static void test_a_block_that_cannot_grow_is_as_it_was(void **state)
{
    (void)state;
    is_empty = true;
    assert_null(route.resize(small, 100));
    assert_null(freed);
    assert_bytes(small, 0, BYTES, OLD);
}

static void test_a_block_that_does_not_grow_is_the_allocators_matter(void **state)
{
    (void)state;
    assert_ptr_equal(route.resize(small, BYTES), small);
    assert_ptr_equal(in_place, small);
    assert_null(freed);
    assert_bytes(small, 0, BYTES, OLD);
}

static void test_only_the_low_byte_of_the_value_counts(void **state)
{
    (void)state;
    perturb(0x1200 | VALUE);
    route.alloc(1);
    assert_bytes(larger, 0, 1, NEW);
    route.free(small);
    assert_bytes(small, 0, BYTES, VALUE);
}

static void test_zero_ends_it(void **state)
{
    (void)state;
    assert_true(perturb(0));
    route.alloc(LARGER_BYTES);
    route.free(small);
    assert_ptr_equal(freed, small);
    assert_ptr_equal(route.resize(small, 100), small);
    assert_ptr_equal(in_place, small);
    assert_bytes(small, 0, BYTES, OLD);
    assert_bytes(larger, 0, LARGER_BYTES, OLD);
}

static void test_the_route_is_wrapped_once(void **state)
{
    (void)state;
    unsigned before = wraps;
    assert_true(perturb(1));
    assert_true(perturb(0));
    assert_true(perturb(2));
    assert_int_equal(wraps, before);
}

static void test_a_program_that_asks_for_nothing_pays_for_nothing(void **state)
{
    (void)state;
    assert_true(done_for_zero);
    assert_int_equal(wraps_for_zero, 0);
}

static void test_it_fails_where_there_is_no_route_and_is_tried_again(void **state)
{
    (void)state;
    assert_false(done_without_route);
    assert_int_equal(wraps_without_route, 1);
    assert_int_equal(wraps_with_one, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_new_block_has_the_complement_as_far_as_it_was_asked_for,
                               start),
        cmocka_unit_test_setup(test_a_block_of_zeros_stays_so, start),
        cmocka_unit_test_setup(test_no_block_is_no_block, start),
        cmocka_unit_test_setup(
            test_a_freed_block_has_the_value_over_its_whole_length_before_it_is_free, start),
        cmocka_unit_test_setup(test_what_is_not_the_allocators_is_not_overwritten, start),
        cmocka_unit_test_setup(test_a_block_that_grows_is_moved_and_both_are_overwritten, start),
        cmocka_unit_test_setup(test_a_block_that_cannot_grow_is_as_it_was, start),
        cmocka_unit_test_setup(test_a_block_that_does_not_grow_is_the_allocators_matter, start),
        cmocka_unit_test_setup(test_only_the_low_byte_of_the_value_counts, start),
        cmocka_unit_test_setup(test_zero_ends_it, start),
        cmocka_unit_test_setup(test_the_route_is_wrapped_once, start),
        cmocka_unit_test(test_a_program_that_asks_for_nothing_pays_for_nothing),
        cmocka_unit_test(test_it_fails_where_there_is_no_route_and_is_tried_again),
    };
    return cmocka_run_group_tests(tests, wrap_route, NULL);
}
