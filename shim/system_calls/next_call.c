/* SPDX-License-Identifier: MIT
 *
 * next_call.c: see next_call.h.
 */
#include "shim/system_calls/next_call.h"

#ifdef PIC
#include <dlfcn.h>
#include <stdbool.h>

/* The linker's names of the section's ends. */
extern struct next_function __start_next_functions[], __stop_next_functions[];

static bool look_up(struct next_function *function)
{
    void *found = dlsym(RTLD_NEXT, function->name);
    if (found)
        atomic_store_explicit(&function->found, found, memory_order_relaxed);
    return found != NULL;
}

void next_look_up(struct next_function *function)
{
    if (!look_up(function))
        atomic_store_explicit(&function->found, (void *)&function->found, memory_order_relaxed);
}

/* What is not found may come with a library that is opened later. */
static __attribute__((constructor)) void look_up_all(void)
{
    bool all_found = true;
    for (struct next_function *each = __start_next_functions; each < __stop_next_functions; each++)
        if (!atomic_load_explicit(&each->found, memory_order_relaxed))
            all_found &= look_up(each);
    if (!all_found)
        dlerror(); /* the program is not told of it */
}
#endif
