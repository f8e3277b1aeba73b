/* SPDX-License-Identifier: MIT
 *
 * threads_raw_clone.c: a task made by clone shares the address space, without pthread_create.
 *
 * Runtimes and sandboxes start helpers so. No thread start or end is announced, and the helper
 * has the thread pointer of its parent, who waits. An allocator that counts threads at
 * pthread_create, or looks its state up by thread id, goes astray.
 */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

enum { STACK_BYTES = 256 * 1024, BLOCKS = 2000 };
static void *blocks[BLOCKS];

static int helper(void *unused)
{
    (void)unused;
    for (int i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
        blocks[i] = malloc(200 + (size_t)i);
        require(blocks[i] != NULL);
        fill(blocks[i], 200);
    }
    exercise();
    return 0;
}

int main(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(100 + (size_t)i);
        require(blocks[i] != NULL);
        fill(blocks[i], 100);
    }
    for (int round = 0; round < 20; round++) {
        char *stack = malloc(STACK_BYTES);
        require(stack != NULL);
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD;
        int child = clone(helper, stack + STACK_BYTES, flags, NULL);
        int status;
        require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        free(stack);
    }
    for (int i = 0; i < BLOCKS; i++) {
        require(is_filled(blocks[i], 100));
        free(blocks[i]);
    }
    return 0;
}
