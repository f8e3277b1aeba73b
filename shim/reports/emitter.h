/* SPDX-License-Identifier: MIT
 *
 * emitter.h: one set of figures, written as a table for people or as JSON for programs.
 *
 * The calls are those of json.h. In a table a number or a string is a line "key  value"; an object
 * is a line with its key, and its members follow indented. Arrays are for programs only: those are
 * written to `json`.
 */
#ifndef ALLOTROPE_SHIM_REPORTS_EMITTER_H
#define ALLOTROPE_SHIM_REPORTS_EMITTER_H

#include "shim/reports/json.h"
#include "shim/reports/writer.h"

/* Stays where it was begun: it points into itself. */
struct emitter {
    struct writer writer;
    bool is_json;
    struct json json;     /* used for JSON */
    unsigned table_depth; /* used for a table: objects that are open */
};

void emitter_begin(struct emitter *emitter, int descriptor, bool is_json);

void emit_begin_object(struct emitter *emitter, const char *key);
void emit_end_object(struct emitter *emitter);

void emit_number(struct emitter *emitter, const char *key, uint64_t number);
void emit_seconds(struct emitter *emitter, const char *key, uint64_t nanoseconds);
void emit_string(struct emitter *emitter, const char *key, const char *text);

/* False when not everything could be written. */
bool emitter_end(struct emitter *emitter);

#endif
