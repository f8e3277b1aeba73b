/* SPDX-License-Identifier: MIT
 *
 * test_writer.c: text goes through the buffer whole, and a file that takes no more is reported.
 */
#include "shim/reports/writer.h"

#include "tests/shim/reports/report_file.h"

static void test_each_kind_of_text(void **state)
{
    (void)state;
    struct writer writer;
    int file = report_file_make();
    writer_begin(&writer, file);
    writer_text(&writer, "a");
    writer_spaces(&writer, 2);
    writer_bytes(&writer, "bcd", 2);
    writer_text(&writer, "\n");
    writer_number(&writer, 7, 3);
    writer_text(&writer, " ");
    writer_number(&writer, UINT64_MAX, 3);
    writer_text(&writer, " ");
    writer_seconds(&writer, 12000000034);
    assert_true(writer_end(&writer));
    assert_string_equal(report_file_text(file), "a  bc\n007 18446744073709551615 12.000000034");
}

static void test_any_number_of_spaces(void **state)
{
    (void)state;
    for (size_t count = 0; count < 200; count++) {
        struct writer writer;
        int file = report_file_make();
        writer_begin(&writer, file);
        writer_spaces(&writer, count);
        assert_true(writer_end(&writer));
        const char *text = report_file_text(file);
        assert_int_equal(strlen(text), count);
        assert_int_equal(strspn(text, " "), count);
    }
}

static void test_more_than_the_buffer_is_written_whole(void **state)
{
    (void)state;
    static char long_text[3 * sizeof((struct writer *)0)->buffer + 5];
    memset(long_text, 'x', sizeof long_text - 1);
    struct writer writer;
    int file = report_file_make();
    writer_begin(&writer, file);
    for (uint64_t i = 0; i < 10000; i++) {
        writer_number(&writer, i, 1);
        writer_text(&writer, "\n");
    }
    writer_text(&writer, long_text);
    assert_true(writer_end(&writer));
    const char *line = report_file_text(file);
    for (unsigned i = 0; i < 10000; i++) {
        unsigned number;
        assert_int_equal(sscanf(line, "%u\n", &number), 1);
        assert_int_equal(number, i);
        line = strchr(line, '\n') + 1;
    }
    assert_string_equal(line, long_text);
}

static void test_a_file_that_takes_no_more_is_reported(void **state)
{
    (void)state;
    for (int is_full = 0; is_full < 2; is_full++) {
        struct writer writer;
        int file = report_file_that_takes_nothing(is_full);
        writer_begin(&writer, file);
        for (int i = 0; i < 5000; i++)
            writer_text(&writer, "more than once the buffer");
        assert_false(writer_end(&writer));
        close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_kind_of_text),
        cmocka_unit_test(test_any_number_of_spaces),
        cmocka_unit_test(test_more_than_the_buffer_is_written_whole),
        cmocka_unit_test(test_a_file_that_takes_no_more_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
