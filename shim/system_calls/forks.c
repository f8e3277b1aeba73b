/* SPDX-License-Identifier: MIT
 *
 * forks.c: the fork of a signal handler that has interrupted malloc or free.
 *
 * libc's fork takes locks of its own, such as that of stdio's list of files. In a process of
 * several threads their holders may wait in malloc for what the interrupted call holds, and both
 * would wait for ever. _Fork takes no locks. The child of such a fork can exec or call _exit, and
 * no more: it has libc's locks as the other threads left them, so exit() may wait for ever.
 * Therefore the handlers that the program has asked for (pthread_atfork) are not called: they are
 * made for children that go on, and may wait for locks as well.
 *
 * Only in the library that is preloaded. A library of a single allocator wraps nothing, and a
 * static program has libc's fork.
 *
 * Every other fork is libc's.
 */
#include <unistd.h>

#include "shim/route/process.h"
#include "shim/symbols/interpose.h"
#include "shim/system_calls/next_call.h"
#include "vm/fork_chain.h"
#include "vm/single_threaded.h"

#ifdef PIC
extern pid_t _Fork(void) __attribute__((weak)); /* from glibc 2.34 on */

EXPORT pid_t fork(void)
{
    FIND_NEXT(fork);
    if (!_Fork || single_threaded() || !fork_chain_is_interrupted())
        return next();
    return process_fork(_Fork);
}

EXPORT pid_t __fork(void) __attribute__((nothrow));
ALSO_CALLED(__fork, fork);
#endif
