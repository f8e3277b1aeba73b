/* SPDX-License-Identifier: MIT
 *
 * from_trace.c: allocations out of a trace: their order is exact.
 */
#include <inttypes.h>

#include "trace/events/allocations_state.h"

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
        struct live_block *live =
            event->value[0] ? live_blocks_find(&all->blocks, event->value[0]) : NULL;
        allocation->site = event->value[1];
        if (live)
            allocations_note_free(all, allocation, live);
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
    struct live_block before = {0};
    if (event->type == TRACE_EVENT_REALLOC && event->value[3]) {
        struct live_block *old = live_blocks_find(&all->blocks, event->value[3]);
        if (old) {
            before = *old;
            live_blocks_remove(&all->blocks, old);
        }
    }
    struct live_block *live = live_blocks_find(&all->blocks, event->value[0]);
    if (live)
        return allocations_note_lost_free(all, allocation, live, before);
    return before.pointer ? allocations_note_resize(all, allocation, before)
                          : allocations_note_new(all, allocation);
}

bool allocations_next_of_trace(struct allocations *all, struct allocation *allocation)
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

bool allocations_open_trace(struct allocations *all, char *reason)
{
    all->trace = trace_reader_open(all->fd, reason);
    all->map_lines = open_memstream(&all->maps, &all->maps_length);
    return all->trace != NULL;
}
