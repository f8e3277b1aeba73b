/* SPDX-License-Identifier: MIT */
/* test_simulate_pages.c: LRU distances against a stack that is a plain array, searched from its
 * top and shifted at each touch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Included, not linked: a test winds its stamps forward. */
#include "analysis/simulate/simulators/lru_stack.c"
#include "analysis/simulate/simulators/pages.h"
#include "tests/unit/reference_streams.h"

struct naive {
    uint64_t *stack; /* the top last */
    size_t depth;
    uint64_t cold[REFERENCE_CLASSES];
    uint64_t (*of_distance)[REFERENCE_CLASSES];
    uint64_t touches[REFERENCE_CLASSES];
};

static void naive_touch(struct naive *naive, uint64_t page, unsigned class)
{
    size_t distance = 0;
    naive->touches[class]++;
    while (distance < naive->depth && naive->stack[naive->depth - 1 - distance] != page)
        distance++;
    if (distance == naive->depth) {
        naive->cold[class]++;
        naive->depth++;
    } else {
        uint64_t *place = &naive->stack[naive->depth - 1 - distance];
        memmove(place, place + 1, distance * sizeof *place);
        naive->of_distance[distance][class]++;
    }
    naive->stack[naive->depth - 1] = page;
}

static struct naive naive_run(const struct stream *stream, uint64_t page_bytes)
{
    size_t most = stream->count * 3 + 100;
    struct naive naive = {.stack = malloc(most * sizeof *naive.stack),
                          .of_distance = calloc(most, sizeof *naive.of_distance)};
    for (size_t i = 0; i < stream->count; i++) {
        const struct reference *reference = &stream->reference[i];
        uint64_t end = end_of_units(reference, page_bytes);
        for (uint64_t page = first_unit(reference, page_bytes); page < end; page++)
            naive_touch(&naive, page, reference->class);
    }
    return naive;
}

static void naive_free(struct naive *naive)
{
    free(naive->stack);
    free(naive->of_distance);
}

static bool feed_pages(void *pages, const struct references *references)
{
    return pages_feed(pages, references);
}

static struct pages *run(const struct stream *stream, uint64_t page_bytes, bool sampled)
{
    struct pages_options options = {page_bytes, sampled};
    struct pages *pages = pages_new(&options);
    assert_non_null(pages);
    assert_true(stream_feed(stream, feed_pages, pages));
    return pages;
}

static void compare_class(const struct lru_histogram *histogram, const struct naive *naive,
                          unsigned class)
{
    for (size_t distance = 1; distance < naive->depth || distance < histogram->length; distance++) {
        uint64_t got = distance < histogram->length ? histogram->of_distance[distance] : 0;
        uint64_t want = distance < naive->depth ? naive->of_distance[distance][class] : 0;
        assert_int_equal(got, want);
    }
}

static void compare(struct pages *pages, const struct naive *naive)
{
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        const struct lru_histogram *histogram = pages_histogram(pages, class);
        assert_int_equal(histogram->cold, naive->cold[class]);
        assert_int_equal(pages_class_totals(pages, class).touches, naive->touches[class]);
        compare_class(histogram, naive, class);
    }
}

static void check_stream(unsigned number, size_t count, uint64_t page_bytes)
{
    struct stream stream = stream_make(number, count);
    struct naive naive = naive_run(&stream, page_bytes);
    for (unsigned vectors = 0; vectors < 2; vectors++) {
        dispatch_allow_avx512(vectors);
        struct pages *pages = run(&stream, page_bytes, false);
        compare(pages, &naive);
        pages_free(pages);
    }
    naive_free(&naive);
    stream_free(&stream);
}

static void test_every_distance_equals_a_naive_stacks(void **unused)
{
    (void)unused;
    static const uint64_t page_bytes[] = {32, 64, 4096, 8192, 1 << 21};
    for (unsigned number = 0; number < STREAMS; number++)
        for (size_t i = 0; i < sizeof page_bytes / sizeof *page_bytes; i++)
            check_stream(number, 20000, page_bytes[i]);
}

/* Long enough that the table of units grows and the row of marks is closed up several times. */
static void test_distances_stay_exact_over_many_units(void **unused)
{
    (void)unused;
    check_stream(7, 200000, 4096);
}

static void test_distances_stay_exact_when_stamps_are_renumbered(void **unused)
{
    (void)unused;
    struct stream stream = stream_make(7, 20000);
    struct naive naive = naive_run(&stream, 4096);
    for (unsigned vectors = 0; vectors < 2; vectors++) {
        dispatch_allow_avx512(vectors);
        struct lru_stack *stack = lru_stack_new();
        struct touch_source source;
        touches_init(&source, 4096, false);
        stack->front_stamp = stack->middle_stamp = UINT32_MAX - 3 * TOUCH_CAPACITY;
        struct references all = stream_batch(&stream, 0, stream.count);
        uint64_t touches[TOUCH_CAPACITY];
        for (size_t position = 0; position < all.count;) {
            size_t count = touches_take(&source, &all, &position, touches);
            assert_true(lru_stack_touch(stack, touches, count));
        }
        assert_true(stack->front_stamp < stream.count);
        compare_class(lru_stack_histogram(stack, 1), &naive, 1);
        lru_stack_free(stack);
    }
    naive_free(&naive);
    stream_free(&stream);
}

