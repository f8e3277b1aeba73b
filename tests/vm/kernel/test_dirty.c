/* SPDX-License-Identifier: MIT
 *
 * test_dirty.c: which pages were written, against pages that the test has written; where tracking
 * is lost, where the kernel refuses, and in forked children; and a long row of random operations
 * against a model of the kernel.
 *
 * Where the kernel has no WP_ASYNC all tests but those of `none` are skipped, and say why.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "vm/kernel/page_scan.h"
#include "vm/syscall.h"

/* The seam: every ioctl of dirty.c may be made to fail. */
struct fault {
    unsigned long request; /* 0: none fails */
    int calls_before;      /* that succeed */
    long error;            /* a negated errno */
    bool after_the_call;   /* the kernel does it, and then says that it did not */
    bool without_check;    /* the kernel knows no SCAN_CHECK_ASYNC */
};
static struct fault fault;

static long call_kernel(long number, long a, long b, long c)
{
    bool fails = number == SYS_ioctl && fault.request && (unsigned long)b == fault.request &&
                 fault.calls_before-- <= 0;
    if (fails && !fault.after_the_call)
        return fault.error;
    if (fault.without_check && number == SYS_ioctl && (unsigned long)b == PAGEMAP_SCAN_REQUEST)
        ((struct pagemap_scan *)c)->flags &= ~(uint64_t)SCAN_CHECK_ASYNC;
    long result = raw_syscall(number, a, b, c, 0, 0, 0);
    return fails ? fault.error : result;
}

#undef SYSCALL_3
#define SYSCALL_3(number, a, b, c) call_kernel(number, (long)(a), (long)(b), (long)(c))

/* Included, not linked: for the seam. */
#include "vm/kernel/dirty.c"

enum { PAGES = 300 };
static const size_t BYTES = PAGES * PAGE_BYTES;

static char *map_at(void *address, size_t bytes)
{
    char *pages = mmap(address, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | (address ? MAP_FIXED : 0), -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    madvise(pages, bytes, MADV_NOHUGEPAGE);
    return pages;
}

static int open_tracking(void **state)
{
    (void)state;
    fault = (struct fault){0};
    kept_drop(&dirty.userfaults);
    dirty_open(DIRTY_ASYNC);
    return 0;
}

/* Asked apart from dirty.c, which must not be believed that it is not to be used. */
static bool kernel_has_tracking(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = USERFAULTS_WRITE_PROTECT_ASYNC};
    int userfaults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    bool has = userfaults >= 0 && ioctl(userfaults, UFFDIO_API, &api) == 0;
    close(userfaults);
    return has;
}

/* Skips where the kernel cannot do it. */
static void need_tracking(void)
{
    if (dirty.counts.provider == DIRTY_ASYNC)
        return;
    assert_false(kernel_has_tracking());
    print_message("skipped: %s\n", dirty.counts.refused);
    skip();
}

/* Pages that are written, tracked, protected, and clean to both. */
static char *clean_pages(void)
{
    need_tracking();
    char *pages = map_at(NULL, BYTES);
    uintptr_t start = (uintptr_t)pages;
    memset(pages, 1, BYTES);
    assert_true(dirty_track(start, start + BYTES));
    struct dirty_scan scan = dirty_begin();
    assert_true(dirty_reprotect(&scan, start, start + BYTES));
    dirty_clean(DIRTY_GENERATIONS, start, start + BYTES);
    dirty_clean(DIRTY_CYCLE, start, start + BYTES);
    return pages;
}

static void write_page(char *pages, size_t page)
{
    *(volatile char *)(pages + page * PAGE_BYTES) = 7;
}

static bool look(const char *pages)
{
    struct dirty_scan scan = dirty_begin();
    return dirty_look(&scan, (uintptr_t)pages, (uintptr_t)pages + BYTES);
}

