/* SPDX-License-Identifier: MIT
 *
 * deepbind.c: dlopen without RTLD_DEEPBIND.
 *
 * A library that is opened with that flag looks for malloc and free in its own dependencies first,
 * and finds glibc's. So it passes our blocks to glibc's free, which ends the process. php opens
 * each of its extensions so. Without a preloaded malloc such a library has the same malloc as the
 * rest of the process. To give it the same here, the flag is dropped. Other symbols that both the
 * library and the program define are then the program's.
 *
 * dlopen looks at its return address, by which it knows whose search path it has to take. So this
 * is not a call of the next dlopen but a jump to it, with the program's return address on the
 * stack.
 *
 * Not in the archive for static programs, in which there is no next one.
 */
#include <dlfcn.h>

#include "shim/symbols/interpose.h"

#ifdef PIC

static void *(*next_dlopen)(const char *name, int flags);

static __attribute__((used)) void *find_next_dlopen(void)
{
    if (!next_dlopen)
        next_dlopen = dlsym(RTLD_NEXT, "dlopen");
    return next_dlopen;
}

/* Pushed are the arguments, and a word that aligns the stack. */
EXPORT __attribute__((naked)) void *dlopen(const char *name __attribute__((unused)),
                                           int flags __attribute__((unused)))
{
    __asm__("pushq %%rdi\n\t"
            "pushq %%rsi\n\t"
            "subq $8, %%rsp\n\t"
            "call find_next_dlopen\n\t"
            "addq $8, %%rsp\n\t"
            "popq %%rsi\n\t"
            "popq %%rdi\n\t"
            "andl %0, %%esi\n\t"
            "jmp *%%rax"
            :
            : "i"(~RTLD_DEEPBIND));
}

#endif
