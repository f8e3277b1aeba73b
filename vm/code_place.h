/* SPDX-License-Identifier: MIT
 *
 * code_place.h: where in which file a piece of code is, for reports.
 */
#ifndef ALLOTROPE_VM_CODE_PLACE_H
#define ALLOTROPE_VM_CODE_PLACE_H

#include "vm/message.h"

/* Writes "server+0x12ab", as symbolizers want it: the file without its folder, and the distance
 * from where the file is loaded. The bare address where no file is known to have it. Takes no lock
 * (dlfcn.h, _dl_find_object); any thread, signal handlers too. */
void message_code_place(struct message *message, const void *address);

#endif
