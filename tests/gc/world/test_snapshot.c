/* SPDX-License-Identifier: MIT
 *
 * test_snapshot.c: a snapshot's child, what the process sees of it, and when it counts.
 *
 * `work` is a function of the test's that runs in the child, and writes what it finds into the
 * result, which is shared.
 */
#include "tests/gc/world/lend.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gc/world/excepted.h"
#include "gc/world/recorder.h"
#include "gc/world/roots.h"
#include "gc/world/snapshot.h"
#include "gc/world/stop.h"
#include "vm/granule_map.h"
#include "vm/kernel/process.h"
#include "vm/pages.h"
#include "vm/syscall.h"
#include "vm/withheld.h"

static struct snapshot snapshot;

struct found {
    _Atomic int begun, go_on;
    pid_t child;
    int open_descriptors;
    uint64_t blocked;
    char copied;
};

static struct found *found(void)
{
    return (struct found *)(void *)snapshot.result;
}

static void nap(void)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    SYSCALL_2(SYS_nanosleep, &moment, NULL);
}

static void wait_until(const _Atomic int *flag)
{
    while (!atomic_load(flag))
        nap();
}

/* As the collector does. */
static void begin_of(struct snapshot *one, bool (*work)(void *), void *argument)
{
    const struct mapping *mappings;
    size_t count;
    uint64_t all = ~UINT64_C(0), mask;
    assert_true(snapshot_prepare(one, sizeof(struct found)));
    SYSCALL_4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, sizeof mask);
    assert_true(process_read_mappings(&mappings, &count));
    assert_true(snapshot_begin(one, work, argument));
    SYSCALL_4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
}

static void begin(bool (*work)(void *), void *argument)
{
    begin_of(&snapshot, work, argument);
}

static enum snapshot_state wait_for_end(void)
{
    enum snapshot_state state;
    while ((state = snapshot_look(&snapshot, true)) == SNAPSHOT_RUNS)
        nap();
    return state;
}

static int make_ready(void **state)
{
    (void)state;
    excepted_init();
    return process_open() && stop_init() && roots_init() ? 0 : -1;
}

static int end_snapshot(void **state)
{
    (void)state;
    snapshot_end(&snapshot);
    snapshot_kill(&snapshot);
    return 0;
}

static bool look_around(void *byte)
{
    for (int i = 0; i < 64; i++)
        found()->open_descriptors += !syscall_failed(SYSCALL_2(SYS_fcntl, i, F_GETFD));
    SYSCALL_4(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &found()->blocked, sizeof(uint64_t));
    found()->copied = *(volatile char *)byte;
    found()->child = (pid_t)SYSCALL_0(SYS_getpid);
    atomic_store(&found()->begun, 1);
    return true;
}

static bool look_around_and_wait(void *byte)
{
    look_around(byte);
    wait_until(&found()->go_on);
    return true;
}

static bool give_up(void *unused)
{
    (void)unused;
    return false;
}

static bool die(void *unused)
{
    *(volatile char *)unused = 1;
    return true;
}

static void test_the_child_works_on_memory_as_it_was_and_hands_back(void **state)
{
    (void)state;
    static char byte = 1;
    uint64_t done = snapshot_statistics()->ended[SNAPSHOT_DONE];
    begin(look_around_and_wait, &byte);
    byte = 2;
    wait_until(&found()->begun);
    assert_int_equal(snapshot_look(&snapshot, true), SNAPSHOT_RUNS);
    assert_int_equal(found()->copied, 1);
    assert_int_not_equal(found()->child, getpid());
    atomic_store(&found()->go_on, 1);
    assert_int_equal(wait_for_end(), SNAPSHOT_DONE);
    snapshot_end(&snapshot);
    assert_null(snapshot.report);
    assert_int_equal(snapshot_statistics()->ended[SNAPSHOT_DONE], done + 1);
}

static volatile sig_atomic_t signals;

static void count_signal(int signal)
{
    (void)signal;
    signals++;
}

/* [copy alone] */
static void test_the_program_has_no_child_and_is_not_told_of_one(void **state)
{
    (void)state;
    static char byte;
    signals = 0;
    signal(SIGCHLD, count_signal);
    begin(look_around_and_wait, &byte);
    assert_int_equal(waitpid(-1, NULL, 0), -1);
    assert_int_equal(errno, ECHILD);
    wait_until(&found()->begun);
    atomic_store(&found()->go_on, 1);
    assert_int_equal(wait_for_end(), SNAPSHOT_DONE);
    assert_int_equal(waitpid(-1, NULL, 0), -1);
    while (!snapshot_is_reaped(&snapshot)) /* it ends a moment after it is done */
        nap();
    assert_int_equal(waitpid(-1, NULL, __WALL), -1);
    assert_int_equal(signals, 0);
    signal(SIGCHLD, SIG_DFL);
}

