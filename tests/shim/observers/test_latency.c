/* SPDX-License-Identifier: MIT
 *
 * test_latency.c: which calls are counted, and what the report makes of their counts. No case
 * depends on how long a call takes.
 */
#include "tests/shim/reports/report_file.h"

/* Included, not linked: its state is made anew for each test. */
#include "shim/observers/latency.c"

/* An allocator that notes what it was asked. */
static struct {
    size_t size, alignment;
    void *block;
} asked;
static char given;

static void *give(size_t size)
{
    asked.size = size;
    return &given;
}

static void *give_zeroed(size_t size)
{
    asked.size = size;
    return &given + 1;
}

static void *give_aligned(size_t alignment, size_t size)
{
    asked.size = size;
    asked.alignment = alignment;
    return NULL;
}

static void take_back(void *block)
{
    asked.block = block;
}

static void *give_resized(void *block, size_t size)
{
    asked.size = size;
    asked.block = block;
    return &given;
}

static size_t bytes_of(const void *block)
{
    return block ? 1 : 0;
}

static const struct allocator allocator = {.name = "test", .preset = "default"};
static const struct configuration configuration = {.allocator = &allocator};
static const struct route behind = {.alloc = give,
                                    .alloc_zeroed = give_zeroed,
                                    .alloc_aligned = give_aligned,
                                    .free = take_back,
                                    .resize = give_resized,
                                    .usable_size = bytes_of,
                                    .allocator = &allocator};
static struct route route; /* what the program calls */
static struct histogram sum;

struct output_pattern observer_destination(const char *value, const char *variable)
{
    assert_string_equal(variable, latency_observer.variable);
    return (struct output_pattern){.text = value};
}

static int begin(void **state)
{
    (void)state;
    memset(&latency, 0, sizeof latency);
    memset(&asked, 0, sizeof asked);
    memset(&sum, 0, sizeof sum);
    route = latency_observer.start(&configuration, behind, "report");
    return 0;
}

static uint64_t calls_of(enum call call)
{
    sum_up(call, &sum);
    return sum.total;
}

static void test_calls_are_handed_on_and_their_results_back(void **state)
{
    (void)state;
    assert_ptr_equal(route.alloc(10), &given);
    assert_int_equal(asked.size, 10);
    assert_ptr_equal(route.alloc_zeroed(11), &given + 1);
    assert_int_equal(asked.size, 11);
    assert_null(route.alloc_aligned(64, 12));
    assert_int_equal(asked.size, 12);
    assert_int_equal(asked.alignment, 64);
    assert_ptr_equal(route.resize(state, 13), &given);
    assert_int_equal(asked.size, 13);
    assert_ptr_equal(asked.block, state);
    route.free(&given);
    assert_ptr_equal(asked.block, &given);
    assert_ptr_equal(route.usable_size, bytes_of); /* which is not measured */
}

static void test_each_kind_of_call_is_counted_by_itself(void **state)
{
    (void)state;
    static const uint64_t expected[CALLS] = {
        [MALLOC] = 1, [CALLOC] = 2, [ALIGNED] = 3, [REALLOC] = 4, [FREE] = 5};
    for (unsigned i = 0; i < 5; i++) {
        if (i < expected[MALLOC])
            route.alloc(1);
        if (i < expected[CALLOC])
            route.alloc_zeroed(1);
        if (i < expected[ALIGNED])
            route.alloc_aligned(1, 1);
        if (i < expected[REALLOC])
            route.resize(&given, 1);
        route.free(&given);
    }
    for (enum call call = 0; call < CALLS; call++)
        assert_int_equal(calls_of(call), expected[call]);
}

/* The counters of two processors may differ. */
static void test_a_call_that_ends_before_it_began_took_no_time(void **state)
{
    (void)state;
    latency.own_ticks = INT64_MAX;
    route.alloc(1);
    assert_int_equal(calls_of(MALLOC), 1);
    assert_int_equal(sum.counts[0], 1);
    assert_int_equal(sum.largest, 0);
}

static void test_the_longest_call_is_kept(void **state)
{
    (void)state;
    latency.own_ticks = 0;
    uint64_t now = begin_ticks();
    note(FREE, now - (UINT64_C(1) << 60)); /* 2^60 ticks ago, which is ten years */
    note(FREE, now);
    assert_int_equal(calls_of(FREE), 2);
    assert_true(sum.largest >= UINT64_C(1) << 60);
    assert_int_equal(sum.counts[bucket_of(UINT64_C(1) << 60)], 1);
}

