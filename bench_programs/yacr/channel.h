/* SPDX-License-Identifier: MIT
 *
 * channel.h: the problem, a channel between two rows of pins.
 *
 * Like everything in yacr, what these functions make is never freed.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_YACR_CHANNEL_H
#define ALLOTROPE_BENCH_PROGRAMS_YACR_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

enum side { TOP, BOTTOM, SIDES };

struct net {
    int first, last; /* outermost columns with a pin; first > last: the number is not in use */
    int pins;
};

struct channel {
    int columns, nets;  /* nets are numbered from 1 */
    int *pins[SIDES];   /* the net of each column's pin, or 0 */
    struct net *net;    /* [1, nets] */
    int density;        /* the most nets that cross one column */
    int densest_column; /* the one nearest to the middle, among equals */
};

/* Reads a file of the words "top" and "bottom", each before as many net numbers; '#' begins a
 * comment. Ends the program with a line that names what is wrong. */
struct channel *channel_read(const char *path);

/* A random channel; density: at most. */
struct channel *channel_generate(int columns, int density, uint64_t seed);

#endif
