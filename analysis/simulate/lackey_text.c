/* SPDX-License-Identifier: MIT
 *
 * lackey_text.c: a line at a time; a line that is not lackey's ends the stream.
 */
#include "analysis/simulate/lackey_text.h"

#include <stdlib.h>
#include <string.h>

/* Reads "ADDRESS,SIZE" into the reference. */
static bool read_place(const char *place, struct reference *reference)
{
    char *end;
    reference->address = strtoull(place, &end, 16);
    if (end == place || *end != ',')
        return false;
    const char *digits = end + 1;
    unsigned long size = strtoul(digits, &end, 10);
    if (end == digits || (*end != '\n' && *end != '\0') || size == 0 || size > UINT16_MAX)
        return false;
    reference->size = (uint16_t)size;
    return true;
}

/* Reads one line into `references`; returns how many it held, -1 when it is not lackey's. */
static int read_line(struct lackey_text *text, const char *line, struct reference *references)
{
    if (strncmp(line, "==", 2) == 0 || line[0] == 'I' || line[0] == '\n')
        return 0;
    struct reference *first = &references[0];
    *first = (struct reference){.kind = line[1] == 'S' ? REFERENCE_STORE : REFERENCE_LOAD};
    if (line[0] != ' ' || line[1] == '\0' || !strchr("LSM", line[1]) || line[2] != ' ' ||
        !read_place(line + 3, first))
        return -1;
    if (line[1] == 'M') {
        text->store_pending = true;
        text->pending = *first;
        text->pending.kind = REFERENCE_STORE;
    }
    return 1;
}

size_t lackey_text_next(struct lackey_text *text, struct reference *references, size_t room)
{
    char line[256];
    size_t count = 0;
    while (count < room && text->error[0] == '\0') {
        if (text->store_pending) {
            text->store_pending = false;
            references[count++] = text->pending;
            continue;
        }
        if (!fgets(line, sizeof line, text->file)) {
            if (ferror(text->file))
                strcpy(text->error, "the input cannot be read to its end");
            break;
        }
        text->line++;
        int read = read_line(text, line, references + count);
        if (read < 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(text->error, sizeof text->error,
                     "line %llu is neither a trace's nor lackey's: \"%.80s\"",
                     (unsigned long long)text->line, line);
        } else {
            count += (size_t)read;
        }
    }
    return count;
}
