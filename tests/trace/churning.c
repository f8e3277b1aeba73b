/* SPDX-License-Identifier: MIT */
/* churning.c: for the recorder's figures: does nothing but malloc and free, N times
 * or ROUNDS. `ring N` rings for
 * N allocations and does nothing else, `idle N` is the same loop without the bell. */
#include "trace/protocol/doorbell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

DOORBELLS_DEFINE;
enum { ROUNDS = 10000000, BLOCKS = 1000 };

static char *blocks[BLOCKS];

static void churn(int rounds)
{
    uint32_t random = 1;
    for (int i = 0; i < rounds; i++) {
        random = random * 1103515245 + 12345;
        char **block = &blocks[(random >> 16) % BLOCKS];
        free(*block);
        *block = malloc(16 + (random >> 8 & 255));
        **block = 1;
    }
}

static __attribute__((noinline)) void ring(int rounds)
{
    for (int i = 0; i < rounds; i++)
        doorbell_malloc(blocks, (uint64_t)i, NULL);
}

static __attribute__((noinline)) void do_not_ring(int rounds)
{
    for (int i = 0; i < rounds; i++)
        __asm__ volatile("" : : "r"(blocks), "r"((uint64_t)i) : "memory");
}

int main(int count, char **words)
{
    doorbell_register();
    if (count > 2 && strcmp(words[1], "ring") == 0)
        ring(atoi(words[2]));
    else if (count > 2 && strcmp(words[1], "idle") == 0)
        do_not_ring(atoi(words[2]));
    else
        churn(count > 1 ? atoi(words[1]) : ROUNDS);
    return 0;
}
