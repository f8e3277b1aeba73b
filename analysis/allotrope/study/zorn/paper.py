# SPDX-License-Identifier: MIT
"""What the paper says: B. Zorn, "The Measured Cost of Conservative Garbage Collection",
CU-CS-573-92, 1992 (last revision August 1992).

Tables 2 to 6 are here whole, 160 cells with 220 numbers, and the figures that the text gives of its
pictures. Nothing was read off a picture. tests/analysis/check_paper.py holds the tables against the
paper's text, tests/analysis/test_paper.py against each other and against the digest of what that
program found.
"""

import math
from dataclasses import dataclass
from typing import Mapping, Sequence

from ..ranges import Range

SUNOS, COLLECTOR, GNU, KNUTH, BSD = (
    "cartesian:classic",
    "gc:classic",
    "gnu:classic",
    "knuth:classic",
    "bsd:classic",
)
# The paper's names of the algorithms, and our presets that are the same.
ALGORITHMS = {
    SUNOS: "SunOS",
    KNUTH: "Knuth",
    BSD: "BSD",
    GNU: "GNU",
    COLLECTOR: "Boehm–Weiser",
}
ABOUT_ALGORITHMS = {
    SUNOS: "Stephenson's Cartesian trees",
    KNUTH: "first fit with boundary tags",
    BSD: "Kingsley's powers of two",
    GNU: "Haertel's hybrid",
    COLLECTOR: "the conservative collector, version 1.6",
}

PROGRAMS = ("cfrac", "espresso", "gawk", "ghostscript", "perl", "yacr")
GS = "ghostscript"
OWN_ALLOCATOR = ("cfrac", "gawk", "ghostscript", "perl")  # Tables 5 and 6

# The tables' columns, from left to right.
COLUMNS_3_4 = (SUNOS, COLLECTOR, GNU, KNUTH, BSD)
ROWS_5_6 = tuple(
    (form, spec) for spec in (SUNOS, GNU, KNUTH, BSD) for form in ("optimised", "unoptimised")
)


@dataclass(frozen=True)
class Allocation:
    """A row of Table 2."""

    lines: int
    objects_millions: float
    bytes_millions: float
    seconds: float  # optimised, under SunOS's
    malloc_percent: float  # unoptimised, under SunOS's
    free_percent: float  # realloc included


TABLE_2 = {
    "cfrac": Allocation(6_000, 3.81, 65.0, 216, 10.9, 14.4),
    "espresso": Allocation(15_500, 1.66, 105, 237, 8.0, 16.4),
    "gawk": Allocation(8_500, 4.47, 170, 144, 12.0, 26.7),
    "ghostscript": Allocation(29_500, 0.92, 89, 147, 9.7, 20.6),
    "perl": Allocation(34_500, 0.36, 8.3, 174, 8.7, 14.7),
    "yacr": Allocation(9_000, 0.88, 28.8, 92, 28.0, 0.1),
}


@dataclass(frozen=True)
class Cell:
    """Of Tables 3 and 4: seconds or kilobytes, and the ratio to SunOS's that is printed."""

    absolute: float
    ratio: float


Table = Mapping[str, Mapping[str, Cell]]


def _rows(*rows: tuple[str, Sequence[tuple[float, float]]]) -> Table:
    return {
        name: {spec: Cell(*pair) for spec, pair in zip(COLUMNS_3_4, pairs, strict=True)}
        for name, pairs in rows
    }


# SunOS, B-W GC, GNU, Knuth, BSD: the collector unoptimised, the others optimised.
TABLE_3 = _rows(
    ("cfrac", [(216.2, 1.00), (175.9, 0.81), (217.2, 1.00), (225.3, 1.04), (221.6, 1.03)]),
    ("espresso", [(236.9, 1.00), (165.9, 0.70), (206.9, 0.87), (170.4, 0.72), (158.8, 0.67)]),
    ("gawk", [(144.0, 1.00), (156.6, 1.09), (147.8, 1.03), (117.8, 0.82), (105.2, 0.73)]),
    ("ghostscript", [(147.1, 1.00), (187.3, 1.27), (176.1, 1.20), (178.3, 1.21), (187.8, 1.28)]),
    ("perl", [(173.7, 1.00), (165.6, 0.95), (149.2, 0.86), (145.1, 0.84), (137.7, 0.79)]),
    ("yacr", [(91.6, 1.00), (91.2, 1.00), (99.2, 1.08), (78.5, 0.86), (85.0, 0.93)]),
)
TABLE_4 = _rows(
    ("cfrac", [(736, 1.00), (1807, 2.45), (748, 1.02), (760, 1.03), (761, 1.03)]),
    ("espresso", [(1387, 1.00), (3166, 2.28), (1315, 0.95), (1448, 1.04), (1974, 1.42)]),
    ("gawk", [(1006, 1.00), (1581, 1.57), (1086, 1.08), (1018, 1.01), (1134, 1.13)]),
    ("ghostscript", [(4053, 1.00), (9167, 2.26), (4206, 1.04), (4908, 1.21), (4756, 1.17)]),
    ("perl", [(1422, 1.00), (1901, 1.34), (1469, 1.03), (1470, 1.03), (1597, 1.12)]),
    ("yacr", [(13841, 1.00), (10944, 0.79), (14148, 1.02), (13697, 0.99), (14245, 1.03)]),
)


