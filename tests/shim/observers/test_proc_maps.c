/* SPDX-License-Identifier: MIT
 *
 * test_proc_maps.c: the text comes whole, in whatever pieces it is read.
 */
#include "shim/observers/proc_maps.h"

#include <string.h>

#include "tests/unit/unit.h"

static char whole[1 << 18], pieces[1 << 18];

static void test_the_text_is_read_in_pieces(void **state)
{
    (void)state;
    for (size_t piece = 100; piece < sizeof whole; piece *= 7) {
        size_t length = 0, got;
        long maps = proc_maps_open();
        size_t all = proc_maps_read(maps, whole, sizeof whole);
        assert_true(all > 100 && all < sizeof whole);
        proc_maps_close(maps);
        maps = proc_maps_open();
        do
            length += got = proc_maps_read(maps, pieces + length, piece);
        while (got == piece);
        assert_int_equal(proc_maps_read(maps, pieces + length, piece), 0);
        proc_maps_close(maps);
        assert_int_equal(length, all);
        assert_memory_equal(pieces, whole, all);
    }
    assert_non_null(strstr(whole, "test_proc_maps\n"));
}

static void test_what_cannot_be_opened_is_empty(void **state)
{
    (void)state;
    long failure = -2;
    assert_int_equal(proc_maps_read(failure, whole, sizeof whole), 0);
    proc_maps_close(failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_text_is_read_in_pieces),
        cmocka_unit_test(test_what_cannot_be_opened_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
