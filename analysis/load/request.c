/* SPDX-License-Identifier: MIT
 *
 * request.c: see request.h.
 */
#include "analysis/load/request.h"

#include <stdio.h>
#include <string.h>

uint64_t random_next(struct random *random)
{
    uint64_t mixed = random->state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

double random_share(struct random *random)
{
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

void request_unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        static const char letters[] = "rnt\\";
        static const char meanings[] = "\r\n\t\\";
        const char *letter = *from == '\\' && from[1] ? strchr(letters, from[1]) : NULL;
        *to = *from;
        if (letter) {
            *to = meanings[letter - letters];
            from++;
        }
        to++;
    }
    *to = '\0';
}

/* Puts a field's text at `into`; returns its length, or more than `room`. */
static size_t put_number(char *into, size_t room, uint64_t number)
{
    int length = snprintf(into, room, "%llu", (unsigned long long)number);
    return (size_t)length < room ? (size_t)length : room + 1;
}

static size_t put_data(char *into, size_t room, size_t size)
{
    if (size > room)
        return room + 1;
    memset(into, 'x', size);
    return size;
}

size_t request_make(struct request_plan *plan, char *into, size_t room)
{
    const char *text = plan->texts[random_next(&plan->random) % plan->count];
    uint64_t key = random_next(&plan->random) % plan->keys;
    uint64_t span = plan->greatest - plan->least + 1;
    uint64_t size = plan->least + random_next(&plan->random) % span;
    size_t length = 0;
    while (*text) {
        size_t rest = room - length;
        size_t put = 1;
        size_t skip = 1;
        if (strncmp(text, "{key}", skip = strlen("{key}")) == 0)
            put = put_number(into + length, rest, key);
        else if (strncmp(text, "{size}", skip = strlen("{size}")) == 0)
            put = put_number(into + length, rest, size);
        else if (strncmp(text, "{data}", skip = strlen("{data}")) == 0)
            put = put_data(into + length, rest, size);
        else if (skip = 1, rest > 0)
            into[length] = *text;
        if (put > rest)
            return 0;
        length += put;
        text += skip;
    }
    return length;
}
