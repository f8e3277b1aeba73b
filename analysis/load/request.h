/* SPDX-License-Identifier: MIT
 *
 * request.h: what the load sends, made from the user's texts.
 */
#ifndef ALLOTROPE_ANALYSIS_LOAD_REQUEST_H
#define ALLOTROPE_ANALYSIS_LOAD_REQUEST_H

#include <stddef.h>
#include <stdint.h>

/* A generator of numbers that are the same for the same seed (splitmix64; S. Vigna). */
struct random {
    uint64_t state;
};

uint64_t random_next(struct random *random);

/* Evenly within [0, 1). */
double random_share(struct random *random);

/* What requests are made from. */
struct request_plan {
    char **texts; /* taken at random, each as often */
    size_t count;
    uint64_t keys;            /* {key}: from 0 to below this */
    uint64_t least, greatest; /* {size}, and {data} of that many bytes */
    struct random random;
};

/* The user's text with \r \n \t \\ resolved, in place. */
void request_unescape(char *text);

/* Writes the next request; returns its length, 0 when it does not fit. */
size_t request_make(struct request_plan *plan, char *into, size_t room);

#endif
