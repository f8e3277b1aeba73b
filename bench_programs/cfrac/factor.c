/* SPDX-License-Identifier: MIT
 *
 * factor.c: the continued-fraction method of Morrison and Brillhart.
 *
 * The continued fraction of sqrt(kN) gives, step by step, numbers A and Q < 2 sqrt(kN) with
 *
 *     A[n-1]^2 = (-1)^n Q[n]  (mod N).
 *
 * A Q that factors over a base of small primes is a relation: a vector of exponents. Relations
 * whose exponents add up to even numbers (found by elimination modulo 2) give X^2 = Y^2 (mod N),
 * and gcd(X - Y, N) is a proper factor every other time.
 *
 *     step      g + P[n] = q[n] Q[n] + r[n],   g = floor(sqrt(kN))
 *               g + P[n+1] = 2 g - r[n]
 *               Q[n+1] = Q[n-1] + q[n] (r[n] - r[n-1])
 *               A[n] = q[n] A[n-1] + A[n-2]  (mod N)
 *
 * Nearly all Q fail, most of them visibly early: after the smallest primes of the base a Q that
 * has hardly shrunk is given up. k is chosen to bring many small primes into the base.
 *
 * Sources: Morrison & Brillhart, "A Method of Factoring and the Factorization of F7", Math.
 * Comp. 29 (1975); early abort: Pomerance & Wagstaff, "Implementation of the continued fraction
 * integer factoring algorithm", Congressus Numerantium 37 (1983); choice of k: Knuth, TAOCP
 * vol. 2, 4.5.4, exercise 28.
 */
#include "bench_programs/cfrac/factor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORD_BITS = 64, LARGEST_MULTIPLIER = 97, SPARE_RELATIONS = 64, MAX_STEPS = 100000000 };

/* After the first quarter of the base a Q must have come below sqrt(kN) / ln N. A harder bound is
 * faster; this one leaves malloc and free the share of the time that they had in 1992. */
enum { EARLY_PART = 4 };

/* A[n-1] with the exponents of its Q; exponents[0] is that of -1, exponents[i] that of base[i]. */
struct relation {
    struct number *a;
    uint8_t *exponents;
};

/* A row of the matrix modulo 2: the parity of the exponents, and which relations it is a sum of. */
struct row {
    uint64_t *parity, *history;
};

struct expansion {
    const struct number *modulus; /* N */
    struct number *root, *twice_root;
    struct number *g_plus_p, *q, *q_before; /* g + P[n], Q[n], Q[n-1] */
    struct number *rest;                    /* r[n-1] */
    struct number *a, *a_before;            /* A[n-1], A[n-2] */
    bool negative;                          /* the sign that Q[n] has in the congruence */
};

struct factoring {
    const struct number *n;
    struct number *kn;
    struct number **base; /* primes; base[0] is NULL and stands for -1 */
    uint32_t base_size, early, words, relation_limit;
    struct number *early_bound; /* what a Q must be below after the first `early` of the base */
    struct relation *relations;
    uint32_t relation_count;
    struct row *pivots; /* by column; parity NULL: none yet */
};

static void *must_have(void *block)
{
    if (!block) {
        fputs("cfrac: no memory\n", stderr);
        exit(4);
    }
    return block;
}

/* Room for a table without pointers, zero; neither in the heap nor in static data, which a
 * conservative collector would read at each collection. */
static void *table_room(size_t bytes)
{
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return must_have(room == MAP_FAILED ? NULL : room);
}

/* There are 9,592 below 100,000. */
static uint32_t *make_primes(void)
{
    enum { PRIMES = 9593 };
    uint32_t *primes = table_room(PRIMES * sizeof *primes), count = 0;
    bool *composite = table_room(TRIAL_LIMIT);
    for (uint32_t p = 2; p < TRIAL_LIMIT; p++) {
        if (composite[p])
            continue;
        primes[count++] = p;
        for (uint64_t multiple = (uint64_t)p * p; multiple < TRIAL_LIMIT; multiple += p)
            composite[multiple] = true;
    }
    munmap(composite, TRIAL_LIMIT);
    return primes;
}

const uint32_t *small_primes(void)
{
    static const uint32_t *primes;
    if (!primes)
        primes = make_primes();
    return primes;
}

static uint64_t power_modulo(uint64_t value, uint64_t exponent, uint64_t modulus)
{
    uint64_t power = 1;
    for (value %= modulus; exponent; exponent /= 2) {
        if (exponent % 2)
            power = power * value % modulus;
        value = value * value % modulus;
    }
    return power;
}

