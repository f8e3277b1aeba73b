/* SPDX-License-Identifier: MIT
 *
 * pace.c: when to collect: the pacer.
 *
 * policy=boehm is the study's rule: collect when the heap is full; when that gives back less than
 * a quarter of it, the heap may grow by half; it starts at 256 KiB (Zorn, CU-CS-573-92, 2.2).
 *
 * policy=auto leaves garbage a headroom: a percentage of the live bytes and of the roots, since
 * both cost a collection its time, and at least a few megabytes. The percentage and the least
 * follow the overhead, which is the percentage of the program's time that collections took: above
 * OVERHEAD_HIGH they rise, below OVERHEAD_LOW they fall, within bounds.
 *
 *     free=ignore   All that is handed out becomes garbage. A collection is due when the headroom
 *                   has been handed out since the last one, wherever it lay. (The size of the heap
 *                   is no measure: what is free between live blocks is of the wrong sizes now and
 *                   then, and a heap that may grow each time it is grows for ever.)
 *     free=quarantine
 *                   What is retired takes memory that the program has given up. A collection is due
 *                   when so much has been retired since the last one: the headroom again, but with
 *                   bounds of its own, that are lower.
 *     free=honour   The program frees its blocks, and a collection finds what it leaked. It is due
 *                   when the heap has grown by the headroom to its goal, and the pause that is
 *                   to be expected is affordable: at most OVERHEAD_AFFORDABLE percent of the time
 *                   since the last one. It is due unconditionally when the heap has four times
 *                   its goal and UNCONDITIONAL_BYTES, or when the last collection showed that the
 *                   program leaks much.
 *
 * With generations a collection is due when the nursery has been handed out. It is a minor one as
 * long as what was promoted since the last full one leaves room for another nursery in the headroom
 * of that: all that is promoted may be garbage. A small nursery gives short pauses. The fixed cost
 * of a collection (the stop, the roots) does not shrink with it. So the nursery grows while the
 * fixed cost takes FIXED_HIGH percent of the program's time. It has a quarter of the headroom at
 * most; if the user has set a headroom, a quarter of that (a small program has no minor collections
 * otherwise). With a pause to aim at the nursery shrinks until the pauses are that short.
 *
 * Minor collections cease where they do not pay:
 *
 *     cause             more than half            tried again
 *     TOO_MUCH_LIVES    of what was handed out    when less than half survives a full collection,
 *                       survives                  which sees the same share
 *     TOO_MUCH_DIRTY    of what is live is        after the next full one, then after two, four and
 *                       followed                  so on up to RETRY_MOST, until they pay again
 *
 * A cycle (concurrent.h) begins when a full collection is due, and marks all while a quarter of the
 * headroom is handed out, so that much more garbage may stay. Its slices count as pauses do.
 *
 * A user who sets a limit has little memory: the percentage and the least stay at their lowest.
 *
 * Below a control group's memory.max the goal leaves the rest of the process an eighth of it, as
 * long as that is possible: a collection is cheaper than being killed.
 *
 * Sources: Zorn; for the words Go's pacer (heap goal, percentage of the live heap).
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
static const size_t HEADROOM_LEAST_BYTES = (size_t)8 << 20, HEADROOM_MOST_BYTES = (size_t)24 << 20;
static const size_t QUARANTINE_LEAST_BYTES = (size_t)1 << 20,
                    QUARANTINE_MOST_BYTES = (size_t)16 << 20;
/* After an attempt to collect that was given up, the next one comes no sooner than after so many
 * retired bytes. Each attempt without a collection releases blocks by their age
 * (alloc/blocks/quarantine.h), so this is also how long a freed block waits then.
 */
static const size_t QUARANTINE_RETRY_BYTES = (size_t)4 << 20;
static const size_t LEAST_STEP_BYTES = (size_t)256 << 10;
static const size_t AUTO_LEAST_STEP_BYTES = (size_t)2 << 20;

/* Headroom, in percent of the live bytes and the roots. */
enum { HEADROOM_FIRST_PERCENT = 100, HEADROOM_LEAST_PERCENT = 60, HEADROOM_MOST_PERCENT = 120 };

/* Headroom of a quarantine, in percent of the live bytes and the roots. It begins as the least, of
 * the bytes that are used. */
enum { QUARANTINE_LEAST_PERCENT = 25, QUARANTINE_MOST_PERCENT = 60 };

