/* SPDX-License-Identifier: MIT
 *
 * names.h: what classes, kinds of mappings and events are called, in all that is printed.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_NAMES_H
#define ALLOTROPE_TRACE_FORMAT_NAMES_H

#include <stdint.h>

/* NULL for a number that names nothing. */
const char *trace_class_name(uint32_t class);
const char *trace_region_name(uint32_t region);
const char *trace_event_name(uint32_t type);

#endif
