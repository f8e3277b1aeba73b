/* SPDX-License-Identifier: MIT
 *
 * yacr.c: routes channels between rows of cells; after the sixth program of Zorn's study.
 *
 * The study's YACR is a channel router that allocates and never frees. This program is written
 * anew after the published algorithm (assign.c, connect.c): trunks are given tracks with as few
 * broken constraints as can be, beginning with as many tracks as the channel is dense; then pins
 * are connected, and a track is added until that succeeds. It keeps all that it allocates, so an
 * allocator sees requests only, and a collector finds nearly everything dead that is not freed.
 *
 * Each result is checked: wires of different nets must not touch, pins of one must be connected.
 */
#include "bench_programs/yacr/routing.h"

#include "bench_programs/bench.h"

enum { EXTRA_TRACKS = 30 };

struct routing *routing_new(const struct channel *channel, int tracks)
{
    struct routing *routing = allocate(sizeof *routing);
    *routing = (struct routing){.channel = channel, .tracks = tracks};
    routing->track = allocate(((size_t)channel->nets + 1) * sizeof *routing->track);
    memset(routing->track, 0, ((size_t)channel->nets + 1) * sizeof *routing->track);
    return routing;
}

static struct routing *route(const struct channel *channel)
{
    int least = channel->density ? channel->density : 1;
    for (int tracks = least; tracks <= least + EXTRA_TRACKS; tracks++) {
        struct routing *routing = routing_new(channel, tracks);
        assign_tracks(routing);
        if (connect_pins(routing))
            return routing;
    }
    return NULL;
}

/* Rows of net numbers, "h" and "v" for the two layers, "x" with 1 where there is a via. */
static void print_routing(const struct routing *routing)
{
    for (int row = 0; row < routing->tracks + 2; row++) {
        for (int kind = 0; kind < LAYERS + 1; kind++) {
            putchar("hvx"[kind]);
            for (int column = 0; column < routing->channel->columns; column++) {
                size_t cell = cell_at(routing, row, column);
                printf(" %d", kind < LAYERS ? routing->owner[kind][cell] : (int)routing->via[cell]);
            }
            putchar('\n');
        }
    }
}

static uint64_t report(const char *name, const struct routing *routing)
{
    const struct channel *channel = routing->channel;
    size_t cells = (size_t)(routing->tracks + 2) * (size_t)channel->columns;
    uint64_t checksum = 0;
    int wire = 0, vias = 0;
    for (size_t cell = 0; cell < cells; cell++) {
        for (int layer = HORIZONTAL; layer < LAYERS; layer++) {
            wire += routing->owner[layer][cell] != 0;
            checksum = mix(checksum + (uint64_t)routing->owner[layer][cell]);
        }
        vias += routing->via[cell];
    }
    printf("%s: columns %d, nets %d, density %d, tracks %d, wire %d, vias %d\n", name,
           channel->columns, channel->nets, channel->density, routing->tracks, wire, vias);
    return checksum;
}

static uint64_t solve(const char *name, const struct channel *channel, bool print)
{
    struct routing *routing = route(channel);
    if (!routing) {
        fprintf(stderr, "yacr: %s: no routing with up to %d tracks\n", name,
                channel->density + EXTRA_TRACKS);
        exit(1);
    }
    if (!routing_is_legal(routing))
        bench_corrupt("an illegal routing", routing);
    if (print)
        print_routing(routing);
    return report(name, routing);
}

int main(int argc, char **argv)
{
    uint64_t channels = 0, columns = 175, density = 19, seed = 1, print = 0, checksum = 0;
    const struct bench_option options[] = {
        {"channels", "generated channels to route", 0, 1000000, &channels},
        {"columns", "their length", 4, 10000, &columns},
        {"density", "nets that cross a column, at most", 2, 1000, &density},
        {"seed", "of the first of them", 0, UINT64_MAX, &seed},
        {"print", "1: print the routings", 0, 1, &print},
        {0},
    };
    char *files[256], *numbers[256] = {argv[0]};
    int file_count = 0, number_count = 1;
    for (int i = 1; i < argc && i < 256; i++)
        if (strchr(argv[i], '=') || !strcmp(argv[i], "--help"))
            numbers[number_count++] = argv[i];
        else
            files[file_count++] = argv[i];
    bench_arguments(number_count, numbers, "channel router; FILE... are channels to route too",
                    options);
    if (argc > 256 || (!file_count && !channels)) {
        fprintf(stderr, "yacr: give 1 to 255 files, or channels=COUNT (yacr --help)\n");
        return BENCH_BAD_ARGUMENT;
    }
    for (int i = 0; i < file_count; i++)
        checksum = mix(checksum + solve(files[i], channel_read(files[i]), print));
    for (uint64_t i = 0; i < channels; i++) {
        char name[32];
        snprintf(name, sizeof name, "seed %" PRIu64, seed + i);
        checksum = mix(checksum +
                       solve(name, channel_generate((int)columns, (int)density, seed + i), print));
    }
    print_checksum(checksum);
    return 0;
}
