/* SPDX-License-Identifier: MIT
 *
 * pace.c: when to collect.
 *
 * policy=boehm is the study's rule: collect when the heap is full; when that gives back less than
 * a quarter of it, the heap may grow by half; it starts at 256 KiB (Zorn, CU-CS-573-92, 2.2).
 *
 * policy=auto collects by the room that is left for garbage: a share of what is live, and of the
 * roots, since both cost a collection its time, and no less than a few megabytes. The share and
 * the least follow what collections have cost: when they take more than MUCH of the program's time
 * they rise, when less than LITTLE they fall, within bounds.
 *
 *     free=ignore   all that is handed out becomes garbage: a collection is due when as much as
 *                   the room has been handed out since the last, wherever it lay. (The size of
 *                   the heap is no measure: what is free between live blocks is of the wrong
 *                   sizes now and then, and a heap that may grow each time it is grows for ever.)
 *     free=honour   the program looks after its heap, and a collection finds what it forgot. It
 *                   is due when the heap has grown by the room, and the pause to be expected is
 *                   at most AFFORDABLE of the time since the last; or the heap is four times what
 *                   it may be, or the last collection showed that the program forgets much.
 *
 * Who sets a limit has little memory: the share and the least stay as low as they may be.
 *
 * Below a control group's memory.max the heap is kept to what leaves the rest of the process an
 * eighth of it, as long as that is possible: a collection is cheaper than being killed.
 */
#include "gc/cycle/pace.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "vm/kernel/process.h"
#include "vm/clock.h"
#include "vm/number.h"
#include "vm/syscall.h"

static const size_t BOEHM_INITIAL_BYTES = (size_t)256 << 10;
static const size_t AUTO_INITIAL_BYTES = (size_t)12 << 20;
static const size_t ROOM_LEAST_BYTES = (size_t)8 << 20, ROOM_MOST_BYTES = (size_t)24 << 20;
static const size_t LEAST_STEP_BYTES = (size_t)256 << 10;
static const size_t AUTO_LEAST_STEP_BYTES = (size_t)2 << 20;

/* In percent: the share of live bytes that may become garbage, and of time. */
enum { SHARE_FIRST = 100, SHARE_LEAST = 60, SHARE_MOST = 120, LITTLE = 3, MUCH = 8 };
enum { AFFORDABLE = 2 };

/* A heap under free=honour below this is only collected when that is affordable. */
static const size_t UNHURRIED_BYTES = (size_t)256 << 20;
/* What a collection of a heap is taken to cost before there has been one. */
static const uint64_t GUESSED_BYTES_PER_NS = 1;

/* Starting a helper takes some 50 us: worth it for a mark of a few milliseconds, where there is an
 * idle processor for it. One that is not given any is no help, and what it holds is waited for. */
static const uint64_t WORTH_HELPERS_NS = 4000000;

