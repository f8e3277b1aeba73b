/* SPDX-License-Identifier: MIT
 *
 * random.c: see random.h.
 */
#include "vm/random.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

/* The kernel gives each process sixteen random bytes. To read them takes no system call, for which
 * a sandbox may end the process. libc makes its canary of them, so a seed does not show them. The
 * processor's clock tells the calls apart. */
uint64_t random_seed(void)
{
    const char *given = (const char *)getauxval(AT_RANDOM);
    uint64_t words[2] = {0, (uintptr_t)&words};
    if (given)
        memcpy(words, given, sizeof words);
    return random_mix(words[0] + random_mix(words[1] + __builtin_ia32_rdtsc() * RANDOM_GAMMA));
}
