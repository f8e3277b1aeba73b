/* SPDX-License-Identifier: MIT
 *
 * execs.c: the end of a program that goes on as another one.
 *
 * A collection stops threads by a signal. A thread that is already in execve handles none: the
 * signal stays pending, and kills the new program, which has no handler for it. So the collector is
 * told before and, since the call may fail, after. libc's own functions call each other directly,
 * so each is here. As libc's, they may be called from a signal handler and in a vfork child: they
 * take no memory but the stack.
 */
#include <stdarg.h>
#include <unistd.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/without_collections.h"
#include "vm/syscall.h"

/* A static program has libc's own functions: none of them can be found from here. */
#ifdef PIC
EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
    NEXT_WITHOUT_COLLECTIONS(execve, path, arguments, environment);
}

EXPORT int execveat(int directory, const char *path, char *const arguments[],
                    char *const environment[], int flags)
{
    NEXT_WITHOUT_COLLECTIONS(execveat, directory, path, arguments, environment, flags);
}

EXPORT int fexecve(int file, char *const arguments[], char *const environment[])
{
    NEXT_WITHOUT_COLLECTIONS(fexecve, file, arguments, environment);
}

EXPORT int execv(const char *path, char *const arguments[])
{
    NEXT_WITHOUT_COLLECTIONS(execv, path, arguments);
}

EXPORT int execvp(const char *file, char *const arguments[])
{
    NEXT_WITHOUT_COLLECTIONS(execvp, file, arguments);
}

EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    NEXT_WITHOUT_COLLECTIONS(execvpe, file, arguments, environment);
}

/* The arguments up to the NULL, on the stack. What follows the NULL can be read from `list` then.
 */
#define COLLECT_ARGUMENTS(first)                                    \
    va_list list, counted;                                          \
    va_start(list, first);                                          \
    va_copy(counted, list);                                         \
    size_t count = 2;                                               \
    while (va_arg(counted, char *))                                 \
        count++;                                                    \
    va_end(counted);                                                \
    char **arguments = __builtin_alloca(count * sizeof *arguments); \
    arguments[0] = (char *)(first);                                 \
    for (size_t i = 1; i < count; i++)                              \
    arguments[i] = va_arg(list, char *)

OWN(execv);

EXPORT int execl(const char *path, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    va_end(list);
    return own_execv(path, arguments);
}

OWN(execvp);

EXPORT int execlp(const char *file, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    va_end(list);
    return own_execvp(file, arguments);
}

OWN(execve);

EXPORT int execle(const char *path, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return own_execve(path, arguments, environment);
}

#endif
