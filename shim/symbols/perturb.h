/* SPDX-License-Identifier: MIT
 *
 * perturb.h: mallopt's M_PERTURB: memory that is handed out or freed is overwritten, so that a
 * program that reads what it has not written, or has freed, is found out.
 */
#ifndef ALLOTROPE_SHIM_SYMBOLS_PERTURB_H
#define ALLOTROPE_SHIM_SYMBOLS_PERTURB_H

#include <stdbool.h>

/* From now on freed blocks are filled with the low byte of `value`, new ones with its complement;
 * 0: no more. False: this library has no route to put that into. Any thread. */
bool perturb(int value);

#endif
