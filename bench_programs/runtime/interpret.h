/* SPDX-License-Identifier: MIT
 *
 * interpret.h: executes bytecodes.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_INTERPRET_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_INTERPRET_H

#include "bench_programs/runtime/object.h"

/* After the image is loaded, once. */
void interpret_open(void);

/* Sends `selector` with one argument to a new object of the class, and returns what it answers. */
value interpret(const char *class_name, const char *selector, value argument);

#endif
