/* SPDX-License-Identifier: MIT
 *
 * number.c: schoolbook arithmetic on digits of 32 bits, and the life of a number.
 *
 * Numbers of a factorisation are short (a 33-digit product has four digits here), so nothing
 * beyond the schoolbook pays. Division is Knuth's algorithm D (TAOCP vol. 2, 4.3.1), the square
 * root Newton's iteration from above (Cohen, "A Course in Computational Algebraic Number
 * Theory", algorithm 1.7.1).
 */
#include "bench_programs/cfrac/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED_LENGTHS = 16 };

static uint64_t made, from_malloc;

/* Freed numbers, linked through the first word of each. */
static struct number *free_lists[LISTED_LENGTHS];

static struct number *list_take(size_t length)
{
    struct number *number = free_lists[length];
    if (number)
        memcpy(&free_lists[length], number, sizeof(struct number *));
    return number;
}

static void list_put(struct number *number)
{
    uint16_t length = number->capacity;
    memcpy(number, &free_lists[length], sizeof(struct number *));
    free_lists[length] = number;
}

static struct number *number_new(size_t length)
{
    if (length > UINT16_MAX) {
        fprintf(stderr, "cfrac: a number of %zu digits is too long\n", length);
        exit(4);
    }
    struct number *number = NULL;
    made++;
    if (CFRAC_FREE_LISTS && length < LISTED_LENGTHS)
        number = list_take(length);
    if (!number) {
        from_malloc++;
        number = malloc(sizeof *number + length * sizeof *number->digits);
        if (!number) {
            fprintf(stderr, "cfrac: no memory for a number of %zu digits\n", length);
            exit(4);
        }
    }
    number->references = 1;
    number->capacity = number->length = (uint16_t)length;
    return number;
}

struct number *number_retain(struct number *number)
{
    if (CFRAC_COUNTING)
        number->references++;
    return number;
}

void number_release(struct number *number)
{
    if (!CFRAC_COUNTING || --number->references)
        return;
    if (CFRAC_FREE_LISTS && number->capacity < LISTED_LENGTHS)
        list_put(number);
    else
        free(number);
}

void number_set(struct number **place, struct number *number)
{
    struct number *old = *place;
    *place = number;
    number_release(old);
}

uint64_t numbers_made(void)
{
    return made;
}

uint64_t numbers_from_malloc(void)
{
    return from_malloc;
}

static struct number *trim(struct number *number)
{
    while (number->length && !number->digits[number->length - 1])
        number->length--;
    return number;
}

struct number *number_from(uint64_t value)
{
    struct number *number = number_new(value >> 32 ? 2 : value != 0);
    for (uint32_t i = 0; i < number->length; i++)
        number->digits[i] = (uint32_t)(value >> 32 * i);
    return number;
}

bool number_is_zero(const struct number *a)
{
    return a->length == 0;
}

bool number_is_one(const struct number *a)
{
    return a->length == 1 && a->digits[0] == 1;
}

int number_compare(const struct number *a, const struct number *b)
{
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    for (uint32_t i = a->length; i-- > 0;)
        if (a->digits[i] != b->digits[i])
            return a->digits[i] < b->digits[i] ? -1 : 1;
    return 0;
}

struct number *number_add(const struct number *a, const struct number *b)
{
    if (a->length < b->length) {
        const struct number *longer = b;
        b = a;
        a = longer;
    }
    struct number *sum = number_new((size_t)a->length + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < a->length; i++) {
        carry += (uint64_t)a->digits[i] + (i < b->length ? b->digits[i] : 0);
        sum->digits[i] = (uint32_t)carry;
        carry >>= 32;
    }
    sum->digits[a->length] = (uint32_t)carry;
    return trim(sum);
}

