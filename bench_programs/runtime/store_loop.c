/* SPDX-License-Identifier: MIT
 *
 * store_loop.c: the barrier alone, in a loop that does nothing but store; a line of JSON.
 *
 *     loop-cards-512 [MILLIONS [KIND]]  stores of each kind, or of one; 100
 *
 * An array of 512 slots is filled over and over. What differs is the array's generation and the
 * value: these are the cases that the remsets' filters tell apart. The time of a policy without
 * instructions is that of the loop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_programs/runtime/barrier.h"
#include "bench_programs/runtime/policy.h"

enum { SLOTS = 512, MEGABYTE = 1 << 20, MILLION = 1000000, MOST_MILLIONS = 1000000 };

enum { INTEGER_INTO_OLD, OLD_INTO_OLD, YOUNG_INTO_OLD, YOUNG_INTO_YOUNG, KINDS };
static const char *const kinds[KINDS] = {"integer_into_old", "old_into_old", "young_into_old",
                                         "young_into_young"};

static uint64_t thread_nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

__attribute__((noinline)) static void fill(struct object *array, value v, uint64_t rounds)
{
    for (uint64_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < SLOTS; i++)
            store_slot(array, &array->slots[i], v);
}

static uint64_t store_count = 100 * (uint64_t)MILLION;
static int only = KINDS; /* every kind */

static void measure(int kind, struct object *array, value v)
{
    if (only != KINDS && only != kind)
        return;
    uint64_t rounds = store_count / SLOTS;
    fill(array, v, 1); /* page traps and entries of the remembered set are not what is asked */
    uint64_t start = thread_nanoseconds();
    fill(array, v, rounds);
    uint64_t end = thread_nanoseconds();
    printf(", \"%s_ns\": %.3f", kinds[kind], (double)(end - start) / (double)(rounds * SLOTS));
}

static _Noreturn void bad_argument(const char *argument)
{
    fprintf(stderr, "%s: bad argument '%s'; give [MILLIONS=1..%d [KIND]], KIND one of",
            program_invocation_short_name, argument, MOST_MILLIONS);
    for (int i = 0; i < KINDS; i++)
        fprintf(stderr, " %s", kinds[i]);
    fputc('\n', stderr);
    exit(2);
}

static void take_millions(const char *word)
{
    char *end;
    uint64_t millions = strtoull(word, &end, 10);
    if (end == word || *end || millions < 1 || millions > MOST_MILLIONS)
        bad_argument(word);
    store_count = millions * MILLION;
}

static void take_kind(const char *word)
{
    for (only = 0; only < KINDS; only++)
        if (strcmp(kinds[only], word) == 0)
            return;
    bad_argument(word);
}

int main(int count, char **words)
{
    if (count > 1)
        take_millions(words[1]);
    if (count > 2)
        take_kind(words[2]);
    if (count > 3)
        bad_argument(words[3]);
    heap_open(MEGABYTE, MEGABYTE);
    policy_open(NULL);
    struct object *class = allocate_old(0, KIND_SLOTS, 0, 0);
    struct object *old = allocate_old(value_of(class), KIND_SLOTS, SLOTS, integer_value(0));
    policy_start();
    struct object *young = allocate(value_of(class), KIND_SLOTS, SLOTS, integer_value(0));
    printf("{\"barrier\": \"%s\"", policy_name);
    measure(INTEGER_INTO_OLD, old, integer_value(1));
    measure(OLD_INTO_OLD, old, value_of(class));
    measure(YOUNG_INTO_OLD, old, value_of(young));
    measure(YOUNG_INTO_YOUNG, young, value_of(young));
    puts("}");
    return fflush(stdout) == 0 ? 0 : 1;
}
