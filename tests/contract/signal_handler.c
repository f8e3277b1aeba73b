/* SPDX-License-Identifier: MIT
 *
 * signal_handler.c: a signal handler allocates while the program is inside malloc or free.
 *
 * POSIX forbids it, programs do it. It must not hang: either it works, or the allocator sees
 * that the lock is held by the very thread that asks for it, says so and aborts. The handler
 * frees what it allocates.
 * Seen: jemalloc 1224.
 */
#include <signal.h>
#include <sys/time.h>

#include "tests/contract/contract.h"

enum { BLOCKS = 2000, SIGNALS = 2000 };
static volatile sig_atomic_t signals;

static void handler(int number)
{
    (void)number;
    int saved = errno;
    size_t size = (size_t)(signals % 50) * 100;
    free(opaque(malloc(size)));
    signals = signals + 1;
    errno = saved;
}

int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    require(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 100}, {0, 100}};
    require(setitimer(ITIMER_REAL, &every, NULL) == 0);
    static void *blocks[BLOCKS];
    uint64_t random = 1;
    while (signals < SIGNALS) {
        void **slot = &blocks[random_next(&random) % BLOCKS];
        free(*slot);
        *slot = malloc(random_next(&random) % 5000);
        require(*slot != NULL);
    }
    return 0;
}
