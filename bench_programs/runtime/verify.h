/* SPDX-License-Identifier: MIT
 *
 * verify.h: whether the heap is what it should be after a scavenge.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_VERIFY_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_VERIFY_H

/* Ends the program with status 3 and a line that names the fault. What it checks:
 *   - objects lie one behind the other, young ones in the current semispace; those in the old
 *     generation are where object_starts says, and none there is a frame;
 *   - every value in a slot, a class or a root is an integer or the start of an object;
 *   - classes are old;
 *   - the policy knows every old slot that holds a young value. */
void verify_heap(void);

#endif
