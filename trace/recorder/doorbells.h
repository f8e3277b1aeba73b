/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * doorbells.h: where libraries keep their doorbells (protocol/doorbell.h), which the tool
 * recognises when it translates a store to one.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_DOORBELLS_H
#define ALLOTROPE_TRACE_RECORDER_DOORBELLS_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* Which doorbell an address expression means; -1 for none. */
Int doorbells_at(IRExpr *address);
/* Whether an instruction only rings. */
Bool doorbells_silent(Addr instruction);

/* The program's requests, doorbell_register() and its kin: as VG_(needs_client_requests). */
Bool doorbells_request(ThreadId thread, UWord *arguments, UWord *result);

#endif
