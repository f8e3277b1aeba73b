/* SPDX-License-Identifier: MIT
 *
 * allocations.c: see allocations.h.
 */
#include "trace/events/allocations.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/events/chunk.h"
#include "trace/events/file.h"
#include "trace/format/reader.h"
#include "trace/protocol/event_pool.h"

/* How long an event waits for one of another thread that must come before it, in ticks of the
 * time stamp counter: some milliseconds. */
#define PATIENCE UINT64_C(10000000)

/* Live blocks by their address: open addressing, linear probing, deletion by moving up. */
struct live {
    uint64_t pointer; /* 0: free */
    uint64_t object;
    uint64_t size;
};

struct allocations {
    int fd;
    char error[ALLOCATIONS_ERROR_BYTES];

    struct trace_reader *trace; /* one of these two */
    struct event_reader *events;

    struct live *table;
    size_t capacity, used; /* capacity: a power of two */

    struct trace_batch batch; /* of a trace */
    size_t at;
    FILE *map_lines; /* as /proc/PID/maps would tell them */
    char *maps;
    size_t maps_length;

    uint32_t *waiting; /* of a recording: threads that have events, a heap by their stamps */
    uint32_t waiting_count;
    uint32_t *blocked; /* taken from it, since what must come before has not come yet */
    uint32_t blocked_count;
    uint32_t taken; /* the thread of the last event */
    bool any_taken;
    struct live *moving; /* [threads]: between RESIZE_FROM and RESIZE_TO */

    struct allocation implied; /* an allocation whose free was put in before it */
    bool has_implied;
    uint64_t now;
    struct allocation_counts counts;
};

/* The table. */

static size_t slot_of(const struct allocations *all, uint64_t pointer)
{
    return (pointer >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (all->capacity - 1);
}

static struct live *look_up(const struct allocations *all, uint64_t pointer)
{
    size_t i = slot_of(all, pointer);
    while (all->table[i].pointer && all->table[i].pointer != pointer)
        i = (i + 1) & (all->capacity - 1);
    return all->table[i].pointer ? &all->table[i] : NULL;
}

static void put(struct allocations *all, struct live live)
{
    size_t i = slot_of(all, live.pointer);
    while (all->table[i].pointer)
        i = (i + 1) & (all->capacity - 1);
    all->table[i] = live;
}

static bool enter(struct allocations *all, struct live live)
{
    if (2 * (all->used + 1) > all->capacity) {
        struct live *old = all->table;
        size_t old_capacity = all->capacity;
        struct live *larger = calloc(2 * old_capacity, sizeof *larger);
        if (!larger) {
            snprintf(all->error, sizeof all->error, "memory is short");
            return false;
        }
        all->table = larger;
        all->capacity = 2 * old_capacity;
        for (size_t i = 0; i < old_capacity; i++)
            if (old[i].pointer)
                put(all, old[i]);
        free(old);
    }
    put(all, live);
    all->used++;
    return true;
}

static void leave(struct allocations *all, struct live *live)
{
    size_t mask = all->capacity - 1, hole = (size_t)(live - all->table), i = hole;
    while (all->table[i = (i + 1) & mask].pointer) {
        size_t home = slot_of(all, all->table[i].pointer);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            all->table[hole] = all->table[i];
            hole = i;
        }
    }
    all->table[hole].pointer = 0;
    all->used--;
}

/* What happens, in order. Each gives the allocation to hand out. */

static void count_peak(struct allocation_counts *counts)
{
    if (counts->live_bytes > counts->most_live_bytes)
        counts->most_live_bytes = counts->live_bytes;
    if (counts->live_objects > counts->most_live_objects)
        counts->most_live_objects = counts->live_objects;
}

static bool happens_new(struct allocations *all, struct allocation *allocation)
{
    struct allocation_counts *counts = &all->counts;
    allocation->type = ALLOCATION_NEW;
    allocation->object = counts->objects++;
    allocation->bytes = counts->bytes;
    counts->bytes += allocation->size;
    counts->live_objects++;
    counts->live_bytes += allocation->size;
    count_peak(counts);
    return enter(all, (struct live){allocation->pointer, allocation->object, allocation->size});
}

