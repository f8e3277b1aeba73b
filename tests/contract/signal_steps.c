/* SPDX-License-Identifier: MIT
 *
 * signal_steps.c: a signal handler allocates before each single instruction of malloc and free.
 *
 * signal_handler.c meets a window of one instruction in a run of many; here none is left out. The
 * processor's trap flag brings a signal after each instruction. The handler forks, without the
 * library's fork handlers, as they would take its locks; the child, which stands where the
 * handler does, allocates and frees, and the parent waits and steps on. A child works or is
 * told and aborts; one that waits for ever is ended by its alarm.
 * Prints: instructions, those whose child was told.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"
#include "tests/unit/single_step.h"

/* The first slow path of a class is not longer; a whole collection would be. */
enum { STEPS = 4000, BLOCKS = 40, SIZE = 1900, SECONDS = 600 };
static int steps, told;

static void handler(int number)
{
    (void)number;
    if (++steps > STEPS)
        return;
    pid_t child = (pid_t)syscall(SYS_fork);
    if (child == 0) {
        alarm(SECONDS);
        free(opaque(malloc(SIZE)));
        _exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child);
    bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    require(aborted || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    told += aborted;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    require(sigaction(SIGTRAP, &action, NULL) == 0);
    free(opaque(malloc(1)));
    /* One block leaves a list behind, so the second is the ordinary case; forty empty it. */
    static void *blocks[BLOCKS];
    step(true);
    blocks[0] = opaque(malloc(SIZE));
    blocks[1] = opaque(malloc(SIZE));
    free(blocks[1]);
    step(false);
    for (int i = 1; i < BLOCKS; i++)
        blocks[i] = opaque(malloc(SIZE));
    step(true);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    step(false);
    require(steps > 20);
    printf("%d %d\n", steps, told);
    return 0;
}
