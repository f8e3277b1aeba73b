/* SPDX-License-Identifier: MIT
 *
 * planted_leak: 25,600 records of 4,096 bytes, 100 MiB, that nobody frees, among short-lived ones
 * that are freed. What tells where memory is must name grow().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record {
    struct record *next;
    char payload[4088];
};

static struct record *records;

static __attribute__((noinline)) void grow(void)
{
    struct record *record = malloc(sizeof *record);
    if (!record)
        exit(1);
    memset(record->payload, 1, sizeof record->payload);
    record->next = records;
    records = record;
}

static __attribute__((noinline)) unsigned use_and_free(unsigned size)
{
    unsigned char *scratch = calloc(1, size);
    if (!scratch)
        exit(1);
    unsigned sum = scratch[size - 1];
    free(scratch);
    return sum;
}

int main(void)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < 25600; i++) {
        grow();
        sum += use_and_free(100 + i % 3000);
    }
    printf("%u\n", sum);
    return 0;
}
