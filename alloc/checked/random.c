/* SPDX-License-Identifier: MIT
 *
 * random.c: see random.h.
 */
#include "alloc/checked/random.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

/* From the sixteen bytes that the kernel gives each process, so without a call that a sandbox may
 * end it for. libc makes its canary of them, hence the mixing. */
uint64_t random_start(unsigned which)
{
    const char *given = (const char *)getauxval(AT_RANDOM);
    uint64_t words[2] = {__builtin_ia32_rdtsc(), (uintptr_t)&words};
    if (given)
        memcpy(words, given, sizeof words);
    return mix_bits(words[which] + UINT64_C(0x9E3779B97F4A7C15) * (which + 1));
}
