/* SPDX-License-Identifier: MIT */
/* dispatch.h: which instructions the simulators may use, asked once at run time.
 *
 * The build runs on any x86-64; a function marked AVX512 is called only where dispatch_avx512()
 * says so. ALLOTROPE_SIMULATE_PORTABLE=1 in the environment turns it off, so that the two paths
 * can be compared.
 */
#ifndef SIMULATORS_DISPATCH_H
#define SIMULATORS_DISPATCH_H

#include <stdbool.h>

#define AVX512                                                                                     \
    __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512cd,avx2,bmi,bmi2,popcnt,lzcnt")))

bool dispatch_avx512(void);

#endif
