/* SPDX-License-Identifier: MIT
 *
 * start_many_atexit.c: the first allocation of the process is made by atexit.
 *
 * glibc has room for 32 handlers; for the next one atexit calls calloc while it holds its lock.
 * An allocator whose first call registers an exit handler of its own then waits for ever.
 * Seen: snmalloc PR 762.
 */
#include "tests/contract/contract.h"

enum { HANDLERS = 100 };
static int handled;

static void handler(void)
{
    free(opaque(malloc(1000)));
    if (++handled == HANDLERS && write(1, "all handlers ran\n", 17) != 17)
        _exit(1);
}

static void register_handlers(void)
{
    for (int i = 0; i < HANDLERS; i++)
        require(atexit(handler) == 0);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = register_handlers;

int main(void)
{
    exercise();
    return 0;
}
