/* SPDX-License-Identifier: MIT
 *
 * options.h: what is asked of allotrope-simulate.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_OPTIONS_H
#define ALLOTROPE_ANALYSIS_SIMULATE_OPTIONS_H

#include <stdbool.h>

#include "analysis/simulate/filter.h"
#include "analysis/simulate/reference_source.h"
#include "analysis/simulate/simulators/caches.h"
#include "analysis/simulate/simulators/shapes.h"

enum { SIMULATE_SIZES = 16, SIMULATE_SHAPES = 16, SIMULATE_SETTINGS = 64 };

enum simulate_word { SIMULATE_PAGES, SIMULATE_CACHES, SIMULATE_TLB, SIMULATE_LOCALITY };

/* A size of blocks, which are a cache's lines or a TLB's pages. */
struct simulate_block {
    uint64_t bytes;
    unsigned ways;   /* the largest associativity */
    bool with_stack; /* an LRU stack too, which tells causes */
};

struct simulate_blocks {
    struct simulate_block list[SIMULATE_SIZES];
    size_t count;
};

struct simulate_options {
    const char *path;     /* of a trace, or */
    char *const *command; /* what to run under the recorder */
    const char *tools;    /* the recorder's directory */
    char *environment[SIMULATE_SETTINGS + 1];
    size_t environment_count;
    const char *output; /* "-" is standard output */
    uint64_t count;     /* references at most, of those that pass */
    struct filter filter;
    enum window_clock window_clock;
    uint64_t window; /* how long; 0: not told */
    unsigned threads;
    unsigned jobs;       /* how many share each size; 0: not told */
    int part;            /* which of the jobs alone, from 0; -1: all */
    const char *join;    /* a file with the parts of all jobs, or NULL */
    bool plan;           /* only say how many jobs are of use */
    uint64_t error_over; /* references over which a sample is held against the whole */
    bool sampled;
    uint64_t page_sizes[SIMULATE_SIZES]; /* in bytes */
    size_t page_size_count;
    struct simulate_blocks blocks; /* of caches */
    struct simulate_blocks tlbs;
    unsigned slices; /* of CACHES_SLICES, when sampled */
    bool causes;
    struct shape shapes[SIMULATE_SHAPES];
    size_t shape_count;
    bool straddles_once; /* in shapes */
    bool instructions;   /* misses of shapes by instruction */
};

/* The options of a word; argv[0] is passed over. Ends the program where they make no sense. */
struct simulate_options simulate_options_read(int argc, char **argv, enum simulate_word word);
void simulate_usage(void);

/* Ends the program with one line about what is wrong with the command. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
