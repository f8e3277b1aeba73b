/* SPDX-License-Identifier: MIT
 *
 * writer.c: see writer.h.
 */
#include "shim/reports/writer.h"

#include <string.h>

#include "vm/number.h"
#include "vm/write.h"

void writer_begin(struct writer *writer, int descriptor)
{
    writer->descriptor = descriptor;
    writer->failed = false;
    writer->length = 0;
}

static void flush(struct writer *writer)
{
    if (!writer->failed &&
        !write_whole(writer->descriptor, writer->buffer, writer->length, WRITE_WAITS_FOR_EVER))
        writer->failed = true;
    writer->length = 0;
}

void writer_bytes(struct writer *writer, const char *text, size_t length)
{
    while (length > 0) {
        size_t room = sizeof writer->buffer - writer->length;
        size_t piece = length < room ? length : room;
        memcpy(writer->buffer + writer->length, text, piece);
        writer->length += piece;
        text += piece;
        length -= piece;
        if (writer->length == sizeof writer->buffer)
            flush(writer);
    }
}

void writer_text(struct writer *writer, const char *text)
{
    writer_bytes(writer, text, strlen(text));
}

void writer_spaces(struct writer *writer, size_t count)
{
    static const char spaces[] = "                                ";
    for (; count >= sizeof spaces; count -= sizeof spaces - 1)
        writer_bytes(writer, spaces, sizeof spaces - 1);
    writer_bytes(writer, spaces, count);
}

void writer_number(struct writer *writer, uint64_t number, size_t least_digits)
{
    char digits[DECIMAL_BYTES];
    writer_bytes(writer, digits, write_number(digits, number, 10, least_digits));
}

void writer_seconds(struct writer *writer, uint64_t nanoseconds)
{
    writer_number(writer, nanoseconds / 1000000000, 1);
    writer_text(writer, ".");
    writer_number(writer, nanoseconds % 1000000000, 9);
}

bool writer_end(struct writer *writer)
{
    flush(writer);
    return !writer->failed;
}
