/* SPDX-License-Identifier: MIT
 *
 * assign.c: tracks for trunks, from the densest column outwards.
 *
 * A column whose pin at the top belongs to net a and at the bottom to net b wants a's trunk above
 * b's, or their vertical wires meet: a constraint a -> b. Other routers obey all constraints and
 * pay with tracks; here each trunk gets the track on which it breaks fewest, and the second step
 * mends what is broken. The nets of the densest column come first, while every track is free;
 * then the nets that begin to its right, column by column, and those to its left.
 *
 * How much a track suits a net is told by the nets placed before (a constraint broken now), and
 * by the longest chains of constraints above and below the net: nets of the one must find room
 * above it, nets of the other below. At the end stretches of two tracks are exchanged for as long
 * as that lowers the cost.
 *
 * Source: Reed, Sangiovanni-Vincentelli & Santomauro, "A New Symbolic Channel Router: YACR2",
 * IEEE Trans. CAD 4(3), 1985. The weights and the exchange are ours.
 */
#include "bench_programs/yacr/routing.h"

#include "bench_programs/bench.h"

/* One constraint, in the lists of both of its nets. */
struct constraint {
    int net;
    struct constraint *next;
};

struct assignment {
    struct routing *routing;
    struct constraint **above, **below; /* of each net: those that must be above or below it */
    int *chain_above, *chain_below;     /* nets on the longest chain; -1: not yet known */
    int *order;                         /* nets still without a track, of one column */
};

enum { BROKEN_WEIGHT = 1000, CHAIN_WEIGHT = 40, PLACE_WEIGHT = 1, IN_PROGRESS = -2 };

static void constraint_add(struct constraint **list, int net)
{
    struct constraint *constraint = allocate(sizeof *constraint);
    *constraint = (struct constraint){net, *list};
    *list = constraint;
}

/* The longest chain from a net on; a cycle is cut where it is first met. */
static int longest_chain(struct constraint **lists, int *chains, int net)
{
    if (chains[net] == IN_PROGRESS)
        return 0;
    if (chains[net] >= 0)
        return chains[net];
    chains[net] = IN_PROGRESS;
    int longest = 0;
    for (const struct constraint *next = lists[net]; next; next = next->next) {
        int chain = 1 + longest_chain(lists, chains, next->net);
        if (chain > longest)
            longest = chain;
    }
    return chains[net] = longest;
}

static void find_constraints(struct assignment *work)
{
    const struct channel *channel = work->routing->channel;
    size_t nets = (size_t)channel->nets + 1;
    work->above = allocate(nets * sizeof *work->above);
    work->below = allocate(nets * sizeof *work->below);
    work->chain_above = allocate(nets * sizeof *work->chain_above);
    work->chain_below = allocate(nets * sizeof *work->chain_below);
    for (size_t n = 0; n < nets; n++) {
        work->above[n] = work->below[n] = NULL;
        work->chain_above[n] = work->chain_below[n] = -1;
    }
    for (int column = 0; column < channel->columns; column++) {
        int top = channel->pins[TOP][column], bottom = channel->pins[BOTTOM][column];
        if (top && bottom && top != bottom) {
            constraint_add(&work->below[top], bottom);
            constraint_add(&work->above[bottom], top);
        }
    }
    for (int n = 1; n <= channel->nets; n++) {
        longest_chain(work->above, work->chain_above, n);
        longest_chain(work->below, work->chain_below, n);
    }
}

/* How ill a track suits a net's chains. */
static int chain_cost(const struct assignment *work, int net, int track)
{
    int tracks = work->routing->tracks, total = 0;
    int above = work->chain_above[net], below = work->chain_below[net];
    if (track <= above)
        total += (above + 1 - track) * CHAIN_WEIGHT;
    if (tracks - track < below)
        total += (below - (tracks - track)) * CHAIN_WEIGHT;
    int ideal = above + below ? 1 + (tracks - 1) * above / (above + below) : (tracks + 1) / 2;
    return total + abs(track - ideal) * PLACE_WEIGHT;
}

/* The constraints that a net on a track breaks with the nets that have theirs, twice over; only
 * once with nets on tracks one and other. */
static int broken_twice(const struct assignment *work, int net, int track, int one, int other)
{
    const int *placed = work->routing->track;
    int count = 0;
    for (const struct constraint *next = work->above[net]; next; next = next->next) {
        int its = placed[next->net];
        if (its && its > track)
            count += its == one || its == other ? 1 : 2;
    }
    for (const struct constraint *next = work->below[net]; next; next = next->next) {
        int its = placed[next->net];
        if (its && its < track)
            count += its == one || its == other ? 1 : 2;
    }
    return count;
}

static int cost(const struct assignment *work, int net, int track)
{
    return broken_twice(work, net, track, 0, 0) * (BROKEN_WEIGHT / 2) +
           chain_cost(work, net, track);
}

