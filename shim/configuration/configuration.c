/* SPDX-License-Identifier: MIT
 *
 * configuration.c: see configuration.h. A parser of one line without copies: words are slices of
 * the text.
 */
#include "shim/configuration/configuration.h"

#include <string.h>

#include "vm/number.h"

struct slice {
    const char *start;
    size_t length;
};

static bool slice_is(struct slice slice, const char *word)
{
    return strlen(word) == slice.length && memcmp(slice.start, word, slice.length) == 0;
}

/* Cuts the text before the first `separator` off; the rest begins behind it. */
static struct slice cut(struct slice *rest, char separator)
{
    const char *found = memchr(rest->start, separator, rest->length);
    struct slice head = {rest->start, found ? (size_t)(found - rest->start) : rest->length};
    size_t skipped = head.length + (found ? 1 : 0);
    rest->start += skipped;
    rest->length -= skipped;
    return head;
}

/* A word that is longer than this is cut, so that there is room in the line for what is valid. */
enum { WORD_SHOWN = 64 };

static void begin_error(struct message *error, const char *what, struct slice word)
{
    bool is_cut = word.length > WORD_SHOWN;
    message_begin(error);
    message_text(error, what);
    message_text(error, " ");
    message_quoted(error, word.start, is_cut ? WORD_SHOWN : word.length);
    message_text(error, is_cut ? "..." : "");
}

static void add_word(struct message *error, bool *first, const char *word)
{
    message_text(error, *first ? "" : ", ");
    message_text(error, word);
    *first = false;
}

static void list_allocators(struct message *error)
{
    bool first = true;
    message_text(error, "; valid are: ");
    for (size_t i = 0; allocators[i]; i++)
        if (i == 0 || strcmp(allocators[i]->name, allocators[i - 1]->name) != 0)
            add_word(error, &first, allocators[i]->name);
}

static void list_presets(struct message *error, const char *name)
{
    bool first = true;
    message_text(error, "; presets are: ");
    for (size_t i = 0; allocators[i]; i++)
        if (strcmp(allocators[i]->name, name) == 0)
            add_word(error, &first, allocators[i]->preset);
}

/* Those of the preset that was chosen. */
static void list_options(struct message *error, const struct allocator *allocator)
{
    bool first = true;
    if (option_count(allocator) == 0) {
        message_text(error, "; it has no options");
        return;
    }
    message_text(error, "; options are: ");
    for (size_t i = 0; i < option_count(allocator); i++) {
        add_word(error, &first, allocator->options[i].key);
        message_text(error, "=");
    }
}

size_t option_count(const struct allocator *allocator)
{
    size_t count = 0;
    const struct option_description *options = allocator->options;
    while (options && options[count].key[0] && !options[count].is_fixed)
        count++;
    return count;
}

static const struct allocator *find(struct slice name, struct slice preset)
{
    for (size_t i = 0; allocators[i]; i++)
        if (slice_is(name, allocators[i]->name) &&
            (preset.length == 0 || slice_is(preset, allocators[i]->preset)))
            return allocators[i];
    return NULL;
}

static bool parse_value(const struct option_description *option, struct slice text, uint64_t *value,
                        struct message *error)
{
    bool first = true;
    if (option->kind != OPTION_NUMBER) {
        for (*value = 0; option->keywords[*value][0]; ++*value)
            if (slice_is(text, option->keywords[*value]))
                return true;
    } else if (parse_size(text.start, text.length, value) && *value >= option->minimum &&
               *value <= option->maximum) {
        return true;
    }
    begin_error(error, "bad value", text);
    message_text(error, " for ");
    message_text(error, option->key);
    message_text(error, "; valid are: ");
    for (size_t i = 0; option->keywords[i][0]; i++)
        add_word(error, &first, option->keywords[i]);
    if (option->kind == OPTION_NUMBER) {
        message_decimal(error, option->minimum);
        message_text(error, " to ");
        message_decimal(error, option->maximum);
        message_text(error, ", perhaps with K, M or G");
    }
    return false;
}

