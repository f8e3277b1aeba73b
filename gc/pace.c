/* SPDX-License-Identifier: MIT
 *
 * pace.c: when to collect.
 *
 * policy=boehm is the study's rule: collect when the heap is full; when that gives back less than
 * a quarter of it, the heap may grow by half; it starts at 256 KiB (Zorn, CU-CS-573-92, 2.2).
 *
 * policy=auto lets the heap grow by a share of what is live, and of the roots, since both cost a
 * collection its time. The share follows what collections have cost: when they take more than
 * MUCH of the program's time it rises, when less than LITTLE it falls, within bounds. So a program
 * that allocates little keeps a tight heap and one that allocates furiously is not collected to
 * death. What is free between live blocks may be of the wrong sizes for what comes next: so
 * however much the heap uses, it may take half of that room anew before the next collection.
 *
 * Below a control group's memory.max the heap is kept to what leaves the rest of the process an
 * eighth of it, as long as that is possible: a collection is cheaper than being killed.
 */
#include "gc/pace.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "gc/process.h"
#include "vm/syscall.h"

static const size_t BOEHM_INITIAL_BYTES = (size_t)256 << 10;
static const size_t AUTO_INITIAL_BYTES = (size_t)12 << 20;
static const size_t LEAST_STEP_BYTES = (size_t)256 << 10;
static const size_t AUTO_LEAST_STEP_BYTES = (size_t)2 << 20;

/* In percent: the share of live bytes by which the heap may grow, and of time. */
enum { SHARE_FIRST = 100, SHARE_LEAST = 60, SHARE_MOST = 200, LITTLE = 3, MUCH = 8 };

/* Starting a helper takes some 50 us: worth it for a mark of a few milliseconds. */
static const uint64_t WORTH_HELPERS_NS = 4000000;

static struct {
    struct pace_options options;
    size_t group_bytes; /* what the control group leaves for the heap; 0: no limit */
    unsigned share;
    uint64_t last_mark_ns;
    uint64_t smoothed_cost, smoothed_run; /* ns */
    _Atomic size_t target;
} pace;

static size_t read_small_file(const char *path, char *text, size_t room)
{
    long file = SYSCALL_4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (syscall_failed(file))
        return 0;
    long bytes = SYSCALL_3(SYS_read, file, text, room - 1);
    SYSCALL_1(SYS_close, file);
    if (syscall_failed(bytes))
        return 0;
    text[bytes] = '\0';
    return (size_t)bytes;
}

/* memory.max of the control group (version 2) that "0::/path" names; 0: none, or "max". */
static size_t control_group_limit(void)
{
    static const char ROOT[] = "/sys/fs/cgroup", FILE_NAME[] = "/memory.max";
    char text[512], path[sizeof ROOT + sizeof text + sizeof FILE_NAME];
    if (read_small_file("/proc/self/cgroup", text, sizeof text) == 0)
        return 0;
    char *group = strstr(text, "0::");
    if (!group)
        return 0;
    group += 3;
    group[strcspn(group, "\n")] = '\0';
    size_t length = sizeof ROOT - 1, group_length = strcmp(group, "/") ? strlen(group) : 0;
    memcpy(path, ROOT, length);
    memcpy(path + length, group, group_length);
    memcpy(path + length + group_length, FILE_NAME, sizeof FILE_NAME);
    if (read_small_file(path, text, sizeof text) == 0)
        return 0;
    size_t bytes = 0;
    for (const char *at = text; *at >= '0' && *at <= '9'; at++)
        bytes = bytes * 10 + (size_t)(*at - '0');
    return bytes;
}

/* step: what the heap may take at least before the next collection, however much it uses. */
static void set_target(size_t target, size_t used, size_t wanted, size_t step)
{
    size_t least = used + wanted + step;
    if (pace.group_bytes > 0 && target > pace.group_bytes)
        target = pace.group_bytes;
    if (target < least)
        target = least;
    if (pace.options.limit_bytes > 0 && target > pace.options.limit_bytes)
        target = pace.options.limit_bytes;
    atomic_store_explicit(&pace.target, target, memory_order_relaxed);
}

void pace_init(const struct pace_options *options)
{
    pace.options = *options;
    pace.share = SHARE_FIRST;
    size_t group = control_group_limit();
    pace.group_bytes = group - group / 8;
    size_t initial = options->initial_bytes;
    if (initial == 0)
        initial = options->policy == POLICY_BOEHM ? BOEHM_INITIAL_BYTES : AUTO_INITIAL_BYTES;
    set_target(initial, 0, 0, 0);
}

size_t pace_target(void)
{
    return atomic_load_explicit(&pace.target, memory_order_relaxed);
}

bool pace_is_full(size_t used, size_t bytes)
{
    return used + bytes > pace_target();
}

bool pace_is_over_limit(size_t used, size_t bytes)
{
    return pace.options.limit_bytes > 0 && used + bytes > pace.options.limit_bytes;
}

/* The last few collections, the latest counting most. */
static unsigned cost_percent(const struct pace_report *report)
{
    pace.smoothed_cost = (pace.smoothed_cost + report->pause_ns) / 2;
    pace.smoothed_run = (pace.smoothed_run + report->ran_ns) / 2;
    return (unsigned)(100 * pace.smoothed_cost / (pace.smoothed_cost + pace.smoothed_run + 1));
}

static void adapt_share(unsigned cost)
{
    if (cost > MUCH && pace.share < SHARE_MOST)
        pace.share += pace.share / 4;
    if (cost < LITTLE && pace.share > SHARE_LEAST)
        pace.share -= pace.share / 8;
    if (pace.share > SHARE_MOST)
        pace.share = SHARE_MOST;
    if (pace.share < SHARE_LEAST)
        pace.share = SHARE_LEAST;
}

void pace_collected(const struct pace_report *report)
{
    pace.last_mark_ns = report->mark_ns;
    if (pace.options.policy == POLICY_BOEHM) {
        size_t target = pace_target();
        if (report->freed < target / 4)
            target += target / 2;
        set_target(target, report->used, report->wanted, LEAST_STEP_BYTES);
        return;
    }
    adapt_share(cost_percent(report));
    size_t initial = pace.options.initial_bytes ? pace.options.initial_bytes : AUTO_INITIAL_BYTES;
    size_t room = (report->live + report->roots) / 100 * pace.share;
    size_t step = room / 2 > AUTO_LEAST_STEP_BYTES ? room / 2 : AUTO_LEAST_STEP_BYTES;
    set_target(report->live + (room > initial ? room : initial), report->used, report->wanted,
               step);
}

void pace_given_up(size_t used, size_t wanted)
{
    size_t target = pace_target(), more = used + used / 2;
    set_target(more > target ? more : target, used, wanted, LEAST_STEP_BYTES);
}

unsigned pace_helpers(unsigned most)
{
    uint64_t worth = WORTH_HELPERS_NS;
    if (pace.options.pause_goal_ns > 0 && pace.options.pause_goal_ns < worth)
        worth = pace.options.pause_goal_ns;
    return pace.last_mark_ns >= worth ? most : 0;
}
