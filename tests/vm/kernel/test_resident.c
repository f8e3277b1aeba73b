/* SPDX-License-Identifier: MIT
 *
 * test_resident.c: which pages are there, against those that the test has touched; asked of the
 * kernel in both ways.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Included, not linked: a test chooses the way. */
#include "vm/kernel/resident.c"

enum { PAGES = 400 };

/* What a walk has visited, by page; runs must come in order. */
struct visited {
    uintptr_t base, last_end;
    bool pages[PAGES];
    size_t runs;
    bool in_order, all_readable;
};

static void visit(void *argument, uintptr_t start, uintptr_t end, bool readable)
{
    struct visited *visited = argument;
    visited->in_order = visited->in_order && start >= visited->last_end && start < end;
    visited->all_readable = visited->all_readable && readable;
    visited->last_end = end;
    visited->runs++;
    for (uintptr_t page = start; page < end; page += PAGE_BYTES)
        visited->pages[(page - visited->base) / PAGE_BYTES] = true;
}

typedef bool walker(uintptr_t start, uintptr_t end, resident_visitor *visit, void *argument);

/* Exactly the pages whose numbers are multiples of `every` are there. */
static void assert_visits(walker *each_resident, const char *pages, size_t every)
{
    struct visited visited = {.base = (uintptr_t)pages, .in_order = true, .all_readable = true};
    assert_true(each_resident((uintptr_t)pages, (uintptr_t)pages + (size_t)PAGES * PAGE_BYTES,
                              visit, &visited));
    assert_true(visited.in_order);
    assert_true(visited.all_readable);
    assert_int_equal(visited.runs, every == 1 ? 1 : (PAGES + every - 1) / every);
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(visited.pages[i], i % every == 0);
}

