/* SPDX-License-Identifier: MIT
 *
 * main.c: allotrope-vm, which measures once what this kernel's virtual memory costs, and writes it
 * to standard output (JSON): a list of figures, each {"what", "by", "count", "ns"}. A figure that
 * could not be taken has null for "ns", and "why".
 *
 *   allotrope-vm GROUP...      table providers stops calls scans
 *   allotrope-vm dirty         one figure: opening what the collector would use to learn which
 *                              pages were written; or why this process may not (`allotrope doctor`)
 */
#include <string.h>
#include <unistd.h>

#include "analysis/vm/measure.h"
#include "trace/base/flush_all.h"

static const struct group {
    const char *name;
    void (*measure)(struct json *json);
} groups[] = {
    {"table", measure_table}, {"providers", measure_providers}, {"stops", measure_stops},
    {"calls", measure_calls}, {"scans", measure_scans},         {"dirty", measure_dirty},
};
enum { GROUPS = sizeof groups / sizeof *groups };

static const struct group *group_named(const char *name)
{
    for (size_t i = 0; i < GROUPS; i++)
        if (strcmp(groups[i].name, name) == 0)
            return &groups[i];
    dprintf(STDERR_FILENO, "allotrope-vm: there is no group '%s'\n", name);
    _exit(2);
}

int main(int count, char **words)
{
    struct json json = {.output = stdout};
    for (int i = 1; i < count; i++)
        group_named(words[i]);
    json_open(&json, NULL);
    json_open_list(&json, "figures");
    for (int i = 1; i < count; i++)
        group_named(words[i])->measure(&json);
    json_close_list(&json);
    json_close(&json);
    return flush_all(stdout) == 0 ? 0 : 1;
}
