/* SPDX-License-Identifier: MIT
 *
 * census.c: see census.h.
 */
#include "trace/inspect/census.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/base/array.h"
#include "trace/inspect/inspect.h"

static _Noreturn void memory_is_short(void)
{
    fprintf(stderr, "allotrope: not enough memory\n");
    exit(EXIT_DAMAGED);
}

static size_t account_of(struct census *census, uint32_t kind, const char *name)
{
    for (size_t i = 0; i < census->account_count; i++)
        if (census->accounts[i].kind == kind && strcmp(census->accounts[i].name, name) == 0)
            return i;
    if (!array_reserve(&census->accounts, &census->account_capacity, census->account_count,
                       sizeof *census->accounts))
        memory_is_short();
    struct account *account = &census->accounts[census->account_count];
    account->kind = kind;
    account->name = strdup(name);
    return census->account_count++;
}

/* A mapping that a block comes from is heap from then on. */
static void note_heap(struct census *census, uint64_t block)
{
    struct range *mapping = block ? range_map_find(&census->mappings, block) : NULL;
    if (!mapping)
        return;
    uint32_t kind = census->accounts[mapping->what].kind;
    if (kind == TRACE_REGION_ANONYMOUS)
        mapping->what = account_of(census, CENSUS_HEAP, "");
    else if (kind == TRACE_REGION_BREAK)
        mapping->what = account_of(census, CENSUS_HEAP, "break");
    else
        return;
    census->last = (struct range){0};
}

static void note_mapping(struct census *census, const struct trace_event *event)
{
    uint64_t start = event->value[0], end = start + event->value[1];
    bool noted;
    if (event->type == TRACE_EVENT_MAP) {
        uint32_t kind = event->value[2] < TRACE_REGIONS ? (uint32_t)event->value[2] : 0;
        size_t account = account_of(census, kind, event->name);
        noted = range_map_put(&census->mappings, start, end, account);
    } else {
        noted = range_map_cut(&census->mappings, start, end);
    }
    if (!noted)
        memory_is_short();
    census->last = (struct range){0};
}

static void count_event(struct census *census, const struct trace_event *event)
{
    census->event_counts[event->type]++;
    if (event->type == TRACE_EVENT_MALLOC || event->type == TRACE_EVENT_REALLOC)
        note_heap(census, event->value[0]);
    else if (event->type == TRACE_EVENT_MAP || event->type == TRACE_EVENT_UNMAP)
        note_mapping(census, event);
}

static size_t find_account(struct census *census, uint64_t address)
{
    if (address >= census->last.start && address < census->last.end)
        return census->last.what;
    const struct range *mapping = range_map_find(&census->mappings, address);
    if (!mapping)
        return 0;
    census->last = *mapping;
    return mapping->what;
}

static struct thread_count *count_of_thread(struct census *census, uint32_t thread)
{
    for (size_t i = 0; i < census->thread_count; i++)
        if (census->threads[i].thread == thread)
            return &census->threads[i];
    if (!array_reserve(&census->threads, &census->thread_capacity, census->thread_count,
                       sizeof *census->threads))
        memory_is_short();
    census->threads[census->thread_count] = (struct thread_count){thread, 0};
    return &census->threads[census->thread_count++];
}

void census_count(struct census *census, const struct trace_batch *batch)
{
    size_t event = 0, i = 0;
    if (batch->count > 0)
        count_of_thread(census, batch->thread)->references += batch->count;
    while (i < batch->count || event < batch->event_count) {
        size_t end = event < batch->event_count
                         ? batch->events[event].reference - batch->first_reference
                         : batch->count;
        for (; i < end; i++) {
            const struct trace_reference *reference = &batch->references[i];
            census->accounts[find_account(census, reference->address)]
                .references[reference->class]++;
        }
        if (event < batch->event_count)
            count_event(census, &batch->events[event++]);
    }
}

void census_begin(struct census *census)
{
    *census = (struct census){0};
    account_of(census, CENSUS_NO_MAPPING, "");
}
