/* SPDX-License-Identifier: MIT
 *
 * json.c: see json.h.
 */
#include "shim/reports/json.h"

void json_begin(struct json *json, struct writer *writer, enum json_layout layout)
{
    json->writer = writer;
    json->layout = layout;
    json->depth = 0;
    json->is_first = true;
}

static void quote(struct writer *writer, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    writer_bytes(writer, "\"", 1);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            writer_bytes(writer, "\\", 1);
            writer_bytes(writer, text, 1);
        } else if (byte < 0x20 || byte >= 0x7F) {
            char escape[] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
            writer_bytes(writer, escape, sizeof escape);
        } else {
            writer_bytes(writer, text, 1);
        }
    }
    writer_bytes(writer, "\"", 1);
}

static void begin_line(struct json *json)
{
    if (json->layout == JSON_COMPACT)
        return;
    writer_text(json->writer, "\n");
    writer_spaces(json->writer, 2 * (size_t)json->depth);
}

/* Whatever stands before a value: the comma after the last one, and the key. */
static void begin_value(struct json *json, const char *key)
{
    if (!json->is_first)
        writer_text(json->writer, ",");
    if (json->depth > 0)
        begin_line(json);
    if (key) {
        quote(json->writer, key);
        writer_text(json->writer, json->layout == JSON_COMPACT ? ":" : ": ");
    }
    json->is_first = false;
}

static void open_value(struct json *json, const char *key, const char *bracket)
{
    begin_value(json, key);
    writer_text(json->writer, bracket);
    json->depth++;
    json->is_first = true;
}

static void close_value(struct json *json, const char *bracket)
{
    json->depth--;
    begin_line(json);
    writer_text(json->writer, bracket);
    json->is_first = false;
}

void json_begin_object(struct json *json, const char *key)
{
    open_value(json, key, "{");
}

void json_end_object(struct json *json)
{
    close_value(json, "}");
}

void json_begin_array(struct json *json, const char *key)
{
    open_value(json, key, "[");
}

void json_end_array(struct json *json)
{
    close_value(json, "]");
}

void json_number(struct json *json, const char *key, uint64_t number)
{
    begin_value(json, key);
    writer_number(json->writer, number, 1);
}

void json_seconds(struct json *json, const char *key, uint64_t nanoseconds)
{
    begin_value(json, key);
    writer_seconds(json->writer, nanoseconds);
}

void json_string(struct json *json, const char *key, const char *text)
{
    begin_value(json, key);
    quote(json->writer, text);
}

void json_addresses(struct json *json, const char *key, const void *const *addresses, size_t count)
{
    begin_value(json, key);
    writer_text(json->writer, "[");
    for (size_t i = 0; i < count; i++) {
        writer_text(json->writer, i > 0 ? ", " : "");
        writer_number(json->writer, (uintptr_t)addresses[i], 1);
    }
    writer_text(json->writer, "]");
}

bool json_end(struct json *json)
{
    writer_text(json->writer, "\n");
    return writer_end(json->writer);
}
