/* SPDX-License-Identifier: MIT
 *
 * lackey_text.h: references as valgrind --tool=lackey --trace-mem=yes prints them.
 *
 *     I  04001090,3        an instruction fetch: passed over
 *      L 1ffefffd80,8      a load of eight bytes
 *      S 1ffefffd78,8      a store
 *      M 0421c7cc,4        a load and a store of the same place
 *
 * Lines that begin with "==" are Valgrind's own.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_LACKEY_TEXT_H
#define ALLOTROPE_ANALYSIS_SIMULATE_LACKEY_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "analysis/simulate/simulators/reference.h"

struct lackey_text {
    FILE *file;
    uint64_t line;
    bool store_pending; /* the second half of an M line */
    struct reference pending;
    char error[160]; /* empty while all is well */
};

/* Fills at most `room` references and returns how many; 0 at the end and on errors. */
size_t lackey_text_next(struct lackey_text *text, struct reference *references, size_t room);

#endif
