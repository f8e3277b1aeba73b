/* SPDX-License-Identifier: MIT
 *
 * test_collection.c: the driver of collections, with a collector that only notes what it is asked,
 * and the roots that it is handed.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "gc/world/collection.h"
#include "vm/clock.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/window.h"

static struct collection_driver driver;

/* What the collector was asked, in order. */
static char asked[16];
static struct collection finished;

static void note(char what)
{
    size_t length = strlen(asked);
    if (length + 1 < sizeof asked)
        asked[length] = what;
}

/* Values that are looked for among the roots, as their complements: so this is none of them. */
enum place {
    DATA,
    THREAD_LOCAL,
    C_HEAP,
    MAPPING,
    READ_ONLY,
    UNREADABLE,
    SHARED,
    LIVE_STACK,
    OTHER_STACK,
    CODE_AT_ODD_ADDRESS,
    DATA_AT_ODD_ADDRESS,
    PRIVATE,
    EXCLUDED,
    DEAD_STACK,
    NEVER,
    PLACES
};

static uint64_t complements[PLACES];
static bool is_seen[PLACES];
static struct excluded_range excluded;

static void look_at_every(const void *start, const void *end, size_t step)
{
    for (const char *at = start; at + sizeof(uint64_t) <= (const char *)end; at += step) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        for (int place = 0; place < PLACES; place++)
            is_seen[place] = is_seen[place] || ~word == complements[place];
    }
}

static void look_at_words(const void *start, const void *end)
{
    look_at_every(start, end, 4);
}

static void look_at_code(const void *start, const void *end)
{
    look_at_every(start, end, 1);
}

static void begin(struct root_visitor *visitor)
{
    note('b');
    visitor->words = look_at_words;
    visitor->words_in_code = look_at_code;
    visitor->excluded[0] = excluded;
}

static void mark(void)
{
    note('m');
}

static uint64_t sweep(void)
{
    note('s');
    return 12345;
}

static void finish(const struct collection *collection)
{
    note('f');
    finished = *collection;
}

static const struct collector collector = {
    .begin = begin, .mark = mark, .sweep = sweep, .finish = finish};

static int make_driver(void **state)
{
    (void)state;
    window_init(4);
    return collection_init(&driver, &collector) ? 0 : -1;
}

static bool collect(void)
{
    memset(asked, 0, sizeof asked);
    return collection_is_possible(&driver) && collection_run(&driver);
}

/* On a busy machine a thread may not be given a processor in time to stop. */
static bool collect_patiently(void)
{
    for (int attempt = 0; attempt < 20; attempt++)
        if (collect())
            return true;
    return false;
}

static void test_a_collection_marks_then_sweeps_then_finishes(void **state)
{
    (void)state;
    uint64_t before = driver.statistics.collections;
    assert_true(collect());
    assert_string_equal(asked, "bmsf");
    assert_int_equal(driver.statistics.collections, before + 1);
    assert_int_equal(driver.statistics.live_bytes, 12345);
    assert_true(finished.reclaimed);
    assert_true(finished.roots.bytes > 0 && finished.roots.mappings > 0);
    assert_true(finished.pause_ns > 0 && finished.pause_ns >= finished.mark_ns);
    assert_true(collection_works(&driver));
}

static void test_the_account_adds_pauses_up(void **state)
{
    (void)state;
    const struct collection_statistics *statistics = &driver.statistics;
    uint64_t counted = 0;
    uint64_t begun_ns = monotonic_ns();
    assert_true(collect());
    assert_in_range(statistics->cpu_ns, 1, process_ns()); /* whatever else the machine does */
    usleep(20000);
    assert_true(collect());
    assert_in_range(finished.ran_ns, 20000000, monotonic_ns() - begun_ns);
    for (int i = 0; i < PAUSE_BUCKETS; i++)
        counted += statistics->pauses[i];
    assert_int_equal(counted, statistics->collections);
    assert_true(statistics->longest_pause_ns <= statistics->pause_ns);
    assert_true(statistics->stop_ns + statistics->root_ns + statistics->mark_ns +
                    statistics->sweep_ns <=
                statistics->pause_ns);
}

