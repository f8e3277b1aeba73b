/* SPDX-License-Identifier: MIT
 *
 * proc_maps.h: the text of /proc/self/maps, by which a reader names return addresses.
 *
 * A file that cannot be opened reads as empty.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_PROC_MAPS_H
#define ALLOTROPE_SHIM_OBSERVERS_PROC_MAPS_H

#include <stddef.h>

/* Returns a descriptor, or a failure that the others understand. */
long proc_maps_open(void);
/* Fills `text`; returns how many bytes. Less than the room: that was the end. */
size_t proc_maps_read(long maps, char *text, size_t room);
void proc_maps_close(long maps);

#endif
