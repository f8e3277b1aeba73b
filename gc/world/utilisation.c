/* SPDX-License-Identifier: MIT
 *
 * utilisation.c: see utilisation.h.
 */
#include "gc/world/utilisation.h"

const uint64_t utilisation_windows_ns[UTILISATION_WINDOWS] = {1000000, 10000000, 100000000};

/* How long the remembered stops lasted since `from_ns`, in nanoseconds. The last stop is looked at
 * first. */
static uint64_t stopped_since(const struct utilisation *utilisation, uint64_t from_ns)
{
    uint64_t sum = 0;
    uint64_t known = utilisation->count;
    if (known > UTILISATION_STOPS)
        known = UTILISATION_STOPS;
    for (uint64_t back = 1; back <= known; back++) {
        uint64_t place = (utilisation->count - back) % UTILISATION_STOPS;
        uint64_t begun_ns = utilisation->stops[place].begun_ns;
        uint64_t ended_ns = utilisation->stops[place].ended_ns;
        if (ended_ns <= from_ns)
            break;
        sum += ended_ns - (begun_ns > from_ns ? begun_ns : from_ns);
    }
    return sum;
}

void utilisation_add(struct utilisation *utilisation, uint64_t begun_ns, uint64_t ended_ns)
{
    uint64_t place = utilisation->count++ % UTILISATION_STOPS;
    utilisation->stops[place].begun_ns = begun_ns;
    utilisation->stops[place].ended_ns = ended_ns;
    for (int i = 0; i < UTILISATION_WINDOWS; i++) {
        uint64_t window_ns = utilisation_windows_ns[i];
        uint64_t from_ns = ended_ns > window_ns ? ended_ns - window_ns : 0;
        uint64_t stopped_ns = stopped_since(utilisation, from_ns);
        if (stopped_ns > utilisation->longest_ns[i])
            utilisation->longest_ns[i] = stopped_ns;
    }
}

void utilisation_visit(const struct utilisation *utilisation, statistic_visitor *visit,
                       void *argument)
{
    static const char *const keys[UTILISATION_WINDOWS] = {
        "longest_in_1_ms_ns",
        "longest_in_10_ms_ns",
        "longest_in_100_ms_ns",
    };
    for (int i = 0; utilisation && i < UTILISATION_WINDOWS; i++)
        visit(argument, "gc_stopped", keys[i], utilisation->longest_ns[i]);
}
