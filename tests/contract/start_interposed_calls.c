/* SPDX-License-Identifier: MIT
 *
 * start_interposed_calls.c: functions of libc that an allocator's start might use allocate
 * themselves.
 *
 * dlsym, open, getenv or stdio called while an allocator sets itself up may call malloc (a tracer
 * or sandbox interposes them, glibc allocates in some), which waits for the set-up for ever. So
 * set-up uses system calls alone; here every such function counts its calls.
 * Seen: jemalloc 443, 916, 2505.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>

#include "tests/contract/contract.h"

static int calls;
static bool counting;

static void allocate_and_count(void)
{
    if (!counting)
        return;
    calls++;
    free(opaque(malloc(50)));
}

#define INTERPOSE(type, name, parameters, failure) \
    type name parameters                           \
    {                                              \
        allocate_and_count();                      \
        return failure;                            \
    }

/* The prototypes in the headers carry attributes that definitions need not repeat. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
INTERPOSE(void *, dlsym, (void *restrict handle, const char *restrict name), NULL)
INTERPOSE(void *, dlvsym,
          (void *restrict handle, const char *restrict name, const char *restrict version), NULL)
INTERPOSE(int, open, (const char *path, int flags, ...), -1)
INTERPOSE(int, open64, (const char *path, int flags, ...), -1)
INTERPOSE(int, openat, (int directory, const char *path, int flags, ...), -1)
INTERPOSE(ssize_t, readlink, (const char *restrict path, char *restrict buffer, size_t size), -1)
INTERPOSE(FILE *, fopen, (const char *restrict path, const char *restrict mode), NULL)
INTERPOSE(char *, getenv, (const char *name), NULL)
INTERPOSE(char *, secure_getenv, (const char *name), NULL)
INTERPOSE(long, sysconf, (int name), -1)

static void first_call(void)
{
    counting = true;
    exercise();
    counting = false;
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = first_call;

int main(void)
{
    counting = true;
    exercise();
    counting = false;
    require(calls == 0);
    return 0;
}