static void multiply_modulo(struct number **place, const struct number *b,
                            const struct number *modulus)
{
    struct number *product = number_multiply(*place, b);
    number_set(place, number_modulo(product, modulus));
    number_release(product);
}

/* candidate - 1 = odd * 2^twos. */
static bool is_strong_pseudoprime(const struct number *candidate, const struct number *odd,
                                  uint32_t twos, uint32_t witness)
{
    struct number *one = number_from(1), *minus_one = number_subtract(candidate, one);
    struct number *base = number_from(witness), *power = number_from(1);
    for (uint32_t bit = (uint32_t)odd->length * 32; bit-- > 0;) {
        multiply_modulo(&power, power, candidate);
        if (odd->digits[bit / 32] >> bit % 32 & 1)
            multiply_modulo(&power, base, candidate);
    }
    bool passes = number_is_one(power) || number_compare(power, minus_one) == 0;
    for (uint32_t i = 1; i < twos && !passes; i++) {
        multiply_modulo(&power, power, candidate);
        passes = number_compare(power, minus_one) == 0;
    }
    number_release(one);
    number_release(minus_one);
    number_release(base);
    number_release(power);
    return passes;
}

bool number_is_probable_prime(const struct number *candidate)
{
    enum { WITNESSES = 12 };
    const uint32_t *primes = small_primes();
    if (number_is_zero(candidate) || number_is_one(candidate))
        return false;
    for (int i = 0; i < WITNESSES; i++)
        if (number_modulo_small(candidate, primes[i]) == 0)
            return candidate->length == 1 && candidate->digits[0] == primes[i];
    struct number *two = number_from(2), *odd = number_divide(candidate, two, NULL);
    uint32_t twos = 1;
    for (; odd->digits[0] % 2 == 0; twos++)
        number_set(&odd, number_divide(odd, two, NULL));
    bool prime = true;
    for (int i = 0; i < WITNESSES && prime; i++)
        prime = is_strong_pseudoprime(candidate, odd, twos, primes[i]);
    number_release(two);
    number_release(odd);
    return prime;
}

/* What the powers of p take off the logarithm of an average Q; Knuth, 4.5.4, exercise 28. */
static double expected_share(uint32_t p, uint32_t kn_modulo_p, uint32_t kn_modulo_8)
{
    double log_p = log(p);
    if (p == 2)
        return (kn_modulo_8 == 1 ? 4 : kn_modulo_8 == 5 ? 2 : 1) * log_p / 3;
    if (kn_modulo_p == 0)
        return log_p / (p + 1);
    if (power_modulo(kn_modulo_p, (p - 1) / 2, p) != 1)
        return 0;
    return 2 * p * log_p / ((double)p * p - 1);
}

static double multiplier_value(const struct number *n, uint32_t k)
{
    const uint32_t *primes = small_primes();
    double value = -log(k) / 2;
    uint32_t kn_modulo_8 = number_modulo_small(n, 8) * k % 8;
    for (int i = 0; primes[i] < 1000; i++) {
        uint32_t kn_modulo_p =
            (uint32_t)((uint64_t)number_modulo_small(n, primes[i]) * k % primes[i]);
        value += expected_share(primes[i], kn_modulo_p, kn_modulo_8);
    }
    return value;
}

static bool is_square_free(uint32_t k)
{
    for (uint32_t divisor = 2; divisor * divisor <= k; divisor++)
        if (k % (divisor * divisor) == 0)
            return false;
    return true;
}

/* The best multiplier that is worse than *value (the first of equals); *value becomes its own.
 * 0 when there is none left. */
static uint32_t next_multiplier(const struct number *n, double *value)
{
    uint32_t best = 0;
    double best_value = 0;
    for (uint32_t k = 1; k <= LARGEST_MULTIPLIER; k++) {
        double this_value = multiplier_value(n, k);
        if (is_square_free(k) && this_value < *value && (!best || this_value > best_value)) {
            best = k;
            best_value = this_value;
        }
    }
    *value = best_value;
    return best;
}

static uint32_t base_size_wanted;

void base_size_set(uint32_t primes)
{
    base_size_wanted = primes;
}

/* The base grows with a power of L(N) = exp(sqrt(ln N ln ln N)), found by trying. */
static uint32_t base_size_for(const struct number *n)
{
    if (base_size_wanted)
        return base_size_wanted;
    double log_n = number_log(n);
    return 12 + (uint32_t)exp(0.31 * sqrt(log_n * log(log_n)));
}

