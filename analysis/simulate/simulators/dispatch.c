/* SPDX-License-Identifier: MIT
 *
 * dispatch.c: the processor's own word on what it can do.
 */
#include "analysis/simulate/simulators/dispatch.h"

static bool avx512;

__attribute__((constructor)) static void ask_processor(void)
{
    dispatch_allow_avx512(true);
}

void dispatch_allow_avx512(bool allowed)
{
    __builtin_cpu_init();
    avx512 = allowed && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("bmi2") &&
             __builtin_cpu_supports("popcnt");
}

bool dispatch_avx512(void)
{
    return avx512;
}
