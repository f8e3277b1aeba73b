/* SPDX-License-Identifier: MIT
 *
 * emitter.c: see emitter.h.
 */
#include "shim/reports/emitter.h"

#include <errno.h>
#include <string.h>

#include "vm/number.h"
#include "vm/syscall.h"

enum { VALUE_COLUMN = 34 };

static void flush(struct emitter *emitter)
{
    size_t written = 0;
    while (written < emitter->length && !emitter->failed) {
        long count = SYSCALL_3(SYS_write, emitter->descriptor, emitter->buffer + written,
                               emitter->length - written);
        if (count == 0 || (syscall_failed(count) && count != -EINTR))
            emitter->failed = true;
        else if (count > 0)
            written += (size_t)count;
    }
    emitter->length = 0;
}

static void put(struct emitter *emitter, const char *text, size_t length)
{
    while (length > 0) {
        size_t room = sizeof emitter->buffer - emitter->length;
        size_t piece = length < room ? length : room;
        memcpy(emitter->buffer + emitter->length, text, piece);
        emitter->length += piece;
        text += piece;
        length -= piece;
        if (emitter->length == sizeof emitter->buffer)
            flush(emitter);
    }
}

static void put_text(struct emitter *emitter, const char *text)
{
    put(emitter, text, strlen(text));
}

static void put_spaces(struct emitter *emitter, size_t count)
{
    static const char spaces[] = "                                ";
    for (; count >= sizeof spaces; count -= sizeof spaces - 1)
        put(emitter, spaces, sizeof spaces - 1);
    put(emitter, spaces, count);
}

static void put_number(struct emitter *emitter, uint64_t number, size_t least_digits)
{
    char digits[DECIMAL_BYTES];
    size_t length = write_decimal(digits, number);
    for (size_t i = length; i < least_digits; i++)
        put(emitter, "0", 1);
    put(emitter, digits, length);
}

static void put_quoted(struct emitter *emitter, const char *text)
{
    put(emitter, "\"", 1);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            put(emitter, "\\", 1);
            put(emitter, text, 1);
        } else if (byte < 0x20 || byte >= 0x7F) {
            /* A path may hold any byte: each becomes the code point of its value. */
            static const char hex[] = "0123456789abcdef";
            char escape[] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
            put(emitter, escape, sizeof escape);
        } else {
            put(emitter, text, 1);
        }
    }
    put(emitter, "\"", 1);
}

static void put_key(struct emitter *emitter, const char *key)
{
    if (emitter->json) {
        if (!emitter->first)
            put_text(emitter, ",");
        put_text(emitter, "\n");
        put_spaces(emitter, 2 * (size_t)emitter->depth);
        if (key) {
            put_quoted(emitter, key);
            put_text(emitter, ": ");
        }
    } else if (key) {
        size_t indent = 2 * (size_t)(emitter->depth - 1), length = strlen(key);
        put_spaces(emitter, indent);
        put(emitter, key, length);
        put_spaces(emitter, indent + length < VALUE_COLUMN ? VALUE_COLUMN - indent - length : 1);
    }
    emitter->first = false;
}

static void end_line(struct emitter *emitter)
{
    if (!emitter->json)
        put_text(emitter, "\n");
}

void emitter_begin(struct emitter *emitter, int descriptor, bool json)
{
    emitter->descriptor = descriptor;
    emitter->json = json;
    emitter->first = true;
    emitter->failed = false;
    emitter->depth = 0;
    emitter->length = 0;
}

static void open_group(struct emitter *emitter, const char *key, const char *bracket)
{
    if (emitter->json) {
        if (emitter->depth > 0)
            put_key(emitter, key);
        put_text(emitter, bracket);
    } else if (key) {
        put_spaces(emitter, 2 * (size_t)(emitter->depth - 1));
        put_text(emitter, key);
        put_text(emitter, "\n");
    }
    emitter->depth++;
    emitter->first = true;
}

static void close_group(struct emitter *emitter, const char *bracket)
{
    emitter->depth--;
    if (emitter->json) {
        put_text(emitter, "\n");
        put_spaces(emitter, 2 * (size_t)emitter->depth);
        put_text(emitter, bracket);
    }
    emitter->first = false;
}

void emit_open(struct emitter *emitter, const char *key)
{
    open_group(emitter, key, "{");
}

void emit_close(struct emitter *emitter)
{
    close_group(emitter, "}");
}

void emit_open_list(struct emitter *emitter, const char *key)
{
    open_group(emitter, key, "[");
}

void emit_close_list(struct emitter *emitter)
{
    close_group(emitter, "]");
}

void emit_number(struct emitter *emitter, const char *key, uint64_t number)
{
    put_key(emitter, key);
    put_number(emitter, number, 1);
    end_line(emitter);
}

void emit_addresses(struct emitter *emitter, const char *key, const void *const *list, size_t count)
{
    put_key(emitter, key);
    put_text(emitter, "[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            put_text(emitter, ", ");
        put_number(emitter, (uintptr_t)list[i], 1);
    }
    put_text(emitter, "]");
    end_line(emitter);
}

void emit_seconds(struct emitter *emitter, const char *key, uint64_t nanoseconds)
{
    put_key(emitter, key);
    put_number(emitter, nanoseconds / 1000000000, 1);
    put_text(emitter, ".");
    put_number(emitter, nanoseconds % 1000000000, 9);
    end_line(emitter);
}

void emit_text(struct emitter *emitter, const char *key, const char *text)
{
    put_key(emitter, key);
    if (emitter->json)
        put_quoted(emitter, text);
    else
        put_text(emitter, text);
    end_line(emitter);
}

bool emitter_end(struct emitter *emitter)
{
    if (emitter->json)
        put_text(emitter, "\n");
    flush(emitter);
    return !emitter->failed;
}