static bool reprotect(const char *pages)
{
    struct dirty_scan scan = dirty_begin();
    return dirty_reprotect(&scan, (uintptr_t)pages, (uintptr_t)pages + BYTES);
}

static void clean(enum dirty_consumer consumer, const char *pages)
{
    dirty_clean(consumer, (uintptr_t)pages, (uintptr_t)pages + BYTES);
}

static bool is_dirty(enum dirty_consumer consumer, const char *pages, size_t page)
{
    return dirty_page(consumer, (uintptr_t)pages + page * PAGE_BYTES);
}

static size_t count_dirty(enum dirty_consumer consumer, const char *pages)
{
    size_t count = 0;
    for (size_t i = 0; i < PAGES; i++)
        count += is_dirty(consumer, pages, i);
    return count;
}

static void assert_all_dirty(const char *pages)
{
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), PAGES);
    assert_int_equal(count_dirty(DIRTY_CYCLE, pages), PAGES);
}

static void test_the_pages_that_were_written_are_dirty_and_no_others(void **state)
{
    (void)state;
    char *pages = clean_pages();
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 0);
    for (size_t i = 0; i < PAGES; i += 2) /* more runs than one question answers */
        write_page(pages, i);
    assert_true(look(pages));
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(is_dirty(DIRTY_GENERATIONS, pages, i), i % 2 == 0);
    munmap(pages, BYTES);
}

static void test_a_page_that_is_not_protected_again_stays_dirty(void **state)
{
    (void)state;
    char *pages = clean_pages();
    write_page(pages, 3);
    for (int round = 0; round < 2; round++) {
        assert_true(look(pages));
        assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 1);
        clean(DIRTY_GENERATIONS, pages);
    }
    assert_true(reprotect(pages));
    clean(DIRTY_GENERATIONS, pages);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 0);
    munmap(pages, BYTES);
}

