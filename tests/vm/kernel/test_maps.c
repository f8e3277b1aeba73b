/* SPDX-License-Identifier: MIT
 *
 * test_maps.c: the text comes whole, in whatever pieces it is read; lines say what they say.
 */
#include "vm/kernel/maps.h"

#include <string.h>

#include "tests/unit/unit.h"

static char whole[1 << 18], pieces[1 << 18];

static void test_the_text_is_read_in_pieces(void **state)
{
    (void)state;
    for (size_t piece = 100; piece < sizeof whole; piece *= 7) {
        size_t length = 0, got;
        long maps = maps_open();
        size_t all = maps_read(maps, whole, sizeof whole);
        assert_true(all > 100 && all < sizeof whole);
        maps_close(maps);
        maps = maps_open();
        do
            length += got = maps_read(maps, pieces + length, piece);
        while (got == piece);
        assert_int_equal(maps_read(maps, pieces + length, piece), 0);
        maps_close(maps);
        assert_int_equal(length, all);
        assert_memory_equal(pieces, whole, all);
    }
    assert_non_null(strstr(whole, "test_maps\n"));
}

static void test_what_cannot_be_opened_is_empty(void **state)
{
    (void)state;
    long failure = -2;
    assert_int_equal(maps_read(failure, whole, sizeof whole), 0);
    maps_close(failure);
}

static const char *parse(const char *text, struct mapping *mapping)
{
    return mapping_parse(text, text + strlen(text), mapping);
}

static void test_a_line_is_parsed_with_any_name_or_none(void **state)
{
    (void)state;
    struct mapping mapping;
    const char *text = "7f0010000000-7f0010021000 rw-s 00000000 00:05 42    /a file\n"
                       "0001000-0002000 --xp 00000000 00:00 0 ";
    const char *second = parse(text, &mapping);
    assert_ptr_equal(second, strchr(text, '\n') + 1);
    assert_int_equal(mapping.start, 0x7f0010000000);
    assert_int_equal(mapping.end, 0x7f0010021000);
    assert_true(mapping.readable && mapping.writable && mapping.shared && !mapping.executable);
    assert_true(mapping_is_named(&mapping, "/a file"));
    assert_ptr_equal(parse(second, &mapping), text + strlen(text));
    assert_int_equal(mapping.start, 0x1000);
    assert_true(!mapping.readable && !mapping.writable && !mapping.shared && mapping.executable);
    assert_true(mapping_is_named(&mapping, ""));
}

struct lines {
    size_t count, most, text_bytes;
};

static bool note_line(void *argument, const char *line, const struct mapping *mapping)
{
    struct lines *lines = argument;
    struct mapping again;
    size_t length = strlen(line);
    assert_true(mapping->start < mapping->end);
    mapping_parse(line, line + length, &again);
    assert_int_equal(again.start, mapping->start);
    assert_true(mapping_is_named(mapping, again.name)); /* the name ends with the line */
    memcpy(pieces + lines->text_bytes, line, length);
    lines->text_bytes += length + 1;
    pieces[lines->text_bytes - 1] = '\n';
    return ++lines->count < lines->most;
}

/* The lines again, by way of a buffer of so many bytes. */
static struct lines lines_through(size_t buffer_bytes, size_t most)
{
    static char buffer[3 * MAPS_LINE_BYTES];
    struct lines lines = {.most = most};
    maps_each_line(buffer, buffer_bytes, note_line, &lines);
    return lines;
}

static void test_lines_are_visited_through_a_small_buffer(void **state)
{
    (void)state;
    for (size_t bytes = MAPS_LINE_BYTES; bytes <= 3 * MAPS_LINE_BYTES; bytes += 997) {
        long maps = maps_open();
        size_t all = maps_read(maps, whole, sizeof whole);
        maps_close(maps);
        struct lines lines = lines_through(bytes, SIZE_MAX);
        assert_int_equal(lines.text_bytes, all);
        assert_memory_equal(pieces, whole, all);
    }
}

static void test_the_visitor_may_end_the_visit(void **state)
{
    (void)state;
    assert_int_equal(lines_through(MAPS_LINE_BYTES, 2).count, 2);
}

/* Lines longer than the buffer, as paths can be: the beginning of each, and each once. */
static void test_a_line_that_does_not_fit_is_cut(void **state)
{
    (void)state;
    enum { ROOM = 90 }; /* the shortest lines fit, those with a path do not */
    size_t count = lines_through(MAPS_LINE_BYTES, SIZE_MAX).count;
    memset(pieces, 0, sizeof pieces);
    struct lines cut = lines_through(ROOM, SIZE_MAX);
    assert_int_equal(cut.count, count);
    assert_null(strstr(pieces, "test_maps\n"));
    for (const char *line = pieces; *line; line = strchr(line, '\n') + 1)
        assert_true(strcspn(line, "\n") < ROOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_text_is_read_in_pieces),
        cmocka_unit_test(test_what_cannot_be_opened_is_empty),
        cmocka_unit_test(test_a_line_is_parsed_with_any_name_or_none),
        cmocka_unit_test(test_lines_are_visited_through_a_small_buffer),
        cmocka_unit_test(test_the_visitor_may_end_the_visit),
        cmocka_unit_test(test_a_line_that_does_not_fit_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
