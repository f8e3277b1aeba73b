/* SPDX-License-Identifier: MIT
 *
 * test_publish.c: the list of counters, found by its magic as `allotrope stats` finds it.
 */
#include "shim/reports/publish.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "trace/protocol/counters.h"
#include "vm/pages.h"

extern const char __data_start[], _end[];

/* The list in this program's data, which is read through the kernel, as from another process; NULL
 * when there is none. */
static const struct published_counters *find_list(void)
{
    char magic[16] = "allotrope-live/";
    magic[15] = '1'; /* put together, so that the program has no second one */
    const struct published_counters *list = NULL;
    size_t bytes = (size_t)(_end - __data_start);
    char *copy = malloc(bytes);
    int memory = open("/proc/self/mem", O_RDONLY);
    assert_true(copy && memory >= 0);
    assert_int_equal(pread(memory, copy, bytes, (off_t)(uintptr_t)__data_start), bytes);
    for (size_t at = -(uintptr_t)__data_start % 16; at + sizeof *list <= bytes && !list; at += 16)
        if (memcmp(copy + at, magic, sizeof magic) == 0)
            list = (const void *)(__data_start + at);
    close(memory);
    free(copy);
    return list;
}

static const void *address_of(const struct published_counters *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->counters[i].name, name) == 0)
            return list->counters[i].address;
    return NULL;
}

static void test_the_list_is_valid_once_it_is_started(void **state)
{
    (void)state;
    static const struct allocator allocator = {.name = "first", .preset = "old"};
    static const struct configuration configuration = {.allocator = &allocator};
    assert_null(find_list());
    publish_start(&configuration);
    const struct published_counters *list = find_list();
    assert_non_null(list);
    assert_string_equal(list->allocator, "first");
    assert_string_equal(list->preset, "old");
    assert_ptr_equal(address_of(list, "mapped_bytes"), &heap_account.mapped);
    assert_ptr_equal(address_of(list, "munmap"), &page_calls.munmap);
    assert_null(address_of(list, "malloc_calls"));
}

static void test_counters_are_added_as_far_as_there_is_room(void **state)
{
    (void)state;
    const struct published_counters *list = find_list();
    static uint64_t counters[MOST_COUNTERS + 2];
    assert_non_null(list);
    uint64_t before = list->count;
    char name[] = "counter_00_with_a_name_that_is_too_long";
    for (unsigned i = 0; i < MOST_COUNTERS + 2; i++) {
        name[8] = (char)('0' + i / 10);
        name[9] = (char)('0' + i % 10);
        publish_counter(name, &counters[i]);
    }
    assert_int_equal(list->count, MOST_COUNTERS);
    assert_ptr_equal(address_of(list, "counter_00_with_a_name_"), &counters[0]);
    assert_ptr_equal(list->counters[MOST_COUNTERS - 1].address,
                     &counters[MOST_COUNTERS - before - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_is_valid_once_it_is_started),
        cmocka_unit_test(test_counters_are_added_as_far_as_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
