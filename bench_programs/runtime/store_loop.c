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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_programs/runtime/barrier.h"
#include "bench_programs/runtime/policy.h"

enum { SLOTS = 512, MEGABYTE = 1 << 20, MILLION = 1000000 };

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

static const char *only; /* NULL: every kind */

static void measure(const char *kind, struct object *array, value v, uint64_t stores)
{
    if (only && strcmp(only, kind) != 0)
        return;
    uint64_t rounds = stores / SLOTS;
    fill(array, v, 1); /* page traps and entries of the remembered set are not what is asked */
    uint64_t start = thread_nanoseconds();
    fill(array, v, rounds);
    uint64_t end = thread_nanoseconds();
    printf(", \"%s_ns\": %.3f", kind, (double)(end - start) / (double)(rounds * SLOTS));
}

int main(int count, char **words)
{
    uint64_t stores = (count > 1 ? strtoull(words[1], NULL, 10) : 100) * MILLION;
    only = count > 2 ? words[2] : NULL;
    heap_open(MEGABYTE, MEGABYTE);
    policy_open(NULL);
    struct object *class = allocate_old(0, KIND_SLOTS, 0, 0);
    struct object *old = allocate_old(value_of(class), KIND_SLOTS, SLOTS, integer_value(0));
    policy_start();
    struct object *young = allocate(value_of(class), KIND_SLOTS, SLOTS, integer_value(0));
    printf("{\"barrier\": \"%s\"", policy_name);
    measure("integer_into_old", old, integer_value(1), stores);
    measure("old_into_old", old, value_of(class), stores);
    measure("young_into_old", old, value_of(young), stores);
    measure("young_into_young", young, value_of(young), stores);
    puts("}");
    return fflush(stdout) == 0 ? 0 : 1;
}
