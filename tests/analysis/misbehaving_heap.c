/* SPDX-License-Identifier: MIT */
/* misbehaving_heap.c: stands in for liballotrope.so where a test needs an allocator that goes
 * wrong. Its malloc is glibc's, its counters say that it is the allocator that ALLOTROPE names. The
 * preset there says what it does to its process:
 *
 *   noise   adds a line to standard output       silent  writes no statistics
 *   crash   SIGSEGV at start                     fail    exit status 7 at start
 *   late    fails from the third run on, counted in the file that MOCK_COUNTER names
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/protocol/counters.h"

static struct published_counters published __attribute__((section(COUNTERS_SECTION), used));

void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
    return __libc_malloc(size);
}

static void publish(void)
{
    const char *choice = getenv("ALLOTROPE");
    if (!choice)
        return;
    size_t length = strcspn(choice, ":");
    snprintf(published.allocator, sizeof published.allocator, "%.*s", (int)length, choice);
    snprintf(published.preset, sizeof published.preset, "%s",
             choice[length] == ':' ? choice + length + 1 : "default");
    memcpy(published.magic, "allotrope-live/1", sizeof published.magic);
}

static bool preset_is(const char *preset)
{
    const char *choice = getenv("ALLOTROPE");
    const char *colon = choice != NULL ? strchr(choice, ':') : NULL;
    return colon != NULL && strcmp(colon + 1, preset) == 0;
}

/* Counts this run in a file, by its length. */
static long count_run(const char *path)
{
    FILE *counter = fopen(path, "a");
    if (counter == NULL)
        return 0;
    fputc('.', counter);
    long runs = ftell(counter);
    fclose(counter);
    return runs;
}

__attribute__((constructor)) static void start(void)
{
    publish();
    if (preset_is("crash"))
        raise(SIGSEGV);
    if (preset_is("noise"))
        dprintf(STDOUT_FILENO, "noise\n");
    const char *counter = getenv("MOCK_COUNTER");
    bool too_late = preset_is("late") && counter != NULL && count_run(counter) > 2;
    if (preset_is("fail") || too_late) {
        fputs("first line\nthe heap is unwell\n", stderr);
        _exit(7);
    }
}

static void write_statistics(const char *pattern)
{
    char path[4096];
    const char *pid = strstr(pattern, "%p");
    if (pid != NULL)
        snprintf(path, sizeof path, "%.*s%d%s", (int)(pid - pattern), pattern, (int)getpid(),
                 pid + 2);
    else
        snprintf(path, sizeof path, "%s", pattern);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return;
    fprintf(file,
            "{\"schema\": \"allotrope.stats/1\", \"pid\": %d, \"command\": \"mock\","
            " \"peak\": {\"requested_bytes\": 500, \"waste\": {\"header\": 1, \"rounding\": 2,"
            " \"alignment\": 3, \"cached\": 4, \"external\": 5}},"
            " \"mapped_peak_bytes\": 1000, \"metadata_bytes\": 10}\n",
            (int)getpid());
    fclose(file);
}

__attribute__((destructor)) static void end(void)
{
    if (getenv("ALLOTROPE_STATS") != NULL && !preset_is("silent"))
        write_statistics(getenv("ALLOTROPE_STATS"));
}