static void test_consumers_do_not_take_each_others_bits(void **state)
{
    (void)state;
    char *pages = clean_pages();
    write_page(pages, 10);
    assert_true(reprotect(pages));
    clean(DIRTY_GENERATIONS, pages);
    write_page(pages, 20);
    assert_true(reprotect(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 1);
    assert_true(is_dirty(DIRTY_GENERATIONS, pages, 20));
    assert_int_equal(count_dirty(DIRTY_CYCLE, pages), 2);
    munmap(pages, BYTES);
}

static void test_runs_are_found_in_order_across_leaves(void **state)
{
    (void)state;
    need_tracking();
    const size_t bytes = 4 * LEAF_BYTES;
    char *pages = map_at(NULL, bytes);
    uintptr_t start = (uintptr_t)pages, end = start + bytes;
    uintptr_t edge = round_down(start + 2 * LEAF_BYTES, LEAF_BYTES);
    assert_true(dirty_track(start, end));
    dirty_clean(DIRTY_GENERATIONS, start, end);
    dirty_set(edge - 3 * PAGE_BYTES, edge + 70 * PAGE_BYTES);
    dirty_set(end - PAGE_BYTES, end);
    struct dirty_run run = {start, end};
    assert_true(dirty_next_run(DIRTY_GENERATIONS, &run));
    assert_int_equal(run.start, edge - 3 * PAGE_BYTES);
    assert_int_equal(run.end, edge + 70 * PAGE_BYTES);
    run = (struct dirty_run){run.end, end};
    assert_true(dirty_next_run(DIRTY_GENERATIONS, &run));
    assert_int_equal(run.start, end - PAGE_BYTES);
    run = (struct dirty_run){edge + 70 * PAGE_BYTES, end - PAGE_BYTES};
    assert_false(dirty_next_run(DIRTY_GENERATIONS, &run));
    munmap(pages, bytes);
}

static void test_untracked_memory_is_dirty(void **state)
{
    (void)state;
    char *far = map_at((void *)(UINT64_C(0x5432) << 32), BYTES); /* no leaf is there */
    dirty_clean(DIRTY_GENERATIONS, (uintptr_t)far, (uintptr_t)far + BYTES);
    struct dirty_run run = {(uintptr_t)far, (uintptr_t)far + BYTES};
    assert_true(dirty_next_run(DIRTY_GENERATIONS, &run));
    assert_int_equal(run.end, (uintptr_t)far + BYTES);
    assert_all_dirty(far);
    assert_int_equal(dirty_track((uintptr_t)far, (uintptr_t)far + BYTES),
                     dirty.counts.provider == DIRTY_ASYNC);
    assert_all_dirty(far);
    munmap(far, BYTES);
    char *pages = clean_pages();
    dirty_untrack((uintptr_t)pages, (uintptr_t)pages + BYTES);
    assert_all_dirty(pages);
    munmap(pages, BYTES);
}

static void test_without_a_provider_everything_is_dirty(void **state)
{
    (void)state;
    char *pages = map_at(NULL, BYTES);
    kept_drop(&dirty.userfaults);
    assert_int_equal(dirty_open(DIRTY_NONE), DIRTY_NONE);
    assert_null(dirty_counts().refused);
    assert_false(dirty_track((uintptr_t)pages, (uintptr_t)pages + BYTES));
    clean(DIRTY_GENERATIONS, pages);
    clean(DIRTY_CYCLE, pages);
    assert_false(look(pages));
    assert_all_dirty(pages);
    clean(DIRTY_GENERATIONS, pages);
    clean(DIRTY_CYCLE, pages);
    assert_false(reprotect(pages));
    assert_all_dirty(pages);
    munmap(pages, BYTES);
}

static void test_system_calls_write_into_protected_pages_and_are_seen(void **state)
{
    (void)state;
    char *pages = clean_pages();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "abcd", 4), 4);
    assert_int_equal(read(ends[0], pages + 6 * PAGE_BYTES - 2, 4), 4); /* over a page's edge */
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 2);
    assert_true(is_dirty(DIRTY_GENERATIONS, pages, 5));
    assert_true(is_dirty(DIRTY_GENERATIONS, pages, 6));
    close(ends[0]);
    close(ends[1]);
    munmap(pages, BYTES);
}

static void test_a_changed_protection_loses_nothing(void **state)
{
    (void)state;
    char *pages = clean_pages();
    write_page(pages, 1);
    mprotect(pages, BYTES, PROT_NONE);
    mprotect(pages, BYTES, PROT_READ | PROT_WRITE);
    write_page(pages, 2);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 2);
    munmap(pages, BYTES);
}

static void test_discarded_pages_are_not_reported_until_they_are_used(void **state)
{
    (void)state;
    char *pages = clean_pages();
    write_page(pages, 4);
    madvise(pages, 20 * PAGE_BYTES, MADV_DONTNEED);
    write_page(pages, 8);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 1);
    assert_true(is_dirty(DIRTY_GENERATIONS, pages, 8));
    munmap(pages, BYTES);
}

/* Invariant [doubt is dirty]. The pages behind the hole stay protected by the failed scan. */
static void assert_lost_and_tracked_again(char *pages, size_t hole)
{
    write_page(pages, 0); /* before the hole: the scan protects it again, and then fails */
    write_page(pages, PAGES - 1);
    assert_false(reprotect(pages));
    assert_all_dirty(pages);
    clean(DIRTY_GENERATIONS, pages);
    assert_true(reprotect(pages)); /* tracked again; what is in the hole is not protected yet */
    assert_true(is_dirty(DIRTY_GENERATIONS, pages, hole));
    clean(DIRTY_GENERATIONS, pages);
    write_page(pages, hole);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 1);
}

static void test_a_mapping_in_the_place_of_a_tracked_one_is_dirty(void **state)
{
    (void)state;
    char *pages = clean_pages();
    munmap(pages + 100 * PAGE_BYTES, 10 * PAGE_BYTES);
    map_at(pages + 100 * PAGE_BYTES, 10 * PAGE_BYTES);
    write_page(pages, 105);
    assert_lost_and_tracked_again(pages, 105);
    munmap(pages, BYTES);
}

