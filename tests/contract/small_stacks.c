/* SPDX-License-Identifier: MIT
 *
 * small_stacks.c: threads with little room where a signal's frame goes, while another collects.
 *
 * A collector stops threads by a signal. What that takes of a stack is promised (docs/gc.md): the
 * kernel's frame, of at most AT_MINSIGSTKSZ bytes, and 512 bytes.
 *
 *     alternate   the thread's alternate stack has that much
 *     handler     a handler runs on the alternate stack, which has that much left
 *     full        the thread has no alternate stack, and its own has that much left
 *     least       threads of the least stack allocate
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "tests/contract/contract.h"

enum { THREADS = 2, COLLECTIONS = 10, PROMISED = 512, RED_ZONE = 128, STACK_BYTES = 256 << 10 };

static _Atomic int arrived, leave;
static const char *kind;
static size_t frame_bytes;

/* Keeps to the registers. */
static inline __attribute__((always_inline)) void wait_here(void)
{
    atomic_fetch_add(&arrived, 1);
    while (!atomic_load_explicit(&leave, memory_order_relaxed))
        ;
}

/* Memory above a page without access: what goes past its start is a fault. */
static char *map_stack(size_t bytes)
{
    char *guard = mmap(NULL, 4096 + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(guard != MAP_FAILED && mprotect(guard + 4096, bytes, PROT_READ | PROT_WRITE) == 0);
    return guard + 4096;
}

/* The handler's stack pointer is let down to where what is promised is left. */
static void leave_room(const char *stack)
{
    char *here = __builtin_frame_address(0);
    size_t left = (size_t)(here - stack), wanted = RED_ZONE + frame_bytes + PROMISED;
    require(left > wanted + 256);
    volatile char *used = __builtin_alloca(left - wanted - 128);
    used[0] = 0;
    char *stack_pointer;
    __asm__ volatile("mov %%rsp, %0" : "=r"(stack_pointer));
    require((size_t)(stack_pointer - stack) >= wanted);
    require((size_t)(stack_pointer - stack) < wanted + 128);
    wait_here();
    used[1] = 0;
}

static _Thread_local const char *alternate;

static void on_signal(int number)
{
    (void)number;
    leave_room(alternate);
}

static void *allocate(void *unused)
{
    atomic_fetch_add(&arrived, 1);
    do
        exercise();
    while (!atomic_load(&leave));
    return unused;
}

static void *wait_on_small_stack(void *own_stack)
{
    if (strcmp(kind, "full") == 0) {
        leave_room(own_stack);
        return NULL;
    }
    bool in_handler = strcmp(kind, "handler") == 0;
    size_t bytes = frame_bytes + PROMISED;
    bytes = in_handler ? 32768 : (bytes + 15) / 16 * 16;
    char *pages = map_stack(32768);
    stack_t stack = {.ss_sp = pages, .ss_size = bytes};
    alternate = pages;
    require(sigaltstack(&stack, NULL) == 0);
    if (in_handler)
        raise(SIGUSR1);
    else
        wait_here();
    stack.ss_flags = SS_DISABLE;
    require(sigaltstack(&stack, NULL) == 0);
    return NULL;
}

int main(int count, char **arguments)
{
    require(count == 2);
    kind = arguments[1];
    frame_bytes = getauxval(AT_MINSIGSTKSZ);
    require(frame_bytes > 0);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    require(sigaction(SIGUSR1, &action, NULL) == 0);
    bool least = strcmp(kind, "least") == 0;
    size_t bytes = least ? (size_t)PTHREAD_STACK_MIN : (size_t)STACK_BYTES;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        char *stack = map_stack(bytes);
        pthread_attr_t attributes;
        require(pthread_attr_init(&attributes) == 0);
        require(pthread_attr_setstack(&attributes, stack, bytes) == 0);
        require(pthread_create(&threads[i], &attributes, least ? allocate : wait_on_small_stack,
                               stack) == 0);
    }
    while (atomic_load(&arrived) < THREADS)
        sched_yield();
    for (int i = 0; i < COLLECTIONS; i++) {
        exercise();
        malloc_trim(0); /* which asks a collector to collect */
    }
    atomic_store(&leave, 1);
    for (int i = 0; i < THREADS; i++)
        require(pthread_join(threads[i], NULL) == 0);
    return 0;
}