/* [copy alone] */
static void test_the_child_blocks_signals_and_has_none_of_the_files(void **state)
{
    (void)state;
    static char byte;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    begin(look_around_and_wait, &byte);
    wait_until(&found()->begun);
    assert_int_equal(found()->open_descriptors, 0);
    uint64_t kernels = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1);
    assert_int_equal(found()->blocked | kernels, ~(UINT64_C(1) << (SIGUSR1 - 1)));
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* nobody else has the other end */
    close(ends[0]);
}

/* [failed is nothing] */
static void test_a_child_that_dies_or_fails_is_found_out(void **state)
{
    (void)state;
    begin(die, NULL);
    assert_int_equal(wait_for_end(), SNAPSHOT_DIED);
    snapshot_end(&snapshot);
    begin(give_up, NULL);
    assert_int_equal(wait_for_end(), SNAPSHOT_UNREADABLE);
    snapshot_end(&snapshot);
    static char byte;
    begin(look_around_and_wait, &byte);
    wait_until(&found()->begun);
    kill(found()->child, SIGKILL);
    assert_int_equal(wait_for_end(), SNAPSHOT_DIED);
}

static void test_a_child_is_ended_before_it_is_done(void **state)
{
    (void)state;
    static char byte;
    begin(look_around_and_wait, &byte);
    wait_until(&found()->begun);
    pid_t child = found()->child;
    snapshot_kill(&snapshot);
    assert_int_equal(kill(child, 0), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(snapshot_look(&snapshot, true), SNAPSHOT_DIED);
}

/* [one who reaps]: the number may be another process's by now. */
static _Atomic bool is_ended;

static void *look_again_and_again(void *unused)
{
    while (!is_ended)
        snapshot_look(&snapshot, true);
    return unused;
}

/* Before exec, whatever others do. */
static void test_who_ends_the_child_finds_it_while_another_looks(void **state)
{
    (void)state;
    enum { ROUNDS = 50 };
    static char byte;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        begin(look_around_and_wait, &byte);
        wait_until(&found()->begun);
        pid_t child = found()->child;
        is_ended = false;
        assert_int_equal(pthread_create(&thread, NULL, look_again_and_again, NULL), 0);
        nap();
        snapshot_kill(&snapshot);
        is_ended = true;
        pthread_join(thread, NULL);
        assert_int_equal(kill(child, 0), -1);
        snapshot_end(&snapshot);
    }
}

static void test_a_child_that_the_program_has_reaped_is_not_ended_again(void **state)
{
    (void)state;
    static char byte;
    begin(look_around, &byte);
    while (waitpid(-1, NULL, __WALL) < 0)
        nap();
    assert_int_equal(snapshot_look(&snapshot, false), SNAPSHOT_DONE);
    atomic_store(&snapshot.child, getpid()); /* as if it had got the number: no child of ours */
    snapshot_kill(&snapshot);
}

/* [nothing lacking] Where libc is not asked nobody knows beforehand. */
static void test_what_a_child_lacks_makes_the_snapshot_fail_once(void **state)
{
    (void)state;
    static const int advice[] = {MADV_DONTFORK, MADV_WIPEONFORK};
    static char byte;
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++) {
        char *pages =
            mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(pages, 1, 4 * PAGE_BYTES);
        assert_int_equal(madvise(pages + PAGE_BYTES, PAGE_BYTES, advice[i]), 0);
        begin(look_around, &byte);
        assert_int_equal(wait_for_end(), SNAPSHOT_LACKING);
        assert_int_equal(found()->begun, 0);
        snapshot_end(&snapshot);
        begin(look_around, &byte);
        assert_int_equal(wait_for_end(), SNAPSHOT_DONE);
        snapshot_end(&snapshot);
        assert_true(
            roots_are_uncopied((uintptr_t)pages + PAGE_BYTES, (uintptr_t)pages + 2 * PAGE_BYTES));
    } /* the pages stay, or the next would have their place */
    assert_true(snapshot_is_possible());
}

static void test_what_is_known_to_be_lacking_does_no_harm(void **state)
{
    (void)state;
    static char byte;
    char *pages =
        mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 1, 4 * PAGE_BYTES);
    roots_are_not_copied(pages, 4 * PAGE_BYTES);
    assert_int_equal(madvise(pages, 4 * PAGE_BYTES, MADV_DONTFORK), 0);
    begin(look_around, &byte);
    assert_int_equal(wait_for_end(), SNAPSHOT_DONE);
    munmap(pages, 4 * PAGE_BYTES);
}

static bool look_at_withheld(void *memory)
{
    found()->copied = pages_in_use(memory, GRANULE_BYTES);
    return true;
}

