/* SPDX-License-Identifier: MIT
 *
 * thread_churn.c: threads that each replace blocks of a live set at random.
 *
 * Each task has a set of blocks of mixed sizes, replaces them for a while and ends. With several
 * threads a collector must stop all of them, and an allocator serve all at once; nothing is
 * shared between them but the heap.
 *
 * Idea: after P. Larson & M. Krishnan, "Memory allocation for long-running server applications",
 * ISMM 1998, with sets that stay with their thread.
 */
#include "bench_programs/collected.h"

static uint64_t threads = 4, tasks = 32, blocks = 4000, replacements = 300000;
static _Atomic uint64_t next_task, total;

struct held {
    uint64_t mark;
    unsigned char rest[];
};

static uint64_t run_task(uint64_t task)
{
    uint64_t random = mix(task + 1), sum = 0;
    struct held **set = obtain(blocks * sizeof *set);
    memset(set, 0, blocks * sizeof *set);
    for (uint64_t i = 0; i < replacements; i++) {
        struct held **at = &set[random_below(&random, blocks)];
        if (*at) {
            sum += (*at)->mark;
            give_up(*at);
        }
        size_t bytes = sizeof **at + random_below(&random, 16) * random_below(&random, 16);
        *at = obtain(bytes);
        (*at)->mark = random_next(&random);
    }
    for (uint64_t i = 0; i < blocks; i++)
        if (set[i])
            give_up(set[i]);
    give_up(set);
    return sum;
}

static void *work(void *unused)
{
    for (uint64_t task; (task = next_task++) < tasks;)
        total += run_task(task);
    return unused;
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {"threads", "that work", 1, 64, &threads},
        {"tasks", "in all", 1, 100000, &tasks},
        {"blocks", "of a task's set", 1, 10000000, &blocks},
        {"replace", "how many of them a task replaces", 0, 1000000000, &replacements},
        {0},
    };
    bench_arguments(argc, argv, "threads replace blocks at random", options);
    start_collected();
    pthread_t thread[64];
    for (uint64_t i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work, NULL) != 0)
            bench_no_memory(0);
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("thread_churn: checksum=%016" PRIx64 "\n", (uint64_t)total);
    finish_collected();
    return 0;
}
