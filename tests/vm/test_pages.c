/* SPDX-License-Identifier: MIT
 *
 * test_pages.c: the states of pages, seen through the kernel.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "vm/pages.h"

enum { SOME_PAGES = 16 };
static const size_t SOME_BYTES = SOME_PAGES * PAGE_BYTES;

static void test_rounding_goes_to_the_multiple_at_or_beyond(void **state)
{
    (void)state;
    assert_int_equal(round_up(0, 4096), 0);
    assert_int_equal(round_up(1, 4096), 4096);
    assert_int_equal(round_up(4096, 4096), 4096);
    assert_int_equal(round_down(4095, 4096), 0);
    assert_int_equal(round_down(8191, 4096), 4096);
}

static void test_mapped_pages_are_zero_writable_and_aligned(void **state)
{
    (void)state;
    for (size_t alignment = PAGE_BYTES; alignment <= (size_t)1 << 30; alignment *= 2) {
        char *pages = pages_map(SOME_BYTES, alignment);
        assert_non_null(pages);
        assert_int_equal((uintptr_t)pages % alignment, 0);
        assert_true(is_zero(pages, SOME_BYTES));
        memset(pages, 1, SOME_BYTES);
        /* What was mapped beyond to reach the alignment is gone. */
        assert_true(pages_unmap(pages, SOME_BYTES));
        assert_false(pages_in_use(pages, SOME_BYTES));
    }
}

/* What is trimmed for the alignment is not asked for as memory. */
static void test_alignment_may_exceed_all_memory(void **state)
{
    (void)state;
    size_t alignment = (size_t)1 << 42;
    assert_true(addresses_are_to_be_had(alignment));
    char *pages = pages_map(SOME_BYTES, alignment);
    assert_non_null(pages);
    assert_int_equal((uintptr_t)pages % alignment, 0);
    memset(pages, 1, SOME_BYTES);
    assert_true(pages_unmap(pages, SOME_BYTES));
    assert_true(addresses_are_to_be_had(alignment));
}

static void test_reserved_pages_have_no_access(void **state)
{
    (void)state;
    char *pages = pages_reserve(SOME_BYTES, (size_t)1 << 20);
    assert_non_null(pages);
    assert_int_equal((uintptr_t)pages % ((size_t)1 << 20), 0);
    assert_true(pages_in_use(pages, SOME_BYTES));
    assert_false(is_readable(pages));
    assert_false(is_readable(pages + SOME_BYTES - 1));
    assert_true(pages_unmap(pages, SOME_BYTES));
}

static void test_map_at_takes_only_what_is_free(void **state)
{
    (void)state;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    memset(pages, 7, SOME_BYTES);
    assert_false(pages_map_at(pages, PAGE_BYTES));
    assert_false(pages_map_at(pages + SOME_BYTES - PAGE_BYTES, 2 * PAGE_BYTES));
    assert_int_equal(pages[SOME_BYTES - 1], 7);
    assert_true(pages_unmap(pages, SOME_BYTES));
    assert_true(pages_map_at(pages, SOME_BYTES));
    assert_true(is_zero(pages, SOME_BYTES));
    assert_true(pages_unmap(pages, SOME_BYTES));
}

static void test_in_use_sees_a_single_page(void **state)
{
    (void)state;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    assert_true(pages_unmap(pages, SOME_BYTES - PAGE_BYTES));
    assert_true(pages_in_use(pages, SOME_BYTES));
    assert_false(pages_in_use(pages, SOME_BYTES - PAGE_BYTES));
    assert_false(is_readable(pages)); /* asking has left nothing behind */
    assert_true(pages_unmap(pages + SOME_BYTES - PAGE_BYTES, PAGE_BYTES));
}

static void ask_beyond_the_limit(void *argument)
{
    (void)argument;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    require(pages && pages_unmap(pages, PAGE_BYTES));
    limit_address_space(0);
    require(!pages_map_at(pages, PAGE_BYTES));
    require(!pages_in_use(pages, PAGE_BYTES));
    require(pages_in_use(pages + PAGE_BYTES, PAGE_BYTES));
}

static void test_refused_addresses_are_not_in_use(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(ask_beyond_the_limit, NULL);
}

