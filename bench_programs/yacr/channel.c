/* SPDX-License-Identifier: MIT
 *
 * channel.c: channels from a file, and channels made up.
 */
#include "bench_programs/yacr/channel.h"

#include "bench_programs/bench.h"

#include <ctype.h>

enum { MAX_COLUMNS = 100000, MAX_NETS = 60000 };

static _Noreturn void refuse(const char *path, int line, const char *why, const char *word)
{
    fprintf(stderr, "yacr: %s:%d: %s '%s'\n", path, line, why, word);
    exit(BENCH_BAD_ARGUMENT);
}

/* Finds spans and density from the pins. */
static void measure(struct channel *channel)
{
    channel->net = allocate(((size_t)channel->nets + 1) * sizeof *channel->net);
    for (int n = 0; n <= channel->nets; n++)
        channel->net[n] = (struct net){.first = channel->columns, .last = -1};
    for (int column = 0; column < channel->columns; column++) {
        for (int side = TOP; side < SIDES; side++) {
            struct net *net = &channel->net[channel->pins[side][column]];
            if (column < net->first)
                net->first = column;
            net->last = column;
            net->pins++;
        }
    }
    channel->density = channel->densest_column = 0;
    for (int column = 0; column < channel->columns; column++) {
        int crossing = 0;
        for (int n = 1; n <= channel->nets; n++)
            crossing += channel->net[n].first <= column && column <= channel->net[n].last;
        int off = abs(2 * column - channel->columns);
        int best_off = abs(2 * channel->densest_column - channel->columns);
        if (crossing > channel->density || (crossing == channel->density && off < best_off)) {
            channel->density = crossing;
            channel->densest_column = column;
        }
    }
}

/* The next word, or false at the end of the file. */
static bool next_word(FILE *file, char *word, size_t bytes, int *line)
{
    size_t length = 0;
    for (int c; (c = getc(file)) != EOF;) {
        if (c == '#')
            while ((c = getc(file)) != EOF && c != '\n')
                ;
        *line += c == '\n';
        if (!isspace(c) && c != EOF && length + 1 < bytes)
            word[length++] = (char)c;
        else if (length)
            break;
    }
    word[length] = 0;
    return length != 0;
}

static int net_number(const char *path, int line, const char *word)
{
    char *end;
    long number = strtol(word, &end, 10);
    if (*end || !isdigit((unsigned char)*word) || number > MAX_NETS)
        refuse(path, line, "not a net number from 0 to 60000:", word);
    return (int)number;
}

struct channel *channel_read(const char *path)
{
    struct channel *channel = allocate(sizeof *channel);
    *channel = (struct channel){0};
    FILE *file = fopen(path, "r");
    char word[32];
    int side = -1, count[SIDES] = {0}, line = 1;
    if (!file) {
        fprintf(stderr, "yacr: cannot read '%s': %s\n", path, strerror(errno));
        exit(BENCH_BAD_ARGUMENT);
    }
    for (int i = TOP; i < SIDES; i++)
        channel->pins[i] = allocate(MAX_COLUMNS * sizeof *channel->pins[i]);
    while (next_word(file, word, sizeof word, &line)) {
        if (!strcmp(word, "top") || !strcmp(word, "bottom")) {
            side = *word == 't' ? TOP : BOTTOM;
            continue;
        }
        if (side < 0)
            refuse(path, line, "'top' or 'bottom' must come before", word);
        if (count[side] == MAX_COLUMNS)
            refuse(path, line, "more than 100000 columns at", word);
        int net = net_number(path, line, word);
        channel->pins[side][count[side]++] = net;
        if (net > channel->nets)
            channel->nets = net;
    }
    fclose(file);
    if (!count[TOP] || count[TOP] != count[BOTTOM])
        refuse(path, line, "the rows of pins differ in length, or are empty, at the end", word);
    channel->columns = count[TOP];
    measure(channel);
    for (int n = 1; n <= channel->nets; n++) {
        snprintf(word, sizeof word, "%d", n);
        if (channel->net[n].pins == 1)
            refuse(path, line, "only one pin has net", word);
    }
    return channel;
}

/* The net for the next pin of a column: a new one, or an open one that then may end. */
struct generator {
    uint64_t random;
    int *open, open_count; /* nets that have begun and not ended */
    int crossing;          /* those, and the ones that end in this column */
    int limit, nets;
};

static int next_pin(struct generator *generator, int forbidden)
{
    uint64_t *random = &generator->random;
    if (random_below(random, 6) == 0)
        return 0;
    if (generator->crossing < generator->limit &&
        (generator->open_count < 2 || random_below(random, 3) == 0)) {
        generator->crossing++;
        generator->open[generator->open_count++] = ++generator->nets;
        return generator->nets;
    }
    if (!generator->open_count)
        return 0;
    int at = (int)random_below(random, (uint64_t)generator->open_count);
    int net = generator->open[at];
    if (net == forbidden)
        return 0;
    if (random_below(random, 5) < (generator->open_count == generator->limit ? 3 : 1))
        generator->open[at] = generator->open[--generator->open_count];
    return net;
}

/* Nets with a single pin, or both in one column, are taken out and the others renumbered. */
static void remove_trivial_nets(struct channel *channel)
{
    int *number = allocate(((size_t)channel->nets + 1) * sizeof *number), kept = 0;
    number[0] = 0;
    measure(channel);
    for (int n = 1; n <= channel->nets; n++)
        number[n] = channel->net[n].first < channel->net[n].last ? ++kept : 0;
    for (int side = TOP; side < SIDES; side++)
        for (int column = 0; column < channel->columns; column++)
            channel->pins[side][column] = number[channel->pins[side][column]];
    channel->nets = kept;
}

struct channel *channel_generate(int columns, int density, uint64_t seed)
{
    struct channel *channel = allocate(sizeof *channel);
    struct generator generator = {.random = mix(seed), .limit = density};
    generator.open = allocate((size_t)density * sizeof *generator.open);
    *channel = (struct channel){.columns = columns};
    for (int side = TOP; side < SIDES; side++)
        channel->pins[side] = allocate((size_t)columns * sizeof *channel->pins[side]);
    for (int column = 0; column < columns; column++) {
        generator.crossing = generator.open_count;
        channel->pins[TOP][column] = next_pin(&generator, 0);
        channel->pins[BOTTOM][column] = next_pin(&generator, channel->pins[TOP][column]);
    }
    channel->nets = generator.nets;
    remove_trivial_nets(channel);
    measure(channel);
    return channel;
}
