/* SPDX-License-Identifier: MIT
 *
 * reply.c: see reply.h.
 *
 *   line       up to the first line feed
 *   http       head, then Content-Length bytes, or chunks up to the empty one, or all until the
 *              server closes
 *   redis      one value of RESP2: a line, or $length and bytes, or *count and that many values
 *   memcached  a line; VALUE lines, each with a block of bytes, up to END
 */
#include "analysis/load/reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool protocol_named(const char *name, enum protocol *protocol)
{
    static const char *const names[] = {"line", "http", "redis", "memcached"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *protocol = (enum protocol)i;
            return true;
        }
    return false;
}

/* Behind the first line of `text`, or NULL when that is not whole. */
static const char *next_line(const char *text, const char *end)
{
    const char *feed = text < end ? memchr(text, '\n', (size_t)(end - text)) : NULL;
    return feed ? feed + 1 : NULL;
}

/* The number in text, which ends before `end`; -1 when there is none. */
static long number_at(const char *text, const char *end)
{
    long number = 0;
    if (text < end && *text == '-')
        return -1;
    for (; text < end && *text >= '0' && *text <= '9'; text++)
        number = 10 * number + (*text - '0');
    return number;
}

static enum reply_state redis_state(const char *text, const char *end)
{
    bool refused = text < end && *text == '-';
    for (long values = 1; values > 0; values--) {
        const char *next = next_line(text, end);
        if (!next)
            return UNFINISHED;
        long count = number_at(text + 1, next);
        if (*text == '*' && count > 0)
            values += count;
        if (*text == '$' && count >= 0) {
            if (end - next < count + 2)
                return UNFINISHED;
            next += count + 2;
        }
        text = next;
    }
    return refused ? REFUSED : COMPLETE;
}

static bool begins(const char *text, const char *end, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(end - text) >= length && memcmp(text, word, length) == 0;
}

static enum reply_state memcached_state(const char *text, const char *end)
{
    for (const char *next; (next = next_line(text, end)) != NULL; text = next) {
        if (!begins(text, end, "VALUE ")) {
            bool refused = begins(text, end, "ERROR") || begins(text, end, "CLIENT_ERROR") ||
                           begins(text, end, "SERVER_ERROR");
            return refused ? REFUSED : COMPLETE;
        }
        const char *size = next - 1; /* the last word of the line */
        while (size > text && (*size == '\n' || *size == '\r'))
            size--;
        while (size > text && size[-1] != ' ')
            size--;
        long bytes = number_at(size, next) + 2;
        if (end - next < bytes)
            return UNFINISHED;
        next += bytes;
    }
    return UNFINISHED;
}

/* The value of a header, or NULL; `head` ends with its empty line at `end`. */
static const char *header(const char *head, const char *end, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = next_line(head, end); line && line < end; line = next_line(line, end))
        if ((size_t)(end - line) > length && strncasecmp(line, name, length) == 0) {
            for (line += length; line < end && *line == ' ';)
                line++;
            return line;
        }
    return NULL;
}

static enum reply_state http_state(const char *text, const char *end)
{
    const char *blank = memmem(text, (size_t)(end - text), "\r\n\r\n", 4);
    if (!blank)
        return UNFINISHED;
    const char *body = blank + 4;
    const char *connection = header(text, body, "Connection:");
    bool is_old = begins(text, end, "HTTP/1.0");
    bool closes = is_old && !connection;
    if (connection && is_old)
        closes = strncasecmp(connection, "keep", 4) != 0;
    else if (connection)
        closes = strncasecmp(connection, "close", 5) == 0;
    bool whole = false;
    const char *size = header(text, body, "Content-Length:");
    const char *status = text + strlen("HTTP/1.1 ");
    bool refused = status < end && *status != '2' && *status != '3';
    if (size)
        whole = end - body >= number_at(size, body);
    else if (header(text, body, "Transfer-Encoding:"))
        whole = end - body >= 5 && memcmp(end - 5, "0\r\n\r\n", 5) == 0;
    else
        return UNTIL_CLOSED;
    if (!whole)
        return UNFINISHED;
    return refused ? REFUSED : closes ? COMPLETE_CLOSES : COMPLETE;
}

enum reply_state reply_state(enum protocol protocol, const char *text, size_t length)
{
    const char *end = text + length;
    switch (protocol) {
    case HTTP:
        return http_state(text, end);
    case REDIS:
        return redis_state(text, end);
    case MEMCACHED:
        return memcached_state(text, end);
    default:
        return next_line(text, end) ? COMPLETE : UNFINISHED;
    }
}
