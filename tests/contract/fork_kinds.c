/* SPDX-License-Identifier: MIT
 *
 * fork_kinds.c: children that no fork handler announces, and what they inherit.
 *
 * vfork and posix_spawn run in the parent's memory, _Fork skips all handlers. Allocators that
 * remember a pid or set process attributes by prctl hand them on (THP disabled for every
 * program that a shell starts, for example).
 * Seen: bun PR 35691.
 */
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

extern char **environ;

static void require_success(pid_t child)
{
    int status;
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void require_plain_attributes(void)
{
    require(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0);
    require(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
    require(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1);
}

int main(int count, char **arguments)
{
    exercise();
    require_plain_attributes();
    if (count == 2)
        return 0; /* the program that the children become */

    void *kept = malloc(500);
    require(kept != NULL);
    fill(kept, 500);

    /* Shells and make allocate in the child of vfork all the same. */
    pid_t child = vfork();
    if (child == 0) {
        void *block = malloc(100);
        free(block);
        execl("/proc/self/exe", arguments[0], "child", NULL);
        _exit(1);
    }
    require_success(child);

    char *child_arguments[] = {arguments[0], (char *)(uintptr_t) "child", NULL};
    require(posix_spawn(&child, "/proc/self/exe", NULL, NULL, child_arguments, environ) == 0);
    require_success(child);

    child = _Fork();
    if (child == 0) {
        require(is_filled(kept, 500));
        free(kept);
        exercise();
        _exit(0);
    }
    require_success(child);

    child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            free(kept);
            exercise();
            _exit(0);
        }
        require_success(grandchild);
        require(is_filled(kept, 500));
        exercise();
        _exit(0);
    }
    require_success(child);
    require(is_filled(kept, 500));
    free(kept);
    exercise();
    return 0;
}
