/* SPDX-License-Identifier: MIT
 *
 * emitter.c: see emitter.h.
 */
#include "shim/reports/emitter.h"

#include <string.h>

enum { VALUE_COLUMN = 34 };

void emitter_begin(struct emitter *emitter, int descriptor, bool is_json)
{
    writer_begin(&emitter->writer, descriptor);
    emitter->is_json = is_json;
    emitter->table_depth = 0;
    if (is_json)
        json_begin(&emitter->json, &emitter->writer, JSON_INDENTED);
}

static size_t indentation(const struct emitter *emitter)
{
    return 2 * (size_t)(emitter->table_depth - 1);
}

/* Returns the writer, which stands where the value goes. */
static struct writer *begin_row(struct emitter *emitter, const char *key)
{
    struct writer *writer = &emitter->writer;
    size_t width = indentation(emitter) + strlen(key);
    writer_spaces(writer, indentation(emitter));
    writer_text(writer, key);
    writer_spaces(writer, width < VALUE_COLUMN ? VALUE_COLUMN - width : 1);
    return writer;
}

void emit_begin_object(struct emitter *emitter, const char *key)
{
    if (emitter->is_json) {
        json_begin_object(&emitter->json, key);
        return;
    }
    if (key) {
        writer_spaces(&emitter->writer, indentation(emitter));
        writer_text(&emitter->writer, key);
        writer_text(&emitter->writer, "\n");
    }
    emitter->table_depth++;
}

void emit_end_object(struct emitter *emitter)
{
    if (emitter->is_json)
        json_end_object(&emitter->json);
    else
        emitter->table_depth--;
}

void emit_number(struct emitter *emitter, const char *key, uint64_t number)
{
    if (emitter->is_json) {
        json_number(&emitter->json, key, number);
        return;
    }
    struct writer *writer = begin_row(emitter, key);
    writer_number(writer, number, 1);
    writer_text(writer, "\n");
}

void emit_seconds(struct emitter *emitter, const char *key, uint64_t nanoseconds)
{
    if (emitter->is_json) {
        json_seconds(&emitter->json, key, nanoseconds);
        return;
    }
    struct writer *writer = begin_row(emitter, key);
    writer_seconds(writer, nanoseconds);
    writer_text(writer, "\n");
}

void emit_string(struct emitter *emitter, const char *key, const char *text)
{
    if (emitter->is_json) {
        json_string(&emitter->json, key, text);
        return;
    }
    struct writer *writer = begin_row(emitter, key);
    writer_text(writer, text);
    writer_text(writer, "\n");
}

bool emitter_end(struct emitter *emitter)
{
    return emitter->is_json ? json_end(&emitter->json) : writer_end(&emitter->writer);
}
