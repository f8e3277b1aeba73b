/* SPDX-License-Identifier: MIT
 *
 * names.c: see names.h.
 */
#include "trace/format/names.h"

#include <stddef.h>

#include "trace/format/format.h"

static const char *const class_names[TRACE_CLASSES] = {
    [TRACE_CLASS_PROGRAM] = "program",     [TRACE_CLASS_ALLOCATOR] = "allocator",
    [TRACE_CLASS_COLLECTOR] = "collector", [TRACE_CLASS_ROOTS] = "roots",
    [TRACE_CLASS_MARK] = "mark",           [TRACE_CLASS_SWEEP] = "sweep",
};

static const char *const region_names[TRACE_REGIONS] = {
    [TRACE_REGION_ANONYMOUS] = "anonymous", [TRACE_REGION_FILE] = "file",
    [TRACE_REGION_BREAK] = "break",         [TRACE_REGION_STACK] = "stack",
    [TRACE_REGION_DATA] = "data",
};

static const char *const event_names[TRACE_EVENT_TYPES] = {
    [TRACE_EVENT_CLASS] = "class",
    [TRACE_EVENT_THREAD] = "thread",
    [TRACE_EVENT_THREAD_START] = "thread_start",
    [TRACE_EVENT_THREAD_END] = "thread_end",
    [TRACE_EVENT_MALLOC] = "malloc",
    [TRACE_EVENT_REALLOC] = "realloc",
    [TRACE_EVENT_FREE] = "free",
    [TRACE_EVENT_MAP] = "map",
    [TRACE_EVENT_UNMAP] = "unmap",
    [TRACE_EVENT_SIGNAL] = "signal",
    [TRACE_EVENT_SIGNAL_RETURN] = "signal_return",
    [TRACE_EVENT_COLLECTION_BEGIN] = "collection_begin",
    [TRACE_EVENT_COLLECTION_END] = "collection_end",
    [TRACE_EVENT_MARK] = "mark",
};

const char *trace_class_name(uint32_t class)
{
    return class < TRACE_CLASSES ? class_names[class] : NULL;
}

const char *trace_region_name(uint32_t region)
{
    return region < TRACE_REGIONS ? region_names[region] : NULL;
}

const char *trace_event_name(uint32_t type)
{
    return type < TRACE_EVENT_TYPES ? event_names[type] : NULL;
}