static void test_memory_that_was_moved_is_dirty(void **state)
{
    (void)state;
    char *old = clean_pages(), *pages = map_at(NULL, BYTES);
    assert_ptr_equal(mremap(old, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, pages), pages);
    assert_true(dirty_track((uintptr_t)pages, (uintptr_t)pages + BYTES));
    clean(DIRTY_GENERATIONS, pages);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), PAGES);
    munmap(pages, BYTES);
}

static void test_memory_that_was_moved_into_tracked_addresses_is_dirty(void **state)
{
    (void)state;
    char *pages = clean_pages(), *away = map_at(NULL, PAGE_BYTES);
    char *middle = pages + 50 * PAGE_BYTES;
    assert_ptr_equal(mremap(middle, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, away),
                     away);
    *away = 9;
    assert_ptr_equal(mremap(away, PAGE_BYTES, PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, middle),
                     middle);
    assert_lost_and_tracked_again(pages, 50);
    munmap(pages, BYTES);
}

/* Kernels differ in whether the new part is tracked. */
static void test_memory_that_has_grown_is_dirty(void **state)
{
    (void)state;
    char *pages = clean_pages();
    munmap(pages + BYTES / 2, BYTES / 2);
    assert_ptr_equal(mremap(pages, BYTES / 2, BYTES, 0), pages);
    memset(pages + BYTES / 2, 1, BYTES / 2);
    for (int round = 0; round < 2; round++) {
        reprotect(pages);
        assert_true(is_dirty(DIRTY_GENERATIONS, pages, PAGES / 2));
        assert_true(is_dirty(DIRTY_GENERATIONS, pages, PAGES - 1));
        clean(DIRTY_GENERATIONS, pages);
        write_page(pages, PAGES / 2);
        write_page(pages, PAGES - 1);
    }
    munmap(pages, BYTES);
}

static void test_a_huge_page_is_dirty_by_small_pages(void **state)
{
    (void)state;
    need_tracking();
    const size_t huge = LEAF_BYTES;
    char *room = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *pages = (char *)round_up((uintptr_t)room, huge);
    madvise(pages, huge, MADV_HUGEPAGE);
    memset(pages, 1, huge);
    uintptr_t start = (uintptr_t)pages, end = start + huge;
    assert_true(dirty_track(start, end));
    struct dirty_scan scan = dirty_begin();
    assert_true(dirty_reprotect(&scan, start, end));
    dirty_clean(DIRTY_GENERATIONS, start, end);
    write_page(pages, 77);
    assert_true(dirty_look(&scan, start, end));
    assert_true(dirty_page(DIRTY_GENERATIONS, start + 77 * PAGE_BYTES));
    /* A part of a huge page is protected: the rest stays dirty. */
    madvise(pages, huge, MADV_DONTNEED);
    memset(pages, 1, huge);
    assert_true(dirty_reprotect(&scan, start, start + 10 * PAGE_BYTES));
    dirty_clean(DIRTY_GENERATIONS, start, end);
    assert_true(dirty_look(&scan, start, end));
    assert_false(dirty_page(DIRTY_GENERATIONS, start + 9 * PAGE_BYTES));
    assert_true(dirty_page(DIRTY_GENERATIONS, start + 10 * PAGE_BYTES));
    munmap(room, 2 * huge);
}

/* What the kernel may refuse. */

static void refuse(unsigned long request, int calls_before, long error, bool after_the_call)
{
    fault = (struct fault){.request = request,
                           .calls_before = calls_before,
                           .error = error,
                           .after_the_call = after_the_call};
}

