# SPDX-License-Identifier: MIT
"""Which pairs of a program's form and an allocator the tables, the figures and the claims look at,
and what each is called."""

from typing import Sequence

from . import paper
from .evidence import Pair
from .plan import CLASSIC, COLLECTORS, DEFAULT, LIBGC, MODERN, PREDICTED, SIMULATED
from .results import Results

EXPLICIT = [("optimised", spec) for spec in CLASSIC]
COLLECTED = ("collected", COLLECTORS[0])
ALL_1992 = [*EXPLICIT, COLLECTED]
# The collector of 1992 again, beside today's two.
TODAY = [
    *(("optimised", spec) for spec in DEFAULT + MODERN),
    *(("collected", spec) for spec in COLLECTORS),
]
# Ours, without generations and with them: the paper's prediction.
FULL, GENERATIONAL = (("collected", spec) for spec in PREDICTED)
BSD = ("optimised", "bsd:classic")
UNOPTIMISED_BSD = ("unoptimised", "bsd:classic")
# The paper's three cases of locality, beside today's collectors; and all that was simulated.
LOCALITY_SHOWN = [
    BSD,
    UNOPTIMISED_BSD,
    COLLECTED,
    ("collected", "gc:free=ignore"),
    ("collected", LIBGC),
]
LOCALITY_PAIRS = [
    *EXPLICIT,
    UNOPTIMISED_BSD,
    *(("optimised", spec) for spec in SIMULATED),
    *(("collected", spec) for spec in COLLECTORS),
    FULL,
    GENERATIONAL,
]


def measured(results: Results, pairs: Sequence[Pair]) -> list[Pair]:
    """The configurations of which anything at all is known; a column of nothing is none."""
    known = {
        (name, key)
        for store in (results.accounts, results.locality, results.samples)
        for name, key in store
    }
    known |= {
        (name, key) for name, rounds in results.rounds.items() for each in rounds for key in each
    }
    return [
        pair
        for pair in pairs
        if any((one.name, results.key(one.name, *pair)) in known for one in results.programs)
    ]


def heading(pair: Pair) -> str:
    """The field's name of an algorithm of the paper, with options; of others their own."""
    preset, comma, options = pair[1].partition(",")
    return paper.ALGORITHMS.get(preset, preset) + comma.replace(",", ", ") + options


def label(pair: Pair) -> str:
    """A heading that tells the two forms under an explicit allocator apart."""
    name = heading(pair)
    return f"{name}, unoptimised" if pair[0] == "unoptimised" else name
