/* SPDX-License-Identifier: MIT
 *
 * number.h: natural numbers of any length, one block each.
 *
 * Numbers are immutable and shared. Who gets one from a function here owns a reference and gives
 * it back with number_release; arguments are borrowed. Two constants of the build decide what
 * that costs, and make the three programs of the study:
 *
 *   CFRAC_COUNTING    1: references are counted, a number without any is freed.
 *                     0: nothing is counted or freed; a collector has to find what is dead.
 *   CFRAC_FREE_LISTS  1: freed numbers are kept on a list for each length (the program's own
 *                        "domain-specific" allocator) and malloc sees only the lists' growth.
 *                     0: every number is a malloc, and a free.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_CFRAC_NUMBER_H
#define ALLOTROPE_BENCH_PROGRAMS_CFRAC_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct number {
    uint32_t references;
    uint16_t capacity; /* digits that the block has room for */
    uint16_t length;   /* digits; the leading one is not zero; zero has none */
    uint32_t digits[]; /* the least significant first */
};

struct number *number_from(uint64_t value);
/* Decimal digits only; NULL for anything else. */
struct number *number_parse(const char *text);
/* Decimal, from malloc; the caller frees it. */
char *number_text(const struct number *number);

struct number *number_retain(struct number *number);
void number_release(struct number *number);
/* *place = number, which is consumed; what stood there is released. */
void number_set(struct number **place, struct number *number);

struct number *number_add(const struct number *a, const struct number *b);
/* a - b; b is not greater than a. */
struct number *number_subtract(const struct number *a, const struct number *b);
struct number *number_multiply(const struct number *a, const struct number *b);
/* a / b, rounded down; the remainder in *remainder unless that is NULL. b is not zero. */
struct number *number_divide(const struct number *a, const struct number *b,
                             struct number **remainder);
struct number *number_modulo(const struct number *a, const struct number *b);
struct number *number_gcd(const struct number *a, const struct number *b);
/* Rounded down. */
struct number *number_square_root(const struct number *a);

/* -1, 0, 1 as a is less than, equal to or greater than b. */
int number_compare(const struct number *a, const struct number *b);
bool number_is_zero(const struct number *a);
bool number_is_one(const struct number *a);
uint32_t number_modulo_small(const struct number *a, uint32_t divisor);
double number_log(const struct number *a);

/* How many numbers have been made, and how many of them by malloc. */
uint64_t numbers_made(void);
uint64_t numbers_from_malloc(void);

#endif
