/* SPDX-License-Identifier: MIT */
/* dispatch.c: the processor's own word on what it can do. */
#include "analysis/simulators/dispatch.h"

#include <stdlib.h>

static bool avx512;

__attribute__((constructor)) static void ask_processor(void)
{
    const char *portable = getenv("ALLOTROPE_SIMULATE_PORTABLE");
    __builtin_cpu_init();
    avx512 = (portable == NULL || portable[0] != '1') && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("bmi2") &&
             __builtin_cpu_supports("popcnt");
}

bool dispatch_avx512(void)
{
    return avx512;
}
