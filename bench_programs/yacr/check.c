/* SPDX-License-Identifier: MIT
 *
 * check.c: whether a routing is legal, by flooding each net from one of its pins.
 */
#include "bench_programs/yacr/routing.h"

#include "bench_programs/bench.h"

struct flood {
    const struct routing *routing;
    bool *seen[LAYERS];
    size_t *stack; /* cell * LAYERS + layer */
    size_t length;
};

static void visit(struct flood *flood, int net, int row, int column, enum layer layer)
{
    const struct routing *routing = flood->routing;
    if (row < 0 || row > routing->tracks + 1 || column < 0 || column >= routing->channel->columns)
        return;
    size_t cell = cell_at(routing, row, column);
    if (flood->seen[layer][cell] || routing->owner[layer][cell] != net)
        return;
    flood->seen[layer][cell] = true;
    flood->stack[flood->length++] = cell * LAYERS + layer;
}

static void flood_net(struct flood *flood, int net, int row, int column)
{
    visit(flood, net, row, column, VERTICAL);
    while (flood->length) {
        size_t top = flood->stack[--flood->length], cell = top / LAYERS;
        enum layer layer = top % LAYERS;
        int columns = flood->routing->channel->columns;
        row = (int)(cell / (size_t)columns);
        column = (int)(cell % (size_t)columns);
        visit(flood, net, row - 1, column, layer);
        visit(flood, net, row + 1, column, layer);
        visit(flood, net, row, column - 1, layer);
        visit(flood, net, row, column + 1, layer);
        if (flood->routing->via[cell])
            visit(flood, net, row, column, layer == VERTICAL ? HORIZONTAL : VERTICAL);
    }
}

/* A via joins two cells of one net; terminal rows hold pins on the vertical layer, else nothing. */
static bool cells_are_sound(const struct routing *routing)
{
    const struct channel *channel = routing->channel;
    for (int row = 0; row < routing->tracks + 2; row++) {
        for (int column = 0; column < channel->columns; column++) {
            size_t cell = cell_at(routing, row, column);
            int horizontal = routing->owner[HORIZONTAL][cell];
            int vertical = routing->owner[VERTICAL][cell];
            if (routing->via[cell] && (!horizontal || horizontal != vertical))
                return false;
            if (row == 0 && (horizontal || vertical != channel->pins[TOP][column]))
                return false;
            if (row == routing->tracks + 1 &&
                (horizontal || vertical != channel->pins[BOTTOM][column]))
                return false;
        }
    }
    return true;
}

bool routing_is_legal(const struct routing *routing)
{
    const struct channel *channel = routing->channel;
    size_t cells = (size_t)(routing->tracks + 2) * (size_t)channel->columns;
    struct flood flood = {.routing = routing};
    bool *started = allocate((size_t)channel->nets + 1);
    memset(started, 0, (size_t)channel->nets + 1);
    flood.stack = allocate(cells * LAYERS * sizeof *flood.stack);
    for (int layer = HORIZONTAL; layer < LAYERS; layer++) {
        flood.seen[layer] = allocate(cells);
        memset(flood.seen[layer], 0, cells);
    }
    if (!cells_are_sound(routing))
        return false;
    for (int column = 0; column < channel->columns; column++) {
        for (int side = TOP; side < SIDES; side++) {
            int net = channel->pins[side][column], row = side == TOP ? 0 : routing->tracks + 1;
            if (!net)
                continue;
            if (!started[net])
                flood_net(&flood, net, row, column);
            started[net] = true;
            if (!flood.seen[VERTICAL][cell_at(routing, row, column)])
                return false;
        }
    }
    return true;
}
