/* SPDX-License-Identifier: MIT
 *
 * bignum.c: numbers of many digits that live for one operation.
 *
 * Every sum and product is a new block, and its operands are dead a moment later: the load that
 * the functional style of Lisp's and Smalltalk's integers puts on a heap. Nearly every block is
 * freed while it is still in the cache, in an order close to last in, first out, so an allocator
 * that reuses the newest block of a size wins. Sizes grow slowly as the numbers do.
 *
 * Idea: the bignum load of Zorn's cfrac (CU-CS-573-92, section 3) without its number theory.
 * The Fibonacci number is found by doubling, F(2n) = F(n) (2 F(n+1) - F(n)) and F(2n+1) =
 * F(n)^2 + F(n+1)^2, over and over for n, n+1, ...; each is checked modulo a prime.
 */
#include "bench_programs/bench.h"

struct bignum {
    size_t length; /* digits; the leading one is not zero */
    uint32_t digits[];
};

static struct bignum *bignum_new(size_t length)
{
    struct bignum *number = allocate(sizeof *number + length * sizeof *number->digits);
    number->length = length;
    return number;
}

static struct bignum *trim(struct bignum *number)
{
    while (number->length && !number->digits[number->length - 1])
        number->length--;
    return number;
}

static struct bignum *bignum_from(uint32_t digit)
{
    struct bignum *number = bignum_new(1);
    number->digits[0] = digit;
    return trim(number);
}

static uint32_t digit_at(const struct bignum *number, size_t index)
{
    return index < number->length ? number->digits[index] : 0;
}

static struct bignum *add(const struct bignum *a, const struct bignum *b)
{
    size_t longer = a->length > b->length ? a->length : b->length;
    struct bignum *sum = bignum_new(longer + 1);
    uint64_t carry = 0;
    for (size_t i = 0; i <= longer; i++) {
        carry += (uint64_t)digit_at(a, i) + digit_at(b, i);
        sum->digits[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return trim(sum);
}

/* a - b; a is not less than b. */
static struct bignum *subtract(const struct bignum *a, const struct bignum *b)
{
    struct bignum *difference = bignum_new(a->length);
    int64_t borrow = 0;
    for (size_t i = 0; i < a->length; i++) {
        borrow += (int64_t)a->digits[i] - digit_at(b, i);
        difference->digits[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    return trim(difference);
}

static struct bignum *multiply(const struct bignum *a, const struct bignum *b)
{
    struct bignum *product = bignum_new(a->length + b->length);
    memset(product->digits, 0, product->length * sizeof *product->digits);
    for (size_t i = 0; i < a->length; i++) {
        uint64_t carry = 0;
        for (size_t j = 0; j < b->length; j++) {
            carry += (uint64_t)a->digits[i] * b->digits[j] + product->digits[i + j];
            product->digits[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product->digits[i + b->length] = (uint32_t)carry;
    }
    return trim(product);
}

static uint64_t remainder_by(const struct bignum *number, uint32_t divisor)
{
    uint64_t remainder = 0;
    for (size_t i = number->length; i-- > 0;)
        remainder = (remainder << 32 | number->digits[i]) % divisor;
    return remainder;
}

static struct bignum *add_and_free(struct bignum *a, struct bignum *b)
{
    struct bignum *sum = add(a, b);
    free(a);
    free(b);
    return sum;
}

/* F(n), and F(n + 1) in *next. */
static struct bignum *fibonacci(uint64_t n, struct bignum **next)
{
    if (n == 0) {
        *next = bignum_from(1);
        return bignum_from(0);
    }
    struct bignum *b, *a = fibonacci(n / 2, &b);
    struct bignum *twice = add(b, b), *rest = subtract(twice, a);
    struct bignum *even = multiply(a, rest);
    struct bignum *odd = add_and_free(multiply(a, a), multiply(b, b));
    free(twice);
    free(rest);
    free(a);
    free(b);
    if (n % 2 == 0) {
        *next = odd;
        return even;
    }
    *next = add(even, odd);
    free(even);
    return odd;
}

int main(int argc, char **argv)
{
    uint64_t first = 1000, count = 20000;
    const uint32_t prime = 4294967291;
    const struct bench_option options[] = {
        {"first", "index of the first Fibonacci number", 0, 1000000, &first},
        {"count", "how many are computed, each anew", 1, 100000000, &count},
        {0},
    };
    bench_arguments(argc, argv, "short-lived bignums", options);
    uint64_t a = 0, b = 1, checksum = 0;
    for (uint64_t n = 0; n < first + count; n++) {
        if (n >= first) {
            struct bignum *next, *number = fibonacci(n, &next);
            if (remainder_by(number, prime) != a || remainder_by(next, prime) != b)
                bench_corrupt("a wrong Fibonacci number", number);
            checksum = mix(checksum + digit_at(number, number->length / 2));
            free(number);
            free(next);
        }
        uint64_t sum = (a + b) % prime;
        a = b;
        b = sum;
    }
    print_checksum(checksum);
    return 0;
}