static void test_the_programs_signal_mask_is_as_it_was(void **state)
{
    (void)state;
    sigset_t some, after;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &some, NULL);
    assert_true(collect());
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_true(sigismember(&after, SIGUSR1));
    assert_false(sigismember(&after, SIGUSR2));
    sigdelset(&some, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &some, NULL);
}

/* Given up. */

static _Atomic bool enough, is_deaf;

static void *block_everything(void *unused)
{
    uint64_t all = UINT64_MAX, before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    is_deaf = true;
    while (!enough)
        usleep(1000);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    return unused;
}

static void test_what_is_given_up_reclaims_nothing_and_three_in_a_row_are_no_accident(void **state)
{
    (void)state;
    pthread_t deaf;
    pthread_create(&deaf, NULL, block_everything, NULL);
    while (!is_deaf)
        sched_yield();
    uint64_t before = driver.statistics.collections;
    for (int i = 0; i < 3; i++) {
        assert_true(collection_works(&driver));
        assert_false(collect());
        assert_string_equal(asked, "f");
        assert_false(finished.reclaimed);
    }
    assert_false(collection_works(&driver));
    assert_int_equal(driver.statistics.collections, before);
    assert_int_equal(driver.statistics.given_up[STOP_TIMEOUT], 3);
    assert_true(driver.statistics.given_up_ns > 0);
    enough = true;
    pthread_join(deaf, NULL);
    assert_true(collect());
    assert_true(collection_works(&driver)); /* again */
}

static void refuse_after_never(void *unused)
{
    (void)unused;
    require(!collection_never_again(&driver)); /* a vfork child's sandbox is its own */
    require(!collection_works(&driver));       /* but this one has a copy of the memory */
    collection_forked(&driver);
    require(collection_works(&driver));
    require(collection_never_again(&driver));
    require(!collection_never_again(&driver));
    require(!collection_works(&driver));
    require(!collect());
    require(driver.statistics.unavailable == 1);
}

static void collect_in_child(void *unused)
{
    (void)unused;
    require(!collect()); /* for what it is it has not been told: a vfork child */
    require(driver.statistics.unavailable == 1);
    collection_forked(&driver);
    require(collect());
}

static void note_slice(size_t amount)
{
    (void)amount;
    note('l');
}

/* A handler has forked between the question whether there may be a collection and its beginning. */
static void go_on_in_child(void *unused)
{
    (void)unused;
    memset(asked, 0, sizeof asked);
    require(!collection_run(&driver));
    collection_run_slice(&driver, note_slice, 1);
    require(strcmp(asked, "f") == 0); /* finish, and nothing else */
    collection_forked(&driver);
    collection_run_slice(&driver, note_slice, 1);
    require(strcmp(asked, "fl") == 0);
}

static void test_a_child_that_was_not_told_of_goes_on_with_no_collection(void **state)
{
    (void)state;
    assert_child_succeeds(go_on_in_child, NULL);
}

static void test_in_a_child_and_a_sandbox_it_is_as_it_was_told(void **state)
{
    (void)state;
    assert_child_succeeds(collect_in_child, NULL);
    assert_child_succeeds(refuse_after_never, NULL);
}

/* Roots. */

static uint64_t value(enum place place)
{
    return UINT64_C(0x1CEB00DA5C0FFEE1) * (2 * place + 3);
}

static __attribute__((noinline)) void put(void *at, enum place place)
{
    *(volatile uint64_t *)at = value(place);
}

static void put_unaligned(char *at, enum place place)
{
    uint64_t word = value(place);
    memcpy(at, &word, sizeof word);
}

/* What is left of values on the stack below the caller. */
static __attribute__((noinline)) void clean_stack(void)
{
    volatile char below[16384];
    memset((char *)below, 0, sizeof below);
}

