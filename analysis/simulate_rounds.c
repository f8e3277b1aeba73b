/* SPDX-License-Identifier: MIT */
/* simulate_rounds.c: two buffers, one being read and one being simulated, swapped at a barrier. */
#include "analysis/simulate_rounds.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BATCH = 1 << 16 };

struct rounds {
    struct reference_source *source;
    uint64_t left; /* references that may still be read */
    struct simulation *simulations;
    size_t count;
    struct reference *current, *next;        /* [BATCH] */
    uint8_t *current_regions, *next_regions; /* [BATCH], or NULL */
    size_t current_count, next_count;
    uint64_t simulated;
    bool stop;
    atomic_size_t job;    /* the next to take: 0 is reading, i + 1 simulation i */
    pthread_mutex_t gate; /* held until the number of threads is known */
    pthread_barrier_t barrier;
};

void simulations_add(struct simulations *simulations,
                     bool (*feed)(void *simulator, const struct references *references),
                     void *simulator)
{
    simulations->list[simulations->count++] =
        (struct simulation){.feed = feed, .simulator = simulator};
}

static void do_job(struct rounds *rounds, size_t job)
{
    if (job == 0) {
        size_t room = rounds->left < BATCH ? (size_t)rounds->left : BATCH;
        rounds->next_count =
            reference_source_next(rounds->source, rounds->next, rounds->next_regions, room);
        rounds->left -= rounds->next_count;
        return;
    }
    struct simulation *simulation = &rounds->simulations[job - 1];
    struct references batch = {rounds->current_count, rounds->current, rounds->current_regions};
    simulation->failed = !simulation->feed(simulation->simulator, &batch);
}

static void end_round(struct rounds *rounds)
{
    rounds->simulated += rounds->current_count;
    for (size_t i = 0; i < rounds->count; i++)
        rounds->stop |= rounds->simulations[i].failed;
    struct reference *spare = rounds->current;
    rounds->current = rounds->next;
    rounds->next = spare;
    uint8_t *spare_regions = rounds->current_regions;
    rounds->current_regions = rounds->next_regions;
    rounds->next_regions = spare_regions;
    rounds->current_count = rounds->next_count;
    rounds->stop |= rounds->current_count == 0;
    atomic_store(&rounds->job, 0);
}

static void *work(void *argument)
{
    struct rounds *rounds = argument;
    pthread_mutex_lock(&rounds->gate);
    pthread_mutex_unlock(&rounds->gate);
    while (!rounds->stop) {
        size_t job;
        while ((job = atomic_fetch_add(&rounds->job, 1)) <= rounds->count)
            do_job(rounds, job);
        if (pthread_barrier_wait(&rounds->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            end_round(rounds);
        pthread_barrier_wait(&rounds->barrier);
    }
    return NULL;
}

/* Runs with as many threads as can be had, this one included. */
static bool run_threads(struct rounds *rounds, unsigned threads)
{
    pthread_t *others = calloc(threads, sizeof *others);
    if (others == NULL)
        return false;
    unsigned started = 0;
    pthread_mutex_init(&rounds->gate, NULL);
    pthread_mutex_lock(&rounds->gate);
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, rounds) == 0)
        started++;
    pthread_barrier_init(&rounds->barrier, NULL, started + 1);
    pthread_mutex_unlock(&rounds->gate);
    work(rounds);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    pthread_barrier_destroy(&rounds->barrier);
    pthread_mutex_destroy(&rounds->gate);
    free(others);
    return true;
}

int64_t simulate_rounds(struct reference_source *source, uint64_t limit,
                        struct simulations *simulations, unsigned threads)
{
    struct rounds rounds = {
        .source = source,
        .left = limit,
        .simulations = simulations->list,
        .count = simulations->count,
        .current = malloc(BATCH * sizeof *rounds.current),
        .next = malloc(BATCH * sizeof *rounds.next),
    };
    bool with_regions = simulations->with_regions && reference_source_has_regions(source);
    if (with_regions) {
        rounds.current_regions = malloc(BATCH);
        rounds.next_regions = malloc(BATCH);
    }
    bool ran = rounds.current != NULL && rounds.next != NULL &&
               (rounds.current_regions != NULL) == with_regions &&
               (rounds.next_regions != NULL) == with_regions;
    if (ran) {
        do_job(&rounds, 0);
        end_round(&rounds);
        ran = run_threads(&rounds, threads);
    }
    free(rounds.current);
    free(rounds.next);
    free(rounds.current_regions);
    free(rounds.next_regions);
    return ran ? (int64_t)rounds.simulated : -1;
}
