/* SPDX-License-Identifier: MIT
 *
 * gc_interface.h: see gc_interface.c.
 */
#ifndef ALLOTROPE_SHIM_SYMBOLS_GC_INTERFACE_H
#define ALLOTROPE_SHIM_SYMBOLS_GC_INTERFACE_H

/* Programs refer to the interface by weak references, for which the linker takes no file out of an
 * archive. A reference to this word makes it take gc_interface.c. */
extern const char gc_interface_is_linked;

#endif
