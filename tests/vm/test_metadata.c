/* SPDX-License-Identifier: MIT
 *
 * test_metadata.c: permanent memory for the heaps' own records.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <string.h>

#include "vm/granule_map.h"
#include "vm/metadata.h"
#include "vm/pages.h"

static void test_records_are_zero_aligned_and_apart(void **state)
{
    (void)state;
    uint64_t random = 4;
    for (int i = 0; i < 2000; i++) {
        size_t bytes = 1 + random_next(&random) % 3000;
        char *record = metadata_alloc(bytes);
        assert_non_null(record);
        assert_int_equal((uintptr_t)record % 64, 0);
        assert_true(is_zero(record, bytes)); /* one that overlaps another is not */
        memset(record, 1, bytes);
    }
}

static void test_a_record_may_be_larger_than_an_extent(void **state)
{
    (void)state;
    char *record = metadata_alloc(1000000);
    assert_non_null(record);
    assert_true(is_zero(record, 1000000));
    assert_non_null(metadata_alloc(1));
}

static void test_the_account_knows_all_of_it(void **state)
{
    (void)state;
    size_t metadata = metadata_bytes(), mapped = mapped_bytes();
    metadata_alloc(65);
    assert_int_equal(metadata_bytes() - metadata, 128);
    assert_int_equal(mapped_bytes() - mapped, 128);
}

enum { THREADS = 4, RECORDS = 500 };

static void *fill_records(void *unused)
{
    (void)unused;
    for (int i = 0; i < RECORDS; i++) {
        char *record = metadata_alloc(200);
        if (!record || !is_zero(record, 200))
            return &metadata_lock;
        memset(record, 1, 200);
    }
    return NULL;
}

static void test_threads_are_given_different_records(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    void *failed;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fill_records, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

static void take_records_without_memory(void *argument)
{
    (void)argument;
    limit_address_space(0);
    size_t metadata = metadata_bytes();
    require(!metadata_alloc((size_t)1 << 20));
    require(metadata_bytes() == metadata);
}

static void test_no_memory_is_said(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(take_records_without_memory, NULL);
}

/* There is memory for an extent, but none for the leaf of `beside_heaps` that it needs. */
static void take_records_without_a_leaf(void *argument)
{
    (void)argument;
    static char owner;
    void *far = (void *)((uintptr_t)1 << 40);
    require(granule_map_set(far, GRANULE_BYTES, &owner)); /* takes the leaf of the library */
    limit_address_space(4 * GRANULE_BYTES);
    for (int i = 0; i < 8; i++)
        require(!metadata_alloc(GRANULE_BYTES));
    require(pages_map(GRANULE_BYTES, GRANULE_BYTES));
}

static void test_what_cannot_be_entered_is_given_back(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(take_records_without_a_leaf, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_cannot_be_entered_is_given_back), /* before there is a leaf */
        cmocka_unit_test(test_records_are_zero_aligned_and_apart),
        cmocka_unit_test(test_a_record_may_be_larger_than_an_extent),
        cmocka_unit_test(test_the_account_knows_all_of_it),
        cmocka_unit_test(test_threads_are_given_different_records),
        cmocka_unit_test(test_no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