static struct {
    struct pace_options options;
    size_t group_bytes; /* what the control group leaves for the heap; 0: no limit */
    unsigned share;
    size_t least_room;
    size_t room, live; /* of the last collection; room: see pace_room */
    uint64_t last_mark_ns;
    uint64_t smoothed_cost, smoothed_run; /* ns */
    _Atomic size_t target;
    _Atomic size_t due;       /* bytes taken, see pace_is_due */
    _Atomic size_t hurried;   /* size from which it does not matter what is affordable */
    _Atomic uint64_t last_ns; /* when the last collection was over */
    _Atomic uint64_t cost;    /* of it, in ns for a megabyte of the heap */
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

enum { GROUPS_BYTES = 512 };

/* memory.max of a control group, the first `length` bytes of its path; 0: none, or "max". */
static size_t limit_of_group(const char *group, size_t length)
{
    static const char ROOT[] = "/sys/fs/cgroup", FILE_NAME[] = "/memory.max";
    char text[32], path[sizeof ROOT + GROUPS_BYTES + sizeof FILE_NAME];
    memcpy(path, ROOT, sizeof ROOT);
    memcpy(path + sizeof ROOT - 1, group, length);
    memcpy(path + sizeof ROOT - 1 + length, FILE_NAME, sizeof FILE_NAME);
    if (read_small_file(path, text, sizeof text) == 0)
        return 0;
    const char *at = text;
    uint64_t bytes;
    return read_decimal(&at, NULL, &bytes) ? bytes : 0;
}

/* The least of the process's control group (version 2), which "0::/path" names, and of those that
 * it lies in; 0: none. */
static size_t control_group_limit(void)
{
    char text[GROUPS_BYTES];
    if (read_small_file("/proc/self/cgroup", text, sizeof text) == 0)
        return 0;
    const char *group = strstr(text, "0::");
    if (!group)
        return 0;
    group += 3;
    size_t least = 0, length = strcspn(group, "\n");
    if (length == 1)
        length = 0; /* "/" */
    for (;;) {
        size_t limit = limit_of_group(group, length);
        if (limit > 0 && (least == 0 || limit < least))
            least = limit;
        if (length == 0)
            return least;
        while (length > 0 && group[--length] != '/')
            ;
    }
}

static void set(_Atomic size_t *size, size_t value)
{
    atomic_store_explicit(size, value, memory_order_relaxed);
}

static size_t get(const _Atomic size_t *size)
{
    return atomic_load_explicit(size, memory_order_relaxed);
}

static size_t at_most(size_t value, size_t bound)
{
    return bound > 0 && value > bound ? bound : value;
}

/* step: what the heap may take at least before the next collection, however much it uses. */
static void set_target(size_t target, size_t used, size_t wanted, size_t step)
{
    size_t least = used + wanted + step;
    target = at_most(target, pace.group_bytes);
    if (target < least)
        target = least;
    set(&pace.target, at_most(target, pace.options.limit_bytes));
}

static bool counts_taken(void)
{
    return pace.options.policy == POLICY_AUTO && !pace.options.frees;
}

static bool may_wait(void)
{
    return pace.options.policy == POLICY_AUTO && pace.options.frees && !pace.options.initial_bytes;
}

void pace_init(const struct pace_options *options)
{
    pace.options = *options;
    pace.share = options->limit_bytes > 0 ? SHARE_LEAST : SHARE_FIRST;
    pace.least_room = options->initial_bytes     ? options->initial_bytes
                      : options->limit_bytes > 0 ? ROOM_LEAST_BYTES
                                                 : AUTO_INITIAL_BYTES;
    size_t group = control_group_limit();
    pace.group_bytes = group - group / 8;
    size_t initial = options->initial_bytes;
    if (initial == 0)
        initial = options->policy == POLICY_BOEHM ? BOEHM_INITIAL_BYTES : AUTO_INITIAL_BYTES;
    set_target(counts_taken() ? SIZE_MAX / 2 : initial, 0, 0, 0);
    pace.room = counts_taken() ? initial : 0;
    set(&pace.due, counts_taken() ? initial : SIZE_MAX);
    set(&pace.hurried, may_wait() ? at_most(UNHURRIED_BYTES, pace.group_bytes) : 0);
    pace.cost = (1 << 20) / GUESSED_BYTES_PER_NS;
    pace.last_ns = monotonic_ns();
}

size_t pace_room(void)
{
    return pace.room;
}

size_t pace_target(void)
{
    size_t target = get(&pace.target);
    return counts_taken() ? at_most(pace.live + pace.room, target) : target;
}

static bool is_affordable(size_t used)
{
    uint64_t expected = (used >> 20) * pace.cost;
    return expected <= (monotonic_ns() - pace.last_ns) / 100 * AFFORDABLE;
}

bool pace_is_full(size_t used, size_t bytes)
{
    if (used + bytes <= get(&pace.target))
        return false;
    if (used + bytes > get(&pace.hurried) || is_affordable(used))
        return true;
    set(&pace.target, used + bytes + used / 16); /* no need to look at the clock until then */
    return false;
}

void pace_without_clock(void)
{
    set(&pace.hurried, 0);
}

bool pace_is_due(size_t taken)
{
    return taken > get(&pace.due);
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

static void adapt(unsigned cost)
{
    if (pace.options.limit_bytes > 0)
        return;
    unsigned share = pace.share;
    size_t room = pace.least_room;
    if (cost > MUCH) {
        share += share / 4;
        room += room / 2;
    } else if (cost < LITTLE) {
        share -= share / 8;
        room -= room / 4;
    }
    pace.share = share > SHARE_MOST ? SHARE_MOST : share < SHARE_LEAST ? SHARE_LEAST : share;
    if (pace.options.initial_bytes == 0)
        pace.least_room = room > ROOM_MOST_BYTES    ? ROOM_MOST_BYTES
                          : room < ROOM_LEAST_BYTES ? ROOM_LEAST_BYTES
                                                    : room;
}

static void set_by_study(const struct pace_report *report)
{
    size_t target = pace_target();
    if (report->freed < target / 4)
        target += target / 2;
    set_target(target, report->used, report->wanted, LEAST_STEP_BYTES);
}

void pace_collected(const struct pace_report *report)
{
    pace.last_mark_ns = report->mark_ns;
    if (pace.options.policy == POLICY_BOEHM) {
        set_by_study(report);
        return;
    }
    adapt(cost_percent(report));
    size_t room = (report->live + report->roots) / 100 * pace.share;
    if (room < pace.least_room)
        room = pace.least_room;
    size_t step = room / 2 > AUTO_LEAST_STEP_BYTES ? room / 2 : AUTO_LEAST_STEP_BYTES;
    if (counts_taken()) {
        pace.room = room;
        pace.live = report->live;
        set(&pace.due, report->taken + room);
        set_target(SIZE_MAX / 2, report->used, report->wanted, step);
        return;
    }
    set_target(report->live + room, report->used, report->wanted, step);
    pace.last_ns = monotonic_ns();
    pace.cost = report->pause_ns / ((report->live + report->roots) / (1 << 20) + 1);
    bool forgets_much = report->freed > report->live / 4;
    size_t hurried = 4 * pace_target() > UNHURRIED_BYTES ? 4 * pace_target() : UNHURRIED_BYTES;
    set(&pace.hurried, may_wait() && !forgets_much ? at_most(hurried, pace.group_bytes) : 0);
}

void pace_given_up(size_t used, size_t taken, size_t wanted)
{
    size_t target = pace_target(), more = used + used / 2;
    set_target(more > target ? more : target, used, wanted, LEAST_STEP_BYTES);
    if (counts_taken())
        set(&pace.due, taken + pace.least_room);
}

unsigned pace_helpers(unsigned most)
{
    uint64_t worth = WORTH_HELPERS_NS;
    if (pace.options.pause_goal_ns > 0 && pace.options.pause_goal_ns < worth)
        worth = pace.options.pause_goal_ns;
    if (most == 0 || pace.last_mark_ns < worth)
        return 0;
    unsigned idle = process_idle_processors();
    return idle < most ? idle : most;
}
