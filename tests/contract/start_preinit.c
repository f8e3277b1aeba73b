/* SPDX-License-Identifier: MIT
 *
 * start_preinit.c: memory is asked for before any constructor has run.
 *
 * An allocator that sets itself up in a constructor comes too late: ld.so, preinit functions
 * and the constructors of other libraries allocate earlier (libstdc++ and node do). What was
 * handed out then comes back to free and realloc later.
 * Seen: google/sanitizers 179; the crash of constructors that came too late in our prototype.
 */
#include "tests/contract/contract.h"

static char *first, *second, *zeroed;

static void before_everything(int count, char **arguments, char **variables)
{
    (void)count, (void)arguments, (void)variables;
    first = malloc(100);
    second = malloc(100000);
    zeroed = calloc(10, 100);
    require(first && second && zeroed);
    fill(first, 100);
    fill(second, 100000);
    exercise();
}

__attribute__((section(".preinit_array"),
               used)) static void (*preinit)(int, char **, char **) = before_everything;

__attribute__((constructor)) static void in_constructor(void)
{
    exercise();
}

int main(void)
{
    require(is_filled(first, 100) && is_filled(second, 100000));
    for (size_t i = 0; i < 1000; i++)
        require(zeroed[i] == 0);
    first = realloc(first, 10000);
    require(first != NULL);
    free(first);
    free(second);
    free(zeroed);
    exercise();
    return 0;
}
