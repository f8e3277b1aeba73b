# SPDX-License-Identifier: MIT
"""The rules of the claims on locality: page faults, cache misses, and what generations do to both.

Each figure is a count of one recording, which has no interval: a difference counts from a factor on
(FAULTS_FLOOR, MISSES_FLOOR).
"""

import math
from dataclasses import replace
from typing import Iterator, Sequence

from ...features.locality.verdicts import DECIDES_ALONE
from ...statistics.verdicts import THRESHOLD, Quantifier
from ..claims import Claim, Part
from ..ranges import LESS, MORE, Range
from . import paper
from .asking import parts_of_each, quotient
from .cache_sets import page_start_share
from .evidence import Evidence, Pair
from .pairs import COLLECTED, FULL, GENERATIONAL, UNOPTIMISED_BSD
from .pairs import BSD as OPTIMISED_BSD
from .paper import GS

MOST, SOME = Quantifier.MOST, Quantifier.SOME
# Counts of one recording hold for its layout of memory. What differs by a smaller factor decides
# nothing, as in `allotrope locality`: another environment moves the stack, and with it misses most.
FAULTS_FLOOR, MISSES_FLOOR = 1 + THRESHOLD, DECIDES_ALONE
FLOORS = "less than 2% of faults, and less than a factor of 2 of misses, decides no difference"
# Memory sizes and caches that a statement about "all sizes" is asked at.
MEMORIES = tuple(1 << power for power in range(16, 22))  # 64 KiB to 2 MiB


def fault_ratio(
    evidence: Evidence, name: str, pair: Pair, base: Pair, memory: int | None
) -> float | None:
    if memory is None:
        return None
    return quotient(
        evidence.replacement_faults(name, *pair, memory),
        evidence.replacement_faults(name, *base, memory),
    )


def _of_one_layout(about: str, ratio: float | None, wanted: Range, floor: float) -> Part:
    """A difference between two recordings."""
    within = ratio is not None and 1 / floor <= ratio <= floor
    words = f"less than {floor - 1:.0%}" if floor < 2 else f"less than a factor of {floor:g}"
    why = f"{words} of one layout decides nothing" if within else ""
    return Part(about, ratio, wanted, undecided=why)


def _unless_near(part: Part, floor: float) -> Part:
    """A count that is nearer to an end of its range than another layout may bring it decides
    nothing."""
    one = part.measured
    near = isinstance(one, float) and any(
        end / floor < one < end * floor for end in part.wanted.accepted if math.isfinite(end)
    )
    why = f"less than a factor of {floor:g} from the range's end: one layout decides nothing"
    return replace(part, undecided=why) if near else part


def _fault_rate(evidence: Evidence, name: str, pair: Pair, memory: int) -> float | None:
    """Faults per reference, which Figure 5 has; Figure 4 has their number."""
    faults = evidence.replacement_faults(name, *pair, memory)
    references = evidence.references(name, *pair)
    return faults / references if faults is not None and references else None


def _highest(rates: Sequence[float | None]) -> float | None:
    """One that is missing may be it."""
    known = [one for one in rates if one is not None]
    return max(known) if len(known) == len(rates) else None


def _over_memories(
    evidence: Evidence, pair: Pair, bases: Sequence[Pair], wanted: Range
) -> list[Part]:
    """gawk at each memory size at which pages are still replaced, to the highest of the bases;
    Figure 5 is of gawk."""
    parts = []
    for memory in MEMORIES:
        rate = _fault_rate(evidence, "gawk", pair, memory)
        base = _highest([_fault_rate(evidence, "gawk", one, memory) for one in bases])
        # Less than one fault in a million references in all: a memory that holds the program.
        if rate is not None and base is not None and max(rate, base) * 1e6 < 1:
            continue
        ratio = quotient(rate, base)
        if rate and base == 0:
            ratio = math.inf  # faults where the other has none
        about = f"gawk, {memory >> 10} KiB"
        parts.append(
            _of_one_layout(about, ratio, wanted, FAULTS_FLOOR)
            if wanted is MORE
            else _unless_near(Part(about, ratio, wanted), FAULTS_FLOOR)
        )
    return parts or [Part("gawk", None, wanted)]


