/* SPDX-License-Identifier: MIT
 *
 * json.h: writes JSON to a stdio stream: the one JSON writer of trace/ and analysis/.
 *
 * A key goes with each value: NULL in a list, and for the outermost value. Commas come by
 * themselves; all is one line, but where json_new_line() says otherwise.
 *
 *     struct json json = {.output = stdout};
 *     json_open(&json, NULL);
 *     json_number(&json, "pid", 17);             {"pid": 17, "names": ["a", "b"]}
 *     json_open_list(&json, "names");
 *     json_text(&json, NULL, "a");
 *     json_text(&json, NULL, "b");
 *     json_close_list(&json);
 *     json_close(&json);
 *
 * Errors are the stream's: whoever owns it asks ferror() or fflush().
 */
#ifndef ALLOTROPE_TRACE_BASE_JSON_H
#define ALLOTROPE_TRACE_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *output;
    bool follows;    /* the next element comes after another of its object or list */
    bool begin_line; /* the next element or closing bracket begins a line */
};

void json_open(struct json *json, const char *key);
/* Opens an object with the members of `object`, which is the text of one. */
void json_open_with(struct json *json, const char *key, const char *object);
void json_close(struct json *json);
void json_open_list(struct json *json, const char *key);
void json_close_list(struct json *json);

/* The next element, or the bracket that closes the list, begins a line. */
void json_new_line(struct json *json);

void json_number(struct json *json, const char *key, uint64_t number);
void json_integer(struct json *json, const char *key, int64_t number);
/* Nine significant digits. */
void json_real(struct json *json, const char *key, double number);
/* Microseconds are the last digits. */
void json_seconds(struct json *json, const char *key, double seconds);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

/* A string of UTF-8; NULL is null. */
void json_text(struct json *json, const char *key, const char *text);
/* A string of any bytes, such as a path: those that are no printable ASCII stand as the characters
 * of the same numbers (Latin-1). NULL is null. */
void json_bytes(struct json *json, const char *key, const char *bytes);
/* A value that is JSON already; NULL and "" are null. */
void json_raw(struct json *json, const char *key, const char *value);

/* JSON in memory. `json` writes it from json_memory_begin() on, which returns false when memory is
 * short; json_memory_end() returns the text, which the caller frees, or NULL. */
struct json_memory {
    struct json json;
    char *text;
    size_t length;
};

bool json_memory_begin(struct json_memory *memory);
char *json_memory_end(struct json_memory *memory);

#endif
