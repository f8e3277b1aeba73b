/* SPDX-License-Identifier: MIT */
/* reference_source.c: the text of Valgrind's lackey, a line at a time.
 *
 *     I  04001090,3        an instruction fetch: passed over
 *      L 1ffefffd80,8      a load of eight bytes
 *      S 1ffefffd78,8      a store
 *      M 0421c7cc,4        a load and a store of the same place
 *
 * Lines that begin with "==" are Valgrind's own.
 */
#include "analysis/reference_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct reference_source {
    FILE *file;
    uint64_t line;
    bool store_pending; /* the second half of an M line */
    struct reference pending;
    const char *error;
    char error_text[256];
};

static char open_error[512];

struct reference_source *reference_source_open(const char *path, const char **error)
{
    struct reference_source *source = calloc(1, sizeof *source);
    if (source == NULL) {
        *error = "memory is short";
        return NULL;
    }
    source->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    struct stat status;
    if (source->file != NULL && fstat(fileno(source->file), &status) == 0 &&
        S_ISDIR(status.st_mode)) {
        fclose(source->file);
        source->file = NULL;
        errno = EISDIR;
    }
    if (source->file == NULL) {
        snprintf(open_error, sizeof open_error, "cannot read %.400s: %s", path, strerror(errno));
        *error = open_error;
        free(source);
        return NULL;
    }
    return source;
}

void reference_source_close(struct reference_source *source)
{
    if (source->file != stdin)
        fclose(source->file);
    free(source);
}

const char *reference_source_error(const struct reference_source *source)
{
    return source->error;
}

/* Reads "ADDRESS,SIZE" into the reference. */
static bool read_place(const char *text, struct reference *reference)
{
    char *end;
    reference->address = strtoull(text, &end, 16);
    if (end == text || *end != ',')
        return false;
    const char *digits = end + 1;
    unsigned long size = strtoul(digits, &end, 10);
    if (end == digits || (*end != '\n' && *end != '\0') || size == 0 || size > UINT16_MAX)
        return false;
    reference->size = (uint16_t)size;
    return true;
}

/* Reads one line into `references`; returns how many it held, -1 when it is not lackey's. */
static int read_line(struct reference_source *source, const char *line,
                     struct reference *references)
{
    if (strncmp(line, "==", 2) == 0 || line[0] == 'I' || line[0] == '\n')
        return 0;
    struct reference *first = &references[0];
    *first = (struct reference){.kind = line[1] == 'S' ? REFERENCE_STORE : REFERENCE_LOAD};
    if (line[0] != ' ' || line[1] == '\0' || strchr("LSM", line[1]) == NULL || line[2] != ' ' ||
        !read_place(line + 3, first))
        return -1;
    if (line[1] == 'M') {
        source->store_pending = true;
        source->pending = *first;
        source->pending.kind = REFERENCE_STORE;
    }
    return 1;
}

size_t reference_source_next(struct reference_source *source, struct reference *references,
                             size_t room)
{
    char line[256];
    size_t count = 0;
    while (count < room && source->error == NULL) {
        if (source->store_pending) {
            source->store_pending = false;
            references[count++] = source->pending;
            continue;
        }
        if (fgets(line, sizeof line, source->file) == NULL) {
            if (ferror(source->file))
                source->error = "the input cannot be read to its end";
            break;
        }
        source->line++;
        int read = read_line(source, line, references + count);
        if (read < 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(source->error_text, sizeof source->error_text,
                     "line %llu is neither a trace's nor lackey's: \"%.80s\"",
                     (unsigned long long)source->line, line);
            source->error = source->error_text;
        } else {
            count += (size_t)read;
        }
    }
    return count;
}

const char *reference_source_class_name(unsigned class)
{
    static const char *const names[] = {"program", "allocator", "collector",
                                        "roots",   "mark",      "sweep"};
    return class < sizeof names / sizeof *names ? names[class] : NULL;
}
