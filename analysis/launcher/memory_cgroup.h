/* SPDX-License-Identifier: MIT
 *
 * memory_cgroup.h: a cgroup v2 of one run's own, whose memory.peak is the kernel's
 * exact account of everything the run's processes held at once.
 */
#ifndef ALLOTROPE_ANALYSIS_LAUNCHER_MEMORY_CGROUP_H
#define ALLOTROPE_ANALYSIS_LAUNCHER_MEMORY_CGROUP_H

#include <limits.h>
#include <stdbool.h>

struct memory_cgroup {
    char path[PATH_MAX];   /* the run's own cgroup */
    char origin[PATH_MAX]; /* the launcher's, where stragglers go back to */
    int processes;         /* descriptor of the run's cgroup.procs; -1: there is no cgroup */
};

/* Makes a cgroup for a run. Returns false, with processes = -1, where the machine has no
 * cgroup v2 with a memory controller that this user may divide without leaving a limit that the
 * launcher has; nothing is then left behind. */
bool memory_cgroup_create(struct memory_cgroup *cgroup);

/* Moves the calling process in. Async-signal-safe: for use between vfork and exec. */
bool memory_cgroup_enter(const struct memory_cgroup *cgroup);

/* The highest charge so far in bytes, page cache and kernel memory included; -1 if unreadable. */
long long memory_cgroup_peak(const struct memory_cgroup *cgroup);

/* Removes the cgroup; processes that still live in it go back to the launcher's. */
void memory_cgroup_remove(struct memory_cgroup *cgroup);

#endif
