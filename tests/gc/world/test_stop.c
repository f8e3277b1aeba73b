/* SPDX-License-Identifier: MIT
 *
 * test_stop.c: every other thread stops, tells where it is, and goes on as if nothing had been.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gc/world/stop.h"
#include "vm/clock.h"
#include "vm/kernel/process.h"

enum { THREADS = 4 };

static int open_stop(void **state)
{
    (void)state;
    return process_open() && stop_init() ? 0 : -1;
}

/* Whatever comes, in a stopped world no handler may run: of glibc's own signals too. */
static uint64_t block_all_signals(void)
{
    uint64_t all = UINT64_MAX, before = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    return before;
}

static void restore_signals(uint64_t mask)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
}

/* On a busy machine a thread may not be given a processor in time. */
static enum stop_failure stop_patiently(void)
{
    enum stop_failure failure = STOP_TIMEOUT;
    for (int attempt = 0; attempt < 20 && failure == STOP_TIMEOUT; attempt++)
        failure = stop_world();
    return failure;
}

/* Threads that count. */

static _Atomic uint64_t counts[THREADS];
static _Atomic bool enough;
static pthread_t threads[THREADS];
static char *_Atomic frames[THREADS];

static void *count_on(void *argument)
{
    size_t number = (size_t)argument;
    frames[number] = __builtin_frame_address(0);
    while (!enough)
        counts[number]++;
    return NULL;
}

static int start_counting(void **state)
{
    (void)state;
    enough = false;
    for (size_t i = 0; i < THREADS; i++) {
        counts[i] = 0;
        if (pthread_create(&threads[i], NULL, count_on, (void *)i) != 0)
            return -1;
    }
    for (size_t i = 0; i < THREADS; i++)
        while (counts[i] == 0)
            sched_yield();
    return 0;
}

static int end_counting(void **state)
{
    (void)state;
    enough = true;
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static void test_nobody_goes_on_in_a_stopped_world(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        uint64_t before[THREADS], after[THREADS], mask = block_all_signals();
        enum stop_failure failure = stop_patiently();
        for (int i = 0; i < THREADS; i++)
            before[i] = counts[i];
        usleep(2000);
        for (int i = 0; i < THREADS; i++)
            after[i] = counts[i];
        size_t stopped = stopped_count();
        resume_world();
        restore_signals(mask);
        assert_int_equal(failure, STOP_DONE);
        assert_int_equal(stopped, THREADS);
        assert_memory_equal(before, after, sizeof before);
        for (int i = 0; i < THREADS; i++)
            while (counts[i] == after[i])
                sched_yield(); /* for ever, if it does not go on */
    }
}

static void test_a_stopped_thread_tells_of_its_stack_and_its_control_block(void **state)
{
    (void)state;
    enum { MOST = 2 * THREADS }; /* one that has just ended may be among them */
    struct stopped_thread stopped[MOST];
    uint64_t mask = block_all_signals();
    assert_int_equal(stop_patiently(), STOP_DONE);
    size_t count = stopped_count();
    for (size_t i = 0; i < count && i < MOST; i++)
        stopped[i] = stopped_thread(i);
    resume_world();
    restore_signals(mask);
    assert_in_range(count, THREADS, MOST);
    for (size_t j = 0; j < THREADS; j++) {
        size_t found = 0;
        for (size_t i = 0; i < count; i++) {
            uintptr_t frame = (uintptr_t)frames[j];
            if (stopped[i].thread_pointer != (uintptr_t)threads[j])
                continue;
            found++;
            assert_in_range(stopped[i].stack_pointer, frame - 4096, frame);
            assert_in_range(stopped[i].frame, frame - 65536, stopped[i].stack_pointer);
            assert_int_equal(stopped[i].alternate_start, stopped[i].alternate_end);
        }
        assert_int_equal(found, 1);
    }
}

/* Threads that come and go. */

static void *go_at_once(void *unused)
{
    for (int i = 0; i < 1000; i++)
        counts[0]++;
    return unused;
}

static void *let_come_and_go(void *unused)
{
    while (!enough) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, go_at_once, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return unused;
}

static void test_threads_that_come_and_go_are_no_obstacle(void **state)
{
    (void)state;
    pthread_t makers[2];
    int done = 0, gone_on = 0;
    enough = false;
    counts[0] = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&makers[i], NULL, let_come_and_go, NULL), 0);
    for (int round = 0; round < 300; round++) {
        uint64_t mask = block_all_signals();
        if (stop_world() == STOP_DONE) {
            done++;
            uint64_t count = counts[0];
            usleep(300);
            gone_on += counts[0] != count;
            resume_world();
        }
        restore_signals(mask);
    }
    uint64_t count = counts[0];
    while (counts[0] == count)
        sched_yield();
    enough = true;
    for (int i = 0; i < 2; i++)
        pthread_join(makers[i], NULL);
    assert_in_range(done, 250, 300); /* see stop_patiently */
    assert_int_equal(gone_on, 0);
}

