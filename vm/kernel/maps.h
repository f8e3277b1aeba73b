/* SPDX-License-Identifier: MIT
 *
 * maps.h: /proc/self/maps: its text, its lines, and what a line says. Who keeps the whole list asks
 * process_read_mappings().
 */
#ifndef ALLOTROPE_VM_KERNEL_MAPS_H
#define ALLOTROPE_VM_KERNEL_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a line says. */
struct mapping {
    uintptr_t start, end;
    bool readable, writable, executable, shared;
    bool is_empty;    /* known to have no page. Lines do not say it: see process_note_empty() */
    const char *name; /* "" without one; up to the end of the line */
    size_t name_length;
};

/* Reads the line at `at`; returns where the next one begins. The text ends before `end`, maybe
 * without a newline. */
const char *mapping_parse(const char *at, const char *end, struct mapping *mapping);

/* Whether name is what is given. */
bool mapping_is_named(const struct mapping *mapping, const char *name);
bool mapping_name_begins(const struct mapping *mapping, const char *beginning);

/* The text, for a reader elsewhere. A file that cannot be opened reads as empty. */

/* Returns a descriptor, or a failure that the others understand. */
long maps_open(void);
/* Fills `text`; returns how many bytes. Less than the room: that was the end, or a failure to
 * read. */
size_t maps_read(long maps, char *text, size_t room);
void maps_close(long maps);

/* Calls `each` for every line, with a zero in place of the newline, until it returns false. The
 * buffer is the caller's and holds one line at least; what of a line does not fit is left out. */
enum { MAPS_LINE_BYTES = 4096 + 256 };
void maps_each_line(char *buffer, size_t bytes,
                    bool (*each)(void *argument, const char *line, const struct mapping *mapping),
                    void *argument);
/* The same for a file like it, of which not every line is of a mapping. */
void maps_each_text_line(long file, char *buffer, size_t bytes,
                         bool (*each)(void *argument, const char *line), void *argument);

#endif
