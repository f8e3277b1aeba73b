/* SPDX-License-Identifier: MIT */
/* test_pages.c: the LRU distances of lru_stack.c and pages.c, against a stack that is a plain
 * array, searched from its top and shifted at each touch. */
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

/* Returns how many touches were counted that are not a unit's first. */
static uint64_t compare_class(const struct lru_histogram *histogram, const struct naive *naive,
                              unsigned class)
{
    uint64_t counted = 0;
    assert_int_equal(histogram->cold, naive->cold[class]);
    for (size_t distance = 1; distance < naive->depth || distance < histogram->length; distance++) {
        uint64_t got = distance < histogram->length ? histogram->of_distance[distance] : 0;
        uint64_t want = distance < naive->depth ? naive->of_distance[distance][class] : 0;
        assert_int_equal(got, want);
        counted += got;
    }
    return counted;
}

static void compare(struct pages *pages, const struct naive *naive)
{
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        assert_int_equal(pages_class_totals(pages, class).touches, naive->touches[class]);
        compare_class(pages_histogram(pages, class), naive, class);
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
        uint64_t counted = 0;
        for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
            counted += compare_class(lru_stack_histogram(stack, class), &naive, class);
        assert_true(counted > 0);
        lru_stack_free(stack);
    }
    naive_free(&naive);
    stream_free(&stream);
}

/* Cuts a stream at random into parts, some of which may be empty. cuts: room for parts + 1. */
static void cut(size_t count, unsigned parts, uint64_t *random, size_t *cuts)
{
    cuts[0] = 0;
    for (unsigned i = 1; i < parts; i++) {
        *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
        size_t place = (*random >> 33) % (count + 1);
        unsigned at = i;
        for (; cuts[at - 1] > place; at--)
            cuts[at] = cuts[at - 1];
        cuts[at] = place;
    }
    cuts[parts] = count;
}

static struct pages *run_part(const struct stream *stream, size_t start, size_t end,
                              uint64_t page_bytes)
{
    struct pages_options options = {page_bytes, false};
    struct pages *pages = pages_new(&options);
    assert_non_null(pages);
    pages_keep_first_touches(pages);
    struct references batch = stream_batch(stream, start, end - start);
    assert_true(pages_feed(pages, &batch));
    return pages;
}

static void join(struct pages *pages, struct pages *later)
{
    assert_true(pages_join(pages, later));
    pages_free(later);
}

/* All parts but the last, which is fed to what was joined. From the left one by one, and with every
 * second part joined to that before it first. */
static struct pages *run_parts(const struct stream *stream, uint64_t page_bytes, const size_t *cuts,
                               unsigned parts, bool in_pairs)
{
    struct pages *pages = run_part(stream, 0, 0, page_bytes);
    for (unsigned i = 0; i + 1 < parts; i++) {
        struct pages *part = run_part(stream, cuts[i], cuts[i + 1], page_bytes);
        if (in_pairs && i + 2 < parts) {
            i++;
            join(part, run_part(stream, cuts[i], cuts[i + 1], page_bytes));
        }
        join(pages, part);
    }
    struct references rest = stream_batch(stream, cuts[parts - 1], stream->count);
    assert_true(pages_feed(pages, &rest));
    return pages;
}

static void check_parts(unsigned number, size_t count, uint64_t page_bytes)
{
    static const unsigned parts[] = {1, 2, 3, 7};
    struct stream stream = stream_make(number, count);
    struct naive naive = naive_run(&stream, page_bytes);
    uint64_t random = number;
    for (unsigned i = 0; i < 4 * sizeof parts / sizeof *parts; i++) {
        size_t cuts[8];
        cut(count, parts[i / 4], &random, cuts);
        dispatch_allow_avx512(i % 2);
        struct pages *pages = run_parts(&stream, page_bytes, cuts, parts[i / 4], i / 2 % 2);
        compare(pages, &naive);
        pages_free(pages);
    }
    naive_free(&naive);
    stream_free(&stream);
}

static void test_parts_joined_equal_the_whole(void **unused)
{
    (void)unused;
    static const uint64_t page_bytes[] = {64, 4096, 1 << 21};
    for (unsigned number = 0; number < STREAMS; number++)
        for (size_t i = 0; i < sizeof page_bytes / sizeof *page_bytes; i++) {
            check_parts(number, 5000, page_bytes[i]);
            check_parts(number, 3, page_bytes[i]);
        }
}

