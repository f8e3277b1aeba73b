/* SPDX-License-Identifier: MIT
 *
 * recorded_process.c: see recorded_process.h.
 */
#include "analysis/simulate/recorded_process.h"

#include <stdlib.h>
#include <string.h>

static bool note_file(struct recorded_process *process, const char *name)
{
    if (name[0] != '/' || process->file_count == RECORDED_MOST_FILES)
        return true;
    for (size_t i = 0; i < process->file_count; i++)
        if (strcmp(process->files[i], name) == 0)
            return true;
    char *copy = strdup(name);
    if (!copy)
        return false;
    process->files[process->file_count++] = copy;
    return true;
}

bool recorded_process_take(struct recorded_process *process, const struct trace_event *events,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (events[i].type == TRACE_EVENT_MALLOC && events[i].value[0] != 0)
            process->allocations++;
        else if (events[i].type == TRACE_EVENT_MAP && !note_file(process, events[i].name))
            return false;
    }
    return true;
}

void recorded_process_put(struct json *json, const struct recorded_process *process,
                          uint32_t children)
{
    json_open(json, "process");
    json_number(json, "allocations", process->allocations);
    json_number(json, "children", children);
    json_open_list(json, "files");
    for (size_t i = 0; i < process->file_count; i++)
        json_bytes(json, NULL, process->files[i]);
    json_close_list(json);
    json_close(json);
}

void recorded_process_free(struct recorded_process *process)
{
    for (size_t i = 0; i < process->file_count; i++)
        free(process->files[i]);
}
