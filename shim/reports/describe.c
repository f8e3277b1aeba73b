/* SPDX-License-Identifier: MIT
 *
 * describe.c: allotrope-describe, which tells other programs what the library knows.
 *
 *     allotrope-describe           every allocator, preset and option, as JSON
 *     allotrope-describe SPEC      what SPEC would choose, as JSON; or the line that the library
 *                                  would stop with, on standard error, and exit status 2
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "shim/configuration/configuration.h"
#include "shim/reports/json.h"

static void write_value(struct json *json, const char *key, const struct option_description *option,
                        uint64_t value)
{
    if (option->kind != OPTION_NUMBER)
        json_string(json, key, option->keywords[value]);
    else
        json_number(json, key, value);
}

static void write_option(struct json *json, const struct allocator *allocator,
                         const struct option_description *option)
{
    json_begin_object(json, NULL);
    json_string(json, "key", option->key);
    json_string(json, "title", option->title);
    json_begin_array(json, "presets");
    json_string(json, NULL, allocator->preset);
    json_end_array(json);
    json_string(json, "kind", option->kind != OPTION_NUMBER ? "keyword" : "integer");
    if (option->kind != OPTION_NUMBER) {
        json_begin_array(json, "keywords");
        for (size_t i = 0; option->keywords[i][0]; i++)
            json_string(json, NULL, option->keywords[i]);
        json_end_array(json);
    } else {
        json_number(json, "minimum", option->minimum);
        json_number(json, "maximum", option->maximum);
    }
    write_value(json, "default", option, option->initial);
    json_end_object(json);
}

static bool same_allocator(size_t a, size_t b)
{
    return strcmp(allocators[a]->name, allocators[b]->name) == 0;
}

static void write_allocator(struct json *json, size_t first)
{
    json_begin_object(json, NULL);
    json_string(json, "name", allocators[first]->name);
    json_string(json, "title", allocators[first]->title);
    json_string(json, "source", allocators[first]->source);
    json_begin_array(json, "presets");
    for (size_t i = first; allocators[i] && same_allocator(i, first); i++) {
        json_begin_object(json, NULL);
        json_string(json, "name", allocators[i]->preset);
        json_string(json, "title", allocators[i]->preset_title);
        json_end_object(json);
    }
    json_end_array(json);
    json_begin_array(json, "options");
    for (size_t i = first; allocators[i] && same_allocator(i, first); i++)
        for (size_t j = 0; j < option_count(allocators[i]); j++)
            write_option(json, allocators[i], &allocators[i]->options[j]);
    json_end_array(json);
    json_end_object(json);
}

static void write_everything(struct json *json)
{
    json_begin_object(json, NULL);
    json_string(json, "schema", "allotrope.describe/1");
    json_string(json, "version", PACKAGE_VERSION);
    json_begin_array(json, "allocators");
    for (size_t i = 0; allocators[i]; i++)
        if (i == 0 || !same_allocator(i, i - 1))
            write_allocator(json, i);
    json_end_array(json);
    json_end_object(json);
}

static void write_choice(struct json *json, const struct configuration *chosen)
{
    json_begin_object(json, NULL);
    json_string(json, "allocator", chosen->allocator->name);
    json_string(json, "preset", chosen->allocator->preset);
    json_begin_object(json, "options");
    for (size_t i = 0; i < option_count(chosen->allocator); i++) {
        const struct option_description *option = &chosen->allocator->options[i];
        write_value(json, option->key, option, option_value(option, chosen->options));
    }
    json_end_object(json);
    json_end_object(json);
}

int main(int argc, char **argv)
{
    struct configuration chosen;
    struct message error;
    if (argc > 2) {
        fprintf(stderr, "usage: allotrope-describe [SPEC]\n");
        return 2;
    }
    if (argc == 2 && !configuration_parse(argv[1], &chosen, &error)) {
        fprintf(stderr, "%.*s\n", (int)error.length, error.text);
        return 2;
    }
    struct writer writer;
    struct json json;
    writer_begin(&writer, STDOUT_FILENO);
    json_begin(&json, &writer, JSON_COMPACT);
    if (argc == 2)
        write_choice(&json, &chosen);
    else
        write_everything(&json);
    json_end(&json);
    return 0;
}
