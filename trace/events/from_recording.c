/* SPDX-License-Identifier: MIT
 *
 * from_recording.c: allocations out of a recording, whose threads are put together by their time
 * stamps and by what must be: a block is handed out only after it was given back, and given back
 * only after it was handed out.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/events/allocations_state.h"
#include "trace/protocol/event_pool.h"

/* How long an event waits for one of another thread that must come before it, in ticks of the
 * time stamp counter: some milliseconds. */
static const uint64_t PATIENCE = 10000000;

static uint64_t next_stamp(struct allocations *all, uint32_t thread)
{
    return event_reader_peek(all->events, thread)->stamp;
}

static void push(struct allocations *all, uint32_t thread)
{
    if (!event_reader_peek(all->events, thread))
        return;
    uint32_t i = all->waiting_count++;
    for (; i > 0 && next_stamp(all, all->waiting[(i - 1) / 2]) > next_stamp(all, thread);
         i = (i - 1) / 2)
        all->waiting[i] = all->waiting[(i - 1) / 2];
    all->waiting[i] = thread;
}

static uint32_t pop(struct allocations *all)
{
    uint32_t first = all->waiting[0], last = all->waiting[--all->waiting_count], i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= all->waiting_count)
            break;
        if (child + 1 < all->waiting_count &&
            next_stamp(all, all->waiting[child + 1]) < next_stamp(all, all->waiting[child]))
            child++;
        if (next_stamp(all, all->waiting[child]) >= next_stamp(all, last))
            break;
        all->waiting[i] = all->waiting[child];
        i = child;
    }
    all->waiting[i] = last;
    return first;
}

/* Whether nothing speaks against the event's happening now. */
static bool is_possible(const struct allocations *all, const struct event *event)
{
    bool live = event->pointer && live_blocks_find(&all->blocks, event->pointer);
    if (event->type == EVENT_NEW || event->type == EVENT_RESIZE_TO)
        return !live;
    return live;
}

/* A block is where it was resized to. True: `allocation` is to be handed out.
 * moving: the block as it was, if it was live; live: a block at the new address. */
static bool take_resize_to(struct allocations *all, struct live_block *moving,
                           struct live_block *live, struct allocation *allocation)
{
    struct live_block before = *moving;
    *moving = (struct live_block){0};
    if (!allocation->pointer) { /* it failed: the old block lives on */
        if (before.pointer)
            allocations_add(all, before);
        return false;
    }
    if (live)
        return allocations_note_lost_free(all, allocation, live, before);
    if (!before.pointer)
        return allocations_note_new(all, allocation);
    return allocations_note_resize(all, allocation, before);
}

/* Lets a thread's next event happen. True: it is an allocation to hand out. */
static bool take_event(struct allocations *all, uint32_t thread, struct allocation *allocation)
{
    const struct event *event = event_reader_peek(all->events, thread);
    struct live_block *live =
        event->pointer ? live_blocks_find(&all->blocks, event->pointer) : NULL;
    struct live_block *moving = &all->moving[thread];
    all->now = event_reader_nanoseconds(all->events, event->stamp);
    *allocation = (struct allocation){.thread = thread,
                                      .pointer = event->pointer,
                                      .size = event->size,
                                      .site = event->site,
                                      .clock = all->now,
                                      .alignment = event->alignment,
                                      .zeroed = event->zeroed,
                                      .frames = event->frames,
                                      .frame_count = event->frame_count};
    switch (event->type) {
    case EVENT_FREE:
        all->counts.unknown_frees += !live;
        if (live)
            allocations_note_free(all, allocation, live);
        return live != NULL;
    case EVENT_RESIZE_FROM:
        *moving = (struct live_block){0};
        if (live) {
            *moving = *live;
            live_blocks_remove(&all->blocks, live);
        }
        return false;
    case EVENT_RESIZE_TO:
        return take_resize_to(all, moving, live, allocation);
    default:
        return live ? allocations_note_lost_free(all, allocation, live, (struct live_block){0})
                    : allocations_note_new(all, allocation);
    }
}

/* The thread whose event comes next. False at the end. */
static bool choose_thread(struct allocations *all, uint32_t *thread)
{
    while (all->waiting_count > 0) {
        *thread = pop(all);
        if (is_possible(all, event_reader_peek(all->events, *thread)))
            return true;
        uint32_t oldest = all->blocked_count > 0 ? all->blocked[0] : *thread;
        if (next_stamp(all, *thread) - next_stamp(all, oldest) > PATIENCE) {
            push(all, *thread);
            break;
        }
        all->blocked[all->blocked_count++] = *thread;
    }
    if (all->blocked_count == 0)
        return false;
    *thread = all->blocked[0]; /* it has waited long enough */
    all->blocked[0] = all->blocked[--all->blocked_count];
    return true;
}

bool allocations_next_of_recording(struct allocations *all, struct allocation *allocation)
{
    while (!all->error[0]) {
        /* Only now: the frames that were handed out lay in a chunk that this may let go of. */
        if (all->any_taken)
            push(all, all->taken);
        while (all->blocked_count > 0)
            push(all, all->blocked[--all->blocked_count]);
        all->any_taken = choose_thread(all, &all->taken);
        if (!all->any_taken)
            break;
        bool happened = take_event(all, all->taken, allocation);
        event_reader_take(all->events, all->taken);
        if (happened)
            return true;
    }
    if (!all->error[0] && event_reader_error(all->events))
        snprintf(all->error, sizeof all->error, "%s", event_reader_error(all->events));
    return false;
}

bool allocations_open_recording(struct allocations *all, char *reason)
{
    all->events = event_reader_open(all->fd, reason);
    if (!all->events)
        return false;
    uint32_t threads = event_reader_threads(all->events);
    all->counts.threads = threads;
    all->waiting = calloc((size_t)threads + 1, sizeof *all->waiting);
    all->blocked = calloc((size_t)threads + 1, sizeof *all->blocked);
    all->moving = calloc((size_t)threads + 1, sizeof *all->moving);
    if (!all->waiting || !all->blocked || !all->moving) {
        strcpy(reason, "memory is short");
        return false;
    }
    for (uint32_t i = 0; i < threads; i++)
        push(all, i);
    return true;
}
