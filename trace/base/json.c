/* SPDX-License-Identifier: MIT
 *
 * json.c: see json.h.
 */
#include "trace/base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_text(FILE *output, const char *text)
{
    fputc('"', output);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(output, "\\%c", byte);
        else if (byte < ' ')
            fprintf(output, "\\u%04x", byte);
        else
            fputc(byte, output);
    }
    fputc('"', output);
}

static void put_bytes(FILE *output, const char *bytes)
{
    fputc('"', output);
    for (; *bytes; bytes++) {
        unsigned char byte = (unsigned char)*bytes;
        if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\')
            fprintf(output, "\\u%04x", byte);
        else
            fputc(byte, output);
    }
    fputc('"', output);
}

static void put_line(struct json *json)
{
    if (json->begin_line)
        fputc('\n', json->output);
    json->begin_line = false;
}

/* What stands before a value. */
static void begin(struct json *json, const char *key)
{
    if (json->follows)
        fputs(json->begin_line ? "," : ", ", json->output);
    put_line(json);
    if (key) {
        put_text(json->output, key);
        fputs(": ", json->output);
    }
    json->follows = true;
}

static void open_bracket(struct json *json, const char *key, char bracket)
{
    begin(json, key);
    fputc(bracket, json->output);
    json->follows = false;
}

static void close_bracket(struct json *json, char bracket)
{
    put_line(json);
    fputc(bracket, json->output);
    json->follows = true;
}

void json_open(struct json *json, const char *key)
{
    open_bracket(json, key, '{');
}

void json_open_with(struct json *json, const char *key, const char *object)
{
    size_t length = strlen(object) - 1;
    begin(json, key);
    fwrite(object, 1, length, json->output);
    json->follows = length > 1;
}

void json_close(struct json *json)
{
    close_bracket(json, '}');
}

void json_open_list(struct json *json, const char *key)
{
    open_bracket(json, key, '[');
}

void json_close_list(struct json *json)
{
    close_bracket(json, ']');
}

void json_new_line(struct json *json)
{
    json->begin_line = true;
}

void json_number(struct json *json, const char *key, uint64_t number)
{
    begin(json, key);
    fprintf(json->output, "%" PRIu64, number);
}

void json_integer(struct json *json, const char *key, int64_t number)
{
    begin(json, key);
    fprintf(json->output, "%" PRId64, number);
}

void json_real(struct json *json, const char *key, double number)
{
    begin(json, key);
    fprintf(json->output, "%.9g", number);
}

void json_seconds(struct json *json, const char *key, double seconds)
{
    begin(json, key);
    fprintf(json->output, "%.6f", seconds);
}

void json_bool(struct json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->output);
}

void json_null(struct json *json, const char *key)
{
    begin(json, key);
    fputs("null", json->output);
}

void json_text(struct json *json, const char *key, const char *text)
{
    if (!text) {
        json_null(json, key);
        return;
    }
    begin(json, key);
    put_text(json->output, text);
}

void json_bytes(struct json *json, const char *key, const char *bytes)
{
    if (!bytes) {
        json_null(json, key);
        return;
    }
    begin(json, key);
    put_bytes(json->output, bytes);
}

void json_raw(struct json *json, const char *key, const char *value)
{
    begin(json, key);
    fputs(value && *value ? value : "null", json->output);
}

bool json_memory_begin(struct json_memory *memory)
{
    *memory = (struct json_memory){0};
    memory->json.output = open_memstream(&memory->text, &memory->length);
    return memory->json.output;
}

char *json_memory_end(struct json_memory *memory)
{
    if (fclose(memory->json.output) == 0)
        return memory->text;
    free(memory->text);
    return NULL;
}
