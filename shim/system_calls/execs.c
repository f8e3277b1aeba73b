/* SPDX-License-Identifier: MIT
 *
 * execs.c: the end of a program that goes on as another one.
 *
 * A collection stops threads by a signal. One that is in execve already takes no signal any more:
 * it stays, and kills the new program, which has no handler for it. So the collector is told before
 * and, since the call may fail, after. libc's own functions call each other directly, so each is
 * here. As libc's, they may be called from a signal handler and in a vfork child: they take no
 * memory but the stack.
 */
#include <stdarg.h>
#include <unistd.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/syscall.h"

/* A static program has libc's own functions: none of them can be found from here. */
#ifdef PIC
static const struct allocator *begin_exec(void)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (allocator->before_exec)
        allocator->before_exec();
    return allocator;
}

static int end_exec(const struct allocator *allocator, int result)
{
    if (allocator->after_exec)
        allocator->after_exec();
    return result;
}

/* The body of such a function. */
#define EXEC(name, ...)                                   \
    do {                                                  \
        FIND_NEXT(name);                                  \
        const struct allocator *allocator = begin_exec(); \
        return end_exec(allocator, next(__VA_ARGS__));    \
    } while (0)

EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
    EXEC(execve, path, arguments, environment);
}

EXPORT int execveat(int directory, const char *path, char *const arguments[],
                    char *const environment[], int flags)
{
    EXEC(execveat, directory, path, arguments, environment, flags);
}

EXPORT int fexecve(int file, char *const arguments[], char *const environment[])
{
    EXEC(fexecve, file, arguments, environment);
}

EXPORT int execv(const char *path, char *const arguments[])
{
    EXEC(execv, path, arguments);
}

EXPORT int execvp(const char *file, char *const arguments[])
{
    EXEC(execvp, file, arguments);
}

EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    EXEC(execvpe, file, arguments, environment);
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

EXPORT int execl(const char *path, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    va_end(list);
    return execv(path, arguments);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    va_end(list);
    return execvp(file, arguments);
}

EXPORT int execle(const char *path, const char *first, ...)
{
    COLLECT_ARGUMENTS(first);
    char *const *environment = va_arg(list, char *const *);
    va_end(list);
    return execve(path, arguments, environment);
}

#endif
