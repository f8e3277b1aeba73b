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
 * of it: kcmp tells. A container may refuse kcmp. Then a process counts as one between vfork and
 * exec if all of this is so:
 *
 *   - the thread that made it is inside vfork or clone, where vfork waits for the exec,
 *   - it is the last child of that thread,
 *   - size of memory, start of code and start of stack are its parent's, as they are until exec.
 */
#include "analysis/launcher/process_tree.h"

#include <ctype.h>
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
    int thread; /* of the parent, which made it */
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

static void add_process(struct process_list *list, struct process process)
{
    if (!array_reserve(&list->processes, &list->room, list->count, sizeof *list->processes))
        return;
    list->processes[list->count++] = process;
}

/* Adds the children that one thread has made, in the order in which it made them. */
static void add_children_of_thread(struct process_list *list, int pid, const char *thread)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", pid, thread);
    FILE *children = fopen(path, "re");
    if (!children)
        return;
    while (fscanf(children, "%d", &child) == 1)
        add_process(list, (struct process){.pid = child, .parent = pid, .thread = atoi(thread)});
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

/* Reads a file of a process or a thread as a string. Returns its length, or -1 with errno. */
static ssize_t read_file(int pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t length = read(file, text, size - 1);
    int error = errno;
    close(file);
    errno = error;
    text[length > 0 ? length : 0] = '\0';
    return length;
}

/* The process's PSS in bytes; 0 when it is gone by now, -1 when we may not read it. */
static long long read_pss(int pid)
{
    char text[1024];
    if (read_file(pid, "smaps_rollup", text, sizeof text) < 0)
        return errno == EACCES || errno == EPERM ? -1 : 0;
    const char *line = strstr(text, "\nPss:");
    return line ? atoll(line + strlen("\nPss:")) * 1024 : 0;
}

struct image {
    unsigned long bytes, code, stack;
};

static bool read_image(int pid, struct image *image)
{
    char text[1024];
    if (read_file(pid, "stat", text, sizeof text) <= 0)
        return false;
    const char *behind_name = strrchr(text, ')');
    return behind_name && sscanf(behind_name,
                                 ") %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                                 " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                                 " %lu %*s %*s %lu %*s %lu",
                                 &image->bytes, &image->code, &image->stack) == 3;
}

static bool has_image_of_parent(struct process process)
{
    struct image own;
    struct image parents;
    return read_image(process.pid, &own) && read_image(process.parent, &parents) &&
           own.bytes == parents.bytes && own.code == parents.code && own.stack == parents.stack;
}

/* A thread that does not wait shows no number of a call. */
static bool waits_in_clone(int thread)
{
    char text[256];
    if (read_file(thread, "syscall", text, sizeof text) <= 0 || !isdigit((unsigned char)*text))
        return false;
    int call = atoi(text);
    return call == SYS_vfork || call == SYS_clone || call == SYS_clone3;
}

static bool shares_memory(const struct process_list *list, size_t which)
{
    struct process process = list->processes[which];
    long order = syscall(SYS_kcmp, process.pid, process.parent, KCMP_VM, 0, 0);
    if (order >= 0)
        return order == 0;
    bool is_last = which + 1 == list->count || list->processes[which + 1].thread != process.thread;
    return is_last && waits_in_clone(process.thread) && has_image_of_parent(process);
}

/* The sum over all processes, or -1 when one of them may not be read. */
static long long total_pss(const struct process_list *list)
{
    long long total = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (shares_memory(list, i))
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