static void test_whatever_a_scan_is_refused_with_all_is_dirty(void **state)
{
    (void)state;
    /* The first is an answer: of more runs than there is room for. */
    static const int errors[] = {-(1 << 20), EPERM, EINTR, ENOMEM, EFAULT, EBADF, ENOTTY, EINVAL};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        for (int when = 0; when < 4; when++) {
            char *pages = clean_pages();
            for (size_t page = 0; page < PAGES; page += 2) /* the answer has three parts */
                write_page(pages, page);
            refuse(PAGEMAP_SCAN_REQUEST, when / 2, -errors[i], when % 2 == 1);
            assert_false(reprotect(pages));
            assert_all_dirty(pages);
            fault = (struct fault){0};
            clean(DIRTY_GENERATIONS, pages);
            assert_true(reprotect(pages)); /* and the next one is right */
            munmap(pages, BYTES);
        }
}

static void test_an_answer_without_progress_is_none(void **state)
{
    (void)state;
    char *pages = clean_pages();
    refuse(PAGEMAP_SCAN_REQUEST, 0, 0, false); /* no pages, and no end either */
    assert_false(look(pages));
    assert_all_dirty(pages);
    munmap(pages, BYTES);
}

static void test_where_tracking_is_refused_all_stays_dirty(void **state)
{
    (void)state;
    need_tracking();
    char *pages = map_at(NULL, BYTES);
    memset(pages, 1, BYTES);
    refuse(UFFDIO_REGISTER, 0, -EBUSY, false);
    assert_false(dirty_track((uintptr_t)pages, (uintptr_t)pages + BYTES));
    for (int round = 0; round < 2; round++) {
        assert_false(reprotect(pages));
        assert_all_dirty(pages);
        clean(DIRTY_GENERATIONS, pages);
        clean(DIRTY_CYCLE, pages);
    }
    munmap(pages, BYTES);
}

static void test_a_kernel_that_refuses_is_not_used_and_the_reason_is_told(void **state)
{
    (void)state;
    need_tracking();
    static const unsigned long requests[] = {UFFDIO_API, UFFDIO_REGISTER, PAGEMAP_SCAN_REQUEST};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        kept_drop(&dirty.userfaults);
        refuse(requests[i], 0, -EINVAL, false);
        assert_int_equal(dirty_open(DIRTY_ASYNC), DIRTY_NONE);
        assert_non_null(dirty_counts().refused);
        open_tracking(NULL);
        need_tracking();
    }
}

/* A kernel that takes the request and does nothing, as this one does for soft-dirty bits. */
static void test_a_kernel_that_only_says_yes_is_not_used(void **state)
{
    (void)state;
    need_tracking();
    kept_drop(&dirty.userfaults);
    refuse(UFFDIO_REGISTER, 0, 0, false);
    assert_int_equal(dirty_open(DIRTY_ASYNC), DIRTY_NONE);
    assert_non_null(dirty_counts().refused);
}

/* There, untracked pages would look clean. */
static void test_a_kernel_that_does_not_check_tracking_is_not_used(void **state)
{
    (void)state;
    need_tracking();
    kept_drop(&dirty.userfaults);
    fault = (struct fault){.without_check = true};
    assert_int_equal(dirty_open(DIRTY_ASYNC), DIRTY_NONE);
    assert_non_null(dirty_counts().refused);
}

static void test_closed_descriptors_are_noticed_and_opened_again(void **state)
{
    (void)state;
    char *pages = clean_pages();
    for (int descriptor = 3; descriptor < 1100; descriptor++)
        close(descriptor);
    write_page(pages, 5);
    assert_false(look(pages));
    assert_all_dirty(pages);
    assert_true(reprotect(pages));
    clean(DIRTY_GENERATIONS, pages);
    write_page(pages, 5);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 1);
    munmap(pages, BYTES);
}