struct number *number_subtract(const struct number *a, const struct number *b)
{
    struct number *difference = number_new(a->length);
    int64_t borrow = 0;
    for (uint32_t i = 0; i < a->length; i++) {
        borrow += (int64_t)a->digits[i] - (i < b->length ? b->digits[i] : 0);
        difference->digits[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    return trim(difference);
}

struct number *number_multiply(const struct number *a, const struct number *b)
{
    struct number *product = number_new((size_t)a->length + b->length);
    memset(product->digits, 0, product->length * sizeof *product->digits);
    for (uint32_t i = 0; i < a->length; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b->length; j++) {
            carry += (uint64_t)a->digits[i] * b->digits[j] + product->digits[i + j];
            product->digits[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product->digits[i + b->length] = (uint32_t)carry;
    }
    return trim(product);
}

uint32_t number_modulo_small(const struct number *a, uint32_t divisor)
{
    uint64_t remainder = 0;
    for (uint32_t i = a->length; i-- > 0;)
        remainder = (remainder << 32 | a->digits[i]) % divisor;
    return (uint32_t)remainder;
}

static struct number *divide_small(const struct number *a, uint32_t divisor, uint32_t *remainder)
{
    struct number *quotient = number_new(a->length);
    uint64_t rest = 0;
    for (uint32_t i = a->length; i-- > 0;) {
        rest = rest << 32 | a->digits[i];
        quotient->digits[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    *remainder = (uint32_t)rest;
    return trim(quotient);
}

/* a << bits with `extra` digits of zero in front of it; bits < 32. Not trimmed. */
static struct number *shifted(const struct number *a, int bits, uint32_t extra)
{
    struct number *result = number_new((size_t)a->length + extra);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < result->length; i++) {
        carry |= (uint64_t)(i < a->length ? a->digits[i] : 0) << bits;
        result->digits[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return result;
}

static void shift_right(struct number *a, int bits)
{
    for (uint32_t i = 0; i < a->length; i++) {
        uint64_t next = i + 1 < a->length ? a->digits[i + 1] : 0;
        a->digits[i] = (uint32_t)((next << 32 | a->digits[i]) >> bits);
    }
}

/* Steps D3 and D4 to D6: one digit of the quotient; `rest` from digit `at` on is reduced. */
static uint32_t quotient_digit(uint32_t *rest, const struct number *divisor)
{
    uint32_t n = divisor->length;
    uint64_t top = (uint64_t)rest[n] << 32 | rest[n - 1];
    uint64_t guess = top / divisor->digits[n - 1], left = top % divisor->digits[n - 1];
    while (guess >> 32 || guess * divisor->digits[n - 2] > (left << 32 | rest[n - 2])) {
        guess--;
        left += divisor->digits[n - 1];
        if (left >> 32)
            break;
    }
    uint64_t carry = 0;
    int64_t borrow = 0;
    for (uint32_t i = 0; i <= n; i++) {
        carry += i < n ? guess * divisor->digits[i] : 0;
        borrow += (int64_t)rest[i] - (uint32_t)carry;
        rest[i] = (uint32_t)borrow;
        borrow >>= 32;
        carry >>= 32;
    }
    if (borrow == 0)
        return (uint32_t)guess;
    carry = 0;
    for (uint32_t i = 0; i <= n; i++) {
        carry += (uint64_t)rest[i] + (i < n ? divisor->digits[i] : 0);
        rest[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return (uint32_t)guess - 1;
}

static struct number *divide_long(const struct number *a, const struct number *b,
                                  struct number **remainder)
{
    int bits = __builtin_clz(b->digits[b->length - 1]);
    struct number *rest = shifted(a, bits, 1), *divisor = shifted(b, bits, 0);
    struct number *quotient = number_new((size_t)a->length - b->length + 1);
    for (uint32_t i = quotient->length; i-- > 0;)
        quotient->digits[i] = quotient_digit(rest->digits + i, divisor);
    shift_right(rest, bits);
    number_release(divisor);
    *remainder = trim(rest);
    return trim(quotient);
}

struct number *number_divide(const struct number *a, const struct number *b,
                             struct number **remainder)
{
    struct number *quotient, *rest;
    if (b->length == 1) {
        uint32_t small;
        quotient = divide_small(a, b->digits[0], &small);
        if (!remainder)
            return quotient;
        rest = number_from(small);
    } else if (number_compare(a, b) < 0) {
        quotient = number_from(0);
        rest = number_add(a, quotient);
    } else {
        quotient = divide_long(a, b, &rest);
    }
    if (remainder)
        *remainder = rest;
    else
        number_release(rest);
    return quotient;
}

struct number *number_modulo(const struct number *a, const struct number *b)
{
    struct number *remainder;
    number_release(number_divide(a, b, &remainder));
    return remainder;
}

struct number *number_gcd(const struct number *a, const struct number *b)
{
    struct number *zero = number_from(0);
    struct number *larger = number_add(a, zero), *smaller = number_add(b, zero);
    number_release(zero);
    while (!number_is_zero(smaller)) {
        struct number *rest = number_modulo(larger, smaller);
        number_set(&larger, smaller);
        smaller = rest;
    }
    number_release(smaller);
    return larger;
}

struct number *number_square_root(const struct number *a)
{
    struct number *two = number_from(2), *one = number_from(1);
    struct number *root = number_add(a, one);
    for (;;) {
        struct number *quotient = number_divide(a, root, NULL);
        struct number *sum = number_add(root, quotient);
        struct number *next = number_divide(sum, two, NULL);
        number_release(quotient);
        number_release(sum);
        if (number_compare(next, root) >= 0) {
            number_release(next);
            break;
        }
        number_set(&root, next);
    }
    number_release(two);
    number_release(one);
    return root;
}

double number_log(const struct number *a)
{
    double value = 0;
    for (uint32_t i = a->length; i-- > 0;)
        value = value * 0x1p32 + a->digits[i];
    return log(value);
}

struct number *number_parse(const char *text)
{
    struct number *ten = number_from(10), *result = number_from(0);
    const char *digit = text;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        struct number *units = number_from((uint64_t)(*digit - '0'));
        number_set(&result, number_multiply(result, ten));
        number_set(&result, number_add(result, units));
        number_release(units);
    }
    number_release(ten);
    if (*digit || digit == text) {
        number_release(result);
        return NULL;
    }
    return result;
}

char *number_text(const struct number *number)
{
    char *text = malloc((size_t)number->length * 10 + 2), *end = text;
    struct number *zero = number_from(0), *rest = number_add(number, zero);
    if (!text)
        exit(4);
    do {
        uint32_t digit;
        number_set(&rest, divide_small(rest, 10, &digit));
        *end++ = (char)('0' + digit);
    } while (!number_is_zero(rest));
    *end = 0;
    for (char *start = text; start < --end; start++) {
        char digit = *start;
        *start = *end;
        *end = digit;
    }
    number_release(rest);
    number_release(zero);
    return text;
}