/* More units than the table and the row of marks have room for at first. */
static void test_parts_of_many_units_equal_the_whole(void **unused)
{
    (void)unused;
    check_parts(7, 100000, 4096);
}

/* Whoever has seen nothing knows of no last unit: an empty part changes nothing. */
static void test_an_empty_part_changes_nothing(void **unused)
{
    (void)unused;
    struct stream stream = stream_make(7, 2);
    stream.reference[0] = stream.reference[1] = (struct reference){.address = 0x5000, .size = 8};
    struct pages *pages = run_part(&stream, 0, 1, 4096);
    join(pages, run_part(&stream, 1, 1, 4096));
    join(pages, run_part(&stream, 1, 2, 4096));
    const struct lru_histogram *histogram = pages_histogram(pages, 0);
    assert_int_equal(histogram->cold, 1);
    assert_int_equal(pages_class_totals(pages, 0).touches, 2);
    for (size_t distance = 1; distance < histogram->length; distance++)
        assert_int_equal(histogram->of_distance[distance], 0);
    pages_free(pages);
    stream_free(&stream);
}

/* A file in which one of two pages has two first touches, and the other none. */
static void test_a_part_that_touches_a_page_first_twice_is_refused(void **unused)
{
    (void)unused;
    struct pages_options options = {4096, false};
    struct stream stream = stream_make(7, 2);
    uint64_t first;
    stream.reference[0] = (struct reference){.address = 0x5000, .size = 8};
    stream.reference[1] = (struct reference){.address = 0x6000, .size = 8};
    struct pages *pages = run_part(&stream, 0, 0, 4096), *part = run_part(&stream, 0, 2, 4096);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(pages_write(part, file));
    pages_free(part);
    assert_int_equal(fseek(file, -4 * (long)sizeof first, SEEK_END), 0);
    assert_int_equal(fread(&first, sizeof first, 1, file), 1);
    assert_int_equal(fseek(file, -3 * (long)sizeof first, SEEK_END), 0);
    assert_int_equal(fwrite(&first, sizeof first, 1, file), 1);
    rewind(file);
    part = pages_read(&options, file);
    assert_true(!part || !pages_join(pages, part));
    pages_free(part);
    pages_free(pages);
    fclose(file);
    stream_free(&stream);
}

/* A touch of the page that the first part touched last is no repeat behind another part. */
static void test_what_follows_a_join_goes_on_behind_the_last_part(void **unused)
{
    (void)unused;
    struct stream stream = stream_make(7, 3);
    for (size_t i = 0; i < stream.count; i++)
        stream.reference[i] = (struct reference){.address = i % 2 ? 0x9000 : 0x5000, .size = 8};
    struct pages *pages = run_part(&stream, 0, 1, 4096);
    join(pages, run_part(&stream, 1, 2, 4096));
    struct references rest = stream_batch(&stream, 2, 1);
    assert_true(pages_feed(pages, &rest));
    assert_int_equal(pages_histogram(pages, 0)->cold, 2);
    assert_int_equal(pages_histogram(pages, 0)->of_distance[1], 1);
    pages_free(pages);
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
        if (i == COUNT / 2)
            memset(naive.cold, 0, sizeof naive.cold);
    }
    assert_true(compare_class(lru_stack_histogram(stack, 0), &naive, 0) > 0);
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
        cmocka_unit_test(test_parts_joined_equal_the_whole),
        cmocka_unit_test(test_parts_of_many_units_equal_the_whole),
        cmocka_unit_test(test_an_empty_part_changes_nothing),
        cmocka_unit_test(test_a_part_that_touches_a_page_first_twice_is_refused),
        cmocka_unit_test(test_what_follows_a_join_goes_on_behind_the_last_part),
        cmocka_unit_test_setup(test_forgotten_units_leave_the_others_in_order, allow_vectors),
        cmocka_unit_test(test_a_sample_comes_near_the_exact_curve),
        cmocka_unit_test(test_a_sample_of_few_pages_is_exact),
        cmocka_unit_test(test_an_address_that_is_no_users_is_refused),
    };
    return cmocka_run_group_tests(tests, allow_vectors, NULL);
}