static bool keep_even(uint64_t unit, uint64_t argument)
{
    return unit % 2 == argument;
}

/* Forgetting is as if the unit had never been touched. */
static void test_forgotten_units_leave_the_others_in_order(void **unused)
{
    (void)unused;
    enum { COUNT = 30000 };
    struct stream stream = stream_make(7, COUNT);
    struct naive naive = {.stack = malloc(COUNT * sizeof *naive.stack),
                          .of_distance = calloc(COUNT, sizeof *naive.of_distance)};
    struct lru_stack *stack = lru_stack_new();
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t unit = stream.reference[i].address >> 12;
        if (i == COUNT / 2)
            assert_true(lru_stack_forget(stack, keep_even, 0));
        if (i < COUNT / 2 || unit % 2 == 0)
            assert_true(lru_stack_touch(stack, &unit, 1));
        if (i == COUNT / 2)
            lru_stack_clear_histograms(stack);
        if (unit % 2 == 0)
            naive_touch(&naive, unit, 0);
        if (i == COUNT / 2)
            memset(naive.of_distance, 0, COUNT * sizeof *naive.of_distance);
    }
    compare_class(lru_stack_histogram(stack, 0), &naive, 0);
    assert_int_equal(lru_stack_units(stack), naive.depth);
    naive_free(&naive);
    lru_stack_free(stack);
    stream_free(&stream);
}

static double replacement_faults(struct pages *pages, size_t frames)
{
    double sum = 0;
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        const struct lru_histogram *histogram = pages_histogram(pages, class);
        for (size_t distance = frames; distance < histogram->length; distance++)
            sum += (double)histogram->of_distance[distance];
    }
    return sum;
}

/* 2^16 random pages of a space far larger than the sample: the curve is within 2% of touches. */
static void test_a_sample_comes_near_the_exact_curve(void **unused)
{
    (void)unused;
    struct stream stream = stream_make(1, 600000);
    for (size_t i = 0; i < stream.count; i++) {
        stream.reference[i].address = (stream.reference[i].address & 0xffffff) << 9 & ~4095ULL;
        stream.reference[i].size = 8;
        stream.reference[i].class = 0;
    }
    struct pages *exact = run(&stream, 4096, false);
    struct pages *sampled = run(&stream, 4096, true);
    assert_true(pages_halvings(sampled) > 0);
    assert_true(pages_followed(sampled) >= PAGES_SAMPLED_LEAST);
    assert_true(pages_followed(sampled) <= PAGES_SAMPLED_MOST);
    double touches = (double)pages_class_totals(exact, 0).touches;
    for (size_t frames = 64; frames < 1 << 16; frames *= 2)
        assert_true(fabs(replacement_faults(sampled, frames) - replacement_faults(exact, frames)) <
                    0.02 * touches);
    pages_free(exact);
    pages_free(sampled);
    stream_free(&stream);
}

static void test_a_sample_of_few_pages_is_exact(void **unused)
{
    (void)unused;
    for (unsigned number = 0; number < STREAMS; number++) {
        struct stream stream = stream_make(number, 20000);
        struct naive naive = naive_run(&stream, 4096);
        struct pages *pages = run(&stream, 4096, true);
        assert_int_equal(pages_halvings(pages), 0);
        compare(pages, &naive);
        pages_free(pages);
        naive_free(&naive);
        stream_free(&stream);
    }
}

static void test_an_address_that_is_no_users_is_refused(void **unused)
{
    (void)unused;
    struct reference reference = {.address = REFERENCE_ADDRESS_LIMIT, .size = 8};
    struct references batch = {1, &reference, NULL, NULL};
    struct pages_options options = {4096, false};
    struct pages *pages = pages_new(&options);
    assert_false(pages_feed(pages, &batch));
    assert_non_null(strstr(pages_error(pages), "0x100000000000000"));
    pages_free(pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_distance_equals_a_naive_stacks),
        cmocka_unit_test(test_distances_stay_exact_over_many_units),
        cmocka_unit_test_setup(test_distances_stay_exact_when_stamps_are_renumbered, allow_vectors),
        cmocka_unit_test_setup(test_forgotten_units_leave_the_others_in_order, allow_vectors),
        cmocka_unit_test(test_a_sample_comes_near_the_exact_curve),
        cmocka_unit_test(test_a_sample_of_few_pages_is_exact),
        cmocka_unit_test(test_an_address_that_is_no_users_is_refused),
    };
    return cmocka_run_group_tests(tests, allow_vectors, NULL);
}
