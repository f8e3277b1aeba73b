/* SPDX-License-Identifier: MIT
 *
 * process_tree.c: how much memory a tree of processes holds, seen from outside by sampling.
 *
 * Descendants are found breadth first: a process's children are listed, thread by thread, in
 * /proc/PID/task/TID/children. Since the launcher is a subreaper, what was orphaned stands in
 * its own list, so nothing escapes. A page that several processes share counts once in the sum,
 * because each process's proportional set size (PSS) has its share only.
 *
 * A process between vfork and exec still runs in its parent's memory, and both would report all
 * of it: kcmp tells.
 */
#include "analysis/launcher/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "trace/base/array.h"

/* A look takes at most a twentieth of a processor: by its own time, since one that had to wait for
 * a processor would miss what follows. */
enum {
    LOOK_EVERY_NANOSECONDS = 10 * 1000 * 1000,
    SAMPLE_EVERY_NANOSECONDS = 50 * 1000 * 1000,
    REST_PER_LOOK = 20,
};

struct process {
    int pid;
    int parent;
};

struct process_list {
    struct process *processes;
    size_t count;
    size_t room;
};

static long long nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

long long monotonic_nanoseconds(void)
{
    return nanoseconds(CLOCK_MONOTONIC);
}

static void add_process(struct process_list *list, int pid, int parent)
{
    if (!array_reserve(&list->processes, &list->room, list->count, sizeof *list->processes))
        return;
    list->processes[list->count++] = (struct process){.pid = pid, .parent = parent};
}

/* Adds the children that one thread has made. */
static void add_children_of_thread(struct process_list *list, int pid, const char *thread)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", pid, thread);
    FILE *children = fopen(path, "re");
    if (!children)
        return;
    while (fscanf(children, "%d", &child) == 1)
        add_process(list, child, pid);
    fclose(children);
}

static void add_children(struct process_list *list, int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    if (!threads)
        return;
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.')
            add_children_of_thread(list, pid, entry->d_name);
    closedir(threads);
}

/* The process's PSS in bytes; 0 when it is gone by now, -1 when we may not read it. */
static long long read_pss(int pid)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == EACCES || errno == EPERM ? -1 : 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return length < 0 && errno == EACCES ? -1 : 0;
    text[length] = '\0';
    const char *line = strstr(text, "\nPss:");
    return line ? atoll(line + strlen("\nPss:")) * 1024 : 0;
}

static bool shares_memory(struct process process)
{
    return syscall(SYS_kcmp, process.pid, process.parent, KCMP_VM, 0, 0) == 0;
}

/* The sum over all processes, or -1 when one of them may not be read. */
static long long total_pss(const struct process_list *list)
{
    long long total = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (shares_memory(list->processes[i]))
            continue;
        long long pss = read_pss(list->processes[i].pid);
        if (pss < 0)
            return -1;
        total += pss;
    }
    return total;
}

/* All descendants of the calling process, parents first. */
static struct process_list list_descendants(void)
{
    struct process_list list = {0};
    add_children(&list, getpid());
    for (size_t next = 0; next < list.count; next++)
        add_children(&list, list.processes[next].pid);
    return list;
}

static void note_memory(struct process_tree *tree, const struct process_list *list, long long now)
{
    long long total = total_pss(list);
    if (total > tree->peak_bytes)
        tree->peak_bytes = total;
    if (tree->samples && total > 0) {
        fprintf(tree->samples, "%lld %lld %zu\n", now, total, list->count);
        fflush(tree->samples);
    }
}

void process_tree_look(struct process_tree *tree, long long now, bool weighs)
{
    if (now < tree->next_nanoseconds)
        return;
    long long began = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    struct process_list list = list_descendants();
    if ((int)list.count > tree->most_processes)
        tree->most_processes = (int)list.count;
    bool counts = list.count > 1 || (list.count == 1 && (tree->peak_bytes >= 0 || tree->samples));
    if (weighs && counts)
        note_memory(tree, &list, now);
    free(list.processes);
    long long rest = REST_PER_LOOK * (nanoseconds(CLOCK_THREAD_CPUTIME_ID) - began);
    long long least = tree->samples ? SAMPLE_EVERY_NANOSECONDS : LOOK_EVERY_NANOSECONDS;
    tree->next_nanoseconds = now + (rest > least ? rest : least);
}

bool process_tree_signal(int signal)
{
    struct process_list list = list_descendants();
    bool any = list.count > 0;
    for (size_t next = 0; next < list.count && signal != 0; next++)
        kill(list.processes[next].pid, signal);
    free(list.processes);
    return any;
}
