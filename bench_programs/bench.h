/* SPDX-License-Identifier: MIT
 *
 * bench.h: what the benchmark programs share.
 *
 * Every program is deterministic: the same arguments give the same requests, whatever the
 * allocator, the machine and the interleaving of its threads. Work is cut into tasks whose random
 * numbers depend on the task alone, and results are added up, so the checksum that a program
 * prints does not depend on the number of threads either. Blocks are signed at both ends and
 * checked before they are freed, so that an allocator that hands out overlapping blocks, or
 * loses what they hold, ends the program with a line that says so and status 3.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_BENCH_H
#define ALLOTROPE_BENCH_PROGRAMS_BENCH_H

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_programs/random.h"

enum { BENCH_BAD_ARGUMENT = 2, BENCH_CORRUPT = 3, BENCH_NO_MEMORY = 4 };

/* One argument NAME=NUMBER. *value holds the default before and the choice after. */
struct bench_option {
    const char *name, *title;
    uint64_t minimum, maximum;
    uint64_t *value;
};

static inline _Noreturn void bench_usage(const char *program, const char *title,
                                         const struct bench_option *options)
{
    printf("%s: %s\nusage: %s [NAME=NUMBER]...\n", program, title, program);
    for (; options->name; options++)
        printf("  %-10s %s (%" PRIu64 "; from %" PRIu64 " to %" PRIu64 ")\n", options->name,
               options->title, *options->value, options->minimum, options->maximum);
    exit(0);
}

static inline _Noreturn void bench_bad_argument(const char *program, const char *argument,
                                                const struct bench_option *options)
{
    fprintf(stderr, "%s: bad argument '%s'; give", program, argument);
    for (; options->name; options++)
        fprintf(stderr, " %s=%" PRIu64 "..%" PRIu64, options->name, options->minimum,
                options->maximum);
    fputc('\n', stderr);
    exit(BENCH_BAD_ARGUMENT);
}

/* Reads the arguments into *options->value; options end with a NULL name. Does not return for
 * --help (status 0) or for what it does not understand (one line, status 2). */
static inline void bench_arguments(int argc, char **argv, const char *title,
                                   const struct bench_option *options)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help"))
            bench_usage(program_invocation_short_name, title, options);
        const struct bench_option *option = options;
        size_t length = strcspn(argv[i], "=");
        while (option->name &&
               (strlen(option->name) != length || strncmp(option->name, argv[i], length)))
            option++;
        const char *text = argv[i] + length + (argv[i][length] == '=');
        char *end;
        errno = 0;
        uint64_t number = strtoull(text, &end, 10);
        if (!option->name || *text < '0' || *text > '9' || *end || errno ||
            number < option->minimum || number > option->maximum)
            bench_bad_argument(program_invocation_short_name, argv[i], options);
        *option->value = number;
    }
}

static inline _Noreturn void bench_no_memory(size_t bytes)
{
    fprintf(stderr, "%s: no memory for %zu bytes\n", program_invocation_short_name, bytes);
    exit(BENCH_NO_MEMORY);
}

static inline void *allocate(size_t bytes)
{
    void *block = malloc(bytes);
    if (!block)
        bench_no_memory(bytes);
    return block;
}

static inline void *reallocate(void *block, size_t bytes)
{
    void *moved = realloc(block, bytes);
    if (!moved)
        bench_no_memory(bytes);
    return moved;
}

static inline _Noreturn void bench_corrupt(const char *what, const void *block)
{
    fprintf(stderr, "%s: %s at %p\n", program_invocation_short_name, what, block);
    exit(BENCH_CORRUPT);
}

/* Signs a block of at least 16 bytes at both ends. */
static inline void block_sign(void *block, size_t bytes, uint64_t signature)
{
    uint64_t other = ~signature;
    memcpy(block, &signature, sizeof signature);
    memcpy((char *)block + bytes - sizeof other, &other, sizeof other);
}

/* Ends the program unless the block still bears the signature. */
static inline void block_check(const void *block, size_t bytes, uint64_t signature)
{
    uint64_t head, tail;
    memcpy(&head, block, sizeof head);
    memcpy(&tail, (const char *)block + bytes - sizeof tail, sizeof tail);
    if (head != signature || tail != ~signature)
        bench_corrupt("a block has lost its contents", block);
}

/* A new thread; ends the program when there is none to be had. */
static inline pthread_t thread_start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run, argument);
    if (error) {
        fprintf(stderr, "%s: cannot start a thread: %s\n", program_invocation_short_name,
                strerror(error));
        exit(BENCH_NO_MEMORY);
    }
    return thread;
}

enum { BENCH_MAX_THREADS = 256 };

/* Runs `run` on that many threads at once and adds up what they return. */
static inline uint64_t threads_run(uint64_t count, void *(*run)(void *), void *argument)
{
    pthread_t threads[BENCH_MAX_THREADS];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        threads[i] = thread_start(run, argument);
    for (uint64_t i = 0; i < count; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (uintptr_t)result;
    }
    return sum;
}

/* The last line of every program's output. */
static inline void print_checksum(uint64_t checksum)
{
    printf("checksum %016" PRIx64 "\n", checksum);
}

#endif
