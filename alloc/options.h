/* SPDX-License-Identifier: MIT
 *
 * options.h: the options of an allocator: one table, which fills one struct.
 *
 * Each preset has a table. A row says the key that users write, the member of the preset's struct
 * that takes the value, which values there are, and which one holds when nothing is said. The
 * parser, the statistics, allotrope-describe and through it `allotrope list` and the manual page
 * read the table (shim/configuration); the allocator reads the struct.
 *
 * A preset that is composed of parts embeds their structs. Each part writes its rows as a macro,
 * which is told where in the preset's struct the part lies:
 *
 *     struct knuth_default_options {
 *         struct knuth_options heap;
 *         struct layered_options layers;
 *     };
 *     static const struct option_description default_options[] = {
 *         KNUTH_OPTIONS(offsetof(struct knuth_default_options, heap), ...),
 *         LAYERED_OPTIONS(offsetof(struct knuth_default_options, layers)),
 *         {.key = ""},
 *     };
 */
#ifndef ALLOTROPE_ALLOC_OPTIONS_H
#define ALLOTROPE_ALLOC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Room for the options of any one preset. */
enum { OPTIONS_BYTES = 96 };

/* What users write, and the type of the member that takes it. */
enum option_kind {
    OPTION_NUMBER,  /* a number, perhaps with K, M or G; uint64_t */
    OPTION_KEYWORD, /* one of the keywords; an enum that counts them from 0 */
    OPTION_SWITCH,  /* off or on; bool */
};

enum { MOST_KEYWORDS = 4 };

/* A row. Tables end with an empty key. No pointers are in it: ld.so would have to write every table
 * as each process starts. */
struct option_description {
    char key[24];
    char title[112];
    enum option_kind kind;
    bool is_fixed;             /* by the preset: users cannot choose it; such rows are the last */
    size_t offset;             /* of the member in the preset's struct */
    uint64_t minimum, maximum; /* of a number */
    uint64_t initial;          /* the value when nothing is said */
    /* The value is the index. Behind the last is an empty one; so are all for a number. */
    char keywords[MOST_KEYWORDS + 1][12];
};

/* Kind and offset of a row: `member` of `structure`, which lies `at` bytes into the preset's
 * struct; 0 if it is that struct. */
#define NUMBER_IN(at, structure, member) \
    .kind = OPTION_NUMBER, .offset = MEMBER_OFFSET(at, structure, member, uint64_t)
#define KEYWORD_IN(at, structure, member) \
    .kind = OPTION_KEYWORD, .offset = MEMBER_OFFSET(at, structure, member, unsigned)
#define SWITCH_IN(at, structure, member)                                 \
    .kind = OPTION_SWITCH, .keywords = {[false] = "off", [true] = "on"}, \
    .offset = MEMBER_OFFSET(at, structure, member, bool)

/* Compiles only if the member has the type, and the struct fits in OPTIONS_BYTES. */
#define MEMBER_OFFSET(at, structure, member, type)                                       \
    ((at) + offsetof(structure, member) +                                                \
     ZERO_IF(__builtin_types_compatible_p(type, __typeof__(((structure *)0)->member))) + \
     ZERO_IF((at) + sizeof(structure) <= OPTIONS_BYTES))
#define ZERO_IF(condition) (0 * sizeof(char[(condition) ? 1 : -1]))

static inline uint64_t option_value(const struct option_description *option, const void *options)
{
    const char *member = (const char *)options + option->offset;
    uint64_t number;
    unsigned keyword;
    bool on;
    switch (option->kind) {
    case OPTION_KEYWORD:
        memcpy(&keyword, member, sizeof keyword);
        return keyword;
    case OPTION_SWITCH:
        memcpy(&on, member, sizeof on);
        return on;
    default:
        memcpy(&number, member, sizeof number);
        return number;
    }
}

/* value: one that the row allows. */
static inline void option_set(const struct option_description *option, void *options,
                              uint64_t value)
{
    char *member = (char *)options + option->offset;
    unsigned keyword = (unsigned)value;
    bool on = value != 0;
    switch (option->kind) {
    case OPTION_KEYWORD:
        memcpy(member, &keyword, sizeof keyword);
        break;
    case OPTION_SWITCH:
        memcpy(member, &on, sizeof on);
        break;
    default:
        memcpy(member, &value, sizeof value);
    }
}

/* Sets every option of a table to what holds when nothing is said. table: NULL is an empty one. */
static inline void options_set_initial(const struct option_description *table, void *options)
{
    for (; table && table->key[0]; table++)
        option_set(table, options, table->initial);
}

#endif