static bool parse_option(struct configuration *configuration, struct slice key, struct slice value,
                         uint64_t *seen, struct message *error)
{
    const struct allocator *allocator = configuration->allocator;
    for (size_t i = 0; i < option_count(allocator); i++) {
        if (!slice_is(key, allocator->options[i].key))
            continue;
        if (*seen & UINT64_C(1) << i) {
            begin_error(error, "option given twice:", key);
            return false;
        }
        *seen |= UINT64_C(1) << i;
        uint64_t number;
        if (!parse_value(&allocator->options[i], value, &number, error))
            return false;
        option_set(&allocator->options[i], configuration->options, number);
        return true;
    }
    begin_error(error, "unknown option", key);
    message_text(error, " for ");
    message_text(error, allocator->name);
    message_text(error, ":");
    message_text(error, allocator->preset);
    list_options(error, allocator);
    list_presets(error, allocator->name);
    return false;
}

static bool slices_are_same(struct slice one, struct slice other)
{
    return one.length == other.length && memcmp(one.start, other.start, one.length) == 0;
}

/* The bare word among the options, which is the name of a preset. An option of the preset's own
 * name, guard=100, chooses it too. */
static bool find_preset(struct slice name, struct slice options, struct slice *preset,
                        struct message *error)
{
    while (options.length > 0) {
        struct slice value = cut(&options, ',');
        bool is_option = memchr(value.start, '=', value.length) != NULL;
        struct slice word = cut(&value, '=');
        bool known = find(name, word) != NULL && word.length > 0;
        if (is_option && (!known || slices_are_same(word, *preset)))
            continue;
        if (known && preset->length == 0) {
            *preset = word;
            continue;
        }
        begin_error(error, known ? "second preset" : "unknown preset", word);
        message_text(error, known ? "; only one can be chosen" : " for ");
        if (!known) {
            const struct allocator *allocator = find(name, (struct slice){"", 0});
            message_text(error, allocator->name);
            list_presets(error, allocator->name);
            list_options(error, allocator);
        }
        return false;
    }
    return true;
}

/* "bsd:", "bsd:,", "bsd:classic,": somebody meant to say more. */
static bool has_empty_option(struct slice options)
{
    if (options.length == 0 || options.start[options.length - 1] == ',')
        return true;
    while (options.length > 0)
        if (cut(&options, ',').length == 0)
            return true;
    return false;
}

bool configuration_parse(const char *text, struct configuration *configuration,
                         struct message *error)
{
    if (!text || !*text)
        text = allocators[0]->name;
    struct slice rest = {text, strlen(text)};
    struct slice name = cut(&rest, ':'), preset = {"", 0};
    if (!find(name, preset)) {
        begin_error(error, "unknown allocator", name);
        list_allocators(error);
        return false;
    }
    if (text[name.length] == ':' && has_empty_option(rest)) {
        begin_error(error, "empty option in", (struct slice){text, strlen(text)});
        list_presets(error, find(name, preset)->name);
        list_options(error, find(name, preset));
        return false;
    }
    if (!find_preset(name, rest, &preset, error))
        return false;
    *configuration = (struct configuration){.allocator = find(name, preset)};
    options_set_initial(configuration->allocator->options, configuration->options);
    uint64_t seen = 0;
    while (rest.length > 0) {
        struct slice value = cut(&rest, ',');
        if (!memchr(value.start, '=', value.length))
            continue;
        struct slice key = cut(&value, '=');
        if (!parse_option(configuration, key, value, &seen, error))
            return false;
    }
    const struct allocator *allocator = configuration->allocator;
    if (!allocator->conflict)
        return true;
    begin_error(error, "contradiction in", (struct slice){text, strlen(text)});
    message_text(error, ": ");
    return !allocator->conflict(configuration->options, error);
}