static char *map(int flags, int file)
{
    char *pages = mmap(NULL, (size_t)PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE,
                       flags | MAP_NORESERVE, file, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    madvise(pages, (size_t)PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
    return pages;
}

static void unmap(char *pages)
{
    munmap(pages, (size_t)PAGES * PAGE_BYTES);
}

static void write_every(char *pages, size_t every)
{
    for (size_t i = 0; i < PAGES; i += every)
        pages[i * PAGE_BYTES] = 1;
}

static int memory_file(void)
{
    int file = memfd_create("resident", 0);
    assert_int_equal(ftruncate(file, (off_t)PAGES * PAGE_BYTES), 0);
    return file;
}

static int open_scanning(void **state)
{
    (void)state;
    has_scan = true;
    return process_open() && resident_open() ? 0 : -1;
}

static int open_reading(void **state)
{
    int status = open_scanning(state);
    has_scan = false;
    return status;
}

static void test_pages_that_were_written_are_visited_in_order(void **state)
{
    (void)state;
    static const size_t every[] = {1, 2, 3, 7, PAGES}; /* more runs than one question answers */
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
        char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
        write_every(pages, every[i]);
        assert_visits(resident_each, pages, every[i]);
        unmap(pages);
    }
}

static void test_nothing_is_visited_where_nothing_was_touched(void **state)
{
    (void)state;
    struct visited visited = {.in_order = true};
    char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    assert_true(resident_each((uintptr_t)pages, (uintptr_t)pages + PAGE_BYTES, visit, &visited));
    assert_true(resident_each((uintptr_t)pages, (uintptr_t)pages, visit, &visited));
    assert_int_equal(visited.runs, 0);
    unmap(pages);
}

static void test_pages_of_a_file_that_were_only_read_are_left_out(void **state)
{
    (void)state;
    int file = memory_file();
    char *shared = map(MAP_SHARED, file), *private = map(MAP_PRIVATE, file);
    memset(shared, 1, (size_t)PAGES * PAGE_BYTES);
    char sum = 0;
    for (size_t i = 0; i < PAGES; i++)
        sum = (char)(sum + private[i * PAGE_BYTES]);
    assert_int_equal(sum, (char)PAGES);
    write_every(private, 4);
    assert_visits(resident_each, private, 4);
    assert_visits(resident_each_shared, shared, 1);
    unmap(private);
    unmap(shared);
    close(file);
}

static void test_of_a_shared_mapping_what_the_process_has_touched_is_visited(void **state)
{
    (void)state;
    int file = memory_file();
    char *shared = map(MAP_SHARED, file);
    write_every(shared, 64); /* the kernel maps what is in memory around a page that is read */
    assert_visits(resident_each_shared, shared, 64);
    unmap(shared);
    close(file);
}

static void test_without_the_kernels_word_nothing_is_visited(void **state)
{
    (void)state;
    struct visited visited = {0};
    char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    write_every(pages, 1);
    page_file = -1;
    assert_false(resident_each((uintptr_t)pages, (uintptr_t)pages + PAGE_BYTES, visit, &visited));
    assert_int_equal(visited.runs, 0);
    unmap(pages);
}

static void test_one_failure_does_not_end_scans(void **state)
{
    (void)state;
    struct visited visited = {0};
    char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    bool had_scan = has_scan;
    page_file = 1 << 20; /* nothing is open there */
    assert_false(resident_each((uintptr_t)pages, (uintptr_t)pages + PAGE_BYTES, visit, &visited));
    assert_int_equal(has_scan, had_scan);
    unmap(pages);
}

/* The counts. */

static void test_pages_are_alone_until_a_child_has_them_too(void **state)
{
    (void)state;
    char *pages = pages_map(4 * PAGE_BYTES, PAGE_BYTES);
    uintptr_t start = (uintptr_t)pages;
    assert_true(resident_open());
    pages[0] = pages[3 * PAGE_BYTES] = 1;
    if (resident_alone(start, start + PAGE_BYTES) == 0)
        skip(); /* the kernel does not tell */
    assert_int_equal(resident_alone(start, start + 4 * PAGE_BYTES), 2 * PAGE_BYTES);
    pid_t child = start_idle_child();
    pages[0] = 2; /* a copy, of which the child has none */
    assert_int_equal(resident_alone(start, start + 4 * PAGE_BYTES), PAGE_BYTES);
    end_idle_child(child);
    assert_int_equal(resident_alone(start, start + 4 * PAGE_BYTES), 2 * PAGE_BYTES);
    assert_true(pages_unmap(pages, 4 * PAGE_BYTES));
}

static void test_huge_pages_are_told_from_small_ones(void **state)
{
    (void)state;
    char *pages = pages_map(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
    uintptr_t start = (uintptr_t)pages;
    assert_true(resident_open());
    pages_allow_huge(pages, HUGE_PAGE_BYTES, false);
    memset(pages, 1, HUGE_PAGE_BYTES);
    assert_false(resident_is_huge(start, start + HUGE_PAGE_BYTES));
    pages_allow_huge(pages, HUGE_PAGE_BYTES, true);
    bool made = pages_make_huge(pages);
    bool is_huge = resident_is_huge(start, start + HUGE_PAGE_BYTES);
    pages_allow_huge(pages, HUGE_PAGE_BYTES, false); /* khugepaged would fill the hole */
    assert_true(pages_discard(pages + PAGE_BYTES, PAGE_BYTES));
    assert_false(resident_is_huge(start, start + HUGE_PAGE_BYTES));
    assert_true(pages_unmap(pages, HUGE_PAGE_BYTES));
    if (!made || !is_huge)
        skip(); /* the kernel has none, or does not tell */
}

static struct resident_count count_in(char *pages, size_t bytes)
{
    struct resident_count count;
    resident_count_begin(&count);
    resident_count_add(&count, pages, bytes / 2);
    resident_count_add(&count, pages + bytes / 2, bytes - bytes / 2);
    resident_count_end(&count);
    return count;
}

static char read_every(const char *pages, size_t every)
{
    char sum = 0;
    for (size_t i = 0; i < PAGES; i += every)
        sum = (char)(sum + ((const volatile char *)pages)[i * PAGE_BYTES]);
    return sum;
}

static bool kernel_scans(void)
{
    char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    bool exact = count_in(pages, (size_t)PAGES * PAGE_BYTES).is_exact;
    unmap(pages);
    return exact;
}

static void test_pages_that_were_only_read_are_not_counted(void **state)
{
    (void)state;
    if (!kernel_scans())
        skip();
    char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    write_every(pages, 4);
    assert_int_equal(read_every(pages, 1), PAGES / 4);
    struct resident_count count = count_in(pages, (size_t)PAGES * PAGE_BYTES);
    assert_true(count.is_exact);
    assert_int_equal(count.bytes, PAGES / 4 * PAGE_BYTES);
    unmap(pages);
}

/* What a child shares with its parent until one of them writes is in its memory as well. Its page
 * file is its own: the parent's would tell of the page that the child has discarded. */
static void test_a_forked_child_counts_its_own_pages(void **state)
{
    (void)state;
    if (!kernel_scans())
        skip();
    char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    write_every(pages, 4);
    pid_t child = fork();
    if (child == 0) {
        madvise(pages, PAGE_BYTES, MADV_DONTNEED);
        struct resident_count count = count_in(pages, (size_t)PAGES * PAGE_BYTES);
        _exit(count.is_exact && count.bytes == (PAGES / 4 - 1) * PAGE_BYTES ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    unmap(pages);
}

/* In a child, whose limit nobody else has. */
static void test_where_the_page_file_cannot_be_had_the_count_says_so(void **state)
{
    (void)state;
    char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    write_every(pages, 4);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
        read_every(pages, 1);
        struct resident_count count = count_in(pages, (size_t)PAGES * PAGE_BYTES);
        _exit(!count.is_exact && count.bytes == (size_t)PAGES * PAGE_BYTES ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    unmap(pages);
}

static void test_a_count_leaves_no_descriptor(void **state)
{
    (void)state;
    char *pages = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    int before = dup(0);
    close(before);
    count_in(pages, (size_t)PAGES * PAGE_BYTES);
    int after = dup(0);
    close(after);
    assert_int_equal(before, after);
    unmap(pages);
}

#define BOTH_WAYS(test)                                         \
    cmocka_unit_test_setup_teardown(test, open_scanning, NULL), \
        cmocka_unit_test_setup_teardown(test, open_reading, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(test_pages_that_were_written_are_visited_in_order),
        BOTH_WAYS(test_nothing_is_visited_where_nothing_was_touched),
        BOTH_WAYS(test_pages_of_a_file_that_were_only_read_are_left_out),
        BOTH_WAYS(test_of_a_shared_mapping_what_the_process_has_touched_is_visited),
        BOTH_WAYS(test_without_the_kernels_word_nothing_is_visited),
        cmocka_unit_test_setup_teardown(test_one_failure_does_not_end_scans, open_scanning, NULL),
        cmocka_unit_test(test_pages_that_were_only_read_are_not_counted),
        cmocka_unit_test(test_a_forked_child_counts_its_own_pages),
        cmocka_unit_test(test_where_the_page_file_cannot_be_had_the_count_says_so),
        cmocka_unit_test(test_a_count_leaves_no_descriptor),
        cmocka_unit_test(test_pages_are_alone_until_a_child_has_them_too),
        cmocka_unit_test(test_huge_pages_are_told_from_small_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
