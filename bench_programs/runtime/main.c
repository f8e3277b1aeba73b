/* SPDX-License-Identifier: MIT
 *
 * main.c: runs a program of the small language under the barrier that this binary has, and writes
 * one line of JSON: what the program answers, how long each phase took, what was counted.
 *
 *     run-cards-512 kernel.st destroy.st [NAME=NUMBER]... [file=NAME]
 *
 * The last source file has a class Main with a method run:, whose argument is the scale.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_programs/runtime/image.h"
#include "bench_programs/runtime/interpret.h"
#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/scavenge.h"

enum { MIB = 1024 * 1024 };

static struct option {
    const char *name;
    uint64_t minimum, maximum, value;
} options[] = {
    {"scale", 1, 100000, 1},         /* the argument of run: */
    {"young", 8192, 1 << 30, 68000}, /* bytes of each semispace */
    {"old", 1, 1 << 16, 64},         /* MiB of the old generation */
    {"verify", 0, 1, 0},             /* the heap after each scavenge */
};
enum { SCALE, YOUNG, OLD, VERIFY, OPTIONS };

/* argument: the bad one; NULL: there is no source file. */
static _Noreturn void bad_argument(const char *argument)
{
    fprintf(stderr, "%s: ", program_invocation_short_name);
    if (argument)
        fprintf(stderr, "bad argument '%s'", argument);
    else
        fputs("no source file", stderr);
    fputs("; give FILE.st... [file=NAME]", stderr);
    for (int i = 0; i < OPTIONS; i++)
        fprintf(stderr, " [%s=%lu..%lu]", options[i].name, (unsigned long)options[i].minimum,
                (unsigned long)options[i].maximum);
    fputc('\n', stderr);
    exit(2);
}

static void take_option(const char *argument)
{
    size_t length = strcspn(argument, "=");
    char *end;
    for (int i = 0; i < OPTIONS; i++) {
        struct option *option = &options[i];
        if (strlen(option->name) != length || strncmp(argument, option->name, length) != 0)
            continue;
        option->value = strtoull(argument + length + 1, &end, 10);
        if (end == argument + length + 1 || *end || option->value < option->minimum ||
            option->value > option->maximum)
            break;
        return;
    }
    bad_argument(argument);
}

static void report_count(const char *name, uint64_t count)
{
    printf(", \"%s\": %lu", name, (unsigned long)count);
}

static void report(int64_t result, const struct measured *measured)
{
    static const char *const phases[PHASES] = {"running", "roots", "promoted", "other"};
    printf("{\"barrier\": \"%s\", \"result\": %ld, \"ns\": {", policy_name, (long)result);
    for (int i = 0; i < PHASES; i++)
        printf("%s\"%s\": %lu", i ? ", " : "", phases[i], (unsigned long)measured->nanoseconds[i]);
    putchar('}');
    report_count("scavenges", measured->scavenges);
    report_count("store_checks", measured->store_checks);
    report_count("remembered", measured->counters.remembered);
    report_count("dirty", measured->counters.dirty);
    report_count("traps", measured->counters.traps);
    report_count("unprotected", measured->counters.unprotected);
    report_count("refused", measured->counters.refused);
    report_count("survived_bytes", measured->survived_bytes);
    report_count("promoted_bytes", measured->promoted_bytes);
    report_count("old_bytes", measured->old_bytes);
    puts("}");
}

/* Returns the last of the source files. */
static const char *load(int count, char **words)
{
    const char *last = NULL;
    image_open();
    for (int i = 1; i < count; i++)
        if (!strchr(words[i], '=')) {
            last = words[i];
            image_load(last);
        }
    return last;
}

static void need_main(const char *source)
{
    value global = global_named(symbol_of("Main", 4)), selector = symbol_of("run:", 4);
    if (global && method_in(object_of(global)->slots[ASSOCIATION_VALUE], selector) != image.nil)
        return;
    fprintf(stderr, "runtime: %s: no class Main with a method run:; give the program's file last\n",
            source);
    exit(2);
}

int main(int count, char **words)
{
    const char *file = NULL;
    for (int i = 1; i < count; i++) {
        if (strncmp(words[i], "file=", 5) == 0)
            file = words[i] + 5;
        else if (strchr(words[i], '='))
            take_option(words[i]);
    }
    heap_open(options[YOUNG].value / OBJECT_ALIGNMENT * OBJECT_ALIGNMENT, options[OLD].value * MIB);
    policy_open(file);
    const char *source = load(count, words);
    if (!source)
        bad_argument(NULL);
    need_main(source);
    scavenges.verify = options[VERIFY].value != 0;
    interpret_open();
    policy_start();
    measure_begin();
    value result = interpret("Main", "run:", integer_value((int64_t)options[SCALE].value));
    struct measured measured = measure_end();
    report(is_integer(result) ? integer_of(result) : 0, &measured);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
