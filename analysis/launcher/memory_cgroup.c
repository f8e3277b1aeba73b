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

/* Finds where cgroup v2 is mounted: field 5 of the mountinfo line whose type is cgroup2. */
static bool find_mount(char *mount)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    if (!mounts)
        return false;
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getline(&line, &room, mounts) > 0)
        found = strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %*s %4095s", mount) == 1;
    free(line);
    fclose(mounts);
    return found;
}

/* Finds the launcher's own cgroup: the line of hierarchy 0, "0::/path". */
static bool find_own_path(char *path)
{
    FILE *own = fopen("/proc/self/cgroup", "re");
    if (!own)
        return false;
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getline(&line, &room, own) > 0)
        found = sscanf(line, "0::%4095s", path) == 1;
    free(line);
    fclose(own);
    return found;
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

/* Makes the run's cgroup inside `parent`; it must have a memory.peak (Linux 5.19 or later). */
static bool create_in(struct memory_cgroup *cgroup, const char *parent)
{
    char name[64];
    char file[PATH_MAX];
    snprintf(name, sizeof name, "allotrope-%d", (int)getpid());
    if (!join_path(cgroup->path, parent, name) || mkdir(cgroup->path, 0755) != 0)
        return false;
    if (join_path(file, cgroup->path, "cgroup.procs") && memory_cgroup_peak(cgroup) >= 0)
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
    if (!find_mount(mount) || !find_own_path(own) || !join_path(cgroup->origin, mount, own + 1))
        return false;
    strcpy(parent, cgroup->origin);
    size_t mount_length = strlen(mount);
    while (strlen(parent) >= mount_length) {
        if (hands_out_memory(parent) && create_in(cgroup, parent))
            return true;
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
