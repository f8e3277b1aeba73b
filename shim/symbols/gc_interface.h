/* SPDX-License-Identifier: MIT
 *
 * gc_interface.h: see gc_interface.c.
 */
#ifndef ALLOTROPE_SHIM_SYMBOLS_GC_INTERFACE_H
#define ALLOTROPE_SHIM_SYMBOLS_GC_INTERFACE_H

/* Programs refer to the interface weakly, which takes nothing out of an archive. Who refers to this
 * does. */
extern const char gc_interface_is_linked;

#endif
