/* SPDX-License-Identifier: MIT
 *
 * routing.h: the answer, wires on a grid of two layers, and the steps that lead to it.
 *
 * Row 0 holds the pins at the top, rows 1 to tracks the tracks, row tracks + 1 the pins at the
 * bottom. Each cell of each layer belongs to one net or is free (0); neighbours on one layer that
 * belong to the same net are connected, and the two layers of a cell where there is a via.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_YACR_ROUTING_H
#define ALLOTROPE_BENCH_PROGRAMS_YACR_ROUTING_H

#include "bench_programs/yacr/channel.h"

#include <stdbool.h>
#include <stddef.h>

enum layer { HORIZONTAL, VERTICAL, LAYERS };

struct routing {
    const struct channel *channel;
    int tracks;
    int *track;         /* of each net's trunk, [1, nets] */
    int *owner[LAYERS]; /* by cell */
    bool *via;          /* by cell */
};

static inline size_t cell_at(const struct routing *routing, int row, int column)
{
    return (size_t)row * (size_t)routing->channel->columns + (size_t)column;
}

/* An empty routing with that many tracks. */
struct routing *routing_new(const struct channel *channel, int tracks);

/* Step one: gives every net's trunk a track; no two trunks overlap. tracks is at least the
 * channel's density. */
void assign_tracks(struct routing *routing);

/* Step two: lays the trunks and connects every pin to its net's. False when a pin cannot be
 * reached: more tracks are needed. */
bool connect_pins(struct routing *routing);

/* Whether every net's pins are connected, and the terminal rows hold nothing but pins. Knows
 * nothing of how the routing was found. */
bool routing_is_legal(const struct routing *routing);

#endif