static void test_all_stripes_are_added_up(void **state)
{
    (void)state;
    for (unsigned i = 0; i < STRIPES; i++) {
        latency.stripes[i].counts[FREE][10] = 1;
        latency.stripes[i].counts[FREE][i] += i;
        latency.stripes[i].longest[FREE] = i == 3 ? 1000 : i;
    }
    assert_int_equal(calls_of(FREE), STRIPES + STRIPES * (STRIPES - 1) / 2);
    assert_int_equal(sum.counts[10], STRIPES + 10);
    assert_int_equal(sum.counts[7], 7);
    assert_int_equal(sum.largest, 1000);
    assert_int_equal(calls_of(MALLOC), 0);
}

/* What is written of these counts, where a tick takes so long. */
static const char *text_of_sum(bool json, double ns_per_tick)
{
    struct emitter emitter;
    int file = report_file_make();
    emitter_begin(&emitter, file, json);
    emit_begin_object(&emitter, NULL);
    emit_histogram(&emitter, "free", &sum, ns_per_tick);
    emit_end_object(&emitter);
    assert_true(emitter_end(&emitter));
    return report_file_text(file);
}

static void count(uint64_t ticks, uint64_t calls)
{
    sum.counts[bucket_of(ticks)] += calls;
    sum.total += calls;
    sum.largest = ticks > sum.largest ? ticks : sum.largest;
}

static void test_counts_stand_below_the_end_of_their_range_in_nanoseconds(void **state)
{
    (void)state;
    count(16, 90); /* below 20 ticks */
    count(19, 5);
    count(100, 4); /* below 112 */
    count(1000, 1);
    assert_string_equal(text_of_sum(true, 0.5), "{\n"
                                                "  \"free\": {\n"
                                                "    \"calls\": 100,\n"
                                                "    \"p50_ns\": 10,\n"
                                                "    \"p90_ns\": 10,\n"
                                                "    \"p99_ns\": 56,\n"
                                                "    \"p99.9_ns\": 500,\n"
                                                "    \"longest_ns\": 500,\n"
                                                "    \"calls_below_ns\": {\n"
                                                "      \"11\": 95,\n"
                                                "      \"57\": 4,\n"
                                                "      \"513\": 1\n"
                                                "    }\n"
                                                "  }\n"
                                                "}\n");
}

/* JSON has no key twice. */
static void test_ranges_that_end_in_one_nanosecond_are_one(void **state)
{
    (void)state;
    for (uint64_t ticks = 0; ticks < 4; ticks++)
        count(ticks, 1);
    const char *text = text_of_sum(true, 0.25); /* they end at 1.25, 1.5, 1.75 and 2 */
    assert_non_null(strstr(text, "\"calls_below_ns\": {\n      \"1\": 3,\n      \"2\": 1\n    }"));
}

static void test_a_table_has_a_bar_with_a_sign_for_each_doubling(void **state)
{
    (void)state;
    count(1, 1);
    count(3, 7);
    count(5, 8);
    const char *text = text_of_sum(false, 1);
    assert_non_null(strstr(text, " 1           #\n"));
    assert_non_null(strstr(text, " 7           ###\n"));
    assert_non_null(strstr(text, " 8           ####\n"));
}

static void test_the_report_has_the_calls_that_were_made(void **state)
{
    (void)state;
    int file = report_file_make();
    route.alloc(1);
    route.free(&given);
    assert_true(write_to(file, true));
    const char *text = report_file_text(file);
    assert_non_null(strstr(text, "\"schema\": \"allotrope.latency/1\""));
    assert_non_null(strstr(text, "\"own_cost_ns_subtracted\": "));
    assert_non_null(strstr(text, "\"malloc\": {\n    \"calls\": 1,"));
    assert_non_null(strstr(text, "\"free\": {\n    \"calls\": 1,"));
    assert_null(strstr(text, "\"calloc\""));
    assert_null(strstr(text, "\"realloc\""));
    assert_null(strstr(text, "\"aligned\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_calls_are_handed_on_and_their_results_back, begin),
        cmocka_unit_test_setup(test_each_kind_of_call_is_counted_by_itself, begin),
        cmocka_unit_test_setup(test_a_call_that_ends_before_it_began_took_no_time, begin),
        cmocka_unit_test_setup(test_the_longest_call_is_kept, begin),
        cmocka_unit_test_setup(test_all_stripes_are_added_up, begin),
        cmocka_unit_test_setup(test_counts_stand_below_the_end_of_their_range_in_nanoseconds,
                               begin),
        cmocka_unit_test_setup(test_ranges_that_end_in_one_nanosecond_are_one, begin),
        cmocka_unit_test_setup(test_a_table_has_a_bar_with_a_sign_for_each_doubling, begin),
        cmocka_unit_test_setup(test_the_report_has_the_calls_that_were_made, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
