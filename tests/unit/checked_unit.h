/* SPDX-License-Identifier: MIT
 *
 * checked_unit.h: blocks:checked as it is without options.
 */
#ifndef ALLOTROPE_TESTS_UNIT_CHECKED_UNIT_H
#define ALLOTROPE_TESTS_UNIT_CHECKED_UNIT_H

#include "alloc/checked/checked.h"
#include "tests/unit/unit.h"

/* Set-up of a group of tests. */
static inline int start_checked(void **state)
{
    static uint64_t options[OPTIONS_BYTES / sizeof(uint64_t)];
    (void)state;
    options_set_initial(blocks_checked.options, options);
    return blocks_checked.init(options) ? 0 : -1;
}

#endif
