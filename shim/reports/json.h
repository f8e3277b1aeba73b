/* SPDX-License-Identifier: MIT
 *
 * json.h: the JSON writer of the native wing.
 *
 * The caller names what it writes: objects, arrays, numbers, strings. Commas, line ends,
 * indentation and the escapes of a string come from here. A member of an object has a key; an
 * element of an array, and the outermost value, have none: their key is NULL.
 *
 *     json_begin(&json, &writer, JSON_INDENTED);
 *     json_begin_object(&json, NULL);
 *     json_number(&json, "pid", 42);
 *     json_end_object(&json);
 *     ok = json_end(&json);
 *
 * Source: RFC 8259.
 */
#ifndef ALLOTROPE_SHIM_REPORTS_JSON_H
#define ALLOTROPE_SHIM_REPORTS_JSON_H

#include "shim/reports/writer.h"

enum json_layout {
    JSON_INDENTED, /* a member a line */
    JSON_COMPACT,  /* one line without spaces */
};

struct json {
    struct writer *writer;
    enum json_layout layout;
    unsigned depth; /* objects and arrays that are open */
    bool is_first;  /* nothing has been written into the innermost one yet */
};

/* The writer has begun; json_end() ends it. */
void json_begin(struct json *json, struct writer *writer, enum json_layout layout);

void json_begin_object(struct json *json, const char *key);
void json_end_object(struct json *json);
void json_begin_array(struct json *json, const char *key);
void json_end_array(struct json *json);

void json_number(struct json *json, const char *key, uint64_t number);
/* With nine decimals. */
void json_seconds(struct json *json, const char *key, uint64_t nanoseconds);
/* A string may hold any byte: those that are not ASCII become the code point of their value. */
void json_string(struct json *json, const char *key, const char *text);
/* An array of numbers in one line, whatever the layout. */
void json_addresses(struct json *json, const char *key, const void *const *addresses, size_t count);

/* Ends the line. False when not everything could be written. */
bool json_end(struct json *json);

#endif
