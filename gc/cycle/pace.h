/* SPDX-License-Identifier: MIT
 *
 * pace.h: when to collect, at which goal of the heap; whether the next collection is a minor one,
 * and when minor ones no longer pay.
 */
#ifndef ALLOTROPE_GC_CYCLE_PACE_H
#define ALLOTROPE_GC_CYCLE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pace_policy { POLICY_AUTO, POLICY_BOEHM };

struct pace_options {
    enum pace_policy policy;
    bool frees;             /* the program's frees count: collections only find what it leaked */
    bool quarantine;        /* they wait for a collection: bytes that are allocated are, in all that
                             * follows, bytes that are retired */
    size_t initial_bytes;   /* 0: the policy's own */
    size_t limit_bytes;     /* 0: none */
    uint64_t pause_goal_ns; /* 0: none */
    bool generations;       /* there may be minor collections */
    bool always_minors;     /* they do not cease: for tests */
};

/* Called once; reads the memory limit of the process's control group. */
void pace_init(const struct pace_options *options);

/* There will be no more collections, and no more looks at the clock: a sandbox may kill for one. */
void pace_without_clock(void);

/* Whether the heap, which uses `used` bytes, is too full for `bytes` more. If it is not, the call
 * may raise the goal, so that nobody reads the clock until the heap has grown to it. Any thread. */
bool pace_is_full(size_t used, size_t bytes);
/* Whether `allocated` bytes, all that threads have ever taken to hand out, make a collection
 * due. */
bool pace_is_due(size_t allocated);
/* Whether a collection that is due comes too early: the first of a quarantine. What lives is not
 * known yet, so it is taken to be all that the heap uses. Any thread. */
bool pace_puts_off(size_t used, size_t allocated);
/* Whether the heap would pass the limit that the user has set, if it grew by `bytes`. Any
 * thread. */
bool pace_is_over_limit(size_t used, size_t bytes);

/* What a collection has found. All bytes. */
struct pace_report {
    size_t used;      /* by the heap, as it is now or when its threads next look at it */
    size_t allocated; /* taken by threads to hand out, ever */
    size_t requested; /* what did not fit */
    size_t live, freed, roots;
    uint64_t pause_ns, mark_ns;
    uint64_t fixed_ns;  /* of the pause: stopping and the roots */
    uint64_t ran_ns;    /* of the program since the last collection */
    uint64_t slices_ns; /* of it, in slices of a cycle */
    bool minor;
    bool ready;      /* the next could be a minor one */
    size_t promoted; /* has become old */
    bool unswept;    /* what was promoted is not known yet: pace_swept tells */
    size_t followed; /* of a minor collection: promoted, and old blocks that were read again */
};

/* Sets the goal. */
void pace_collected(const struct pace_report *report);
/* After a late sweep: what the last collection has promoted. */
void pace_swept(size_t promoted);
/* A collection was given up: the goal rises, so that the heap grows instead. */
void pace_given_up(size_t used, size_t allocated, size_t requested);

/* How many of `most` helpers a collection is worth, of a heap like that of the last of its kind. */
unsigned pace_helpers(bool minor, unsigned most);

/* Whether a collection that begins now is to be followed by minor ones. */
bool pace_has_minors(void);
/* Whether minor collections cease after a full collection that has promoted `promoted` bytes, since
 * too much lives. The caller then need not prepare for minor collections. allocated: bytes taken by
 * threads, ever. */
bool pace_much_lives(size_t promoted, size_t allocated);
/* Whether the next that is due is a minor one. */
bool pace_wants_minor(void);

/* Whether the next full collection is worth a cycle, by what the last one had to mark. */
bool pace_wants_cycle(void);
/* So many bytes may be handed out until a cycle has marked all. */
size_t pace_room_of_cycle(void);

/* Whether the user has set a limit. */
bool pace_has_limit(void);

/* There are no minor collections, for good. */
void pace_without_minors(void);

/* The bytes that may be handed out until the next collection. 0: the next collection is due by the
 * heap's size instead. */
size_t pace_headroom(void);

/* The size of the heap, in bytes, at which the next collection is due. If it is not due by size:
 * about the size that the heap will have then. */
size_t pace_goal(void);

#endif