/* Full collections after which minor ones are tried again. */
enum { RETRY_MOST = 8 };

static const size_t NURSERY_LEAST_BYTES = (size_t)2 << 20, NURSERY_FIRST_BYTES = (size_t)8 << 20;
/* In a full collection's headroom. */
enum { NURSERIES_LEAST = 4 };
/* In percent of the program's time: for stops and roots of minor collections. */
enum { FIXED_LOW = 1, FIXED_HIGH = 4 };

/* Below so much marking two stops are no gain. */
static const uint64_t WORTH_CYCLE_NS = 1000000;
enum { CYCLES_IN_HEADROOM = 4 };

enum ceased { NOT_CEASED, TOO_MUCH_LIVES, TOO_MUCH_DIRTY };

/* In percent of the program's time. */
enum { OVERHEAD_AFFORDABLE = 2, OVERHEAD_LOW = 3, OVERHEAD_HIGH = 8 };

/* Below this a heap under free=honour is only collected when that is affordable. */
static const size_t UNCONDITIONAL_BYTES = (size_t)256 << 20;
/* What a collection of a heap is taken to cost before there has been one. */
static const uint64_t GUESSED_BYTES_PER_NS = 1;

/* Starting a helper takes some 50 us: worth it for a mark of a few milliseconds, where there is an
 * idle processor for it. One that is not given any is no help, and what it holds is waited for. */
static const uint64_t WORTH_HELPERS_NS = 4000000;

/* What is not atomic only the holder of the collector's lock writes. What is atomic other threads
 * write, too, and read, to see whether a collection is due: it is an estimate. A reader that meets
 * half of a change collects a little early or late. */
static struct {
    struct pace_options options;
    size_t cgroup_bytes; /* what the control group leaves for the heap; 0: no limit */
    unsigned headroom_percent;
    size_t least_headroom;
    size_t headroom, live;    /* after the last collection; see pace_headroom */
    uint64_t last_mark_ns[2]; /* of a full collection, of a minor one */
    uint64_t full_mark_ns;    /* of the last full collection, its slices too */
    size_t headroom_of_full;  /* that the last full collection has set */
    size_t promoted;          /* since the last full collection */
    size_t handed_out;        /* at the last collection, ever */
    size_t handed_out_before; /* between the last collection and the one before */
    bool is_ready;            /* the next could be a minor one */
    size_t nursery;
    enum ceased ceased;
    unsigned fulls, retry_after;           /* since minor collections have ceased */
    uint64_t minor_pause, minor_run;       /* ns, since the last full collection */
    uint64_t smoothed_pause, smoothed_run; /* ns */

    _Atomic size_t goal;          /* the size of the heap at which a collection is due */
    _Atomic size_t due;           /* bytes allocated at which one is due, see pace_is_due */
    _Atomic bool was_tried;       /* a collection, done or given up */
    _Atomic size_t unconditional; /* the size from which it need not be affordable */
    _Atomic uint64_t last_ns;     /* when the last collection was over */
    _Atomic uint64_t cost;        /* of that collection, in ns for a megabyte of the heap */
} pace;

