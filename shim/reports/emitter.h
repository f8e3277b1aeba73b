/* SPDX-License-Identifier: MIT
 *
 * emitter.h: one set of figures, written as a table for people or as JSON.
 *
 * Buffered in itself and written by system calls: it works at exit, in a full heap and with
 * stdio gone. A table is indented lines "key  value".
 */
#ifndef ALLOTROPE_SHIM_REPORTS_EMITTER_H
#define ALLOTROPE_SHIM_REPORTS_EMITTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emitter {
    int descriptor;
    bool json;
    bool first; /* no member of the present object has been written */
    unsigned depth;
    bool failed; /* the file took no more */
    size_t length;
    char buffer[4096];
};

void emitter_begin(struct emitter *emitter, int descriptor, bool json);
void emit_open(struct emitter *emitter, const char *key); /* key NULL: the outermost object */
void emit_close(struct emitter *emitter);
/* In a list the key of what is written is NULL. */
void emit_open_list(struct emitter *emitter, const char *key);
void emit_close_list(struct emitter *emitter);
void emit_number(struct emitter *emitter, const char *key, uint64_t number);
/* A list of numbers in one line. */
void emit_addresses(struct emitter *emitter, const char *key, const void *const *list,
                    size_t count);
void emit_seconds(struct emitter *emitter, const char *key, uint64_t nanoseconds);
void emit_text(struct emitter *emitter, const char *key, const char *text);
/* False when not everything could be written. */
bool emitter_end(struct emitter *emitter);

#endif