/* A call by number, loaded as libc does it before 2.41, without a wrapper: from then on it is not
 * plain to see which call it was. */
static inline long call_kernel(int number, const void *first, long second, const void *third,
                               const void *fourth, const void *fifth)
{
    long result;
    register const void *r10 __asm__("r10") = fourth;
    register const void *r8 __asm__("r8") = fifth;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("mov %[number], %%eax\n\tsyscall"
                     : "=a"(result)
                     : [number] "i"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Threads that wait: what the program sees is that the wait went on. */

static int ends[2];
static sem_t semaphore;
static _Atomic int waiting;
static _Atomic long results[3];

static void *wait_to_read(void *unused)
{
    char byte = 0;
    waiting++;
    results[0] = read(ends[0], &byte, 1) == 1 ? byte : -errno;
    return unused;
}

static void *wait_to_poll(void *unused)
{
    struct pollfd watched = {.fd = ends[0], .events = POLLPRI};
    waiting++;
    long result = call_kernel(SYS_poll, &watched, 1, (void *)-1L, NULL, NULL);
    results[1] = result == 1 ? watched.revents : result;
    return unused;
}

static void *wait_for_semaphore(void *unused)
{
    waiting++;
    results[2] = sem_wait(&semaphore) == 0 ? 1 : -errno;
    return unused;
}

static void test_waits_without_a_limit_go_on(void **state)
{
    (void)state;
    void *(*const waits[])(void *) = {wait_to_read, wait_to_poll, wait_for_semaphore};
    assert_int_equal(pipe(ends), 0);
    sem_init(&semaphore, 0, 0);
    for (int i = 0; i < 3; i++) {
        results[i] = 0;
        pthread_create(&threads[i], NULL, waits[i], NULL);
    }
    while (waiting < 3)
        sched_yield();
    for (int round = 0; round < 50; round++) {
        usleep(1000);
        uint64_t mask = block_all_signals();
        assert_int_equal(stop_patiently(), STOP_DONE);
        resume_world();
        restore_signals(mask);
    }
    wait_for_resumed();
    for (int i = 0; i < 3; i++)
        assert_int_equal(results[i], 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    sem_post(&semaphore);
    pthread_join(threads[0], NULL);
    pthread_join(threads[2], NULL);
    close(ends[1]); /* which poll tells of */
    pthread_join(threads[1], NULL);
    assert_int_equal(results[0], 'x');
    assert_int_equal(results[1], POLLHUP);
    assert_int_equal(results[2], 1);
    close(ends[0]);
}

/* A wait for a time that passes while the world is stopped: nothing of it is left then. What the
 * kernel was told is where it reads it. */

enum timed_wait { SLEEP, CLOCK_SLEEP, SELECT, PSELECT, PPOLL, TIMED_WAITS };
static const long timed_calls[] = {SYS_nanosleep, SYS_clock_nanosleep, SYS_select, SYS_pselect6,
                                   SYS_ppoll};
enum { WAIT_MS = 200 };
static struct timespec asked, left;
static _Atomic pid_t waiter;
static _Atomic bool waited;

static void *wait_for_a_time(void *argument)
{
    waiter = (pid_t)syscall(SYS_gettid);
    switch ((enum timed_wait)(size_t)argument) {
    case SLEEP:
        results[0] = call_kernel(SYS_nanosleep, &asked, (long)&left, NULL, NULL, NULL);
        break;
    case CLOCK_SLEEP:
        results[0] =
            call_kernel(SYS_clock_nanosleep, (void *)CLOCK_MONOTONIC, 0, &asked, &left, NULL);
        break;
    case SELECT:
        results[0] = call_kernel(SYS_select, NULL, 0, NULL, NULL, &left);
        break;
    case PSELECT:
        results[0] = call_kernel(SYS_pselect6, NULL, 0, NULL, NULL, &left);
        break;
    default:
        results[0] = call_kernel(SYS_ppoll, NULL, 0, &left, NULL, NULL);
        break;
    }
    waited = true;
    return NULL;
}

static bool waits_in(long call)
{
    char path[64], text[8] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", waiter);
    FILE *file = fopen(path, "re");
    bool is_there = file && fgets(text, sizeof text, file) && text[0] != 'r' && atol(text) == call;
    if (file)
        fclose(file);
    return is_there;
}

static void stop_for(uint64_t time_ns)
{
    uint64_t mask = block_all_signals();
    enum stop_failure failure = stop_patiently();
    uint64_t stopped = monotonic_ns();
    while (monotonic_ns() - stopped < time_ns)
        ;
    resume_world();
    restore_signals(mask);
    assert_int_equal(failure, STOP_DONE);
}

static uint64_t answer_ns;
static _Atomic unsigned answers;

static void answer(uintptr_t rip)
{
    (void)rip;
    uint64_t begun = monotonic_ns();
    while (monotonic_ns() - begun < answer_ns)
        ;
    answers++;
}

/* As another process asks (stop_listen). */
static void ask_for(uint64_t time_ns)
{
    enum { ASK_CODE = -23118 };
    siginfo_t info = {.si_signo = STOP_SIGNAL, .si_code = ASK_CODE};
    answer_ns = time_ns;
    assert_true(stop_listen(answer));
    syscall(SYS_rt_tgsigqueueinfo, getpid(), waiter, STOP_SIGNAL, &info);
}

/* False: the wait was over before it was interrupted. */
static bool interrupt_during(enum timed_wait wait, void (*interrupt)(uint64_t time_ns))
{
    uint64_t units = wait == SELECT ? 1000 : 1000000; /* of the second field, in a millisecond */
    asked = left = (struct timespec){.tv_nsec = (long)(WAIT_MS * units)};
    unsigned before = answers;
    waiter = 0;
    waited = false;
    assert_int_equal(pthread_create(&threads[0], NULL, wait_for_a_time, (void *)(size_t)wait), 0);
    while (!waited && (waiter == 0 || !waits_in(timed_calls[wait])))
        sched_yield();
    bool was_in_time = !waited;
    interrupt(WAIT_MS * UINT64_C(1000000));
    pthread_join(threads[0], NULL);
    if (wait <= CLOCK_SLEEP && left.tv_nsec == asked.tv_nsec)
        return false; /* only of a sleep that was interrupted does the kernel say what is left */
    return was_in_time && (interrupt != ask_for || answers != before);
}

static void nothing_is_left_after(void (*interrupt)(uint64_t time_ns))
{
    for (int wait = 0; wait < TIMED_WAITS; wait++) {
        while (!interrupt_during((enum timed_wait)wait, interrupt))
            ;
        assert_int_equal(results[0], 0);
        assert_int_equal(left.tv_sec, 0);
        assert_int_equal(left.tv_nsec, 0);
    }
}

static void test_the_time_of_a_stop_is_taken_off_a_wait(void **state)
{
    (void)state;
    nothing_is_left_after(stop_for);
}

static void test_the_time_of_an_answer_is_taken_off_a_wait(void **state)
{
    (void)state;
    nothing_is_left_after(ask_for);
}

/* A thread that does not answer. */

static void *block_everything(void *unused)
{
    uint64_t mask = block_all_signals();
    waiting = 1;
    while (!enough)
        usleep(1000);
    restore_signals(mask);
    return unused;
}

static void test_where_one_does_not_stop_all_go_on(void **state)
{
    (void)state;
    pthread_t deaf;
    waiting = 0;
    assert_int_equal(pthread_create(&deaf, NULL, block_everything, NULL), 0);
    while (!waiting)
        sched_yield();
    uint64_t mask = block_all_signals();
    assert_int_equal(stop_world(), STOP_TIMEOUT);
    restore_signals(mask);
    for (int i = 0; i < THREADS; i++) {
        uint64_t count = counts[i];
        while (counts[i] == count)
            sched_yield();
    }
    end_counting(state);
    pthread_join(deaf, NULL);
    start_counting(state);
    mask = block_all_signals();
    assert_int_equal(stop_patiently(),
                     STOP_DONE); /* and the next is not disturbed by what was sent */
    resume_world();
    restore_signals(mask);
}

/* A thread that would answer if it had a processor: libc's newborn ones block all signals. */

enum { STARVED_NEEDS_NS = 12000000 };
static _Atomic uint64_t starved_ran;

static uint64_t own_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void run_for_some_time(void)
{
    uint64_t begun = own_ns(), ran = 0;
    waiting = 1;
    while (ran < STARVED_NEEDS_NS)
        ran = own_ns() - begun;
    starved_ran = ran;
}

static void *starve(void *unused)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), 15);
    uint64_t mask = block_all_signals();
    run_for_some_time();
    restore_signals(mask);
    while (!enough)
        usleep(1000);
    return unused;
}