static size_t read_small_file(const char *path, char *text, size_t capacity)
{
    long file = SYSCALL_4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (syscall_failed(file))
        return 0;
    long bytes = SYSCALL_3(SYS_read, file, text, capacity - 1);
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

/* step: what the heap may grow by at least before the next collection, however much it uses. */
static void set_goal(size_t goal, size_t used, size_t requested, size_t step)
{
    size_t least = used + requested + step;
    goal = at_most(goal, pace.cgroup_bytes);
    if (goal < least)
        goal = least;
    set(&pace.goal, at_most(goal, pace.options.limit_bytes));
}

static bool counts_allocated(void)
{
    return pace.options.policy == POLICY_AUTO && !pace.options.frees;
}

static bool may_defer(void)
{
    return pace.options.policy == POLICY_AUTO && pace.options.frees && !pace.options.initial_bytes;
}

struct bounds {
    unsigned least_percent, first_percent, most_percent;
    size_t least_bytes, first_bytes, most_bytes;
};

static struct bounds headroom_bounds(void)
{
    if (pace.options.quarantine)
        return (struct bounds){QUARANTINE_LEAST_PERCENT, QUARANTINE_LEAST_PERCENT,
                               QUARANTINE_MOST_PERCENT,  QUARANTINE_LEAST_BYTES,
                               QUARANTINE_LEAST_BYTES,   QUARANTINE_MOST_BYTES};
    return (struct bounds){HEADROOM_LEAST_PERCENT, HEADROOM_FIRST_PERCENT, HEADROOM_MOST_PERCENT,
                           HEADROOM_LEAST_BYTES,   AUTO_INITIAL_BYTES,     HEADROOM_MOST_BYTES};
}

void pace_init(const struct pace_options *options)
{
    pace.options = *options;
    struct bounds bounds = headroom_bounds();
    pace.headroom_percent = options->limit_bytes > 0 ? bounds.least_percent : bounds.first_percent;
    pace.least_headroom = options->initial_bytes     ? options->initial_bytes
                          : options->limit_bytes > 0 ? bounds.least_bytes
                                                     : bounds.first_bytes;
    pace.nursery = NURSERY_FIRST_BYTES;
    size_t group = control_group_limit();
    pace.cgroup_bytes = group - group / 8;
    size_t initial = options->initial_bytes;
    if (initial == 0)
        initial = options->policy == POLICY_BOEHM ? BOEHM_INITIAL_BYTES : bounds.first_bytes;
    set_goal(counts_allocated() ? SIZE_MAX / 2 : initial, 0, 0, 0);
    pace.headroom = counts_allocated() ? initial : 0;
    set(&pace.due, counts_allocated() ? initial : SIZE_MAX);
    set(&pace.unconditional, may_defer() ? at_most(UNCONDITIONAL_BYTES, pace.cgroup_bytes) : 0);
    pace.cost = (1 << 20) / GUESSED_BYTES_PER_NS;
    pace.last_ns = monotonic_ns();
}

size_t pace_headroom(void)
{
    return pace.headroom;
}

size_t pace_goal(void)
{
    size_t goal = get(&pace.goal);
    return counts_allocated() ? at_most(pace.live + pace.headroom, goal) : goal;
}

static bool is_affordable(size_t used)
{
    uint64_t expected = (used >> 20) * pace.cost;
    return expected <= (monotonic_ns() - pace.last_ns) / 100 * OVERHEAD_AFFORDABLE;
}

bool pace_is_full(size_t used, size_t bytes)
{
    if (used + bytes <= get(&pace.goal))
        return false;
    if (used + bytes > get(&pace.unconditional) || is_affordable(used))
        return true;
    set(&pace.goal, used + bytes + used / 16); /* no need to look at the clock until then */
    return false;
}

void pace_without_clock(void)
{
    set(&pace.unconditional, 0);
}

bool pace_is_due(size_t allocated)
{
    return allocated > get(&pace.due);
}

bool pace_puts_off(size_t used, size_t allocated)
{
    return pace.options.quarantine && !pace.options.initial_bytes &&
           !atomic_load_explicit(&pace.was_tried, memory_order_relaxed) &&
           allocated < used / 100 * QUARANTINE_LEAST_PERCENT;
}

bool pace_is_over_limit(size_t used, size_t bytes)
{
    return pace.options.limit_bytes > 0 && used + bytes > pace.options.limit_bytes;
}

bool pace_has_limit(void)
{
    return pace.options.limit_bytes > 0;
}

/* The last few full collections, each with the minor ones before it, the latest counting most. */
static unsigned overhead_percent(const struct pace_report *report)
{
    uint64_t worked_ns = report->pause_ns + report->slices_ns;
    uint64_t ran_ns = report->ran_ns > report->slices_ns ? report->ran_ns - report->slices_ns : 0;
    pace.smoothed_pause = (pace.smoothed_pause + worked_ns + pace.minor_pause) / 2;
    pace.smoothed_run = (pace.smoothed_run + ran_ns + pace.minor_run) / 2;
    pace.minor_pause = pace.minor_run = 0;
    return (unsigned)(100 * pace.smoothed_pause / (pace.smoothed_pause + pace.smoothed_run + 1));
}

static size_t within(size_t value, size_t least, size_t most)
{
    return value > most ? most : value < least ? least : value;
}

static void adapt(unsigned overhead)
{
    if (pace.options.limit_bytes > 0)
        return;
    struct bounds bounds = headroom_bounds();
    unsigned percent = pace.headroom_percent;
    size_t headroom = pace.least_headroom;
    if (overhead > OVERHEAD_HIGH) {
        percent += percent / 4;
        headroom += headroom / 2;
    } else if (overhead < OVERHEAD_LOW) {
        percent -= percent / 8;
        headroom -= headroom / 4;
    }
    pace.headroom_percent = (unsigned)within(percent, bounds.least_percent, bounds.most_percent);
    if (pace.options.initial_bytes == 0)
        pace.least_headroom = within(headroom, bounds.least_bytes, bounds.most_bytes);
}

static void set_by_study(const struct pace_report *report)
{
    size_t goal = pace_goal();
    if (report->freed < goal / 4)
        goal += goal / 2;
    set_goal(goal, report->used, report->requested, LEAST_STEP_BYTES);
}

static size_t nursery(void)
{
    size_t most = pace.headroom_of_full / NURSERIES_LEAST, least = NURSERY_LEAST_BYTES;
    if (pace.options.initial_bytes > 0)
        least = within(pace.options.initial_bytes / NURSERIES_LEAST, LEAST_STEP_BYTES, least);
    return most == 0 ? pace.nursery : within(most, least, pace.nursery);
}

bool pace_has_minors(void)
{
    bool comes_back = pace.ceased == TOO_MUCH_DIRTY && pace.fulls + 1 >= pace.retry_after;
    return pace.options.generations && (pace.ceased == NOT_CEASED || comes_back);
}

/* What was promoted since the last full collection must leave room for another nursery in the
 * headroom that this collection has set. */
bool pace_wants_minor(void)
{
    return pace.options.generations && pace.is_ready && pace.ceased == NOT_CEASED &&
           pace.promoted + nursery() < pace.headroom_of_full;
}

/* The last full collection tells how long a full marking takes. Before the first one it is
 * guessed. */
bool pace_wants_cycle(void)
{
    bool is_first = pace.full_mark_ns == 0;
    uint64_t expected = is_first ? (pace_goal() >> 20) * pace.cost : pace.full_mark_ns;
    return pace.options.policy == POLICY_AUTO && expected >= WORTH_CYCLE_NS;
}

size_t pace_room_of_cycle(void)
{
    size_t headroom = pace.headroom_of_full ? pace.headroom_of_full : pace.headroom;
    size_t room = headroom / CYCLES_IN_HEADROOM;
    return room > NURSERY_LEAST_BYTES ? room : NURSERY_LEAST_BYTES;
}

/* Stops and roots are what a larger nursery makes rarer. Where they alone take longer than a pause
 * is to be, no nursery is small enough: then there is no goal. */
static void adapt_nursery(const struct pace_report *report)
{
    uint64_t fixed = 100 * report->fixed_ns / (report->pause_ns + report->ran_ns + 1);
    size_t bytes = pace.nursery;
    uint64_t goal_ns = pace.options.pause_goal_ns;
    if (report->fixed_ns >= goal_ns)
        goal_ns = 0;
    bool too_long = goal_ns > 0 && report->pause_ns > goal_ns;
    if (too_long || (fixed < FIXED_LOW && bytes > NURSERY_FIRST_BYTES))
        bytes -= bytes / 4;
    else if (fixed > FIXED_HIGH && goal_ns == 0)
        bytes += bytes / 2;
    pace.nursery = within(bytes, NURSERY_LEAST_BYTES, HEADROOM_MOST_BYTES);
}

void pace_without_minors(void)
{
    pace.options.generations = false;
}

/* Not asked with a pause to aim at: a minor collection is short whatever it frees. */
static bool is_much(size_t promoted, size_t handed_out)
{
    return pace.options.pause_goal_ns == 0 && !pace.options.always_minors &&
           promoted > handed_out / 2;
}

bool pace_much_lives(size_t promoted, size_t allocated)
{
    return is_much(promoted, allocated - pace.handed_out);
}

static bool much_lives(const struct pace_report *report)
{
    return pace_much_lives(report->promoted, report->allocated);
}

static bool much_is_dirty(const struct pace_report *report)
{
    return !pace.options.always_minors && report->followed > report->live / 2;
}

static void judge_minor(const struct pace_report *report)
{
    pace.fulls = 0;
    if (much_is_dirty(report)) {
        pace.ceased = TOO_MUCH_DIRTY;
        pace.retry_after = pace.retry_after == 0           ? 1
                           : pace.retry_after < RETRY_MOST ? 2 * pace.retry_after
                                                           : RETRY_MOST;
        return;
    }
    pace.retry_after = 0;
    if (much_lives(report))
        pace.ceased = TOO_MUCH_LIVES;
}

/* Whether there are to be minor ones after a full collection. */
static void judge_full(bool much_lives)
{
    pace.fulls++;
    if (pace.ceased == TOO_MUCH_DIRTY && pace.fulls < pace.retry_after)
        return;
    pace.ceased = much_lives ? TOO_MUCH_LIVES : NOT_CEASED;
}

void pace_swept(size_t promoted)
{
    judge_full(is_much(promoted, pace.handed_out_before));
}

static void set_after_minor(const struct pace_report *report)
{
    pace.promoted += report->promoted;
    pace.minor_pause += report->pause_ns;
    pace.minor_run += report->ran_ns;
    judge_minor(report);
    adapt_nursery(report);
    pace.handed_out = report->allocated;
    size_t left = pace.promoted < pace.headroom_of_full ? pace.headroom_of_full - pace.promoted : 0;
    size_t room = pace_wants_minor() || left < nursery() ? nursery() : left;
    if (counts_allocated()) {
        pace.live = report->live;
        pace.headroom = room;
        set(&pace.due, report->allocated + room);
        return;
    }
    set_goal(get(&pace.goal), report->used, report->requested, nursery());
    pace.last_ns = monotonic_ns();
}

void pace_collected(const struct pace_report *report)
{
    atomic_store_explicit(&pace.was_tried, true, memory_order_relaxed);
    pace.last_mark_ns[report->minor] = report->mark_ns;
    pace.is_ready = report->ready;
    if (report->minor) {
        set_after_minor(report);
        return;
    }
    pace.promoted = 0;
    pace.full_mark_ns = report->mark_ns + report->slices_ns;
    if (!report->unswept)
        judge_full(much_lives(report));
    pace.handed_out_before = report->allocated - pace.handed_out;
    pace.handed_out = report->allocated;
    if (pace.options.policy == POLICY_BOEHM) {
        set_by_study(report);
        return;
    }
    adapt(overhead_percent(report));
    size_t headroom = (report->live + report->roots) / 100 * pace.headroom_percent;
    if (headroom < pace.least_headroom)
        headroom = pace.least_headroom;
    pace.headroom_of_full = headroom;
    size_t step = headroom / 2 > AUTO_LEAST_STEP_BYTES ? headroom / 2 : AUTO_LEAST_STEP_BYTES;
    if (counts_allocated()) {
        pace.headroom = pace_wants_minor() ? nursery() : headroom;
        pace.live = report->live;
        set(&pace.due, report->allocated + pace.headroom);
        set_goal(SIZE_MAX / 2, report->used, report->requested, step);
        return;
    }
    set_goal(report->live + headroom, report->used, report->requested, step);
    pace.last_ns = monotonic_ns();
    pace.cost =
        (report->pause_ns + report->slices_ns) / ((report->live + report->roots) / (1 << 20) + 1);
    bool leaks_much = report->freed > report->live / 4;
    size_t unconditional =
        4 * pace_goal() > UNCONDITIONAL_BYTES ? 4 * pace_goal() : UNCONDITIONAL_BYTES;
    set(&pace.unconditional,
        may_defer() && !leaks_much ? at_most(unconditional, pace.cgroup_bytes) : 0);
}

/* If no collection is possible, the caller does not hold the collector's lock. The plain fields
 * that are read here may then be out of date, which does no harm: the goal is an estimate. */
void pace_given_up(size_t used, size_t allocated, size_t requested)
{
    size_t goal = pace_goal(), more = used + used / 2;
    set_goal(more > goal ? more : goal, used, requested, LEAST_STEP_BYTES);
    size_t later = pace.least_headroom;
    atomic_store_explicit(&pace.was_tried, true, memory_order_relaxed);
    if (pace.options.quarantine && later < QUARANTINE_RETRY_BYTES)
        later = QUARANTINE_RETRY_BYTES;
    if (counts_allocated())
        set(&pace.due, allocated + later);
}

unsigned pace_helpers(bool minor, unsigned most)
{
    uint64_t worth = WORTH_HELPERS_NS;
    if (pace.options.pause_goal_ns > 0 && pace.options.pause_goal_ns < worth)
        worth = pace.options.pause_goal_ns;
    if (most == 0 || pace.last_mark_ns[minor] < worth)
        return 0;
    unsigned idle = process_idle_processors();
    return idle < most ? idle : most;
}