static void factoring_start(struct factoring *work, const struct number *n, uint32_t k)
{
    struct number *multiplier = number_from(k);
    uint32_t size = base_size_for(n), count = 1;
    *work = (struct factoring){.n = n, .kn = number_multiply(n, multiplier)};
    number_release(multiplier);
    work->base = must_have(malloc(size * sizeof *work->base));
    work->base[0] = NULL;
    for (const uint32_t *p = small_primes(); *p && count < size; p++) {
        uint32_t kn_modulo_p = number_modulo_small(work->kn, *p);
        if (*p == 2 || kn_modulo_p == 0 || power_modulo(kn_modulo_p, (*p - 1) / 2, *p) == 1)
            work->base[count++] = number_from(*p);
    }
    work->base_size = count;
    work->relation_limit = count + SPARE_RELATIONS;
    work->words = (work->relation_limit + WORD_BITS - 1) / WORD_BITS;
    work->relations = must_have(calloc(work->relation_limit, sizeof *work->relations));
    work->pivots = must_have(calloc(count, sizeof *work->pivots));
    work->early = count / EARLY_PART;
    struct number *root = number_square_root(work->kn);
    struct number *shrink = number_from((uint64_t)number_log(n));
    work->early_bound = number_divide(root, shrink, NULL);
    number_release(root);
    number_release(shrink);
}

static void factoring_end(struct factoring *work)
{
    for (uint32_t i = 0; i < work->relation_count; i++) {
        number_release(work->relations[i].a);
        free(work->relations[i].exponents);
    }
    for (uint32_t i = 0; i < work->base_size; i++) {
        free(work->pivots[i].parity);
        free(work->pivots[i].history);
    }
    for (uint32_t i = 1; i < work->base_size; i++)
        number_release(work->base[i]);
    free(work->relations);
    free(work->pivots);
    free(work->base);
    number_release(work->early_bound);
    number_release(work->kn);
}

static void expansion_start(struct expansion *at, const struct factoring *work)
{
    at->modulus = work->n;
    at->root = number_square_root(work->kn);
    at->twice_root = number_add(at->root, at->root);
    at->g_plus_p = number_retain(at->root);
    at->q = number_from(1);
    at->q_before = number_retain(work->kn);
    at->rest = number_retain(at->root);
    at->a = number_from(1);
    at->a_before = number_from(0);
    at->negative = false;
}

static void expansion_end(struct expansion *at)
{
    struct number *all[] = {at->root,     at->twice_root, at->g_plus_p, at->q,
                            at->q_before, at->rest,       at->a,        at->a_before};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        number_release(all[i]);
}

/* Q[n+1] = Q[n-1] + q[n] (r[n] - r[n-1]), in natural numbers. */
static struct number *next_q(const struct expansion *at, const struct number *quotient,
                             const struct number *rest)
{
    bool falls = number_compare(rest, at->rest) < 0;
    struct number *change =
        falls ? number_subtract(at->rest, rest) : number_subtract(rest, at->rest);
    number_set(&change, number_multiply(quotient, change));
    struct number *q =
        falls ? number_subtract(at->q_before, change) : number_add(at->q_before, change);
    number_release(change);
    return q;
}

/* From n to n + 1. */
static void expansion_step(struct expansion *at)
{
    struct number *rest, *quotient = number_divide(at->g_plus_p, at->q, &rest);
    struct number *q = next_q(at, quotient, rest);
    number_set(&at->q_before, at->q);
    at->q = q;
    number_set(&at->rest, rest);
    number_set(&at->g_plus_p, number_subtract(at->twice_root, rest));

    struct number *product = number_multiply(quotient, at->a);
    struct number *sum = number_add(product, at->a_before);
    number_set(&at->a_before, at->a);
    at->a = number_modulo(sum, at->modulus);
    number_release(product);
    number_release(sum);
    number_release(quotient);
    at->negative = !at->negative;
}

/* Factors Q over the base into exponents; false when it cannot be, or looks hopeless. */
static bool factor_over_base(const struct factoring *work, struct number *q, uint8_t *exponents)
{
    struct number *rest = number_retain(q);
    memset(exponents, 0, work->base_size);
    for (uint32_t i = 1; i < work->base_size && !number_is_one(rest); i++) {
        if (i == work->early && number_compare(rest, work->early_bound) > 0)
            break;
        while (number_modulo_small(rest, work->base[i]->digits[0]) == 0) {
            number_set(&rest, number_divide(rest, work->base[i], NULL));
            exponents[i]++;
        }
    }
    bool smooth = number_is_one(rest);
    number_release(rest);
    return smooth;
}

