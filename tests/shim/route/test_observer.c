/* SPDX-License-Identifier: MIT
 *
 * test_observer.c: which observers are on, in which order they begin and end, and where their
 * reports go.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>

/* Included, not linked: its state is made anew for each test. */
#include "shim/route/observer.c"

/* What was called, a letter for each: a, b, c are the observers' own. */
static char calls[64];
static const char *value_of_b;
static const struct configuration *configuration_of_b;

static void note(char call)
{
    size_t length = strlen(calls);
    assert_true(length < sizeof calls - 1);
    calls[length] = call;
    calls[length + 1] = '\0';
}

/* A route tells how it was made: a digit for each observer, that of the outermost last. */
static uintptr_t number_of(struct route route)
{
    return (uintptr_t)route.allocator;
}

static struct route wrapped(struct route behind, char observer)
{
    note(observer);
    uintptr_t number = 10 * number_of(behind) + (uintptr_t)(observer - 'a' + 1);
    return (struct route){.allocator = (const struct allocator *)number};
}

static struct route start_a(const struct configuration *configuration, struct route inner,
                            const char *value)
{
    (void)configuration, (void)value;
    return wrapped(inner, 'a');
}

static struct route start_b(const struct configuration *configuration, struct route inner,
                            const char *value)
{
    configuration_of_b = configuration;
    value_of_b = value;
    return wrapped(inner, 'b');
}

static struct route start_c(const struct configuration *configuration, struct route inner,
                            const char *value)
{
    (void)configuration, (void)value;
    return wrapped(inner, 'c');
}

static void call_a(void)
{
    note('a');
}

static void call_c(void)
{
    note('c');
}

static const struct allocator plain, needy;
static bool needs_b(const struct allocator *allocator)
{
    return allocator == &needy;
}

static const struct observer a = {.variable = "ALLOTROPE_TEST_A",
                                  .start = start_a,
                                  .before_main = call_a,
                                  .thread_end = call_a,
                                  .at_exit = call_a};
static const struct observer b = {
    .variable = "ALLOTROPE_TEST_B", .is_needed = needs_b, .start = start_b};
static const struct observer c = {.variable = "ALLOTROPE_TEST_C",
                                  .start = start_c,
                                  .before_main = call_c,
                                  .thread_end = call_c,
                                  .at_exit = call_c};
const struct observer *const observers[] = {&a, &b, &c, NULL};

static struct configuration configuration = {.allocator = &plain};

void stop_before_main(struct message *message)
{
    message_send(message);
    _exit(2);
}

static int begin(void **state)
{
    (void)state;
    count = 0;
    calls[0] = '\0';
    value_of_b = "none";
    configuration.allocator = &plain;
    unsetenv("ALLOTROPE_TEST_A");
    unsetenv("ALLOTROPE_TEST_B");
    unsetenv("ALLOTROPE_TEST_C");
    return 0;
}

static uintptr_t start_observers(void)
{
    return number_of(observers_start(&configuration, (struct route){0}));
}

static void test_without_a_variable_the_route_stays_as_it_is(void **state)
{
    (void)state;
    assert_int_equal(start_observers(), 0);
    observers_before_main();
    observers_thread_end();
    at_exit();
    assert_string_equal(calls, "");
}

static void test_the_first_that_is_asked_for_stands_nearest_to_the_allocator(void **state)
{
    (void)state;
    setenv("ALLOTROPE_TEST_C", "c", 1);
    setenv("ALLOTROPE_TEST_A", "a", 1);
    assert_int_equal(start_observers(), 13);
    assert_string_equal(calls, "ac");
}

static void test_an_observer_gets_its_value_and_the_configuration(void **state)
{
    (void)state;
    setenv("ALLOTROPE_TEST_B", "value", 1);
    assert_int_equal(start_observers(), 2);
    assert_string_equal(value_of_b, "value");
    assert_ptr_equal(configuration_of_b, &configuration);
}

static void start_needed(void *unused)
{
    (void)unused;
    require(start_observers() == 2);
    require(!value_of_b);
}

/* In a child: without a name of a file standard error is kept, which is done once in a process. */
static void test_one_that_the_allocator_needs_is_on_without_a_variable(void **state)
{
    (void)state;
    configuration.allocator = &needy;
    assert_child_succeeds(start_needed, NULL);
    setenv("ALLOTROPE_TEST_B", "value", 1);
    assert_int_equal(start_observers(), 2);
    assert_string_equal(value_of_b, "value");
}

