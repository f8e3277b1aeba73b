/* SPDX-License-Identifier: MIT
 *
 * test_message.c: lines for the user. Each is written by a child, whose standard error is read.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "vm/message.h"

static void test_numbers_and_text_are_put_together(void **state)
{
    (void)state;
    struct message message;
    message_begin(&message);
    message_text(&message, "a");
    message_bytes(&message, "bcd", 2);
    message_text(&message, " ");
    message_decimal(&message, 0);
    message_text(&message, " ");
    message_decimal(&message, UINT64_MAX);
    message_text(&message, " ");
    message_pointer(&message, (void *)0x7fee0123abc0);
    message_text(&message, " ");
    message_pointer(&message, NULL);
    assert_int_equal(message.length,
                     strlen("allotrope: abc 0 18446744073709551615 0x7fee0123abc0 0x0"));
    assert_memory_equal(message.text, "allotrope: abc 0 18446744073709551615 0x7fee0123abc0 0x0",
                        message.length);
}

static void send_long(void *argument)
{
    struct message message;
    (void)argument;
    message_begin(&message);
    for (int i = 0; i < 1000; i++)
        message_text(&message, "seven..");
    message_send(&message);
}

static void test_a_long_line_is_cut_and_still_ends(void **state)
{
    (void)state;
    struct ending ending = run_child(send_long, NULL);
    assert_int_equal(strlen(ending.errors), MESSAGE_BYTES);
    assert_ptr_equal(strchr(ending.errors, '\n'), ending.errors + MESSAGE_BYTES - 1);
    assert_memory_equal(ending.errors, "allotrope: seven..seven..", 25);
}

static void send_to_another_file(void *argument)
{
    struct message message;
    int file = open(argument, O_WRONLY);
    require(standard_error_descriptor() == 2);
    require(dup2(file, 2) == 2);
    message_begin(&message);
    message_send(&message);
    if (standard_error_descriptor() == 2)
        _exit(1);
    close(2);
    message_begin(&message);
    message_send(&message);
    if (standard_error_descriptor() == 2)
        _exit(2);
}

static void test_nothing_is_written_to_a_descriptor_that_was_reused(void **state)
{
    (void)state;
    char name[] = "/tmp/allotrope-test-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    struct ending ending = run_child(send_to_another_file, name);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(file);
    unlink(name);
    assert_int_equal(ending.exit_status, 0);
    assert_string_equal(ending.errors, "");
}

static void close_kept_stderr(void *argument)
{
    (void)argument;
    struct message message;
    struct rlimit limit = {256, 256};
    require(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    message_keep_stderr();
    close(2);
    int descriptor = standard_error_descriptor();
    require(descriptor > 100 && fcntl(descriptor, F_GETFD) == FD_CLOEXEC);
    message_begin(&message);
    message_send(&message);
    close(descriptor);
    require(standard_error_descriptor() == -1);
    int file = open("/dev/null", O_WRONLY);
    require(dup2(file, descriptor) == descriptor);
    require(standard_error_descriptor() == -1);
}

static void test_a_kept_duplicate_serves_until_it_is_closed_or_reused(void **state)
{
    (void)state;
    struct ending ending = run_child(close_kept_stderr, NULL);
    assert_int_equal(ending.exit_status, 0);
    assert_string_equal(ending.errors, "allotrope: \n");
}

static void start_without_stderr(void *argument)
{
    (void)argument;
    struct message message;
    close(2);
    message_remember_stderr();
    if (standard_error_descriptor() == 2)
        _exit(1);
    if (open("/dev/null", O_WRONLY) != 2 || standard_error_descriptor() == 2)
        _exit(2);
    message_begin(&message);
    message_send(&message);
}

static void test_a_program_may_start_without_stderr(void **state)
{
    (void)state;
    assert_int_equal(run_child(start_without_stderr, NULL).exit_status, 0);
}

static void send_to_nobody(void *argument)
{
    (void)argument;
    struct message message;
    int ends[2];
    require(pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    close(ends[0]);
    message_remember_stderr();
    require(standard_error_descriptor() == 2);
    message_begin(&message);
    message_send(&message);
}

static void test_a_line_that_nobody_reads_ends_nothing(void **state)
{
    (void)state;
    struct ending ending = run_child(send_to_nobody, NULL);
    assert_int_equal(ending.signal, 0);
    assert_int_equal(ending.exit_status, 0);
}

static void report_many(void *argument)
{
    (void)argument;
    for (uintptr_t i = 0; i < 100; i++)
        report_pointer_fault("free", (void *)(0x1000 + i), "is odd");
    require(pointer_faults() == 100);
}

static void test_faults_are_reported_then_counted(void **state)
{
    (void)state;
    struct ending ending = run_child(report_many, NULL);
    assert_int_equal(ending.exit_status, 0);
    const char *first = "allotrope: free(0x1000): is odd\n";
    assert_memory_equal(ending.errors, first, strlen(first));
    assert_non_null(strstr(ending.errors, "free(0x100f): is odd\n"));
    const char *last = strstr(ending.errors, "allotrope: free(0x1010): and so on");
    assert_non_null(last);
    assert_string_equal(strchr(last, '\n'), "\n");
}

static void abort_on_fault(void *argument)
{
    abort_on_pointer_fault("realloc", argument, "is even");
}

static void test_a_fatal_fault_is_said_before_the_abort(void **state)
{
    (void)state;
    assert_aborts(abort_on_fault, (void *)0x20, "allotrope: realloc(0x20): is even\n");
}

static void fail_check(void *argument)
{
    check(argument == NULL);
    check(argument != NULL);
}

static void test_a_failed_check_names_itself(void **state)
{
    (void)state;
    assert_aborts(fail_check, NULL, "allotrope: heap is corrupt: check failed: argument != ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_and_text_are_put_together),
        cmocka_unit_test(test_a_long_line_is_cut_and_still_ends),
        cmocka_unit_test(test_nothing_is_written_to_a_descriptor_that_was_reused),
        cmocka_unit_test(test_a_kept_duplicate_serves_until_it_is_closed_or_reused),
        cmocka_unit_test(test_a_program_may_start_without_stderr),
        cmocka_unit_test(test_a_line_that_nobody_reads_ends_nothing),
        cmocka_unit_test(test_faults_are_reported_then_counted),
        cmocka_unit_test(test_a_fatal_fault_is_said_before_the_abort),
        cmocka_unit_test(test_a_failed_check_names_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
