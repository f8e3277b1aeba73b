/* SPDX-License-Identifier: MIT
 *
 * ended_waits.h: whether a collection has ended a wait, and what is left of the wait's limit.
 */
#ifndef ALLOTROPE_SHIM_SYSTEM_CALLS_ENDED_WAITS_H
#define ALLOTROPE_SHIM_SYSTEM_CALLS_ENDED_WAITS_H

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "shim/route/route.h"
#include "vm/clock.h"

/* A system call that a collection may end early. */
struct wait {
    uint32_t (*ended_waits)(void); /* of the allocator; NULL: none is restarted */
    uint32_t ended;
    int error;        /* errno before it, which a wait that is restarted leaves */
    int64_t begun_ns; /* of one with a limit */
};

/* How the allocator tells of ended waits. NULL: there are no collections, and nothing is to be
 * asked of the kernel: the process may be in a sandbox. */
static inline uint32_t (*collections_end_waits(void))(void)
{
    const struct allocator *allocator = route_resolve()->allocator;
    return allocator->ended_waits && allocator->needs_pins() ? allocator->ended_waits : NULL;
}

/* may_end: whether a collection can end the call. If not, no function below asks for anything. */
static inline struct wait begin_wait(bool may_end, bool has_limit)
{
    struct wait wait = {.ended_waits = may_end ? collections_end_waits() : NULL};
    if (wait.ended_waits) {
        wait.ended = wait.ended_waits();
        wait.error = errno;
        wait.begun_ns = has_limit ? (int64_t)monotonic_ns() : 0;
    }
    return wait;
}

/* Whether a collection, and no handler of the program's after it, has ended a system call of this
 * thread since the last question. */
static inline bool was_interrupted(struct wait *wait)
{
    if (!wait->ended_waits)
        return false;
    uint32_t before = wait->ended;
    wait->ended = wait->ended_waits();
    if (wait->ended == before || wait->ended % 2 == 0)
        return false;
    errno = wait->error;
    return true;
}

/* Whether a handler of the program's has run since the last question, and no collection after it.
 * Needs wait->ended_waits. */
static inline bool handler_came_last(const struct wait *wait)
{
    uint32_t now = wait->ended_waits();
    return now != wait->ended && now % 2 == 0;
}

/* Whether a collection may have ended the wait that has this result. */
static inline bool may_be_restarted(const struct wait *wait, long result)
{
    return result < 0 && errno == EINTR && wait->ended_waits;
}

/* Whether a collection has ended a wait that has no limit, so that it begins again unchanged. */
static inline bool must_begin_again(struct wait *wait, long result)
{
    return may_be_restarted(wait, result) && was_interrupted(wait);
}

static inline int remaining_ms(const struct wait *wait, int64_t limit_ns)
{
    int64_t remaining_ns = wait->begun_ns + limit_ns - (int64_t)monotonic_ns();
    int64_t remaining = remaining_ns > 0 ? (remaining_ns + 999999) / 1000000 : 0;
    return remaining < INT_MAX ? (int)remaining : INT_MAX;
}

/* Our poll, whatever the program calls by that name. */
__attribute__((visibility("hidden"))) int own_poll(struct pollfd *descriptors, nfds_t count,
                                                   int timeout_ms);

/* A span of more than a century is returned unchanged. */
static inline struct timespec remaining_span(const struct wait *wait, struct timespec span)
{
    const int64_t second_ns = 1000000000, most_seconds = INT64_MAX / second_ns / 2;
    if (span.tv_sec > most_seconds)
        return span;
    int64_t left_ns =
        wait->begun_ns + span.tv_sec * second_ns + span.tv_nsec - (int64_t)monotonic_ns();
    left_ns = left_ns > 0 ? left_ns : 0;
    return (struct timespec){.tv_sec = left_ns / second_ns, .tv_nsec = left_ns % second_ns};
}

#endif