def _domain(*rows: Sequence[float]) -> Mapping[tuple[str, str], Mapping[str, float]]:
    return {
        key: dict(zip(OWN_ALLOCATOR, row, strict=True))
        for key, row in zip(ROWS_5_6, rows, strict=True)
    }


# cfrac, gawk, ghostscript, perl; ratios to optimised SunOS. Rows as ROWS_5_6.
TABLE_5 = _domain(
    (1.00, 1.00, 1.00, 1.00),
    (1.62, 1.22, 1.15, 1.24),
    (1.00, 1.03, 1.20, 0.86),
    (1.26, 1.10, 0.93, 0.95),
    (1.04, 0.82, 1.21, 0.84),
    (1.32, 0.91, 1.04, 0.91),
    (1.03, 0.73, 1.28, 0.79),
    (1.10, 0.75, 0.85, 0.82),
)
TABLE_6 = _domain(
    (1.00, 1.00, 1.00, 1.00),
    (1.01, 1.00, 0.92, 1.00),
    (1.02, 1.08, 1.04, 1.03),
    (1.01, 1.05, 1.05, 1.03),
    (1.03, 1.01, 1.21, 1.03),
    (1.09, 1.03, 1.56, 1.03),
    (1.03, 1.13, 1.17, 1.12),
    (1.03, 1.09, 1.15, 1.12),
)

# What the text says of the pictures.
GHOSTSCRIPT_MISS_RATE = 0.259  # optimised, BSD, 128 KB direct-mapped: Figure 6's caption
PERL_SURVIVORS_AT_10_000 = 0.5  # Figure 8, "approximately"
SURVIVORS_AT_100_000 = 0.10  # Figure 8, "in all cases except" yacr: fewer
MEMORY_1992 = 2 << 20  # Figure 4
CACHE_1992 = 128 << 10  # Figure 6
EXCEPT_YACR = ("yacr",)  # section 4: it "seldom called free"
EXCEPT_MISSES = ("ghostscript", "yacr")  # section 5.3


def numbers() -> list[float]:
    """All 220, table by table, row by row, as they are printed."""
    found: list[float] = []
    for row in TABLE_2.values():
        found += [row.lines, row.objects_millions, row.bytes_millions, row.seconds]
        found += [row.malloc_percent, row.free_percent]
    for table in (TABLE_3, TABLE_4):
        found += [
            number
            for cells in table.values()
            for cell in cells.values()
            for number in (cell.absolute, cell.ratio)
        ]
    for rows in (TABLE_5, TABLE_6):
        found += [number for line in rows.values() for number in line.values()]
    return found


# Ranges

MALLOC_SHARE = Range(0.23, 0.38, 0.01, "more")  # section 4, of Table 2
MALLOC_SHARE_SUMMARY = Range(-math.inf, 0.30, 0.01)  # section 6
COLLECTOR_CPU = Range(0.70, 1.27, 0.01, "less")  # Table 3, least and most, to optimised SunOS
CFRAC_GAIN = Range(0.75, 0.85, 0.0, "less")  # section 5.1: "about 20%"
COLLECTOR_MEMORY = Range(1.30, 2.50, 0.10, "more")  # section 6, to the best explicit allocator
YACR_MEMORY = Range(0.79, 0.79, 0.01, "less")  # Table 4, to SunOS
BSD_SPACE = Range(1.42, 1.42, 0.01, "more", effect=1.0)  # section 5.1, to SunOS
BSD_BETTER = Range(0.67, 0.93, 0.01, "less")  # section 5.1: the four of Table 3, to SunOS
BSD_WORST = Range(1.28, 1.28, 0.01, "more", effect=1.0)  # section 5.1, to SunOS
DOMAIN_GAIN_MOST = Range(1.60, 1.60, 0.1, "more", effect=1.0)  # section 5.2
DOMAIN_GAIN_BSD = Range(1.02, 1.07, 0.01, "less")  # section 5.2
DOMAIN_MEMORY = Range(-math.inf, 1.10)  # section 5.2: "little (and sometimes negative)"
DOMAIN_LITTLE = Range(-math.inf, 1.10, 0.01)  # the abstract: "often ... little"
UNOPTIMISED_BSD_CPU = Range(0.80, 0.80, 0.01, "less")  # section 5.2: "sometimes ... 20%"
UNOPTIMISED_BSD_SPACE = Range(1.05, 1.15, 0.0, "less")  # section 5.2: "an average 10%"
COLLECTOR_FAULTS = Range(10, 100, 0.0, "more")  # section 5.3, to BSD's
SLIGHTLY_MORE = Range(1, 2)  # section 5.3: unoptimised BSD's fault rate to optimised BSD's
COLLECTOR_MISSES = Range(3, 10, 1, "more")  # section 5.3, to BSD's
STILL_HIGH = Range(2, math.inf)  # section 5.3: "relatively high"
GHOSTSCRIPT_MISSES = Range(GHOSTSCRIPT_MISS_RATE, GHOSTSCRIPT_MISS_RATE, 0.001, "more")
SURVIVORS = Range(-math.inf, SURVIVORS_AT_100_000)
PERL_SURVIVORS = Range(0.4, 0.6)
