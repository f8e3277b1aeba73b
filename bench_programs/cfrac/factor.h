/* SPDX-License-Identifier: MIT
 *
 * factor.h: prime factors by trial division and Morrison and Brillhart's method.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_CFRAC_FACTOR_H
#define ALLOTROPE_BENCH_PROGRAMS_CFRAC_FACTOR_H

#include "bench_programs/cfrac/number.h"

/* True for every prime; false for a composite except with negligible probability (strong
 * pseudoprime to the first twelve primes: none below 3.3 * 10^24; Sorenson & Webster 2015). */
bool number_is_probable_prime(const struct number *candidate);

/* A proper factor of a number without prime factors below TRIAL_LIMIT that is neither prime nor
 * a square; NULL when every multiplier has failed. The caller owns the result. */
struct number *continued_fraction_factor(const struct number *number);

/* The primes below this are divided out first. */
enum { TRIAL_LIMIT = 100000 };

/* How many primes the base has from now on; 0: as suits the number. A larger base finds relations
 * sooner and keeps more of them: its square is the size of the heap. */
enum { LEAST_BASE = 32, MOST_BASE = 4000 };
void base_size_set(uint32_t primes);

/* The primes below TRIAL_LIMIT in order, ended by 0; made at the first call. */
const uint32_t *small_primes(void);

#endif
