/* SPDX-License-Identifier: MIT
 *
 * connect.c: every pin to its net's trunk, straight where that is free, by a maze where not.
 *
 * Trunks lie on the horizontal layer. A pin's wire wants to run straight down (or up) its column
 * on the vertical layer; where a broken constraint puts another wire in the way it has to jog.
 * YACR2 tries a few fixed patterns of jogs, on either layer, and adds a track when none fits.
 * Here one search stands for all patterns: the cheapest path in a window about the column, to
 * any cell that is connected to the net already, with prices that prefer what the patterns do
 * (straight is cheap, a jog on the wrong layer is dear). When some pins find no path, all wires
 * but the trunks are taken up again and those pins go first; after a few rounds a track is added.
 *
 * Each cell that the search reaches is a block of its own, and nothing is ever freed.
 *
 * Sources: YACR2 (assign.c), for the plan; Lee, "An Algorithm for Path Connections and Its
 * Applications", IRE Trans. Electronic Computers EC-10, 1961, with prices as in Dijkstra's.
 */
#include "bench_programs/yacr/routing.h"

#include "bench_programs/bench.h"

enum { WINDOW = 12, ROUNDS = 30 };
enum { PRICE_ALONG = 2, PRICE_JOG_VERTICAL = 5, PRICE_JOG_HORIZONTAL = 3, PRICE_CLIMB = 6 };
enum { PRICE_VIA = 4 };

struct pin {
    int net, row, column;
    bool connected;
};

struct step {
    int row, column, price;
    enum layer layer;
    const struct step *from;
};

/* The steps reached but not yet taken, the cheapest first; equals in the order of their arrival,
 * so that the result is the same everywhere. */
struct frontier {
    struct step **heap;
    int length, capacity;
};

struct search {
    struct routing *routing;
    const struct pin *pin;
    int left, right; /* columns of the window */
    struct frontier frontier;
    int *best[LAYERS]; /* lowest price so far, by cell of the window; 0: not reached */
    bool *terminals;   /* pins that are connected, by terminal cell */
};

static void frontier_add(struct frontier *frontier, struct step *step)
{
    if (frontier->length == frontier->capacity) {
        int capacity = frontier->capacity ? 2 * frontier->capacity : 64;
        struct step **heap = allocate((size_t)capacity * sizeof *heap);
        if (frontier->length)
            memcpy(heap, frontier->heap, (size_t)frontier->length * sizeof *heap);
        frontier->heap = heap;
        frontier->capacity = capacity;
    }
    int at = frontier->length++;
    for (; at && frontier->heap[(at - 1) / 2]->price > step->price; at = (at - 1) / 2)
        frontier->heap[at] = frontier->heap[(at - 1) / 2];
    frontier->heap[at] = step;
}

static struct step *frontier_take(struct frontier *frontier)
{
    if (!frontier->length)
        return NULL;
    struct step *first = frontier->heap[0], *last = frontier->heap[--frontier->length];
    int at = 0, child;
    while ((child = 2 * at + 1) < frontier->length) {
        if (child + 1 < frontier->length &&
            frontier->heap[child + 1]->price < frontier->heap[child]->price)
            child++;
        if (last->price <= frontier->heap[child]->price)
            break;
        frontier->heap[at] = frontier->heap[child];
        at = child;
    }
    frontier->heap[at] = last;
    return first;
}

static bool is_terminal_row(const struct routing *routing, int row)
{
    return row == 0 || row == routing->tracks + 1;
}

/* Whether the search has arrived: a cell of the net that is connected to it. */
static bool is_goal(const struct search *search, const struct step *step)
{
    size_t cell = cell_at(search->routing, step->row, step->column);
    if (search->routing->owner[step->layer][cell] != search->pin->net)
        return false;
    return !is_terminal_row(search->routing, step->row) || search->terminals[cell];
}

/* Reaches a neighbour, if it may be entered and has not been reached as cheaply. */
static void reach(struct search *search, const struct step *from, int row, int column,
                  enum layer layer, int price)
{
    const struct routing *routing = search->routing;
    if (row < 0 || row > routing->tracks + 1 || column < search->left || column > search->right)
        return;
    size_t cell = cell_at(routing, row, column);
    int owner = routing->owner[layer][cell];
    if (owner && owner != search->pin->net)
        return;
    if (is_terminal_row(routing, row) && !search->terminals[cell])
        return;
    size_t window_columns = (size_t)(search->right - search->left + 1);
    int *best =
        &search->best[layer][(size_t)row * window_columns + (size_t)(column - search->left)];
    price += from ? from->price : 1;
    if (*best && *best <= price)
        return;
    *best = price;
    struct step *step = allocate(sizeof *step);
    *step = (struct step){row, column, price, layer, from};
    frontier_add(&search->frontier, step);
}

static void spread(struct search *search, const struct step *step)
{
    bool vertical = step->layer == VERTICAL;
    int climb = vertical ? PRICE_ALONG : PRICE_CLIMB;
    int jog = vertical ? PRICE_JOG_VERTICAL : PRICE_JOG_HORIZONTAL;
    reach(search, step, step->row - 1, step->column, step->layer, climb);
    reach(search, step, step->row + 1, step->column, step->layer, climb);
    if (is_terminal_row(search->routing, step->row))
        return;
    reach(search, step, step->row, step->column - 1, step->layer, jog);
    reach(search, step, step->row, step->column + 1, step->layer, jog);
    reach(search, step, step->row, step->column, vertical ? HORIZONTAL : VERTICAL, PRICE_VIA);
}

