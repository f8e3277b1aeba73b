/* SPDX-License-Identifier: MIT
 *
 * dispatch.h: which instructions the simulators may use, asked once at run time.
 *
 * The build runs on any x86-64; a function marked AVX512 is called only where dispatch_avx512()
 * says so.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_DISPATCH_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_DISPATCH_H

#include <stdbool.h>

#define AVX512      \
    __attribute__(( \
        target("avx512f,avx512vl,avx512bw,avx512dq,avx512cd,avx2,bmi,bmi2,popcnt,lzcnt")))

/* For what is compiled into its callers: with their instructions, and with the constants that they
 * hand over. */
#define INLINE static inline __attribute__((always_inline))

bool dispatch_avx512(void);

/* Turns the vector paths off, so that tests and benchmarks can compare the two; or on again, as
 * far as the processor has them. Not while a simulator runs. */
void dispatch_allow_avx512(bool allowed);

#endif
