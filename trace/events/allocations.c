/* SPDX-License-Identifier: MIT
 *
 * allocations.c: see allocations.h.
 */
#include "trace/events/allocations.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/events/allocations_state.h"

/* What happens, in order. */

bool allocations_add(struct allocations *all, struct live_block block)
{
    if (live_blocks_add(&all->blocks, block))
        return true;
    snprintf(all->error, sizeof all->error, "memory is short");
    return false;
}

static void count_peak(struct allocation_counts *counts)
{
    if (counts->live_bytes > counts->most_live_bytes)
        counts->most_live_bytes = counts->live_bytes;
    if (counts->live_objects > counts->most_live_objects)
        counts->most_live_objects = counts->live_objects;
}

bool allocations_note_new(struct allocations *all, struct allocation *allocation)
{
    struct allocation_counts *counts = &all->counts;
    allocation->type = ALLOCATION_NEW;
    allocation->object = counts->objects++;
    allocation->bytes = counts->bytes;
    counts->bytes += allocation->size;
    counts->live_objects++;
    counts->live_bytes += allocation->size;
    count_peak(counts);
    return allocations_add(
        all, (struct live_block){allocation->pointer, allocation->object, allocation->size});
}

void allocations_note_free(struct allocations *all, struct allocation *allocation,
                           struct live_block *block)
{
    struct allocation_counts *counts = &all->counts;
    allocation->type = ALLOCATION_FREE;
    allocation->object = block->object;
    allocation->size = block->size;
    allocation->bytes = counts->bytes;
    counts->frees++;
    counts->live_objects--;
    counts->live_bytes -= block->size;
    live_blocks_remove(&all->blocks, block);
}

bool allocations_note_resize(struct allocations *all, struct allocation *allocation,
                             struct live_block before)
{
    struct allocation_counts *counts = &all->counts;
    allocation->type = ALLOCATION_RESIZE;
    allocation->object = before.object;
    allocation->bytes = counts->bytes;
    counts->bytes += allocation->size;
    counts->resizes++;
    counts->live_bytes += allocation->size - before.size;
    count_peak(counts);
    return allocations_add(
        all, (struct live_block){allocation->pointer, before.object, allocation->size});
}

bool allocations_note_lost_free(struct allocations *all, struct allocation *allocation,
                                struct live_block *block, struct live_block before)
{
    all->implied = *allocation;
    all->implied_before = before;
    all->has_implied = true;
    all->counts.lost_frees++;
    allocations_note_free(all, allocation, block);
    return true;
}

bool allocations_next(struct allocations *all, struct allocation *allocation)
{
    if (all->has_implied) {
        all->has_implied = false;
        *allocation = all->implied;
        return all->implied_before.pointer
                   ? allocations_note_resize(all, allocation, all->implied_before)
                   : allocations_note_new(all, allocation);
    }
    if (all->trace)
        return allocations_next_of_trace(all, allocation);
    return allocations_next_of_recording(all, allocation);
}

/* Opening. */

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
        return allocations_open_recording(all, reason);
    return allocations_open_trace(all, reason);
}

struct allocations *allocations_open(const char *path, char *error)
{
    _Static_assert((int)EVENT_FILE_ERROR_BYTES == (int)TRACE_ERROR_BYTES, "room for either");
    char reason[EVENT_FILE_ERROR_BYTES] = "memory is short";
    struct allocations *all = calloc(1, sizeof *all);
    if (all)
        all->fd = -1;
    if (!all || !live_blocks_init(&all->blocks) || !open_either(all, path, reason)) {
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
    live_blocks_free(&all->blocks);
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