static void test_what_is_withheld_is_no_lack_and_there_afterwards(void **state)
{
    (void)state;
    char *memory = withheld_map();
    memory[0] = 'x';
    for (int withholds = 0; withholds <= 1; withholds++) {
        snapshot.withholds = withholds;
        begin(look_at_withheld, memory);
        assert_int_equal(wait_for_end(), SNAPSHOT_DONE);
        assert_int_equal(found()->copied, !withholds);
        snapshot_end(&snapshot);
        assert_int_equal(memory[0], 'x');
        pid_t child = fork(); /* a child of the program has it */
        if (child == 0)
            _exit(memory[0] != 'x');
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    snapshot.withholds = false;
}

/* [nothing lacking] The parent has left it to the child. */
static void test_what_was_lent_and_is_lacking_makes_the_snapshot_fail(void **state)
{
    (void)state;
    static char byte;
    size_t bytes = 4 * GRANULE_BYTES;
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 1, bytes);
    roots_are_not_copied(pages, bytes);
    assert_int_equal(madvise(pages, bytes, MADV_DONTFORK), 0);
    excepted_note(pages, bytes);
    lend();
    assert_int_equal(madvise(pages, bytes, MADV_DONTFORK), 0);
    begin(look_around, &byte);
    assert_int_equal(wait_for_end(), SNAPSHOT_LACKING);
    excepted_take_back();
    snapshot_end(&snapshot);
    lend(); /* it is not lent again */
    assert_false(excepted_is_lent(process_mapping_at((uintptr_t)pages)));
    excepted_take_back();
    munmap(pages, bytes);
}

static void *begin_in_thread(void *byte)
{
    begin(look_around_and_wait, byte);
    return NULL;
}

static void test_a_child_outlives_the_thread_that_made_it(void **state)
{
    (void)state;
    static char byte;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, begin_in_thread, &byte), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    wait_until(&found()->begun);
    nap();
    atomic_store(&found()->go_on, 1);
    assert_int_equal(wait_for_end(), SNAPSHOT_DONE);
}

/* The test's process becomes its parent then. */
static void test_a_child_ends_with_the_process(void **state)
{
    (void)state;
    static char byte;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t *child =
        mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t process = fork();
    if (process == 0) {
        if (!process_forked())
            _exit(1);
        begin(look_around_and_wait, &byte);
        wait_until(&found()->begun);
        *child = found()->child;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    while (waitpid(*child, NULL, __WALL) != *child)
        nap();
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    munmap(child, PAGE_BYTES);
}

static void test_a_forked_child_leaves_its_sibling_alone(void **state)
{
    (void)state;
    static char byte;
    begin(look_around_and_wait, &byte);
    wait_until(&found()->begun);
    pid_t process = fork();
    if (process == 0) {
        snapshot_forget(&snapshot);
        snapshot_end(&snapshot);
        snapshot_kill(&snapshot);
        _exit(snapshot_look(&snapshot, true) != SNAPSHOT_NONE);
    }
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    assert_int_equal(snapshot_look(&snapshot, true), SNAPSHOT_RUNS);
    atomic_store(&found()->go_on, 1);
    assert_int_equal(wait_for_end(), SNAPSHOT_DONE);
}

/* The first process of a new namespace takes it along when it ends. */
static void test_none_is_made_in_a_namespace_that_is_to_come(void **state)
{
    (void)state;
    static char byte;
    pid_t process = fork();
    if (process == 0) {
        const struct mapping *mappings;
        size_t count;
        if (!process_forked() || unshare(CLONE_NEWPID) != 0)
            _exit(77);
        if (!snapshot_prepare(&snapshot, sizeof(struct found)) ||
            !process_read_mappings(&mappings, &count))
            _exit(1);
        if (snapshot_begin(&snapshot, look_around, &byte))
            _exit(2);
        _exit(snapshot_look(&snapshot, true) != SNAPSHOT_NO_CHILD);
    }
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* only the superuser may */
    assert_int_equal(status, 0);
}

#define SNAPSHOT_TEST(test) cmocka_unit_test_teardown(test, end_snapshot)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SNAPSHOT_TEST(test_the_child_works_on_memory_as_it_was_and_hands_back),
        SNAPSHOT_TEST(test_the_program_has_no_child_and_is_not_told_of_one),
        SNAPSHOT_TEST(test_the_child_blocks_signals_and_has_none_of_the_files),
        SNAPSHOT_TEST(test_a_child_that_dies_or_fails_is_found_out),
        SNAPSHOT_TEST(test_a_child_is_ended_before_it_is_done),
        SNAPSHOT_TEST(test_who_ends_the_child_finds_it_while_another_looks),
        SNAPSHOT_TEST(test_a_child_that_the_program_has_reaped_is_not_ended_again),
        SNAPSHOT_TEST(test_what_a_child_lacks_makes_the_snapshot_fail_once),
        SNAPSHOT_TEST(test_what_is_withheld_is_no_lack_and_there_afterwards),
        SNAPSHOT_TEST(test_what_is_known_to_be_lacking_does_no_harm),
        SNAPSHOT_TEST(test_what_was_lent_and_is_lacking_makes_the_snapshot_fail),
        SNAPSHOT_TEST(test_a_child_outlives_the_thread_that_made_it),
        SNAPSHOT_TEST(test_a_child_ends_with_the_process),
        SNAPSHOT_TEST(test_a_forked_child_leaves_its_sibling_alone),
        SNAPSHOT_TEST(test_none_is_made_in_a_namespace_that_is_to_come),
    };
    return cmocka_run_group_tests(tests, make_ready, NULL);
}
