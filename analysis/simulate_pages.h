/* SPDX-License-Identifier: MIT */
/* simulate_pages.h: page faults of a stream of references, as JSON. */
#ifndef ANALYSIS_SIMULATE_PAGES_H
#define ANALYSIS_SIMULATE_PAGES_H

#include <stdio.h>

#include "analysis/reference_source.h"
#include "analysis/simulate_options.h"

/* Simulates the whole stream and prints the result. Returns NULL, or one line that says why there
 * is none. */
const char *simulate_pages(struct reference_source *source, const struct simulate_options *options,
                           FILE *output);

#endif
