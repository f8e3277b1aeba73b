/* SPDX-License-Identifier: MIT
 *
 * protection_keys.h: the register that says, for the calling thread alone, which pages may be
 * touched (pkeys(7)). A new thread inherits it. A signal handler begins with the kernel's default.
 */
#ifndef ALLOTROPE_VM_PROTECTION_KEYS_H
#define ALLOTROPE_VM_PROTECTION_KEYS_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

enum { ALL_RIGHTS = 0 }; /* the register's bits forbid */

/* Whether the processor has keys, and the kernel has enabled them. */
static inline bool has_protection_keys(void)
{
    enum { LEAF = 7, ENABLED = 1 << 4 };
    unsigned a, b, c, d;
    return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && c & ENABLED;
}

/* Only where there are keys. Returns the rights before. */
static inline uint32_t change_rights(uint32_t rights)
{
    uint32_t before, zero;
    __asm__ volatile("rdpkru" : "=a"(before), "=d"(zero) : "c"(0));
    __asm__ volatile("wrpkru" : : "a"(rights), "c"(0), "d"(0) : "memory");
    return before;
}

#endif
