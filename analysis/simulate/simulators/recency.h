/* SPDX-License-Identifier: MIT
 *
 * recency.h: marks on a time line; the marks before any given time can be counted.
 *
 * Each unit that is not among the most recent ones has one mark, at the time when it left them. The
 * marks are bits; above them lie counts of marks in blocks of 512 bits and in strides of 16 blocks,
 * the strides' counts in a Fenwick tree. To count the marks before a time thus reads at most 8
 * words, 15 block counts and the logarithm of the number of strides.
 *
 *   strides (Fenwick)   |      s0      |      s1      | ...
 *   blocks              | 16 counts    | 16 counts    | ...
 *   bits                | 16 * 512     | 16 * 512     | ...
 *
 * Sources: Bennett and Kruskal, "LRU Stack Processing", IBM Journal of Research and Development 19
 * (1975), for counts over a row of marks; Fenwick, "A New Data Structure for Cumulative Frequency
 * Tables", Software: Practice and Experience 24 (1994).
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_RECENCY_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_RECENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct recency {
    uint64_t *bits;
    uint16_t *blocks;
    uint32_t *strides; /* Fenwick tree, from index 1 */
    uint32_t capacity; /* times, a multiple of a stride */
    uint32_t next;     /* the time of the next mark */
    uint32_t marks;    /* how many are set */
};

/* Makes an empty row with room for at least `times` marks. Returns false when memory is short. */
bool recency_init(struct recency *recency, size_t times);
void recency_free(struct recency *recency);

/* Sets a mark at the next time and returns that; needs recency->next < recency->capacity. */
uint32_t recency_mark(struct recency *recency);
void recency_unmark(struct recency *recency, uint32_t time);
/* Number of marks before `time`. */
uint32_t recency_before(const struct recency *recency, uint32_t time);

#endif
