/* SPDX-License-Identifier: MIT
 *
 * stops.c: what it costs to stop the world, to make other threads' writes visible, and to fork.
 *
 * The world is stopped as a collector does it: a signal to each thread, whose handler says that it
 * is there and waits. The time ends when the last has said so. Threads run (a loop) or are blocked
 * (a futex).
 */
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/vm/measure.h"

enum { MOST_THREADS = 64, STOPS = 11, STACK_BYTES = 256 << 10 };
static const size_t thread_counts[] = {1, 2, 4, 8, 16, 32, 64};

static struct {
    _Atomic uint32_t end, stopped, epoch, ready;
    bool blocked;
    uint32_t threads;
    pid_t ids[MOST_THREADS];
    pthread_t handles[MOST_THREADS];
} world;

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void stop_here(int signal)
{
    (void)signal;
    uint32_t epoch = atomic_load(&world.epoch);
    if (atomic_fetch_add(&world.stopped, 1) + 1 == world.threads)
        futex(&world.stopped, FUTEX_WAKE_PRIVATE, 1);
    while (atomic_load(&world.epoch) == epoch)
        futex(&world.epoch, FUTEX_WAIT_PRIVATE, epoch);
}

static void *live(void *place)
{
    *(pid_t *)place = (pid_t)syscall(SYS_gettid);
    atomic_fetch_add(&world.ready, 1);
    while (!atomic_load(&world.end))
        if (world.blocked)
            futex(&world.end, FUTEX_WAIT_PRIVATE, 0);
    return NULL;
}

static void start_threads(uint32_t count, bool blocked)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    world.threads = count;
    world.blocked = blocked;
    atomic_store(&world.ready, 0);
    atomic_store(&world.end, 0);
    for (uint32_t i = 0; i < count; i++)
        if (pthread_create(&world.handles[i], &attributes, live, &world.ids[i]) != 0)
            give_up("pthread_create");
    while (atomic_load(&world.ready) < count)
        usleep(100);
    usleep(1000); /* until those that block do */
}

static double stop_once(void)
{
    atomic_store(&world.stopped, 0);
    double begin = now_ns();
    for (uint32_t i = 0; i < world.threads; i++)
        syscall(SYS_tgkill, getpid(), world.ids[i], SIGUSR1);
    for (uint32_t stopped; (stopped = atomic_load(&world.stopped)) < world.threads;)
        futex(&world.stopped, FUTEX_WAIT_PRIVATE, stopped);
    double end = now_ns();
    atomic_fetch_add(&world.epoch, 1);
    futex(&world.epoch, FUTEX_WAKE_PRIVATE, MOST_THREADS);
    usleep(200);
    return end - begin;
}

static void end_threads(void)
{
    atomic_store(&world.end, 1);
    futex(&world.end, FUTEX_WAKE_PRIVATE, MOST_THREADS);
    for (uint32_t i = 0; i < world.threads; i++)
        pthread_join(world.handles[i], NULL);
}

static void measure_stop(struct json *json, uint32_t threads, bool blocked)
{
    double times[STOPS];
    start_threads(threads, blocked);
    stop_once();
    for (int i = 0; i < STOPS; i++)
        times[i] = stop_once();
    end_threads();
    const char *state = blocked ? "blocked" : "running";
    say(json, (struct subject){"stop the world", state, threads}, median(times, STOPS));
}

static double time_barriers(void *unused, size_t operations)
{
    (void)unused;
    double begin = now_ns();
    for (size_t i = 0; i < operations; i++)
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
            return -1;
    return now_ns() - begin;
}

static void measure_barrier(struct json *json)
{
    const struct subject subject = {"membarrier", "running", 1};
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0) {
        say_none(json, subject, "the kernel has no private expedited membarrier");
        return;
    }
    start_threads(1, false);
    say(json, subject, time_batches(time_barriers, NULL, 100, 20));
    end_threads();
}

/* The call in the parent; the child ends at once. */
static double time_forks(void *unused, size_t operations)
{
    (void)unused;
    double sum = 0;
    for (size_t i = 0; i < operations; i++) {
        double begin = cpu_ns();
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        sum += since(begin);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            return -1;
    }
    return sum;
}

/* What is resident is what has pages: a small process's fork is taken off. */
static void measure_fork(struct json *json)
{
    enum { MEBIBYTES = 256, OF_GIBIBYTE = 1024 / MEBIBYTES };
    const size_t count = ((size_t)MEBIBYTES << 20) / PAGE;
    double small = time_batches(time_forks, NULL, 1, 9);
    char *pages = make_pages(count);
    double large = time_batches(time_forks, NULL, 1, 5);
    drop_pages(pages, count);
    say(json, (struct subject){"fork", "small process", 0}, small);
    say(json, (struct subject){"fork", "each resident GiB", 0},
        large < 0 || small < 0 ? -1 : (large - small) * OF_GIBIBYTE);
}

void measure_stops(struct json *json)
{
    struct sigaction stop = {.sa_handler = stop_here, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &stop, NULL);
    for (int blocked = 0; blocked < 2; blocked++)
        for (size_t i = 0; i < sizeof thread_counts / sizeof *thread_counts; i++)
            measure_stop(json, (uint32_t)thread_counts[i], blocked);
    measure_barrier(json);
    measure_fork(json);
}
