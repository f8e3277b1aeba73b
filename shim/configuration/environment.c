/* SPDX-License-Identifier: MIT
 *
 * environment.c: see environment.h.
 *
 * The first malloc of a process comes from ld.so, before libc has set `environ`. By then the
 * environment is only where the kernel has put it, at the start of the stack:
 *
 *   __libc_stack_end -> | argc | argv[0] ... NULL | envp[0] ... NULL |
 *
 * Source: AMD64 psABI 1.0, 3.4.1 (initial process stack).
 */
#include "shim/configuration/environment.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdbool.h>
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

void environment_program_path(char *path, size_t room)
{
    long length = SYSCALL_4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, room - 1);
    path[syscall_failed(length) ? 0 : length] = '\0';
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* What was executed by its descriptor is called /dev/fd/3: a number is no name. */
static bool is_name(const char *text)
{
    return *text && strspn(text, "0123456789") < strlen(text);
}

const char *environment_program(void)
{
    static char path[256];
    const char *executed = (const char *)getauxval(AT_EXECFN);
    if (executed && is_name(last_part(executed)))
        return last_part(executed);
    environment_program_path(path, sizeof path);
    return *path ? last_part(path) : "?";
}