static void test_discarded_pages_read_as_zero_and_are_not_resident(void **state)
{
    (void)state;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    assert_int_equal(pages_resident(pages, SOME_BYTES), 0);
    memset(pages, 1, SOME_BYTES);
    assert_int_equal(pages_resident(pages, SOME_BYTES), SOME_BYTES);
    pages_discard(pages + PAGE_BYTES, 2 * PAGE_BYTES);
    assert_int_equal(pages_resident(pages, SOME_BYTES), SOME_BYTES - 2 * PAGE_BYTES);
    assert_int_equal(pages[PAGE_BYTES - 1], 1);
    assert_true(is_zero(pages + PAGE_BYTES, 2 * PAGE_BYTES));
    assert_int_equal(pages[3 * PAGE_BYTES], 1);
    assert_true(pages_unmap(pages, SOME_BYTES));
}

/* mincore is asked for many pages at once: a range of several such portions, and a rest. */
static void test_resident_counts_over_long_ranges(void **state)
{
    (void)state;
    const size_t bytes = (3 * 1024 + 5) * PAGE_BYTES;
    char *pages = pages_map(bytes, (size_t)2 << 20);
    size_t touched = 0;
    for (size_t page = 0; page < bytes / PAGE_BYTES; page += 511, touched++)
        pages[page * PAGE_BYTES] = 1;
    /* Transparent huge pages may bring in more, never less. */
    assert_in_range(pages_resident(pages, bytes), touched * PAGE_BYTES, bytes);
    assert_true(pages_unmap(pages, bytes));
}

static size_t huge_bytes_at(const char *start)
{
    enum { LINE_BYTES = 512 };
    char line[LINE_BYTES];
    size_t kib = 0;
    bool is_here = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            is_here = from <= (unsigned long)start && (unsigned long)start < to;
        else if (is_here && sscanf(line, "AnonHugePages: %zu kB", &kib) == 1)
            break;
    }
    fclose(file);
    return kib << 10;
}