def page_faults(evidence: Evidence) -> Iterator[Claim]:
    memory = evidence.fixed_memory()

    def ratio(name: str) -> float | None:
        return fault_ratio(evidence, name, COLLECTED, OPTIMISED_BSD, memory)

    at = "replacement faults under the collector to BSD's, one memory size for all programs"
    yield Claim(
        "7a",
        "The collector causes more page faults in all programs.",
        "Figure 4, section 5.3",
        at,
        [_of_one_layout(name, ratio(name), MORE, FAULTS_FLOOR) for name in evidence.claimed()],
    )
    yield Claim(
        "7d",
        "Typically one to two orders of magnitude more.",
        "Figure 4, section 5.3",
        f"{at}: from 10 on in most",
        parts_of_each(evidence, paper.COLLECTOR_FAULTS, ratio),
        MOST,
    )
    yield Claim(
        "7b",
        "In gawk unoptimised BSD has a slightly higher page fault rate than optimised, at all "
        "memory sizes.",
        "Figure 5, section 5.3",
        "quotient of replacement faults per reference at each power of two; 1 to 2 taken as "
        "slightly higher",
        _over_memories(evidence, UNOPTIMISED_BSD, [OPTIMISED_BSD], paper.SLIGHTLY_MORE)
        if "gawk" in evidence.tunable()
        else [Part("gawk", None, paper.SLIGHTLY_MORE)],
    )
    yield Claim(
        "7c",
        "gawk's page fault rate is substantially higher under the collector than under BSD, in "
        "either form, up to 2 MB.",
        "Figure 5, section 5.3",
        "quotient of replacement faults per reference, to the higher of the two, at each power of "
        "two up to 2 MiB at which any has one in a million references; any more taken as "
        "substantial",
        _over_memories(evidence, COLLECTED, [OPTIMISED_BSD, UNOPTIMISED_BSD], MORE),
    )


def tuning_locality(evidence: Evidence) -> Iterator[Claim]:
    """The second of the conclusions from all pictures of locality; 7b is one of them, of gawk."""
    memory = evidence.fixed_memory()

    def ratio(name: str) -> float | None:
        if memory is None:
            return None
        return quotient(
            _fault_rate(evidence, name, UNOPTIMISED_BSD, memory),
            _fault_rate(evidence, name, OPTIMISED_BSD, memory),
        )

    yield Claim(
        "14",
        "Domain-specific allocators may increase locality of reference.",
        "section 5.3",
        "replacement faults per reference, as in 7b, of unoptimised BSD to optimised BSD's, one "
        "memory size for all programs: more in one. Misses are left out, for in them a factor of "
        "2 decides nothing and the claim could hardly fail",
        [_of_one_layout(name, ratio(name), MORE, FAULTS_FLOOR) for name in evidence.tunable()],
        SOME,
    )


def misses_ratio(evidence: Evidence, name: str, size: int) -> float | None:
    return quotient(
        evidence.miss_rate(name, *COLLECTED, size), evidence.miss_rate(name, *OPTIMISED_BSD, size)
    )


def cache_misses(evidence: Evidence) -> Iterator[Claim]:
    yield Claim(
        "8a",
        "In a direct-mapped cache of 128 KB the collector misses 3 to 10 times as "
        "often as BSD (ghostscript and yacr excepted).",
        "Figure 6, section 5.3",
        "misses per data reference, 32-byte blocks; more supports it",
        [
            _unless_near(part, MISSES_FLOOR)
            for part in parts_of_each(
                evidence,
                paper.COLLECTOR_MISSES,
                lambda name: misses_ratio(evidence, name, paper.CACHE_1992),
                paper.EXCEPT_MISSES,
            )
        ],
    )
    yield Claim(
        "8b",
        "gawk's misses under the collector are still high at 2 MB.",
        "Figure 7, section 5.3",
        "misses per data reference to BSD's in a direct-mapped cache of 2 MiB; from 2 on "
        "taken as high",
        [
            _unless_near(
                Part("gawk", misses_ratio(evidence, "gawk", paper.MEMORY_1992), paper.STILL_HIGH),
                MISSES_FLOOR,
            )
        ],
    )
    yield Claim(
        "8c",
        "ghostscript with its own allocators over BSD misses extremely often: 25.9%.",
        "Figure 6, section 5.3",
        "misses per data reference at 128 KB; more supports it",
        [
            Part(
                GS,
                evidence.miss_rate(GS, *OPTIMISED_BSD, paper.CACHE_1992),
                paper.GHOSTSCRIPT_MISSES,
            )
        ],
    )


