/* SPDX-License-Identifier: MIT
 *
 * queue.c: a circular queue of batches; where each simulator stands in it is a number that only
 * goes up. All of that is under one lock, which is taken twice for each batch and simulator.
 */
#include "analysis/simulate/queue.h"

#include <pthread.h>
#include <stdlib.h>

/* Batches that stay in a second-level cache; enough of them to even out who waits for whom. */
enum { BATCH = 1 << 14, SLOTS = 16 };

struct slot {
    struct reference *references; /* [BATCH] */
    uint8_t *regions;             /* [BATCH], or NULL */
    uint32_t *windows;            /* [BATCH], or NULL */
    size_t count;
};

struct queue {
    struct reference_source *source;
    uint64_t left; /* references that may still be read; the reader's */
    struct simulation *simulations;
    size_t count;
    struct slot slots[SLOTS]; /* batch n is in slot n % SLOTS */
    pthread_mutex_t lock;     /* of what follows */
    pthread_cond_t changed;
    uint64_t read; /* batches that stand in the queue, or have left it */
    bool reading;
    bool ended; /* nothing more is read */
    uint64_t simulated;
};

void simulations_add(struct simulations *simulations,
                     bool (*feed)(void *simulator, const struct references *references),
                     void *simulator)
{
    simulations->list[simulations->count++] =
        (struct simulation){.feed = feed, .simulator = simulator};
}

/* The first batch that somebody still needs. */
static uint64_t oldest_batch(const struct queue *queue)
{
    uint64_t oldest = queue->read;
    for (size_t i = 0; i < queue->count; i++)
        if (queue->simulations[i].next < oldest)
            oldest = queue->simulations[i].next;
    return oldest;
}

/* The one furthest behind, among those that nobody works on and that have something to do; or
 * NULL. */
static struct simulation *furthest_behind(const struct queue *queue)
{
    struct simulation *chosen = NULL;
    for (size_t i = 0; i < queue->count; i++) {
        struct simulation *one = &queue->simulations[i];
        if (!one->busy && one->next < queue->read && (!chosen || one->next < chosen->next))
            chosen = one;
    }
    return chosen;
}

/* Both are called with the lock held and let go of it for the work. */

static void read_batch(struct queue *queue)
{
    struct slot *slot = &queue->slots[queue->read % SLOTS];
    size_t room = queue->left < BATCH ? (size_t)queue->left : BATCH;
    queue->reading = true;
    pthread_mutex_unlock(&queue->lock);
    struct reference_room into = {room, slot->references, slot->regions, slot->windows};
    slot->count = reference_source_next(queue->source, &into);
    pthread_mutex_lock(&queue->lock);
    queue->reading = false;
    queue->left -= slot->count;
    queue->simulated += slot->count;
    if (slot->count > 0)
        queue->read++;
    else
        queue->ended = true;
}

static void simulate_batch(struct queue *queue, struct simulation *simulation)
{
    const struct slot *slot = &queue->slots[simulation->next % SLOTS];
    struct references batch = {slot->count, slot->references, slot->regions, slot->windows};
    simulation->busy = true;
    pthread_mutex_unlock(&queue->lock);
    bool fed = simulation->feed(simulation->simulator, &batch);
    pthread_mutex_lock(&queue->lock);
    simulation->busy = false;
    simulation->next++;
    if (!fed) {
        simulation->failed = true;
        queue->ended = true;
    }
}

static void *work(void *argument)
{
    struct queue *queue = argument;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        struct simulation *behind = furthest_behind(queue);
        bool room = queue->read < oldest_batch(queue) + SLOTS;
        if (!queue->ended && !queue->reading && room)
            read_batch(queue);
        else if (behind)
            simulate_batch(queue, behind);
        else if (queue->ended && oldest_batch(queue) == queue->read)
            break;
        else {
            pthread_cond_wait(&queue->changed, &queue->lock);
            continue;
        }
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* Runs with as many threads as can be had, this one included. */
static bool run_threads(struct queue *queue, unsigned threads)
{
    pthread_t *others = calloc(threads, sizeof *others);
    if (!others)
        return false;
    unsigned started = 0;
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, queue) == 0)
        started++;
    work(queue);
    for (unsigned i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    free(others);
    return true;
}

/* False when memory is short. */
static bool make_slot(struct slot *slot, bool with_regions, bool with_windows)
{
    slot->references = malloc(BATCH * sizeof *slot->references);
    slot->regions = with_regions ? malloc(BATCH) : NULL;
    slot->windows = with_windows ? malloc(BATCH * sizeof *slot->windows) : NULL;
    return slot->references && (slot->regions || !with_regions) && (slot->windows || !with_windows);
}

int64_t simulate_all(struct reference_source *source, uint64_t limit,
                     struct simulations *simulations, unsigned threads)
{
    struct queue queue = {
        .source = source,
        .left = limit,
        .simulations = simulations->list,
        .count = simulations->count,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    bool with_regions = simulations->with_regions && reference_source_has_regions(source);
    bool with_windows = simulations->with_windows;
    bool ran = true;
    for (size_t i = 0; i < SLOTS; i++)
        ran = ran && make_slot(&queue.slots[i], with_regions, with_windows);
    ran = ran && run_threads(&queue, threads);
    for (size_t i = 0; i < SLOTS; i++) {
        free(queue.slots[i].references);
        free(queue.slots[i].regions);
        free(queue.slots[i].windows);
    }
    return ran ? (int64_t)queue.simulated : -1;
}