static void test_errno_is_kept(void **state)
{
    (void)state;
    need_tracking();
    char *pages = map_at(NULL, BYTES);
    errno = 4321;
    refuse(UFFDIO_REGISTER, 0, -EBUSY, false);
    dirty_track((uintptr_t)pages, (uintptr_t)pages + BYTES);
    reprotect(pages);
    dirty_untrack((uintptr_t)pages, (uintptr_t)pages + BYTES);
    assert_int_equal(errno, 4321);
    munmap(pages, BYTES);
}

/* Forked children. */

/* Invariant [own memory only]. The child has none of our fork handlers run, and still has the
 * descriptors, which mean the parent's memory. */
static void test_a_raw_forked_child_leaves_the_parents_bits_alone(void **state)
{
    (void)state;
    char *pages = clean_pages();
    write_page(pages, 11);
    long child = syscall(SYS_fork);
    if (child == 0) {
        bool told = reprotect(pages);
        bool all = count_dirty(DIRTY_CYCLE, pages) == PAGES;
        bool tracked = dirty_track((uintptr_t)pages, (uintptr_t)pages + BYTES);
        dirty_untrack((uintptr_t)pages, (uintptr_t)pages + BYTES);
        _exit(told ? 1 : !all ? 2 : tracked ? 3 : 0);
    }
    int status;
    assert_int_equal(waitpid((pid_t)child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_CYCLE, pages), 1);
    assert_true(is_dirty(DIRTY_CYCLE, pages, 11));
    write_page(pages, 12);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_CYCLE, pages), 2);
    munmap(pages, BYTES);
}

static void track_in_child(void *argument)
{
    char *pages = argument;
    int inherited = dirty.userfaults.descriptor;
    process_forked();
    require(dirty_forked() == DIRTY_ASYNC);
    require(dirty.userfaults.descriptor == inherited); /* the first that is free: it was closed */
    require(count_dirty(DIRTY_GENERATIONS, pages) == PAGES);
    clean(DIRTY_GENERATIONS, pages);
    require(!look(pages)); /* the child's memory is not tracked yet */
    require(count_dirty(DIRTY_GENERATIONS, pages) == PAGES);
    require(reprotect(pages));
    clean(DIRTY_GENERATIONS, pages);
    write_page(pages, 33);
    require(look(pages));
    require(count_dirty(DIRTY_GENERATIONS, pages) == 1);
}

static void test_a_forked_child_tracks_its_own_memory(void **state)
{
    (void)state;
    char *pages = clean_pages();
    write_page(pages, 11);
    assert_child_succeeds(track_in_child, pages);
    assert_true(look(pages));
    assert_int_equal(count_dirty(DIRTY_GENERATIONS, pages), 1);
    munmap(pages, BYTES);
}

/* The model: what the kernel knows of each page, and what each consumer must be told. */

enum { MODEL_PAGES = 96, STEPS = 4000, MOST_RUN = 24 };

struct model_page {
    bool mapped, writable, tracked, present, protected;
    bool bits[DIRTY_CONSUMERS];
};

struct trial {
    char *pages, *away;
    struct model_page model[MODEL_PAGES];
    uint64_t random;
};

static size_t below(struct trial *trial, size_t most)
{
    return (size_t)(random_next(&trial->random) % most);
}

static void model_write(struct model_page *page)
{
    page->present = true;
    page->protected = false;
}

static void write_run(struct trial *trial, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i += 1 + below(trial, 3))
        if (trial->model[i].mapped && trial->model[i].writable) {
            write_page(trial->pages, i);
            model_write(&trial->model[i]);
        }
}

/* A page that is only read is mapped to the page of zeros, which is not protected. */
static void read_run(struct trial *trial, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (trial->model[i].mapped) {
            (void)*(volatile char *)(trial->pages + i * PAGE_BYTES);
            trial->model[i].present = true;
        }
}

static void unmap_run(struct trial *trial, size_t first, size_t count)
{
    munmap(trial->pages + first * PAGE_BYTES, count * PAGE_BYTES);
    for (size_t i = first; i < first + count; i++)
        trial->model[i].mapped = trial->model[i].tracked = trial->model[i].present =
            trial->model[i].protected = false;
}

