/* SPDX-License-Identifier: MIT
 *
 * fork_in_handler.c: a signal handler forks that has interrupted malloc or free.
 *
 * The processor's trap flag brings a signal after each instruction of malloc and free, and at every
 * few of them the handler forks. In the process with one thread the child returns from the handler,
 * finishes the interrupted call and goes on with the heap. With the argument "threads" others are
 * at work in the heap meanwhile: there the child can only call exec, and no more is asked of the
 * parent than that it goes on (which glibc's own malloc does not: its fork waits for its locks).
 * With "list" they have stdio's list of files locked then, as fflush(NULL) has, which libc's fork
 * takes too.
 * With "ended" the blocks are those of a thread that has ended: each free is one by another thread.
 * Arguments: the size of the blocks; "threads", "list" or "ended".
 * Seen: an allocator that took all locks before a fork, and met one that its own thread held; one
 * whose child repaired a list to which the interrupted free then added, and went round in it.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tests/contract/contract.h"
#include "tests/unit/single_step.h"

enum { STEPS = 1500, STRIDE = 7, BLOCKS = 40, MANY = 2000, THREADS = 2, SECONDS = 600 };
enum { TRAP_FLAG = 0x100 };

static int steps, forks, stride = STRIDE;
static bool with_threads, is_child;
static _Atomic bool stop;

static void stop_stepping(ucontext_t *context)
{
    context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void handler(int number, siginfo_t *information, void *context)
{
    (void)number;
    (void)information;
    if (is_child || ++steps > STEPS) {
        stop_stepping(context);
        return;
    }
    if (steps % stride != 0)
        return;
    pid_t child = fork();
    require(child >= 0);
    if (child == 0) {
        alarm(SECONDS);
        if (with_threads) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        is_child = true;
        stop_stepping(context);
        return;
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
    forks++;
}

static void *hammer(void *unused)
{
    while (!stop)
        exercise();
    return unused;
}

/* In libc, and in no header any more. */
extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);

static void *hammer_with_list_locked(void *unused)
{
    while (!stop) {
        _IO_list_lock();
        exercise();
        _IO_list_unlock();
    }
    return unused;
}

/* A first need of a size, what lies ready, and a free list that overflows; large blocks. */
static void step_through(size_t size)
{
    static void *blocks[BLOCKS];
    steps = 0;
    step(true);
    blocks[0] = opaque(malloc(size));
    blocks[1] = opaque(malloc(size));
    free(blocks[1]);
    step(false);
    for (int i = 1; i < BLOCKS; i++)
        blocks[i] = opaque(malloc(size));
    step(true);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    step(false);
    require(is_child || forks > 0);
}

static size_t block_bytes;

static void *allocate_and_end(void *blocks)
{
    for (int i = 0; i < BLOCKS; i++)
        ((void **)blocks)[i] = opaque(malloc(block_bytes));
    return NULL;
}

static void step_through_frees(size_t size)
{
    static void *blocks[BLOCKS];
    pthread_t thread;
    block_bytes = size;
    require(pthread_create(&thread, NULL, allocate_and_end, blocks) == 0);
    require(pthread_join(thread, NULL) == 0);
    stride = 1;
    step(true);
    free(blocks[0]);
    step(false);
    for (int i = 1; i < BLOCKS; i++)
        free(blocks[i]);
    for (int i = 0; i < MANY; i++) /* what was freed comes back */
        require(opaque(malloc(size)) != NULL);
    require(is_child || forks > 0);
}

static void use_heap(void)
{
    static const size_t sizes[] = {24, 1900, 40000, 500000};
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(sizes[i % 4]);
        require(blocks[i] != NULL);
        fill(blocks[i], 24);
    }
    for (int i = 0; i < BLOCKS; i++) {
        require(is_filled(blocks[i], 24));
        free(blocks[i]);
    }
}

/* In a child that has returned from the handler. */
static void end_child(void)
{
    use_heap();
    pid_t grandchild = fork();
    if (grandchild == 0) {
        use_heap();
        _exit(0);
    }
    int status;
    require(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    _exit(0);
}

int main(int count, char **arguments)
{
    pthread_t threads[THREADS];
    alarm(900);
    require(count > 1);
    bool with_list = count > 2 && strcmp(arguments[2], "list") == 0;
    with_threads = with_list || (count > 2 && strcmp(arguments[2], "threads") == 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    require(sigaction(SIGTRAP, &action, NULL) == 0);
    free(opaque(malloc(1)));
    for (int i = 0; with_threads && i < THREADS; i++)
        require(pthread_create(&threads[i], NULL, with_list ? hammer_with_list_locked : hammer,
                               NULL) == 0);
    if (count > 2 && strcmp(arguments[2], "ended") == 0)
        step_through_frees((size_t)atol(arguments[1]));
    else
        step_through((size_t)atol(arguments[1]));
    if (is_child)
        end_child();
    use_heap();
    stop = true;
    for (int i = 0; with_threads && i < THREADS; i++)
        require(pthread_join(threads[i], NULL) == 0);
    return 0;
}
