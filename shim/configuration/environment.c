/* SPDX-License-Identifier: MIT
 *
 * environment.c: see environment.h.
 *
 * The first malloc of a process comes from ld.so, before libc has set `environ`. The kernel
 * leaves the arguments and the environment at the very start of the stack, and ld.so tells where
 * that is.
 */
#include "shim/configuration/environment.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "vm/syscall.h"

extern void *__libc_stack_end; /* at argc, in a dynamic program */

static char **find_environment(void)
{
    if (environ)
        return environ;
    char **words = __libc_stack_end;
    if (!words)
        return NULL;
    size_t argument_count = (size_t)words[0];
    return words + 1 + argument_count + 1;
}

const char *environment_get(const char *name)
{
    if (getauxval(AT_SECURE))
        return NULL;
    char **variables = find_environment();
    size_t length = strlen(name);
    for (; variables && *variables; variables++)
        if (**variables == *name && strncmp(*variables, name, length) == 0 &&
            (*variables)[length] == '=')
            return *variables + length + 1;
    return NULL;
}

const char *environment_program(void)
{
    static char path[256];
    long length = SYSCALL_4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path - 1);
    if (syscall_failed(length))
        return "?";
    path[length] = '\0';
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
