/* SPDX-License-Identifier: MIT
 *
 * written.h: what every process writes as it starts, and every fork, lies together.
 *
 * A page that is written for the first time costs a fault, 1.6 to 2 microseconds, in each process
 * and again on either side of a fork. By default, variables that are zero at first lie apart from
 * the others, between data that few processes write. WRITTEN_AT_START puts them beside the others.
 */
#ifndef ALLOTROPE_VM_WRITTEN_H
#define ALLOTROPE_VM_WRITTEN_H

#define WRITTEN_AT_START __attribute__((section(".data")))

#endif
