/* SPDX-License-Identifier: MIT
 *
 * collect_now.c: collects at a moment that suits the program, between two requests.
 *
 * A request leaves pairs of records behind that point to each other. Reference counts could not
 * free them. Under the default `leaks=auto` the first collection suspects what it finds dead, and
 * the second reclaims it; so this asks twice.
 */
#include <allotrope/gc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record {
    struct record *other;
    char text[100];
};

enum { PAIRS = 10000 };

static struct record *new_record(int number)
{
    struct record *record = malloc(sizeof *record);
    if (!record)
        exit(1);
    snprintf(record->text, sizeof record->text, "record %d", number);
    return record;
}

static void serve(void)
{
    for (int i = 0; i < PAIRS; i++) {
        struct record *one = new_record(2 * i), *other = new_record(2 * i + 1);
        one->other = other;
        other->other = one;
    }
}

static const char *collect(void)
{
    int error = ENOTSUP;
    if (!allotrope_gc_collect)
        return "no library";
    for (int i = 0; i < 2; i++)
        error = allotrope_gc_collect();
    return error ? strerror(error) : "done";
}

static const char *reclaimed(void)
{
    struct allotrope_gc_statistics statistics;
    if (!allotrope_gc_read_statistics ||
        allotrope_gc_read_statistics(&statistics, sizeof statistics) != 0)
        return "nothing";
    return statistics.freed_blocks == UINT64_MAX ? "not counted"
           : statistics.freed_blocks >= PAIRS    ? "most"
                                                 : "little";
}

int main(void)
{
    serve();
    printf("collection: %s\n", collect());
    printf("reclaimed: %s\n", reclaimed());
    return 0;
}
