/* SPDX-License-Identifier: MIT
 *
 * copied.c: see copied.h.
 *
 * /proc/self/smaps has for each mapping the line that maps has, then lines of "Key: value". A line
 * of the first kind begins with a digit of an address, in lower case; a key with a capital.
 *
 *     parent   | A ......... |   | B ... | C .......... |
 *     child    | A ......... |           | C, "wf" ...  |
 *                                  ^ missing   ^ wiped
 */
#include "vm/kernel/copied.h"

#include <string.h>

#include "vm/kernel/process.h"
#include "vm/syscall.h"

struct comparison {
    const struct mapping *mappings; /* of the parent */
    size_t count, next;             /* the first that is not dealt with as a whole */
    uintptr_t at;                   /* up to where that one is */
    struct mapping own;             /* the last line of the child's; its name is not kept */
    bool has_flags;                 /* of each mapping so far */
    copied_visitor *visit;
    void *argument;
};

static void tell(const struct comparison *comparison, uintptr_t start, uintptr_t end)
{
    if (start < end && !comparison->mappings[comparison->next].shared)
        comparison->visit(comparison->argument, start, end);
}

/* Deals with the parent's memory up to `end`: as missing, or as there. */
static void advance(struct comparison *comparison, uintptr_t end, bool is_missing)
{
    while (comparison->next < comparison->count) {
        const struct mapping *mapping = &comparison->mappings[comparison->next];
        uintptr_t from = mapping->start > comparison->at ? mapping->start : comparison->at;
        if (from >= end)
            return;
        uintptr_t to = mapping->end < end ? mapping->end : end;
        if (is_missing)
            tell(comparison, from, to);
        comparison->at = to;
        if (to < mapping->end)
            return;
        comparison->next++;
    }
}

static bool has_flag(const char *line, const char *end, const char *flag)
{
    for (const char *at = line; at + 2 < end; at++)
        if (at[0] == ' ' && at[1] == flag[0] && at[2] == flag[1])
            return true;
    return false;
}

static void take_line(struct comparison *comparison, const char *line, const char *end)
{
    static const char FLAGS[] = "VmFlags:";
    size_t length = (size_t)(end - line);
    if (length == 0)
        return;
    if (*line < 'A' || *line > 'Z') {
        mapping_parse(line, end, &comparison->own);
        advance(comparison, comparison->own.start, true);
    } else if (length >= sizeof FLAGS - 1 && memcmp(line, FLAGS, sizeof FLAGS - 1) == 0) {
        comparison->has_flags = true;
        bool is_taken = has_flag(line, end, "wf") || has_flag(line, end, "ht");
        advance(comparison, comparison->own.end, is_taken);
    }
}

/* Returns how much of the text was not a whole line. */
static size_t take_lines(struct comparison *comparison, char *text, size_t length)
{
    const char *at = text, *end = text + length, *newline;
    while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
        take_line(comparison, at, newline);
        at = newline + 1;
    }
    size_t left = (size_t)(end - at);
    memmove(text, at, left);
    return left;
}

bool copied_each_missing(const struct copied_list *list, copied_visitor *visit, void *argument)
{
    struct comparison comparison = {
        .mappings = list->mappings, .count = list->count, .visit = visit, .argument = argument};
    int file = process_open_file("smaps");
    if (file < 0)
        return false;
    size_t left = 0;
    long bytes;
    while ((bytes = SYSCALL_3(SYS_read, file, list->buffer + left, list->buffer_bytes - left)) > 0)
        left = take_lines(&comparison, list->buffer, left + (size_t)bytes);
    process_close(file);
    if (bytes != 0 || left > 0 || !comparison.has_flags)
        return false;
    advance(&comparison, UINTPTR_MAX, true);
    return true;
}
