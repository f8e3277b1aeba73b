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

#include "config.h"
#include "shim/configuration/configuration.h"

static void print_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('"');
}

static void print_member(const char *key, const char *text)
{
    printf("\"%s\":", key);
    print_string(text);
}

static void print_value(const struct option_description *option, uint64_t value)
{
    if (option->keywords)
        print_string(option->keywords[value]);
    else
        printf("%llu", (unsigned long long)value);
}

static void print_option(const struct allocator *allocator, const struct option_description *option)
{
    printf("{");
    print_member("key", option->key);
    printf(",");
    print_member("title", option->title);
    printf(",\"presets\":[");
    print_string(allocator->preset);
    printf("],");
    if (option->keywords) {
        printf("\"kind\":\"keyword\",\"keywords\":[");
        for (size_t i = 0; option->keywords[i]; i++) {
            printf("%s", i > 0 ? "," : "");
            print_string(option->keywords[i]);
        }
        printf("]");
    } else {
        printf("\"kind\":\"integer\",\"minimum\":%llu,\"maximum\":%llu",
               (unsigned long long)option->minimum, (unsigned long long)option->maximum);
    }
    printf(",\"default\":");
    print_value(option, option->initial);
    printf("}");
}

static bool same_allocator(size_t a, size_t b)
{
    return strcmp(allocators[a]->name, allocators[b]->name) == 0;
}

static void print_allocator(size_t first)
{
    printf("{");
    print_member("name", allocators[first]->name);
    printf(",");
    print_member("title", allocators[first]->title);
    printf(",");
    print_member("source", allocators[first]->source);
    printf(",\"presets\":[");
    for (size_t i = first; allocators[i] && same_allocator(i, first); i++) {
        printf("%s{", i > first ? "," : "");
        print_member("name", allocators[i]->preset);
        printf(",");
        print_member("title", allocators[i]->preset_title);
        printf("}");
    }
    printf("],\"options\":[");
    bool any = false;
    for (size_t i = first; allocators[i] && same_allocator(i, first); i++)
        for (size_t j = 0; j < option_count(allocators[i]); j++) {
            printf("%s", any ? "," : "");
            print_option(allocators[i], &allocators[i]->options[j]);
            any = true;
        }
    printf("]}");
}

static void print_everything(void)
{
    printf("{\"schema\":\"allotrope.describe/1\",\"version\":\"" PACKAGE_VERSION
           "\",\"allocators\":[");
    for (size_t i = 0; allocators[i]; i++)
        if (i == 0 || !same_allocator(i, i - 1)) {
            printf("%s", i > 0 ? "," : "");
            print_allocator(i);
        }
    printf("]}\n");
}

static void print_choice(const struct configuration *chosen)
{
    printf("{");
    print_member("allocator", chosen->allocator->name);
    printf(",");
    print_member("preset", chosen->allocator->preset);
    printf(",\"options\":{");
    for (size_t i = 0; i < option_count(chosen->allocator); i++) {
        printf("%s\"%s\":", i > 0 ? "," : "", chosen->allocator->options[i].key);
        print_value(&chosen->allocator->options[i],
                    option_value(&chosen->allocator->options[i], chosen->options));
    }
    printf("}}\n");
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        print_everything();
        return 0;
    }
    struct configuration chosen;
    struct message error;
    if (argc > 2) {
        fprintf(stderr, "usage: allotrope-describe [SPEC]\n");
        return 2;
    }
    if (!configuration_parse(argv[1], &chosen, &error)) {
        fprintf(stderr, "%.*s\n", (int)error.length, error.text);
        return 2;
    }
    print_choice(&chosen);
    return 0;
}