static void happens_free(struct allocations *all, struct allocation *allocation, struct live *live)
{
    struct allocation_counts *counts = &all->counts;
    allocation->type = ALLOCATION_FREE;
    allocation->object = live->object;
    allocation->size = live->size;
    allocation->bytes = counts->bytes;
    counts->frees++;
    counts->live_objects--;
    counts->live_bytes -= live->size;
    leave(all, live);
}

static bool happens_resize(struct allocations *all, struct allocation *allocation,
                           struct live before)
{
    struct allocation_counts *counts = &all->counts;
    allocation->type = ALLOCATION_RESIZE;
    allocation->object = before.object;
    allocation->bytes = counts->bytes;
    counts->bytes += allocation->size;
    counts->resizes++;
    counts->live_bytes += allocation->size - before.size;
    count_peak(counts);
    return enter(all, (struct live){allocation->pointer, before.object, allocation->size});
}

/* The block was handed out while it seemed live: its free was never seen, and is put in first. */
static bool happens_after_free(struct allocations *all, struct allocation *allocation,
                               struct live *live)
{
    all->implied = *allocation;
    all->has_implied = true;
    all->counts.lost_frees++;
    happens_free(all, allocation, live);
    return true;
}

/* Traces: their order is exact. */

static void note_map(struct allocations *all, const struct trace_event *event)
{
    if (all->map_lines && event->value[2] == TRACE_REGION_FILE)
        fprintf(all->map_lines, "%" PRIx64 "-%" PRIx64 " r-xp 0 00:00 0 %s\n", event->value[0],
                event->value[0] + event->value[1], event->name);
}

/* True: `allocation` is filled in. */
static bool take_trace_event(struct allocations *all, const struct trace_event *event,
                             struct allocation *allocation)
{
    *allocation = (struct allocation){
        .thread = event->thread, .pointer = event->value[0], .clock = event->instruction};
    if (event->thread > all->counts.threads)
        all->counts.threads = event->thread;
    if (event->type == TRACE_EVENT_FREE) {
        struct live *live = event->value[0] ? look_up(all, event->value[0]) : NULL;
        allocation->site = event->value[1];
        if (live)
            happens_free(all, allocation, live);
        else
            all->counts.unknown_frees += event->value[0] != 0;
        return live != NULL;
    }
    if (event->type == TRACE_EVENT_MAP)
        note_map(all, event);
    if ((event->type != TRACE_EVENT_MALLOC && event->type != TRACE_EVENT_REALLOC) ||
        !event->value[0])
        return false;
    allocation->size = event->value[1];
    allocation->site = event->value[2];
    if (event->type == TRACE_EVENT_REALLOC) {
        struct live *old = look_up(all, event->value[3]);
        if (old) {
            struct live before = *old;
            leave(all, old);
            return happens_resize(all, allocation, before);
        }
    }
    struct live *live = look_up(all, event->value[0]);
    return live ? happens_after_free(all, allocation, live) : happens_new(all, allocation);
}

static bool next_of_trace(struct allocations *all, struct allocation *allocation)
{
    while (!all->error[0]) {
        while (all->at < all->batch.event_count)
            if (take_trace_event(all, &all->batch.events[all->at++], allocation))
                return true;
        int status = trace_reader_next(all->trace, &all->batch);
        all->at = 0;
        if (status < 0)
            snprintf(all->error, sizeof all->error, "%s", trace_reader_error(all->trace));
        if (status <= 0) {
            all->now = trace_reader_totals(all->trace)->instructions;
            all->batch.event_count = 0;
            return false;
        }
    }
    return false;
}

/* Recordings: a heap of threads by the stamps of their next events. */

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
    bool live = event->pointer && look_up(all, event->pointer);
    if (event->type == EVENT_NEW || event->type == EVENT_RESIZE_TO)
        return !live;
    return live;
}