static __attribute__((noinline)) uintptr_t leave_on_dead_stack(void)
{
    volatile uint64_t below[512] = {0};
    put((void *)&below[100], DEAD_STACK);
    return (uintptr_t)&below[100];
}

static _Atomic bool is_waiting;

static void *wait_with_value(void *unused)
{
    volatile uint64_t word;
    put((void *)&word, OTHER_STACK);
    is_waiting = true;
    while (!enough)
        usleep(1000);
    word = 0;
    return unused;
}

static uint64_t data;
static __thread uint64_t thread_local;
static _Alignas(8) char odd_data[64], excluded_data[256];

enum { MAPPED_BYTES = 256 << 10 };

static char *map(int flags)
{
    char *pages = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    return memset(pages, 1, MAPPED_BYTES);
}

static void test_roots_are_all_that_the_program_can_write_and_nothing_of_ours(void **state)
{
    (void)state;
    pthread_t other;
    volatile uint64_t on_stack;
    enough = false;
    for (int place = 0; place < PLACES; place++)
        complements[place] = ~value((enum place)place);
    pthread_create(&other, NULL, wait_with_value, NULL);
    while (!is_waiting)
        sched_yield();
    char *allocated = malloc(100), *mapping = map(MAP_PRIVATE), *read_only = map(MAP_PRIVATE),
         *unreadable = map(MAP_PRIVATE), *shared = map(MAP_SHARED), *code = map(MAP_PRIVATE),
         *private_memory = private_memory_map(PAGE_BYTES);
    put(&data, DATA);
    put(&thread_local, THREAD_LOCAL);
    put(allocated, C_HEAP);
    put(mapping + 2 * PAGE_BYTES - 4, MAPPING); /* across two pages */
    put(read_only, READ_ONLY);
    put(unreadable + (64 << 10) - 4, UNREADABLE); /* across two of the pieces that are copied */
    put(shared + 3 * PAGE_BYTES, SHARED);
    put((void *)&on_stack, LIVE_STACK);
    put_unaligned(code + 13, CODE_AT_ODD_ADDRESS);
    put_unaligned(odd_data + 13, DATA_AT_ODD_ADDRESS);
    put(private_memory, PRIVATE);
    put(excluded_data + 128, EXCLUDED);
    excluded = (struct excluded_range){excluded_data, sizeof excluded_data};
    mprotect(read_only, MAPPED_BYTES, PROT_READ);
    mprotect(unreadable, MAPPED_BYTES, PROT_NONE);
    mprotect(code, MAPPED_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    clean_stack();
    assert_true(leave_on_dead_stack() < (uintptr_t)__builtin_frame_address(0));
    memset(is_seen, 0, sizeof is_seen);
    assert_true(collect_patiently());
    for (int place = 0; place < PLACES; place++)
        if (is_seen[place] != (place <= CODE_AT_ODD_ADDRESS))
            fail_msg("place %d is %s", place, is_seen[place] ? "a root" : "no root");
    on_stack = 0;
    excluded = (struct excluded_range){0};
    enough = true;
    pthread_join(other, NULL);
    private_memory_unmap(private_memory, PAGE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_collection_marks_then_sweeps_then_finishes),
        cmocka_unit_test(test_the_account_adds_pauses_up),
        cmocka_unit_test(test_the_programs_signal_mask_is_as_it_was),
        cmocka_unit_test(test_what_is_given_up_reclaims_nothing_and_three_in_a_row_are_no_accident),
        cmocka_unit_test(test_in_a_child_and_a_sandbox_it_is_as_it_was_told),
        cmocka_unit_test(test_a_child_that_was_not_told_of_goes_on_with_no_collection),
        cmocka_unit_test(test_roots_are_all_that_the_program_can_write_and_nothing_of_ours),
    };
    if (UNDER_SANITIZER)
        return 77; /* all memory is read, and a sanitizer's shadow is most of it */
    return cmocka_run_group_tests(tests, make_driver, NULL);
}
