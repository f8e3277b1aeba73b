/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * handlers.h: what a program that handles its faults needs of its registers.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_HANDLERS_H
#define ALLOTROPE_TRACE_RECORDER_HANDLERS_H

#include "pub_tool_basics.h"

/* A system call has succeeded: if it has set a handler for faults, what is translated from here on
 * keeps the registers up to date for it. */
void handlers_after_syscall(UInt number, const UWord *arguments);

/* Whether what is translated now keeps them up to date. */
Bool handlers_need_registers(void);

#endif
