# SPDX-License-Identifier: MIT
"""What the paper says: A. L. Hosking and J. E. B. Moss, "Protection traps and alternatives for
memory management of an object-oriented language", SOSP 1993, sections 3.2 and 5.

Tables 1 to 3 are here whole: 26 and twice 35 cells. Figures 2 and 3 are bars without values; of
them there is only what the text says. tests/analysis/check_barriers_paper.py holds the tables
against the paper's text; tests/analysis/test_barriers.py holds Table 1 against its formula, and
Tables 2 and 3 against themselves: a total is a weighted mean of its phases.
"""

import math

from ..ranges import Range

DESTROY, INTERACTIVE = "Destroy", "Interactive"
BENCHMARKS = (DESTROY, INTERACTIVE)
PHASES = ("running", "roots", "promoted", "other")
TOTAL = "total"
BOOKKEEPING = "roots and other"  # together; the paper prints no such sum
SUMS = {TOTAL: PHASES, BOOKKEEPING: ("roots", "other")}
SCHEMES = (*("remsets", "cards-16", "cards-64", "cards-256", "cards-1024", "cards-4096", "pages"),)
DIRTY = "dirty"  # estimated: of the oracle running, roots and promoted, of cards other

# Table 1, which calls Destroy "Tree".
CHECKS = {DESTROY: 59646, INTERACTIVE: 654245}
TRAPS = {DESTROY: 864, INTERACTIVE: 1656}
MEGAHERTZ = 16.67
# Cycles per check, and microseconds per trap at which both cost the same.
TABLE_1 = {
    1: (4, 24),
    2: (8, 47),
    4: (17, 95),
    5: (21, 118),
    10: (41, 237),
    15: (62, 355),
    20: (83, 474),
    50: (207, 1185),
    100: (414, 2370),
    150: (621, 3555),
    200: (828, 4740),
}

# Tables 2 and 3: percent of dirty's, in the order of SCHEMES.
TABLES = {
    DESTROY: {
        "running": (101, 98, 99, 103, 98, 98, 102),
        "roots": (19, 542, 153, 64, 58, 93, 138),
        "promoted": (97, 107, 102, 100, 99, 100, 101),
        "other": (94, 107, 104, 96, 96, 100, 360),
        "total": (98, 115, 101, 101, 97, 98, 105),
    },
    INTERACTIVE: {
        "running": (98, 97, 97, 102, 95, 94, 103),
        "roots": (22, 605, 173, 71, 56, 95, 141),
        "promoted": (100, 110, 103, 101, 99, 100, 100),
        "other": (96, 106, 104, 98, 97, 100, 255),
        "total": (95, 111, 99, 102, 94, 94, 105),
    },
}

# Section 3.2, in the text.
COLLECTIONS = {DESTROY: 160, INTERACTIVE: 137}
MICROSECONDS_PER_TRAP = {DESTROY: 915, INTERACTIVE: 744}
TIGHT_LOOP_MICROSECONDS = 250
CYCLES_PER_CHECK = 10  # "in no more than 10 cycles"
STORE_INSTRUCTIONS = {"cards": 6, "remsets": 22}  # the store included; of remsets typically


def break_even(benchmark: str, cycles: float) -> float:
    """Microseconds per trap: y = c x / (f t)."""
    return CHECKS[benchmark] * cycles / (MEGAHERTZ * TRAPS[benchmark])


# What the paper's words are taken for. It gives no numbers for them; these are ours, each next step
# clearly more than the last. A printed cell counts as itself: no cell lies within its rounding of a
# bound. The first step: running time varies by 5 points among card schemes that execute the same
# code (98 to 103% in Destroy), which the paper leaves to caches. So what is within 5% competes, and
# approaches; and within a tenth, twice as much, is "little effect", "very similar".
COMPETITIVE = Range(0, 1.05, beyond="less")
SIMILAR = Range(0.9, 1.1)
# "Significant" is twice what is little: a fifth; "markedly" and "substantial" are half, "much more"
# is twice.
SIGNIFICANTLY_LESS = Range(0, 0.8)
MARKEDLY_LESS = Range(0, 0.5)
MUCH_MORE = Range(2, math.inf)
NOT_WORSE = Range(0, 1)