/* Lets a thread's next event happen. True: it is an allocation to hand out. */
static bool take_event(struct allocations *all, uint32_t thread, struct allocation *allocation)
{
    const struct event *event = event_reader_peek(all->events, thread);
    struct live *live = event->pointer ? look_up(all, event->pointer) : NULL;
    struct live *moving = &all->moving[thread];
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
            happens_free(all, allocation, live);
        return live != NULL;
    case EVENT_RESIZE_FROM:
        moving->pointer = 0;
        if (live) {
            *moving = *live;
            leave(all, live);
        }
        return false;
    case EVENT_RESIZE_TO:
        if (!event->pointer) { /* it failed: the old block lives on */
            if (moving->pointer)
                enter(all, *moving);
            moving->pointer = 0;
            return false;
        }
        if (live)
            return happens_after_free(all, allocation, live);
        if (moving->pointer) {
            struct live before = *moving;
            moving->pointer = 0;
            return happens_resize(all, allocation, before);
        }
        return happens_new(all, allocation);
    default:
        return live ? happens_after_free(all, allocation, live) : happens_new(all, allocation);
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

static bool next_of_recording(struct allocations *all, struct allocation *allocation)
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

bool allocations_next(struct allocations *all, struct allocation *allocation)
{
    if (all->has_implied) {
        all->has_implied = false;
        *allocation = all->implied;
        return happens_new(all, allocation);
    }
    if (all->trace)
        return next_of_trace(all, allocation);
    return next_of_recording(all, allocation);
}

/* Opening. */

static bool open_recording(struct allocations *all, char *reason)
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

static bool open_either(struct allocations *all, const char *path, char *reason)
{
    char magic[8] = "";
    all->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (all->fd < 0) {
        snprintf(reason, EVENT_FILE_ERROR_BYTES, "%s", strerror(errno));
        return false;
    }
    if (pread(all->fd, magic, sizeof magic, 0) == sizeof magic &&
        memcmp(magic, EVENT_FILE_MAGIC, sizeof magic) == 0)
        return open_recording(all, reason);
    all->trace = trace_reader_open(all->fd, reason);
    all->map_lines = open_memstream(&all->maps, &all->maps_length);
    return all->trace != NULL;
}

struct allocations *allocations_open(const char *path, char *error)
{
    enum { FIRST_CAPACITY = 1 << 16 };
    _Static_assert((int)EVENT_FILE_ERROR_BYTES == (int)TRACE_ERROR_BYTES, "room for either");
    char reason[EVENT_FILE_ERROR_BYTES] = "memory is short";
    struct allocations *all = calloc(1, sizeof *all);
    if (all) {
        all->fd = -1;
        all->capacity = FIRST_CAPACITY;
        all->table = calloc(all->capacity, sizeof *all->table);
    }
    if (!all || !all->table || !open_either(all, path, reason)) {
        snprintf(error, ALLOCATIONS_ERROR_BYTES, "%.200s: %s", path, reason);
        if (all)
            allocations_close(all);
        return NULL;
    }
    return all;
}

void allocations_close(struct allocations *all)
{
    if (all->trace)
        trace_reader_close(all->trace);
    if (all->events)
        event_reader_close(all->events);
    if (all->fd > STDIN_FILENO)
        close(all->fd);
    if (all->map_lines)
        fclose(all->map_lines);
    free(all->maps);
    free(all->table);
    free(all->waiting);
    free(all->blocked);
    free(all->moving);
    free(all);
}

const char *allocations_error(const struct allocations *all)
{
    return all->error[0] ? all->error : NULL;
}

const char *allocations_clock(const struct allocations *all)
{
    return all->trace ? "instructions" : "nanoseconds";
}

uint64_t allocations_now(const struct allocations *all)
{
    return all->now;
}

const struct allocation_counts *allocations_counts(const struct allocations *all)
{
    return &all->counts;
}

const char *allocations_description(const struct allocations *all)
{
    return all->trace ? trace_reader_description(all->trace)
                      : event_reader_description(all->events);
}

const char *allocations_end(const struct allocations *all)
{
    return all->trace ? "" : event_reader_end(all->events);
}

const char *allocations_maps(const struct allocations *all)
{
    if (all->map_lines)
        fflush(all->map_lines);
    if (all->trace)
        return all->maps ? all->maps : "";
    return event_reader_maps(all->events);
}