def _conflict_rate(evidence: Evidence, name: str, pair: Pair) -> float | None:
    """Where a fully associative cache would miss more often there are none; the count is below zero
    then."""
    one = evidence.cache(name, *pair, paper.CACHE_1992)
    references = evidence.references(name, *pair)
    return max(0, one["conflict"]) / references if one and references else None


def headers(evidence: Evidence) -> Iterator[Claim]:
    def conflicts(name: str) -> float | None:
        """Conflict misses per data reference, the collector's to BSD's."""
        one, base = (_conflict_rate(evidence, name, pair) for pair in (COLLECTED, OPTIMISED_BSD))
        return quotient(one, base)

    yield Claim(
        "9a",
        "The collector may miss more because its page-aligned headers conflict (ghostscript and "
        "yacr excepted).",
        "section 5.3",
        "conflict misses per data reference at 128 KiB, the collector's to BSD's: more in one. "
        "Which part they are of what it misses more the paper does not say",
        [
            _of_one_layout(name, conflicts(name), MORE, MISSES_FLOOR)
            for name in evidence.claimed()
            if name not in paper.EXCEPT_MISSES
        ],
        SOME,
        unprinted="a sentence",
    )

    def at_page_starts(name: str) -> float | None:
        shape, base = evidence.shape(name, *COLLECTED), evidence.shape(name, *OPTIMISED_BSD)
        if shape is None or base is None:
            return None
        return quotient(
            page_start_share(shape["misses_by_set"]), page_start_share(base["misses_by_set"])
        )

    yield Claim(
        "9b",
        "Its misses fall where they meet, at the starts of pages (ghostscript and yacr excepted).",
        "section 5.3",
        "share of misses in the sets of the first 64 bytes of a page, the collector's to BSD's; "
        "from 2 on taken",
        [
            _unless_near(part, MISSES_FLOOR)
            for part in parts_of_each(
                evidence, Range(2, math.inf), at_page_starts, paper.EXCEPT_MISSES
            )
        ],
        unprinted="a sentence",
    )


# Recordings without a minor collection differ by up to 1.1% in what they mark (2026-11-26, gawk). A
# minor collection marks a third of a full one, or less.
SAME_MARKING = 0.1


def _may_have_young(evidence: Evidence, name: str) -> bool:
    """Whether generations have changed what is marked; of what was not recorded nobody knows. A
    heap that is as small as the room that they give to the young has full collections alone, or
    none."""
    if None in (evidence.references(name, *pair) for pair in (GENERATIONAL, FULL)):
        return True
    ours, full = evidence.marked(name, *GENERATIONAL), evidence.marked(name, *FULL)
    if ours is None or full is None:
        return False
    return abs(ours - full) > SAME_MARKING * full


def generations(evidence: Evidence) -> Iterator[Claim]:
    memory = evidence.fixed_memory()

    def parts(name: str) -> Iterator[Part]:
        faults = fault_ratio(evidence, name, GENERATIONAL, FULL, memory)
        misses = quotient(
            evidence.miss_rate(name, *GENERATIONAL, paper.CACHE_1992),
            evidence.miss_rate(name, *FULL, paper.CACHE_1992),
        )
        yield _of_one_layout(f"{name}, page faults", faults, LESS, FAULTS_FLOOR)
        yield _of_one_layout(f"{name}, misses", misses, LESS, MISSES_FLOOR)

    yield Claim(
        "11",
        "Generations would cut the collector's page faults and cache misses (a prediction; yacr "
        "excepted).",
        "section 6.1",
        f"page faults and misses in 128 KB under {GENERATIONAL[1]} to those under {FULL[1]}, the "
        f"same collector without, of programs in which generations mark otherwise. The one of "
        f"1992, {COLLECTED[1]}, has no generations, so the claim is at best consistent; of one "
        f"layout {FLOORS}",
        [
            part
            for name in evidence.claimed()
            if name not in (*evidence.uninformative(), *paper.EXCEPT_YACR)
            and _may_have_young(evidence, name)
            for part in parts(name)
        ],
        substitute=True,
        unprinted="a prediction",
    )