static void test_they_begin_in_their_order_and_end_in_the_other(void **state)
{
    (void)state;
    setenv("ALLOTROPE_TEST_A", "file", 1);
    setenv("ALLOTROPE_TEST_B", "file", 1); /* has none of these functions */
    setenv("ALLOTROPE_TEST_C", "file", 1);
    assert_int_equal(start_observers(), 123);
    calls[0] = '\0';
    observers_before_main();
    assert_string_equal(calls, "ac");
    observers_thread_end();
    assert_string_equal(calls, "acca");
    at_exit();
    assert_string_equal(calls, "accaca");
}

/* Starts one observer again and again, in place of many. */
static void start_too_many(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i <= MOST_OBSERVERS; i++)
        start_observers();
}

static void start_as_many_as_there_may_be(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < MOST_OBSERVERS; i++)
        start_observers();
}

static void test_too_many_end_the_process(void **state)
{
    (void)state;
    setenv("ALLOTROPE_TEST_A", "file", 1);
    assert_child_succeeds(start_as_many_as_there_may_be, NULL);
    assert_aborts(start_too_many, NULL, "check failed: count < MOST_OBSERVERS");
}

/* The program has closed its own. */
static void start_and_close_standard_error(void *keeps)
{
    int standard_error = dup(2); /* what the child has to say is read from there */
    start_observers();
    close(2);
    bool is_kept = standard_error_descriptor() >= 0;
    dup2(standard_error, 2);
    require(is_kept == *(const bool *)keeps);
}

static void assert_keeps_standard_error(bool keeps)
{
    assert_child_succeeds(start_and_close_standard_error, &keeps);
}

static void test_standard_error_is_kept_for_a_report_that_goes_there(void **state)
{
    (void)state;
    setenv("ALLOTROPE_TEST_A", "file", 1);
    assert_keeps_standard_error(false);
    setenv("ALLOTROPE_TEST_A", "", 1);
    assert_keeps_standard_error(true);
    setenv("ALLOTROPE_TEST_A", "-", 1);
    assert_keeps_standard_error(true);
    begin(state);
    configuration.allocator = &needy; /* no file is named */
    assert_keeps_standard_error(true);
}

static void test_a_destination_is_kept_from_the_start(void **state)
{
    (void)state;
    char value[] = "/report";
    struct output_pattern kept = observer_destination(value, "ALLOTROPE_TEST_A");
    value[1] = 'X'; /* it is the program's environment */
    assert_string_equal(kept.text, "/report");
}

static void name_a_long_file(void *value)
{
    observer_destination(value, "ALLOTROPE_TEST_A");
}

static void test_a_destination_that_is_too_long_ends_the_process_and_says_so(void **state)
{
    (void)state;
    static char value[OUTPUT_NAME_BYTES + 1];
    memset(value, 'x', OUTPUT_NAME_BYTES);
    value[0] = '/';
    struct ending ending = run_child(name_a_long_file, value);
    assert_int_equal(ending.exit_status, 2);
    assert_string_equal(
        ending.errors,
        "allotrope: ALLOTROPE_TEST_A=\"/"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"... is too "
        "long for the name of a file: the whole path has at most 4095 bytes\n");
    value[OUTPUT_NAME_BYTES - 1] = '\0';
    assert_child_succeeds(name_a_long_file, value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_without_a_variable_the_route_stays_as_it_is, begin),
        cmocka_unit_test_setup(test_the_first_that_is_asked_for_stands_nearest_to_the_allocator,
                               begin),
        cmocka_unit_test_setup(test_an_observer_gets_its_value_and_the_configuration, begin),
        cmocka_unit_test_setup(test_one_that_the_allocator_needs_is_on_without_a_variable, begin),
        cmocka_unit_test_setup(test_they_begin_in_their_order_and_end_in_the_other, begin),
        cmocka_unit_test_setup(test_too_many_end_the_process, begin),
        cmocka_unit_test_setup(test_standard_error_is_kept_for_a_report_that_goes_there, begin),
        cmocka_unit_test_setup(test_a_destination_is_kept_from_the_start, begin),
        cmocka_unit_test_setup(test_a_destination_that_is_too_long_ends_the_process_and_says_so,
                               begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