static void lay_wire(struct routing *routing, int net, const struct step *step)
{
    for (; step; step = step->from) {
        size_t cell = cell_at(routing, step->row, step->column);
        routing->owner[step->layer][cell] = net;
        if (step->from && step->from->layer != step->layer)
            routing->via[cell] = true;
    }
}

static void search_start(struct search *search)
{
    const struct routing *routing = search->routing;
    search->left = search->pin->column - WINDOW > 0 ? search->pin->column - WINDOW : 0;
    search->right = search->pin->column + WINDOW < routing->channel->columns
                        ? search->pin->column + WINDOW
                        : routing->channel->columns - 1;
    size_t cells = (size_t)(routing->tracks + 2) * (size_t)(search->right - search->left + 1);
    for (int layer = HORIZONTAL; layer < LAYERS; layer++) {
        search->best[layer] = allocate(cells * sizeof(int));
        memset(search->best[layer], 0, cells * sizeof(int));
    }
    struct step *start = allocate(sizeof *start);
    *start = (struct step){search->pin->row, search->pin->column, 1, VERTICAL, NULL};
    frontier_add(&search->frontier, start);
}

static bool connect_pin(struct routing *routing, struct pin *pin, bool *terminals)
{
    struct search search = {.routing = routing, .pin = pin, .terminals = terminals};
    search_start(&search);
    for (struct step *step; (step = frontier_take(&search.frontier));) {
        if (is_goal(&search, step)) {
            lay_wire(routing, pin->net, step);
            pin->connected = true;
            terminals[cell_at(routing, pin->row, pin->column)] = true;
            return true;
        }
        spread(&search, step);
    }
    return false;
}

/* Trunks and pins only. A net whose pins share a column has no trunk. */
static void clear(struct routing *routing)
{
    const struct channel *channel = routing->channel;
    size_t cells = (size_t)(routing->tracks + 2) * (size_t)channel->columns;
    for (int layer = HORIZONTAL; layer < LAYERS; layer++) {
        routing->owner[layer] = allocate(cells * sizeof(int));
        memset(routing->owner[layer], 0, cells * sizeof(int));
    }
    routing->via = allocate(cells);
    memset(routing->via, 0, cells);
    for (int n = 1; n <= channel->nets; n++)
        for (int column = channel->net[n].first; column <= channel->net[n].last; column++)
            if (channel->net[n].first < channel->net[n].last)
                routing->owner[HORIZONTAL][cell_at(routing, routing->track[n], column)] = n;
    for (int column = 0; column < channel->columns; column++) {
        routing->owner[VERTICAL][cell_at(routing, 0, column)] = channel->pins[TOP][column];
        routing->owner[VERTICAL][cell_at(routing, routing->tracks + 1, column)] =
            channel->pins[BOTTOM][column];
    }
}

/* Connects all pins in the order given; how many could not be. */
static int connect_round(struct routing *routing, struct pin **pins, int count)
{
    const struct channel *channel = routing->channel;
    size_t cells = (size_t)(routing->tracks + 2) * (size_t)channel->columns;
    bool *terminals = allocate(cells);
    int failed = 0;
    memset(terminals, 0, cells);
    clear(routing);
    for (int i = 0; i < count; i++) {
        struct pin *pin = pins[i];
        pin->connected = false;
        const struct net *net = &channel->net[pin->net];
        if (net->first == net->last && pin->row == 0)
            terminals[cell_at(routing, 0, pin->column)] = pin->connected = true;
    }
    for (int i = 0; i < count; i++)
        if (!pins[i]->connected)
            failed += !connect_pin(routing, pins[i], terminals);
    return failed;
}

/* Pins in the order in which they are connected at first: by column. */
static int list_pins(const struct routing *routing, struct pin **pins)
{
    int count = 0;
    for (int column = 0; column < routing->channel->columns; column++) {
        for (int side = TOP; side < SIDES; side++) {
            int net = routing->channel->pins[side][column];
            if (!net)
                continue;
            struct pin *pin = allocate(sizeof *pin);
            *pin = (struct pin){net, side == TOP ? 0 : routing->tracks + 1, column, false};
            pins[count++] = pin;
        }
    }
    return count;
}

/* Puts the pins that failed in front, the order otherwise kept. */
static void failed_first(struct pin **pins, int count)
{
    struct pin **order = allocate((size_t)count * sizeof *order);
    int at = 0;
    for (int i = 0; i < count; i++)
        if (!pins[i]->connected)
            order[at++] = pins[i];
    for (int i = 0; i < count; i++)
        if (pins[i]->connected)
            order[at++] = pins[i];
    memcpy(pins, order, (size_t)count * sizeof *pins);
}

bool connect_pins(struct routing *routing)
{
    struct pin **pins = allocate(2 * (size_t)routing->channel->columns * sizeof *pins);
    int count = list_pins(routing, pins);
    for (int round = 0; round < ROUNDS; round++) {
        if (connect_round(routing, pins, count) == 0)
            return true;
        failed_first(pins, count);
    }
    return false;
}
