/* SPDX-License-Identifier: MIT */
/* copying.c: a deterministic program for the recorder's tests: wide loads and stores, string
 * instructions, atomics, conditional moves, floating point state, deep stacks. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 20000 };

static uint8_t source[BYTES], target[BYTES];
static atomic_uint_fast64_t counter;
static uint64_t pair[2] __attribute__((aligned(16)));

static void string_instructions(void)
{
    const void *from = source;
    void *to = target;
    size_t count = 777;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
    count = 100;
    to = target;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(7ULL) : "memory");
    count = 500;
    to = target;
    __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(9) : "memory");
}

static void atomics(void)
{
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t expected = i;
        atomic_fetch_add(&counter, 1);
        atomic_compare_exchange_strong(&counter, &expected, i + 1);
        atomic_exchange(&counter, i + 1);
    }
    uint64_t low = 0, high = 0;
    __asm__ volatile("lock cmpxchg16b %0"
                     : "+m"(pair), "+a"(low), "+d"(high)
                     : "b"(1ULL), "c"(2ULL)
                     : "memory", "cc");
}

static double floating(void)
{
    long double sum = 0;
    for (int i = 1; i < 200; i++)
        sum += 1.0L / i;
    uint8_t environment[512] __attribute__((aligned(16)));
    __asm__ volatile("fxsave %0" : "=m"(environment));
    return (double)sum + environment[0] * 0;
}

static unsigned depth(unsigned n)
{
    volatile uint8_t frame[4096];
    frame[n % sizeof frame] = (uint8_t)n;
    return n == 0 ? 0 : 1 + depth(n - 1) + frame[n % sizeof frame] * 0;
}

int main(void)
{
    for (int i = 0; i < BYTES; i++)
        source[i] = (uint8_t)(i * 31);
    for (int size = 1; size < BYTES; size = size * 3 / 2 + 1) {
        memcpy(target, source, (size_t)size);
        memmove(target + 1, target, (size_t)size - 1);
    }
    string_instructions();
    atomics();
    printf("%.6f %u %d\n", floating(), depth(900), memcmp(source, target, 1));
    return 0;
}