static void map_run(struct trial *trial, size_t first, size_t count)
{
    unmap_run(trial, first, count);
    map_at(trial->pages + first * PAGE_BYTES, count * PAGE_BYTES);
    for (size_t i = first; i < first + count; i++)
        trial->model[i].mapped = trial->model[i].writable = true;
}

static void protect_run(struct trial *trial, size_t first, size_t count)
{
    bool writable = below(trial, 2);
    for (size_t i = first; i < first + count; i++)
        if (trial->model[i].mapped) {
            mprotect(trial->pages + i * PAGE_BYTES, PAGE_BYTES,
                     writable ? PROT_READ | PROT_WRITE : PROT_READ);
            trial->model[i].writable = writable;
        }
}

static void discard_run(struct trial *trial, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (trial->model[i].mapped) {
            madvise(trial->pages + i * PAGE_BYTES, PAGE_BYTES, MADV_DONTNEED);
            trial->model[i].present = trial->model[i].protected = false;
        }
}

/* To another place and back, page by page. */
static void move_run(struct trial *trial, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (trial->model[i].mapped) {
            char *page = trial->pages + i * PAGE_BYTES;
            const int how = MREMAP_MAYMOVE | MREMAP_FIXED;
            assert_ptr_equal(mremap(page, PAGE_BYTES, PAGE_BYTES, how, trial->away), trial->away);
            assert_ptr_equal(mremap(trial->away, PAGE_BYTES, PAGE_BYTES, how, page), page);
            trial->model[i].tracked = trial->model[i].protected = false;
        }
}

static void set_bits(struct model_page *page)
{
    page->bits[DIRTY_GENERATIONS] = page->bits[DIRTY_CYCLE] = true;
}

/* The kernel refuses a range with nothing mapped at its start or at all; all else it tracks. */
static void model_track(struct trial *trial, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        trial->model[i].tracked = trial->model[i].mapped;
}

static void track_run(struct trial *trial, size_t first, size_t count)
{
    bool any = false;
    for (size_t i = first; i < first + count; i++)
        any = any || trial->model[i].mapped;
    uintptr_t start = (uintptr_t)trial->pages + first * PAGE_BYTES;
    assert_int_equal(dirty_track(start, start + count * PAGE_BYTES), any);
    model_track(trial, first, count);
    for (size_t i = first; i < first + count; i++)
        set_bits(&trial->model[i]);
}

/* The kernel goes through the range in order, and fails at the first page that is not tracked. */
static void harvest_run(struct trial *trial, size_t first, size_t count, bool protects)
{
    size_t lost = first;
    while (lost < first + count && (!trial->model[lost].mapped || trial->model[lost].tracked))
        lost++;
    bool whole = lost == first + count;
    for (size_t i = first; i < first + count; i++) {
        struct model_page *page = &trial->model[i];
        if (!whole || (page->present && !page->protected))
            set_bits(page);
        if (protects && i < lost && page->present)
            page->protected = true;
    }
    if (!whole)
        model_track(trial, first, count);
    uintptr_t start = (uintptr_t)trial->pages + first * PAGE_BYTES;
    struct dirty_scan scan = dirty_begin();
    bool told = (protects ? dirty_reprotect : dirty_look)(&scan, start, start + count * PAGE_BYTES);
    assert_int_equal(told, whole);
}

static void look_run(struct trial *trial, size_t first, size_t count)
{
    harvest_run(trial, first, count, false);
}

static void reprotect_run(struct trial *trial, size_t first, size_t count)
{
    harvest_run(trial, first, count, true);
}

