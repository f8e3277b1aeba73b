/* SPDX-License-Identifier: MIT
 *
 * next_call.c: see next_call.h.
 */
#include "shim/system_calls/next_call.h"

#ifdef PIC
#include <dlfcn.h>

/* The linker's names of the section's ends. */
extern struct next_function __start_next_functions[], __stop_next_functions[];

void next_look_up(struct next_function *function)
{
    void *found = dlsym(RTLD_NEXT, function->name);
    atomic_store_explicit(&function->found, found ? found : (void *)&function->found,
                          memory_order_relaxed);
}

static __attribute__((constructor)) void look_up_all(void)
{
    for (struct next_function *each = __start_next_functions; each < __stop_next_functions; each++)
        if (!atomic_load_explicit(&each->found, memory_order_relaxed))
            next_look_up(each);
}
#endif
