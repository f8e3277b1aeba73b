/* SPDX-License-Identifier: MIT
 *
 * cfrac.c: factors numbers; after the first program of Zorn's study.
 *
 * The study's cfrac factored a 33-digit product of two primes, which took some three to four
 * million numbers, nearly all dead within a few dozen instructions and each of them a block. This
 * program is written anew for the same load: the same method, numbers allocated one by one,
 * immutable, shared and counted, in three builds (number.h):
 *
 *   cfrac            counted, with free lists of its own     (the study's "optimised")
 *   cfrac_malloc     counted, every number from malloc       ("unoptimised")
 *   cfrac_uncounted  not counted and never freed             (for a collector)
 *
 * Source of the load: Zorn, CU-CS-573-92, section 3.
 */
#include "bench_programs/cfrac/factor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char default_number[] = "113113306720227296394643110828829";

enum { MAX_FACTORS = 2048, MAX_DIGITS = 600 };

struct factors {
    struct number *list[MAX_FACTORS];
    int count;
};

/* number is consumed. */
static void factors_add(struct factors *factors, struct number *number)
{
    int at = factors->count++;
    for (; at && number_compare(factors->list[at - 1], number) > 0; at--)
        factors->list[at] = factors->list[at - 1];
    factors->list[at] = number;
}

/* Divides the primes below TRIAL_LIMIT out of *number into factors. */
static void divide_small_primes(struct factors *factors, struct number **number)
{
    for (const uint32_t *p = small_primes(); *p; p++) {
        while (number_modulo_small(*number, *p) == 0) {
            struct number *prime = number_from(*p);
            number_set(number, number_divide(*number, prime, NULL));
            factors_add(factors, prime);
        }
    }
}

/* number is consumed and has no prime factor below TRIAL_LIMIT. */
static void split(struct factors *factors, struct number *number)
{
    if (number_is_one(number)) {
        number_release(number);
        return;
    }
    if (number_is_probable_prime(number)) {
        factors_add(factors, number);
        return;
    }
    struct number *factor = number_square_root(number), *square = number_multiply(factor, factor);
    if (number_compare(square, number) != 0)
        number_set(&factor, continued_fraction_factor(number));
    number_release(square);
    if (!factor) {
        char *text = number_text(number);
        fprintf(stderr, "cfrac: cannot split %s: the power of a prime, perhaps\n", text);
        exit(1);
    }
    struct number *other = number_divide(number, factor, NULL);
    number_release(number);
    split(factors, factor);
    split(factors, other);
}

static void print_factors(const char *text, const struct factors *factors)
{
    printf("%s =", text);
    for (int i = 0; i < factors->count; i++) {
        char *factor = number_text(factors->list[i]);
        printf("%s %s", i ? " *" : "", factor);
        free(factor);
    }
    putchar('\n');
}

/* False, with a line that says why, for what is not a number from 1 on. */
static bool factor_text(const char *text)
{
    struct number *number = strlen(text) > MAX_DIGITS ? NULL : number_parse(text);
    if (!number || number_is_zero(number)) {
        fprintf(stderr, "cfrac: bad number '%s'; give 1 to %d decimal digits, not 0\n", text,
                MAX_DIGITS);
        return false;
    }
    struct factors factors = {.count = 0};
    divide_small_primes(&factors, &number);
    split(&factors, number);
    if (!factors.count)
        factors_add(&factors, number_from(1));
    print_factors(text, &factors);
    for (int i = 0; i < factors.count; i++)
        number_release(factors.list[i]);
    return true;
}

/* Takes an option off the arguments. False, with a line that says why, for a bad one. */
static bool take_option(const char *text, bool *statistics)
{
    static const char base[] = "--base=";
    if (!strcmp(text, "--statistics")) {
        *statistics = true;
        return true;
    }
    char *end = NULL;
    long primes = 0;
    if (!strncmp(text, base, sizeof base - 1))
        primes = strtol(text + sizeof base - 1, &end, 10);
    if (!end || *end || primes < LEAST_BASE || primes > MOST_BASE) {
        fprintf(stderr, "cfrac: bad option '%s'; give --statistics, or --base= with %d to %d\n",
                text, LEAST_BASE, MOST_BASE);
        return false;
    }
    base_size_set((uint32_t)primes);
    return true;
}

int main(int argc, char **argv)
{
    bool statistics = false;
    if (argc > 1 && !strcmp(argv[1], "--help")) {
        printf("usage: %s [--statistics] [--base=PRIMES] [NUMBER]...\nfactors each NUMBER (%s)\n",
               argv[0], default_number);
        return 0;
    }
    int first = 1;
    for (; first < argc && !strncmp(argv[first], "--", 2); first++)
        if (!take_option(argv[first], &statistics))
            return 2;
    if (first == argc)
        factor_text(default_number);
    for (int i = first; i < argc; i++)
        if (!factor_text(argv[i]))
            return 2;
    if (statistics)
        fprintf(stderr, "numbers: %" PRIu64 " made, %" PRIu64 " by malloc\n", numbers_made(),
                numbers_from_malloc());
    return 0;
}
