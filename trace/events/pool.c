/* SPDX-License-Identifier: MIT
 *
 * pool.c: the writer's side of the pool of buffers (protocol/event_pool.h): saves what is full,
 * clears it and sets it free.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/events/record_state.h"

static void clear(struct events_recorder *recorder, uint32_t number)
{
    struct event_buffer *buffer = &recorder->pool->buffer[number];
    uint64_t *words = event_buffer_words(recorder->pool, number);
    size_t used = EVENT_BUFFER_WORDS;
    while (used > 0 && words[used - 1] == 0)
        used--;
    memset(words, 0, used * sizeof *words);
    atomic_store(&buffer->labelled, 0);
    atomic_store_explicit(&buffer->state, EVENT_BUFFER_FREE, memory_order_release);
}

void pool_drop(struct events_recorder *recorder, uint32_t place)
{
    for (uint32_t i = 0; i < EVENT_BUFFERS; i++) {
        struct event_buffer *buffer = &recorder->pool->buffer[i];
        if (atomic_load(&buffer->state) != EVENT_BUFFER_FREE && atomic_load(&buffer->labelled) &&
            buffer->process == place)
            clear(recorder, i);
    }
    atomic_store(&recorder->pool->process[place].threads, 0);
    atomic_store(&recorder->pool->process[place].lost, 0);
    atomic_store(&recorder->pool->process[place].ready, 0);
    atomic_store(&recorder->pool->process[place].pid, 0);
}

/* Saves a buffer that is full or abandoned. False when another of its thread comes first. */
static bool save(struct events_recorder *recorder, struct recording *recording, uint32_t number)
{
    const struct event_buffer *buffer = &recorder->pool->buffer[number];
    const uint64_t *words = event_buffer_words(recorder->pool, number);
    if (buffer->kind != EVENT_BUFFER_MAPS)
        return recording_add_events(recorder, recording, buffer, words);
    recording_add_maps(recorder, recording, (const char *)words, buffer->bytes);
    return true;
}

unsigned pool_save(struct events_recorder *recorder, struct recording *only, bool rest)
{
    unsigned saved = 0, round;
    do {
        round = 0;
        for (uint32_t i = 0; i < EVENT_BUFFERS; i++) {
            struct event_buffer *buffer = &recorder->pool->buffer[i];
            uint32_t state = atomic_load_explicit(&buffer->state, memory_order_acquire);
            if (state == EVENT_BUFFER_FREE || !atomic_load(&buffer->labelled) ||
                (state == EVENT_BUFFER_FILLING && !rest))
                continue;
            struct recording *recording = &recorder->recordings[buffer->process];
            if (!recording->on || (only && recording != only) || !save(recorder, recording, i))
                continue;
            clear(recorder, i);
            round++;
        }
        saved += round;
    } while (round > 0);
    if (saved > 0) {
        atomic_fetch_add(&recorder->pool->freed, 1);
        if (atomic_load(&recorder->pool->waiting))
            syscall(SYS_futex, &recorder->pool->freed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    return saved;
}

void pool_collect_dead_threads(struct events_recorder *recorder)
{
    unsigned busy = 0;
    for (uint32_t i = 0; i < EVENT_BUFFERS; i++)
        busy += atomic_load(&recorder->pool->buffer[i].state) == EVENT_BUFFER_FILLING;
    if (busy < EVENT_BUFFERS / 4)
        return;
    for (uint32_t i = 0; i < EVENT_BUFFERS; i++) {
        struct event_buffer *buffer = &recorder->pool->buffer[i];
        char path[64];
        uint32_t filling = EVENT_BUFFER_FILLING;
        if (atomic_load(&buffer->state) != filling || !atomic_load(&buffer->labelled) ||
            buffer->tid == 0)
            continue;
        pid_t pid = recorder->recordings[buffer->process].pid;
        snprintf(path, sizeof path, "/proc/%d/task/%u", pid, buffer->tid);
        if (pid && access(path, F_OK) < 0 && errno == ENOENT)
            atomic_compare_exchange_strong(&buffer->state, &filling, EVENT_BUFFER_FULL);
    }
}
