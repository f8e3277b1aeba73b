/* SPDX-License-Identifier: MIT
 *
 * maps.c: see maps.h.
 */
#include "vm/kernel/maps.h"

#include <fcntl.h>
#include <string.h>

#include "vm/number.h"
#include "vm/syscall.h"

long maps_open(void)
{
    return SYSCALL_4(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
}

size_t maps_read(long maps, char *text, size_t room)
{
    size_t length = 0;
    long got = syscall_failed(maps) ? 0 : 1;
    while (got > 0 && length < room) {
        got = SYSCALL_3(SYS_read, maps, text + length, room - length);
        if (got > 0)
            length += (size_t)got;
    }
    return length;
}

void maps_close(long maps)
{
    if (!syscall_failed(maps))
        SYSCALL_1(SYS_close, maps);
}

/* "start-end rwxp offset device inode   name" */
const char *mapping_parse(const char *at, const char *end, struct mapping *mapping)
{
    const char *line_end = memchr(at, '\n', (size_t)(end - at));
    if (!line_end)
        line_end = end;
    read_hexadecimal(&at, &mapping->start);
    at++;
    read_hexadecimal(&at, &mapping->end);
    mapping->readable = at[1] == 'r';
    mapping->writable = at[2] == 'w';
    mapping->executable = at[3] == 'x';
    mapping->shared = at[4] == 's';
    mapping->is_empty = false;
    at += 6;
    for (int field = 0; field < 3; field++) /* offset, device, inode */
        while (at < line_end && *at++ != ' ')
            ;
    while (at < line_end && *at == ' ')
        at++;
    mapping->name = at;
    mapping->name_length = (size_t)(line_end - at);
    return line_end < end ? line_end + 1 : end;
}

bool mapping_is_named(const struct mapping *mapping, const char *name)
{
    return mapping->name_length == strlen(name) && mapping_name_begins(mapping, name);
}

bool mapping_name_begins(const struct mapping *mapping, const char *beginning)
{
    size_t length = strlen(beginning);
    return mapping->name_length >= length && memcmp(mapping->name, beginning, length) == 0;
}

struct line_visitor {
    bool (*each)(void *argument, const char *line);
    void *argument;
    bool in_cut_line; /* the rest of a line that did not fit comes first */
    bool goes_on;
};

/* Visits the whole lines of [text, text + length). Returns where the last, unfinished one begins.
 */
static char *visit_lines(struct line_visitor *visitor, char *text, size_t length)
{
    char *line = text, *end = text + length, *newline;
    while (visitor->goes_on && (newline = memchr(line, '\n', (size_t)(end - line)))) {
        *newline = '\0';
        if (!visitor->in_cut_line)
            visitor->goes_on = visitor->each(visitor->argument, line);
        visitor->in_cut_line = false;
        line = newline + 1;
    }
    return line;
}

void maps_each_text_line(long file, char *buffer, size_t bytes,
                         bool (*each)(void *argument, const char *line), void *argument)
{
    struct line_visitor visitor = {.each = each, .argument = argument, .goes_on = true};
    size_t length = 0, got;
    while (visitor.goes_on && (got = maps_read(file, buffer + length, bytes - length)) > 0) {
        length += got;
        bool cut = length == bytes && !memchr(buffer, '\n', length);
        if (cut)
            buffer[bytes - 1] = '\n';
        char *rest = visit_lines(&visitor, buffer, length);
        visitor.in_cut_line |= cut;
        length -= (size_t)(rest - buffer);
        memmove(buffer, rest, length);
    }
}

struct mapping_visitor {
    bool (*each)(void *argument, const char *line, const struct mapping *mapping);
    void *argument;
};

static bool visit_mapping(void *argument, const char *line)
{
    const struct mapping_visitor *visitor = argument;
    struct mapping mapping;
    mapping_parse(line, line + strlen(line), &mapping);
    return visitor->each(visitor->argument, line, &mapping);
}

void maps_each_line(char *buffer, size_t bytes,
                    bool (*each)(void *argument, const char *line, const struct mapping *mapping),
                    void *argument)
{
    struct mapping_visitor visitor = {each, argument};
    long maps = maps_open();
    maps_each_text_line(maps, buffer, bytes, visit_mapping, &visitor);
    maps_close(maps);
}
