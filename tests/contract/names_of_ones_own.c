/* SPDX-License-Identifier: MIT
 *
 * names_of_ones_own.c: the program defines a function of libc's, and builds it on another one.
 *
 * Emulations and libraries of coroutines do so. libc calls none of its functions by a name that a
 * program may define. A library between that does comes back to the program, which calls it again.
 */
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <threads.h>
#include <time.h>

#include "tests/contract/contract.h"

int __poll_chk(struct pollfd *descriptors, nfds_t count, int timeout_ms, size_t bytes);

static unsigned calls;

ssize_t send(int descriptor, const void *buffer, size_t bytes, int flags)
{
    calls++;
    return sendto(descriptor, buffer, bytes, flags, NULL, 0);
}

ssize_t recv(int descriptor, void *buffer, size_t bytes, int flags)
{
    calls++;
    return recvfrom(descriptor, buffer, bytes, flags, NULL, NULL);
}

int poll(struct pollfd *descriptors, nfds_t count, int timeout_ms)
{
    calls++;
    return __poll_chk(descriptors, count, timeout_ms, count * sizeof *descriptors);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    calls++;
    return usleep((useconds_t)(time->tv_nsec / 1000));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    (void)clock, (void)flags;
    calls++;
    return thrd_sleep(time, left);
}

ssize_t pwrite(int descriptor, const void *buffer, size_t bytes, off_t at)
{
    calls++;
    return pwrite64(descriptor, buffer, bytes, at);
}

int mprotect(void *start, size_t bytes, int protection)
{
    calls++;
    return pkey_mprotect(start, bytes, protection, -1);
}

static char page[4096] __attribute__((aligned(4096)));

int main(void)
{
    int ends[2];
    char byte = 'x';
    const struct timespec moment = {.tv_nsec = 1000};
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    require(send(ends[0], &byte, 1, 0) == 1);
    struct pollfd readable = {.fd = ends[1], .events = POLLIN};
    require(poll(&readable, 1, 0) == 1);
    require(recv(ends[1], &byte, 1, 0) == 1);
    require(nanosleep(&moment, NULL) == 0);
    require(clock_nanosleep(CLOCK_REALTIME, 0, &moment, NULL) == 0);
    FILE *file = tmpfile();
    require(file != NULL && pwrite(fileno(file), &byte, 1, 5) == 1);
    require(mprotect(page, sizeof page, PROT_READ) == 0);
    require(calls == 7);
    return 0;
}