/* A process that takes the processor that the calling thread runs on, which stays there. */
static pid_t take_processor(cpu_set_t *before)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_getaffinity(0, sizeof *before, before), 0);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            ;
    }
    assert_true(process > 0);
    return process;
}

static void wait_for_starved(void *(*begin)(void *unused))
{
    pthread_t starved;
    cpu_set_t processors;
    enough = false;
    waiting = 0;
    starved_ran = 0;
    pid_t process = take_processor(&processors);
    assert_int_equal(pthread_create(&starved, NULL, begin, NULL), 0);
    assert_int_equal(sched_setaffinity(0, sizeof processors, &processors), 0);
    while (!waiting)
        sched_yield();
    uint64_t mask = block_all_signals();
    assert_int_equal(stop_world(), STOP_DONE);
    resume_world();
    restore_signals(mask);
    assert_true(starved_ran >= STARVED_NEEDS_NS);
    enough = true;
    pthread_join(starved, NULL);
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
}

static void test_one_without_a_processor_is_waited_for(void **state)
{
    (void)state;
    wait_for_starved(starve);
}

/* A thread sleeps until its vfork child has ended or executes, whatever signals it gets. */

static void *starve_vfork_child(void *unused)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), 15);
    pid_t child = vfork();
    if (child == 0) {
        run_for_some_time();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    while (!enough)
        usleep(1000);
    return unused;
}