static void test_a_huge_page_is_made_of_pages_and_of_none(void **state)
{
    (void)state;
    char *pages = pages_map(2 * HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
    pages_allow_huge(pages + HUGE_PAGE_BYTES, HUGE_PAGE_BYTES, false);
    for (size_t page = 0; page < HUGE_PAGE_BYTES / PAGE_BYTES; page += 2)
        pages[page * PAGE_BYTES] = (char)(page % 100);
    if (!pages_make_huge(pages))
        skip(); /* a kernel before 6.1, or without huge pages */
    assert_int_equal(huge_bytes_at(pages), HUGE_PAGE_BYTES);
    for (size_t page = 0; page < HUGE_PAGE_BYTES / PAGE_BYTES; page++)
        assert_int_equal(pages[page * PAGE_BYTES], page % 2 ? 0 : page % 100);
    assert_true(pages_make_huge(pages));
    assert_false(pages_make_huge(pages + HUGE_PAGE_BYTES)); /* where there may be none */
    assert_true(pages_unmap(pages, 2 * HUGE_PAGE_BYTES));
    assert_false(pages_make_huge(pages));
}

static void test_resize_in_place_grows_only_into_free_space(void **state)
{
    (void)state;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    memset(pages, 3, SOME_BYTES);
    assert_true(pages_resize_in_place(pages, SOME_BYTES, PAGE_BYTES));
    assert_false(is_readable(pages + PAGE_BYTES));
    assert_true(pages_resize_in_place(pages, PAGE_BYTES, SOME_BYTES / 2));
    assert_int_equal(pages[0], 3);
    assert_true(is_zero(pages + PAGE_BYTES, SOME_BYTES / 2 - PAGE_BYTES));
    assert_true(pages_map_at(pages + SOME_BYTES / 2, PAGE_BYTES));
    pages[SOME_BYTES / 2] = 5;
    /* One mapping or two, the kernel may not grow the first over the second. */
    assert_false(pages_resize_in_place(pages, SOME_BYTES / 2, SOME_BYTES));
    assert_int_equal(pages[SOME_BYTES / 2], 5);
    assert_true(pages_unmap(pages, SOME_BYTES / 2 + PAGE_BYTES));
}

static void test_move_keeps_the_contents(void **state)
{
    (void)state;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    for (size_t page = 0; page < SOME_PAGES; page++)
        pages[page * PAGE_BYTES] = (char)page;
    char *target = pages_reserve(2 * SOME_BYTES, PAGE_BYTES);
    assert_true(pages_move(pages, SOME_BYTES, target, 2 * SOME_BYTES));
    assert_false(is_readable(pages));
    for (size_t page = 0; page < SOME_PAGES; page++)
        assert_int_equal(target[page * PAGE_BYTES], (char)page);
    assert_true(is_zero(target + SOME_BYTES, SOME_BYTES));
    assert_true(pages_unmap(target, 2 * SOME_BYTES));
}

static void test_a_place_to_move_to_is_for_what_the_kernel_would_move(void **state)
{
    (void)state;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    memset(pages, 1, SOME_BYTES);
    char *target = pages_reserve_to_move(pages, SOME_BYTES, NULL, 2 * SOME_BYTES, PAGE_BYTES);
    assert_non_null(target);
    assert_true(pages_unmap(target, 2 * SOME_BYTES));
    assert_int_equal(madvise(pages + PAGE_BYTES, PAGE_BYTES, MADV_DONTFORK), 0);
    uint64_t maps = page_calls.mmap;
    assert_null(pages_reserve_to_move(pages, SOME_BYTES, NULL, 2 * SOME_BYTES, PAGE_BYTES));
    assert_int_equal(page_calls.mmap, maps);
    assert_int_equal(pages[SOME_BYTES - 1], 1);
    assert_true(pages_unmap(pages, SOME_BYTES));
}

static void test_a_place_to_move_to_is_the_one_wanted_if_that_is_free(void **state)
{
    (void)state;
    enum { ALIGNMENT = 1 << 16 };
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    char *wanted = (char *)((uintptr_t)0x300000000000 + ALIGNMENT);
    char *first = pages_reserve_to_move(pages, SOME_BYTES, wanted, 2 * SOME_BYTES, ALIGNMENT);
    assert_ptr_equal(first, wanted);
    char *second = pages_reserve_to_move(pages, SOME_BYTES, wanted, 2 * SOME_BYTES, ALIGNMENT);
    assert_non_null(second);
    assert_ptr_not_equal(second, wanted);
    assert_int_equal((uintptr_t)second % ALIGNMENT, 0);
    assert_true(pages_unmap(first, 2 * SOME_BYTES));
    assert_true(pages_unmap(second, 2 * SOME_BYTES));
    assert_true(pages_unmap(pages, SOME_BYTES));
}

static void test_impossible_sizes_are_refused(void **state)
{
    (void)state;
    assert_null(pages_map((size_t)1 << 60, PAGE_BYTES));
    assert_null(pages_reserve((size_t)1 << 60, PAGE_BYTES));
    assert_null(pages_map(SOME_BYTES, (size_t)1 << 60));
    assert_null(pages_map((size_t)0 - PAGE_BYTES, (size_t)1 << 20)); /* the sum wraps */
    assert_false(pages_map_at((void *)((uintptr_t)1 << 47), PAGE_BYTES));
}

static void test_errno_is_left_alone(void **state)
{
    (void)state;
    errno = EXDEV;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    pages_map((size_t)1 << 60, PAGE_BYTES);
    pages_map_at(pages, PAGE_BYTES);
    pages_in_use(pages, PAGE_BYTES);
    pages_discard(pages, PAGE_BYTES);
    pages_resident((void *)((uintptr_t)1 << 47), PAGE_BYTES);
    pages_resize_in_place(pages, SOME_BYTES, (size_t)1 << 60);
    pages_unmap(pages, SOME_BYTES);
    pages_unmap(pages + 1, PAGE_BYTES);
    assert_int_equal(errno, EXDEV);
}

/* A word whose lower half was overwritten points there (pages.c). So many mappings in a row would
 * cross one. */
static void test_no_mapping_crosses_a_multiple_of_4_gib(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    enum { MAPPINGS = 48 };
    const size_t bytes = (size_t)96 << 20;
    const uintptr_t four_gib = (uintptr_t)1 << 32;
    char *mappings[MAPPINGS];
    for (int i = 0; i < MAPPINGS; i++) {
        mappings[i] = pages_reserve(bytes, PAGE_BYTES << (i % 2 * 4));
        assert_non_null(mappings[i]);
        uintptr_t start = (uintptr_t)mappings[i];
        assert_int_equal((start - 1) / four_gib, (start + bytes) / four_gib);
    }
    for (int i = 0; i < MAPPINGS; i++)
        assert_true(pages_unmap(mappings[i], bytes));
}

static void test_system_calls_are_counted(void **state)
{
    (void)state;
    uint64_t maps = page_calls.mmap, unmaps = page_calls.munmap;
    uint64_t remaps = page_calls.mremap, advices = page_calls.madvise;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    pages_discard(pages, SOME_BYTES);
    pages_resize_in_place(pages, SOME_BYTES, PAGE_BYTES);
    pages_unmap(pages, PAGE_BYTES);
    assert_int_equal(page_calls.mmap, maps + 1);
    assert_int_equal(page_calls.munmap, unmaps + 1);
    assert_int_equal(page_calls.mremap, remaps + 1);
    assert_int_equal(page_calls.madvise, advices + 1);
}

static void refuse_beyond_the_limit(void *argument)
{
    (void)argument;
    limit_address_space((size_t)8 << 20);
    require(!pages_map((size_t)16 << 20, PAGE_BYTES));
    require(!pages_reserve((size_t)16 << 20, PAGE_BYTES));
    char *pages = pages_map((size_t)4 << 20, PAGE_BYTES);
    require(pages != NULL);
    require(!pages_resize_in_place(pages, (size_t)4 << 20, (size_t)32 << 20));
    require(pages_unmap(pages, (size_t)4 << 20));
}

static void test_address_limit_refuses_and_leaves_the_rest(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(refuse_beyond_the_limit, NULL);
}

static void unmap_in_the_middle(void *argument)
{
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    require(pages != NULL);
    memset(pages, 1, SOME_BYTES);
    (void)argument;
    if (!exhaust_mappings())
        _exit(CHILD_CANNOT_TELL);
    uint64_t refused = page_calls.unmap_refused;
    require(!pages_unmap(pages + 4 * PAGE_BYTES, PAGE_BYTES));
    require(page_calls.unmap_refused == refused + 1);
    require(is_zero(pages + 4 * PAGE_BYTES, PAGE_BYTES));
    require(pages[5 * PAGE_BYTES] == 1);
    pages[4 * PAGE_BYTES] = 2; /* still the caller's */
}

static void test_refused_unmapping_discards_instead(void **state)
{
    (void)state;
    assert_child_succeeds(unmap_in_the_middle, NULL);
}

/* Whether exactly the pages from the second to the fourth have no access. */
static bool second_to_fourth_are_guarded(const char *pages)
{
    for (size_t page = 0; page < SOME_PAGES; page++)
        if (is_readable(pages + page * PAGE_BYTES) == (page >= 1 && page < 4))
            return false;
    return true;
}

static void test_a_guard_takes_access_and_contents_of_its_pages_alone(void **state)
{
    (void)state;
    char *pages = memset(pages_map(SOME_BYTES, PAGE_BYTES), 1, SOME_BYTES);
    assert_true(pages_guard(pages + PAGE_BYTES, 3 * PAGE_BYTES));
    assert_true(second_to_fourth_are_guarded(pages));
    assert_true(pages_unguard(pages + PAGE_BYTES, 3 * PAGE_BYTES));
    assert_true(is_zero(pages + PAGE_BYTES, 3 * PAGE_BYTES));
    assert_int_equal(pages[PAGE_BYTES - 1], 1);
    assert_int_equal(pages[4 * PAGE_BYTES], 1);
    memset(pages, 2, SOME_BYTES);
    assert_true(pages_unguard(pages, SOME_BYTES)); /* where there is none */
    assert_int_equal(pages[SOME_BYTES - 1], 2);
    assert_true(pages_unmap(pages, SOME_BYTES));
}

/* The kernel has no other guards for them. The address sanitizer's mlock does nothing. */
static void test_locked_pages_are_guarded_too(void **state)
{
    (void)state;
    char *pages = memset(pages_map(SOME_BYTES, PAGE_BYTES), 1, SOME_BYTES);
    if (syscall(SYS_mlock, pages, SOME_BYTES) != 0)
        skip();
    assert_true(pages_guard(pages + PAGE_BYTES, 3 * PAGE_BYTES));
    assert_true(second_to_fourth_are_guarded(pages));
    assert_true(pages_unguard(pages + PAGE_BYTES, 3 * PAGE_BYTES));
    memset(pages, 2, SOME_BYTES);
    assert_true(pages_unmap(pages, SOME_BYTES));
}

/* The first page is guarded, the locked one refuses, and no mapping can be split any more. */
static void guard_a_part(void *unused)
{
    (void)unused;
    char *pages = memset(pages_map(SOME_BYTES, PAGE_BYTES), 1, SOME_BYTES);
    if (syscall(SYS_mlock, pages + 2 * PAGE_BYTES, PAGE_BYTES) != 0 || !exhaust_mappings())
        _exit(CHILD_CANNOT_TELL);
    require(!pages_guard(pages + PAGE_BYTES, 3 * PAGE_BYTES));
    memset(pages, 2, SOME_BYTES);
}

static void test_a_guard_that_is_refused_leaves_access_to_all(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(guard_a_part, NULL);
}

static void guard_in_sandbox(void *unused)
{
    (void)unused;
    char *pages = pages_map(SOME_BYTES, PAGE_BYTES);
    require(pages && pages_guard(memset(pages, 1, SOME_BYTES), PAGE_BYTES));
    uint64_t advices = page_calls.madvise;
    pages_enter_sandbox();
    require(!pages_guard(pages + PAGE_BYTES, PAGE_BYTES));
    require(pages[PAGE_BYTES] == 1);
    require(pages_unguard(pages, PAGE_BYTES));
    require(is_zero(pages, PAGE_BYTES));
    memset(pages, 2, SOME_BYTES);
    require(page_calls.madvise == advices); /* it might end the process */
}

static void test_in_a_sandbox_there_are_no_new_guards_and_old_ones_go(void **state)
{
    (void)state;
    assert_child_succeeds(guard_in_sandbox, NULL);
}

static void test_account_keeps_the_peak(void **state)
{
    (void)state;
    size_t before = mapped_bytes(), metadata = metadata_bytes();
    account_mapped(1 << 30);
    account_metadata(4096);
    size_t peak = mapped_peak_bytes();
    assert_int_equal(mapped_bytes(), before + (1 << 30) + 4096);
    assert_int_equal(metadata_bytes(), metadata + 4096);
    assert_true(peak >= mapped_bytes());
    account_mapped(-(1 << 30));
    account_metadata(-4096);
    assert_int_equal(mapped_bytes(), before);
    assert_int_equal(mapped_peak_bytes(), peak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding_goes_to_the_multiple_at_or_beyond),
        cmocka_unit_test(test_mapped_pages_are_zero_writable_and_aligned),
        cmocka_unit_test(test_alignment_may_exceed_all_memory),
        cmocka_unit_test(test_a_place_to_move_to_is_the_one_wanted_if_that_is_free),
        cmocka_unit_test(test_reserved_pages_have_no_access),
        cmocka_unit_test(test_map_at_takes_only_what_is_free),
        cmocka_unit_test(test_in_use_sees_a_single_page),
        cmocka_unit_test(test_refused_addresses_are_not_in_use),
        cmocka_unit_test(test_discarded_pages_read_as_zero_and_are_not_resident),
        cmocka_unit_test(test_resident_counts_over_long_ranges),
        cmocka_unit_test(test_a_huge_page_is_made_of_pages_and_of_none),
        cmocka_unit_test(test_resize_in_place_grows_only_into_free_space),
        cmocka_unit_test(test_move_keeps_the_contents),
        cmocka_unit_test(test_a_place_to_move_to_is_for_what_the_kernel_would_move),
        cmocka_unit_test(test_impossible_sizes_are_refused),
        cmocka_unit_test(test_errno_is_left_alone),
        cmocka_unit_test(test_no_mapping_crosses_a_multiple_of_4_gib),
        cmocka_unit_test(test_system_calls_are_counted),
        cmocka_unit_test(test_address_limit_refuses_and_leaves_the_rest),
        cmocka_unit_test(test_refused_unmapping_discards_instead),
        cmocka_unit_test(test_a_guard_takes_access_and_contents_of_its_pages_alone),
        cmocka_unit_test(test_locked_pages_are_guarded_too),
        cmocka_unit_test(test_a_guard_that_is_refused_leaves_access_to_all),
        cmocka_unit_test(test_in_a_sandbox_there_are_no_new_guards_and_old_ones_go),
        cmocka_unit_test(test_account_keeps_the_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