static void clean_run(struct trial *trial, size_t first, size_t count)
{
    enum dirty_consumer consumer = (enum dirty_consumer)below(trial, DIRTY_CONSUMERS);
    uintptr_t start = (uintptr_t)trial->pages + first * PAGE_BYTES;
    dirty_clean(consumer, start, start + count * PAGE_BYTES);
    for (size_t i = first; i < first + count; i++)
        trial->model[i].bits[consumer] = false;
}

static void compare_run(struct trial *trial, size_t first, size_t count)
{
    (void)first;
    (void)count;
    for (size_t i = 0; i < MODEL_PAGES; i++)
        for (int consumer = 0; consumer < DIRTY_CONSUMERS; consumer++)
            if (is_dirty((enum dirty_consumer)consumer, trial->pages, i) !=
                trial->model[i].bits[consumer])
                fail_msg("page %zu is wrong for consumer %d", i, consumer);
}

typedef void operation(struct trial *trial, size_t first, size_t count);

/* What is often is listed often. */
static operation *const operations[] = {
    write_run, write_run,     write_run,     write_run, write_run, read_run,    look_run,
    look_run,  reprotect_run, reprotect_run, clean_run, clean_run, compare_run, compare_run,
    track_run, protect_run,   protect_run,   map_run,   unmap_run, discard_run, move_run,
};

static void test_random_operations_do_what_the_model_does(void **state)
{
    (void)state;
    need_tracking();
    static const uint64_t seeds[] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
    for (size_t seed = 0; seed < sizeof seeds / sizeof *seeds; seed++) {
        struct trial trial = {.random = seeds[seed], .away = map_at(NULL, PAGE_BYTES)};
        trial.pages = map_at(NULL, MODEL_PAGES * PAGE_BYTES);
        map_run(&trial, 0, MODEL_PAGES);
        track_run(&trial, 0, MODEL_PAGES);
        for (int step = 0; step < STEPS; step++) {
            size_t first = below(&trial, MODEL_PAGES - MOST_RUN);
            size_t chosen = below(&trial, sizeof operations / sizeof *operations);
            operations[chosen](&trial, first, 1 + below(&trial, MOST_RUN));
        }
        compare_run(&trial, 0, 0);
        munmap(trial.pages, MODEL_PAGES * PAGE_BYTES);
        munmap(trial.away, PAGE_BYTES);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, open_tracking, NULL)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_pages_that_were_written_are_dirty_and_no_others),
        TEST(test_a_page_that_is_not_protected_again_stays_dirty),
        TEST(test_consumers_do_not_take_each_others_bits),
        TEST(test_runs_are_found_in_order_across_leaves),
        TEST(test_untracked_memory_is_dirty),
        TEST(test_without_a_provider_everything_is_dirty),
        TEST(test_system_calls_write_into_protected_pages_and_are_seen),
        TEST(test_a_changed_protection_loses_nothing),
        TEST(test_discarded_pages_are_not_reported_until_they_are_used),
        TEST(test_a_mapping_in_the_place_of_a_tracked_one_is_dirty),
        TEST(test_memory_that_was_moved_is_dirty),
        TEST(test_memory_that_was_moved_into_tracked_addresses_is_dirty),
        TEST(test_memory_that_has_grown_is_dirty),
        TEST(test_a_huge_page_is_dirty_by_small_pages),
        TEST(test_whatever_a_scan_is_refused_with_all_is_dirty),
        TEST(test_an_answer_without_progress_is_none),
        TEST(test_where_tracking_is_refused_all_stays_dirty),
        TEST(test_a_kernel_that_refuses_is_not_used_and_the_reason_is_told),
        TEST(test_a_kernel_that_only_says_yes_is_not_used),
        TEST(test_a_kernel_that_does_not_check_tracking_is_not_used),
        TEST(test_closed_descriptors_are_noticed_and_opened_again),
        TEST(test_errno_is_kept),
        TEST(test_a_raw_forked_child_leaves_the_parents_bits_alone),
        TEST(test_a_forked_child_tracks_its_own_memory),
        TEST(test_random_operations_do_what_the_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
