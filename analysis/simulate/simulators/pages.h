/* SPDX-License-Identifier: MIT
 *
 * pages.h: page faults under LRU for every memory size, in one pass.
 *
 * A memory of F frames faults at the first touch of a page (cold) and wherever F or more other
 * pages were touched since the page was touched last (replacement). Both are counted by the class
 * of the reference that faults. Of several page sizes each has a simulator of its own.
 *
 * Sampled, only pages are followed whose hash falls under a threshold, and what they show is
 * scaled up (SHARDS: Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015).
 * The threshold starts at "all" and is halved whenever more than PAGES_SAMPLED_MOST pages are
 * followed, so that PAGES_SAMPLED_LEAST remain; with fewer pages than that the result is exact.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_PAGES_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_PAGES_H

#include <stdbool.h>

#include "analysis/simulate/simulators/lru_stack.h"
#include "analysis/simulate/simulators/reference.h"

enum {
    PAGES_SAMPLED_LEAST = 8192,
    /* Half of this, less five standard deviations of a binomial, is the least. */
    PAGES_SAMPLED_MOST = 17536,
};

struct pages_options {
    uint64_t page_bytes; /* a power of two, at least 16 */
    bool sampled;
};

struct pages;

/* Returns NULL when memory is short. One simulator belongs to one thread at a time. */
struct pages *pages_new(const struct pages_options *options);
void pages_free(struct pages *pages);

/* Takes a batch. Returns false, for good, when memory is short or a reference cannot be
 * simulated; pages_error then says why. */
bool pages_feed(struct pages *pages, const struct references *references);
/* NULL while all is well. The text belongs to the simulator. */
const char *pages_error(const struct pages *pages);

/* To be called before anything is fed, of a simulator that pages_join() is to take in. */
void pages_keep_first_touches(struct pages *pages);
/* Takes in one that was fed what comes behind what `pages` was fed, which then is as if it had been
 * fed all. Both are of one page size, not sampled and without error; `later` is to be freed and
 * nothing else. Returns false when memory is short. */
bool pages_join(struct pages *pages, struct pages *later);

/* To a file, and back for pages_join(), as one that was fed something and will be fed no more. A
 * simulator that is written must have kept first touches, and is then to be freed and nothing else.
 * False and NULL when memory is short, or the file cannot be written or has none. */
bool pages_write(struct pages *pages, FILE *file);
struct pages *pages_read(const struct pages_options *options, FILE *file);

/* Cold touches and touches at each distance, of one class. A memory of F frames has the sum of
 * the touches at distances from F on as its replacement faults. Distance 0 lacks touches of the
 * page touched last, which fault in no memory. Returns NULL when memory is short. The histogram
 * belongs to the simulator and is current until the next batch. */
const struct lru_histogram *pages_histogram(struct pages *pages, unsigned class);
/* The sum over all classes; the caller frees its row. Returns false when memory is short. */
bool pages_sum_histograms(struct pages *pages, struct lru_histogram *sum);
struct reference_totals pages_class_totals(const struct pages *pages, unsigned class);

/* One page in 2^this is followed; 0 when all are. */
unsigned pages_halvings(const struct pages *pages);
/* Pages followed now. */
size_t pages_followed(const struct pages *pages);

#endif
