/* SPDX-License-Identifier: MIT
 *
 * memory_cgroup.c: a cgroup v2 of one run's own.
 *
 * A cgroup that holds processes cannot hand controllers to children, so a run's cgroup is
 * seldom a child of the launcher's. We walk up from the launcher's own to the nearest one that
 * does hand out `memory` and lets us make a directory in it:
 *
 *   user.slice/user-1000.slice/user@1000.service/app.slice    <- subtree_control has "memory"
 *     |- terminal.scope         <- the launcher
 *     `- allotrope-1234         <- the run
 *
 * The run leaves the groups below that one, and with them the limits that they set. A limit on the
 * number of tasks goes with it into its own cgroup: systemd sets one for every scope. Where there
 * is any other limit, the run stays where it is and has no cgroup of its own.
 *
 * Source: the kernel's Documentation/admin-guide/cgroup-v2.rst.
 */
#include "analysis/launcher/memory_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Joins folder and name; false when the result would not fit. */
static bool join_path(char *into, const char *folder, const char *name)
{
    int length = snprintf(into, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

/* Reads a small file as a string; false when it is missing or unreadable. */
static bool read_small_file(const char *folder, const char *name, char *into, size_t size)
{
    char path[PATH_MAX];
    if (!join_path(path, folder, name))
        return false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t length = read(file, into, size - 1);
    close(file);
    into[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Takes from a line what it is asked for. False: the line does not have it. */
typedef bool line_reader(const char *line, char *into);

static bool find_line(const char *path, line_reader *take, char *into)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getline(&line, &room, file) > 0)
        found = take(line, into);
    free(line);
    fclose(file);
    return found;
}

/* Where cgroup v2 is mounted: field 5 of the line of mountinfo whose type is cgroup2. */
static bool take_mount(const char *line, char *mount)
{
    return strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %*s %4095s", mount) == 1;
}

/* The launcher's own cgroup: the line of hierarchy 0, "0::/path". */
static bool take_own_path(const char *line, char *path)
{
    return sscanf(line, "0::%4095s", path) == 1;
}

static bool hands_out_memory(const char *folder)
{
    char controllers[4096];
    if (!read_small_file(folder, "cgroup.subtree_control", controllers, sizeof controllers))
        return false;
    char *rest = NULL;
    for (char *word = strtok_r(controllers, " \n", &rest); word;
         word = strtok_r(NULL, " \n", &rest))
        if (strcmp(word, "memory") == 0)
            return true;
    return false;
}

/* Whether a file of a cgroup sets a limit; what it says is left in `value`. */
static bool sets_limit(const char *folder, const char *name, char *value, size_t size)
{
    return read_small_file(folder, name, value, size) && value[0] != '\n' &&
           strncmp(value, "max", 3) != 0;
}

/* Limits that hold for all of a group together. */
static bool sets_shared_limit(const char *folder)
{
    static const char *const names[] = {
        "memory.max", "memory.high", "memory.swap.max", "memory.zswap.max",
        "cpu.max",    "cpuset.cpus", "cpuset.mems",     "io.max",
    };
    char value[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sets_limit(folder, names[i], value, sizeof value))
            return true;
    return false;
}

static long long smaller_task_limit(const char *folder, long long most_tasks)
{
    char value[64];
    if (!sets_limit(folder, "pids.max", value, sizeof value))
        return most_tasks;
    return atoll(value) < most_tasks ? atoll(value) : most_tasks;
}

static bool limit_tasks(const char *folder, long long most_tasks)
{
    char path[PATH_MAX];
    if (most_tasks == LLONG_MAX)
        return true;
    int file = join_path(path, folder, "pids.max") ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return false;
    bool written = dprintf(file, "%lld", most_tasks) > 0;
    close(file);
    return written;
}

/* Makes the run's cgroup inside `parent`; it must have a memory.peak (Linux 5.19 or later). */
static bool create_in(struct memory_cgroup *cgroup, const char *parent, long long most_tasks)
{
    char name[64];
    char file[PATH_MAX];
    snprintf(name, sizeof name, "allotrope-%d", (int)getpid());
    if (!join_path(cgroup->path, parent, name) || mkdir(cgroup->path, 0755) != 0)
        return false;
    if (join_path(file, cgroup->path, "cgroup.procs") && memory_cgroup_peak(cgroup) >= 0 &&
        limit_tasks(cgroup->path, most_tasks))
        cgroup->processes = open(file, O_WRONLY | O_CLOEXEC);
    if (cgroup->processes < 0)
        rmdir(cgroup->path);
    return cgroup->processes >= 0;
}

bool memory_cgroup_create(struct memory_cgroup *cgroup)
{
    char mount[PATH_MAX];
    char own[PATH_MAX];
    char parent[PATH_MAX];
    cgroup->processes = -1;
    if (!find_line("/proc/self/mountinfo", take_mount, mount) ||
        !find_line("/proc/self/cgroup", take_own_path, own) ||
        !join_path(cgroup->origin, mount, own + 1))
        return false;
    strcpy(parent, cgroup->origin);
    size_t mount_length = strlen(mount);
    long long most_tasks = LLONG_MAX;
    while (strlen(parent) >= mount_length) {
        if (hands_out_memory(parent) && create_in(cgroup, parent, most_tasks))
            return true;
        if (sets_shared_limit(parent))
            return false;
        most_tasks = smaller_task_limit(parent, most_tasks);
        *strrchr(parent, '/') = '\0';
    }
    return false;
}

bool memory_cgroup_enter(const struct memory_cgroup *cgroup)
{
    return write(cgroup->processes, "0", 1) == 1;
}

long long memory_cgroup_peak(const struct memory_cgroup *cgroup)
{
    char text[64];
    return read_small_file(cgroup->path, "memory.peak", text, sizeof text) ? atoll(text) : -1;
}

/* Sends what still lives in the run's cgroup back to the launcher's. */
static void return_stragglers(const struct memory_cgroup *cgroup)
{
    char stragglers[PATH_MAX];
    char home[PATH_MAX];
    if (!join_path(stragglers, cgroup->path, "cgroup.procs") ||
        !join_path(home, cgroup->origin, "cgroup.procs"))
        return;
    FILE *pids = fopen(stragglers, "re");
    int into = open(home, O_WRONLY | O_CLOEXEC);
    int pid = 0;
    while (pids && into >= 0 && fscanf(pids, "%d", &pid) == 1)
        if (dprintf(into, "%d", pid) < 0)
            break;
    if (pids)
        fclose(pids);
    if (into >= 0)
        close(into);
}

void memory_cgroup_remove(struct memory_cgroup *cgroup)
{
    if (cgroup->processes < 0)
        return;
    close(cgroup->processes);
    cgroup->processes = -1;
    if (rmdir(cgroup->path) != 0 && errno == EBUSY) {
        return_stragglers(cgroup);
        rmdir(cgroup->path);
    }
}
