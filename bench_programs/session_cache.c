/* SPDX-License-Identifier: MIT
 *
 * session_cache.c: a server's requests against a large cache that lives on.
 *
 * Most of the heap is a cache of records of many sizes, found by key, of which now and then one
 * is replaced; a request makes a few dozen small blocks, reads some records and forgets all it
 * made. What a collection costs such a program is set by what does not change.
 *
 * Idea: ours; the shape is that of the caches that S. Blackburn et al., "The DaCapo Benchmarks",
 * OOPSLA 2006, and others use to measure pauses.
 */
#include "bench_programs/collected.h"

struct record {
    uint64_t key;
    struct record *next;
    uint32_t bytes;
    unsigned char *body;
};

struct note {
    struct note *next;
    uint64_t value[3];
};

static uint64_t entries = 200000, requests = 60000;
static struct record **table;

static struct record *new_record(uint64_t key, uint64_t *random)
{
    struct record *record = obtain(sizeof *record);
    record->key = key;
    record->bytes = (uint32_t)(16 + random_below(random, 30) * random_below(random, 30));
    record->body = obtain(record->bytes);
    memset(record->body, (int)(key & 0xFF), record->bytes);
    return record;
}

static void drop_record(struct record *record)
{
    give_up(record->body);
    give_up(record);
}

static struct record **find(uint64_t key)
{
    struct record **at = &table[mix(key) % entries];
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

static void put(uint64_t key, uint64_t *random)
{
    struct record **at = find(key), *old = *at;
    struct record *record = new_record(key, random);
    record->next = old ? old->next : NULL;
    *at = record;
    if (old)
        drop_record(old);
}

static uint64_t serve(uint64_t *random)
{
    struct note *notes = NULL;
    uint64_t sum = 0;
    for (int i = 0; i < 30; i++) {
        uint64_t key = random_below(random, entries);
        const struct record *record = *find(key);
        struct note *note = obtain(sizeof *note);
        *note = (struct note){notes, {key, record->bytes, record->body[record->bytes - 1]}};
        notes = note;
    }
    while (notes) {
        struct note *next = notes->next;
        sum += notes->value[0] ^ notes->value[1] ^ notes->value[2];
        give_up(notes);
        notes = next;
    }
    return sum;
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {"entries", "of the cache", 100, 100000000, &entries},
        {"requests", "how many", 0, 1000000000, &requests},
        {0},
    };
    bench_arguments(argc, argv, "requests against a large cache", options);
    start_collected();
    uint64_t random = 7, sum = 0;
    table = obtain(entries * sizeof *table);
    memset(table, 0, entries * sizeof *table);
    for (uint64_t key = 0; key < entries; key++)
        put(key, &random);
    for (uint64_t i = 0; i < requests; i++) {
        sum = mix(sum + serve(&random));
        if (i % 4 == 0)
            put(random_below(&random, entries), &random);
    }
    printf("session_cache: checksum=%016" PRIx64 "\n", sum);
    finish_collected();
    return 0;
}