static struct row row_for(const struct factoring *work, uint32_t relation)
{
    struct row row = {must_have(calloc(work->words, sizeof(uint64_t))),
                      must_have(calloc(work->words, sizeof(uint64_t)))};
    const uint8_t *exponents = work->relations[relation].exponents;
    for (uint32_t i = 0; i < work->base_size; i++)
        row.parity[i / WORD_BITS] |= (uint64_t)(exponents[i] & 1) << i % WORD_BITS;
    row.history[relation / WORD_BITS] |= UINT64_C(1) << relation % WORD_BITS;
    return row;
}

/* Adds pivots to the row until its parity is zero (true) or it is a pivot itself (false). */
static bool eliminate(struct factoring *work, struct row *row)
{
    for (uint32_t column = 0; column < work->base_size; column++) {
        if (!(row->parity[column / WORD_BITS] >> column % WORD_BITS & 1))
            continue;
        struct row *pivot = &work->pivots[column];
        if (!pivot->parity) {
            *pivot = *row;
            return false;
        }
        for (uint32_t word = 0; word < work->words; word++) {
            row->parity[word] ^= pivot->parity[word];
            row->history[word] ^= pivot->history[word];
        }
    }
    return true;
}

/* X^2 = Y^2 from the relations in `history`; gcd(X - Y, N), which may be 1 or N. */
static struct number *factor_from(const struct factoring *work, const uint64_t *history)
{
    struct number *x = number_from(1), *y = number_from(1);
    uint32_t *sums = must_have(calloc(work->base_size, sizeof *sums));
    for (uint32_t i = 0; i < work->relation_count; i++) {
        if (!(history[i / WORD_BITS] >> i % WORD_BITS & 1))
            continue;
        multiply_modulo(&x, work->relations[i].a, work->n);
        for (uint32_t j = 1; j < work->base_size; j++)
            sums[j] += work->relations[i].exponents[j];
    }
    for (uint32_t j = 1; j < work->base_size; j++)
        for (uint32_t half = sums[j] / 2; half; half--)
            multiply_modulo(&y, work->base[j], work->n);
    free(sums);
    bool x_greater = number_compare(x, y) > 0;
    struct number *difference = x_greater ? number_subtract(x, y) : number_subtract(y, x);
    struct number *factor = number_gcd(difference, work->n);
    number_release(difference);
    number_release(x);
    number_release(y);
    return factor;
}

/* A proper factor, or NULL, after a new relation. */
static struct number *relation_add(struct factoring *work, const struct expansion *at,
                                   uint8_t *exponents)
{
    uint32_t relation = work->relation_count++;
    exponents[0] = at->negative;
    work->relations[relation] = (struct relation){number_retain(at->a), exponents};
    struct row row = row_for(work, relation);
    if (!eliminate(work, &row))
        return NULL;
    struct number *factor = factor_from(work, row.history);
    free(row.parity);
    free(row.history);
    if (!number_is_one(factor) && number_compare(factor, work->n) != 0)
        return factor;
    number_release(factor);
    return NULL;
}

static struct number *factor_with_multiplier(const struct number *n, uint32_t k)
{
    struct factoring work;
    struct expansion at;
    struct number *factor = NULL;
    factoring_start(&work, n, k);
    expansion_start(&at, &work);
    uint8_t *exponents = must_have(malloc(work.base_size));
    for (uint32_t step = 0; step < MAX_STEPS && !factor; step++) {
        expansion_step(&at);
        bool period_ends = number_is_one(at.q);
        if (factor_over_base(&work, at.q, exponents)) {
            factor = relation_add(&work, &at, exponents);
            exponents = must_have(malloc(work.base_size));
        }
        if (period_ends || work.relation_count == work.relation_limit)
            break;
    }
    free(exponents);
    expansion_end(&at);
    factoring_end(&work);
    return factor;
}

struct number *continued_fraction_factor(const struct number *number)
{
    double value = INFINITY;
    struct number *factor = NULL;
    for (uint32_t k; !factor && (k = next_multiplier(number, &value)) != 0;)
        factor = factor_with_multiplier(number, k);
    return factor;
}