static void test_one_whose_vfork_child_is_without_a_processor_is_waited_for(void **state)
{
    (void)state;
    wait_for_starved(starve_vfork_child);
}

/* It may wait for what the thread that stops the world has. */
static void *let_vfork_child_sleep(void *unused)
{
    pid_t child = vfork();
    if (child == 0) {
        waiting = 1;
        while (!enough)
            usleep(1000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return unused;
}

static void test_one_whose_vfork_child_sleeps_is_given_up(void **state)
{
    (void)state;
    pthread_t thread;
    enough = false;
    waiting = 0;
    assert_int_equal(pthread_create(&thread, NULL, let_vfork_child_sleep, NULL), 0);
    while (!waiting)
        sched_yield();
    uint64_t mask = block_all_signals();
    assert_int_equal(stop_world(), STOP_TIMEOUT);
    restore_signals(mask);
    enough = true;
    pthread_join(thread, NULL);
}

static void send_to_oneself(int code)
{
    siginfo_t info = {.si_signo = STOP_SIGNAL, .si_code = code};
    require(syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), STOP_SIGNAL, &info) == 0);
}

static bool is_pending(void)
{
    uint64_t pending = 0;
    syscall(SYS_rt_sigpending, &pending, sizeof pending);
    return pending >> (STOP_SIGNAL - 1) & 1;
}

static void take_in_any_order(void *unused)
{
    enum { STOP_CODE = -23117, ASK_CODE = -23118 };
    (void)unused;
    block_all_signals();
    send_to_oneself(ASK_CODE);
    send_to_oneself(STOP_CODE);
    stop_take_late_signals();
    require(!is_pending());
    send_to_oneself(STOP_CODE);
    send_to_oneself(SI_TKILL); /* glibc's */
    send_to_oneself(STOP_CODE);
    stop_take_late_signals();
    siginfo_t info;
    uint64_t set = UINT64_C(1) << (STOP_SIGNAL - 1);
    require(syscall(SYS_rt_sigtimedwait, &set, &info, NULL, sizeof set) == STOP_SIGNAL);
    require(info.si_code == SI_TKILL);
    require(!is_pending());
}

static void test_late_signals_go_whatever_lies_between(void **state)
{
    (void)state;
    assert_child_succeeds(take_in_any_order, NULL);
}

#define WITH_COUNTING(test) cmocka_unit_test_setup_teardown(test, start_counting, end_counting)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_COUNTING(test_nobody_goes_on_in_a_stopped_world),
        WITH_COUNTING(test_a_stopped_thread_tells_of_its_stack_and_its_control_block),
        cmocka_unit_test(test_threads_that_come_and_go_are_no_obstacle),
        cmocka_unit_test(test_waits_without_a_limit_go_on),
        cmocka_unit_test(test_the_time_of_a_stop_is_taken_off_a_wait),
        cmocka_unit_test(test_the_time_of_an_answer_is_taken_off_a_wait),
        WITH_COUNTING(test_where_one_does_not_stop_all_go_on),
        cmocka_unit_test(test_one_without_a_processor_is_waited_for),
        cmocka_unit_test(test_one_whose_vfork_child_is_without_a_processor_is_waited_for),
        cmocka_unit_test(test_one_whose_vfork_child_sleeps_is_given_up),
        cmocka_unit_test(test_late_signals_go_whatever_lies_between),
    };
    return cmocka_run_group_tests(tests, open_stop, NULL);
}