/* Whether no trunk on the track overlaps the net's. */
static bool track_is_free(const struct assignment *work, int net, int track)
{
    const struct channel *channel = work->routing->channel;
    for (int n = 1; n <= channel->nets; n++)
        if (work->routing->track[n] == track && channel->net[n].first <= channel->net[net].last &&
            channel->net[net].first <= channel->net[n].last)
            return false;
    return true;
}

/* The best free track of a net, or 0; its cost, and how much worse the next best is. */
static int best_track(const struct assignment *work, int net, int *best_cost, int *regret)
{
    int best = 0, second_cost = INT32_MAX;
    *best_cost = INT32_MAX;
    for (int track = 1; track <= work->routing->tracks; track++) {
        if (!track_is_free(work, net, track))
            continue;
        int this_cost = cost(work, net, track);
        if (this_cost < *best_cost) {
            second_cost = *best_cost;
            *best_cost = this_cost;
            best = track;
        } else if (this_cost < second_cost) {
            second_cost = this_cost;
        }
    }
    *regret = second_cost - *best_cost;
    return best;
}

/* Gives tracks to `count` nets in work->order, each time to the one that would lose most by
 * waiting. */
static void assign_group(struct assignment *work, int count)
{
    for (; count; count--) {
        int chosen = 0, chosen_track = 0, most = -1;
        for (int i = 0; i < count; i++) {
            int this_cost, regret;
            int track = best_track(work, work->order[i], &this_cost, &regret);
            if (regret > most) {
                most = regret;
                chosen = i;
                chosen_track = track;
            }
        }
        work->routing->track[work->order[chosen]] = chosen_track;
        work->order[chosen] = work->order[count - 1];
    }
}

/* The nets that cross a column and have no track yet. */
static int collect(struct assignment *work, int column)
{
    const struct channel *channel = work->routing->channel;
    int count = 0;
    for (int n = 1; n <= channel->nets; n++)
        if (!work->routing->track[n] && channel->net[n].first <= column &&
            column <= channel->net[n].last)
            work->order[count++] = n;
    return count;
}

/* What the nets on two tracks cost where they are, a constraint between them counted once: so a
 * lower figure here is a lower one for the whole channel. */
static int cost_of_tracks(const struct assignment *work, int one, int other)
{
    int total = 0;
    for (int n = 1; n <= work->routing->channel->nets; n++) {
        int track = work->routing->track[n];
        if (track == one || track == other)
            total += chain_cost(work, n, track) +
                     broken_twice(work, n, track, one, other) * (BROKEN_WEIGHT / 2);
    }
    return total;
}

/* Exchanges what lies on two tracks between two columns, over which no trunk on them reaches. */
static void exchange(struct assignment *work, int one, int other, int first, int last)
{
    const struct channel *channel = work->routing->channel;
    int *track = work->routing->track;
    for (int n = 1; n <= channel->nets; n++)
        if ((track[n] == one || track[n] == other) && channel->net[n].first >= first &&
            channel->net[n].last <= last)
            track[n] = one + other - track[n];
}

/* Makes [*first, *last] the least stretch about a net that can be exchanged with a track. */
static void widen(const struct assignment *work, int one, int other, int *first, int *last)
{
    const struct channel *channel = work->routing->channel;
    const int *track = work->routing->track;
    for (bool wider = true; wider;) {
        wider = false;
        for (int n = 1; n <= channel->nets; n++) {
            const struct net *net = &channel->net[n];
            if ((track[n] != one && track[n] != other) || net->first > *last || net->last < *first)
                continue;
            wider |= net->first < *first || net->last > *last;
            *first = net->first < *first ? net->first : *first;
            *last = net->last > *last ? net->last : *last;
        }
    }
}

/* Exchanges a net, and what must move with it, with a track; whether that mended anything. */
static bool improve_net(struct assignment *work, int net, int other)
{
    int first = work->routing->channel->net[net].first;
    int last = work->routing->channel->net[net].last;
    int one = work->routing->track[net];
    if (one == other || !one)
        return false;
    widen(work, one, other, &first, &last);
    int before = cost_of_tracks(work, one, other);
    exchange(work, one, other, first, last);
    if (cost_of_tracks(work, one, other) < before)
        return true;
    exchange(work, one, other, first, last);
    return false;
}

/* Exchanges stretches of tracks while that mends anything. */
static void improve(struct assignment *work)
{
    for (bool better = true; better;) {
        better = false;
        for (int n = 1; n <= work->routing->channel->nets; n++)
            for (int track = 1; track <= work->routing->tracks; track++)
                better |= improve_net(work, n, track);
    }
}

void assign_tracks(struct routing *routing)
{
    const struct channel *channel = routing->channel;
    struct assignment work = {.routing = routing};
    find_constraints(&work);
    work.order = allocate(((size_t)channel->density + 1) * sizeof *work.order);
    assign_group(&work, collect(&work, channel->densest_column));
    for (int column = channel->densest_column + 1; column < channel->columns; column++)
        assign_group(&work, collect(&work, column));
    for (int column = channel->densest_column - 1; column >= 0; column--)
        assign_group(&work, collect(&work, column));
    improve(&work);
}
