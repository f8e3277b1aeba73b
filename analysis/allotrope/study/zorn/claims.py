# SPDX-License-Identifier: MIT
"""The paper's claims, and what becomes of them.

A claim is made of parts, one for each program that it names: a measured interval and the range
that the paper gives. A part is *in* when the interval lies within the range, *out* when the two
are disjoint, *open* when they overlap or the figure is missing or undefined (a ratio to nothing). A
claim

    holds            all parts are in
    does not hold    all parts are out
    in part          some are in, some are out
    not decided      otherwise
    not measured     no part has a figure
"""

import math
from dataclasses import dataclass, field
from typing import Callable, Iterator, Sequence

from ...statistics.intervals import Estimate
from ...statistics.verdicts import (
    Standing,
    Verdict,
    lies_below,
    reaches_below,
    standing,
    verdict,
)
from . import paper
from .explanations import Explanation
from .paper import Range
from .plan import BASELINE
from .results import Results
from .sheets import ABSENT, UNDEFINED
from .tables import ALL_1992, BSD, COLLECTED, EXPLICIT, UNOPTIMISED_BSD, page_start_share

INFINITY = float("inf")
NOTHING = math.nan  # the value of an undefined ratio
# Ratios that are exact (counts of one deterministic run) have no interval but themselves.
Measured = Estimate | float | None


@dataclass(frozen=True)
class Part:
    """One program's share in a claim; `wanted` is the paper's range."""

    about: str
    measured: Measured
    wanted: Range
    unit: str = ""

    @property
    def undefined(self) -> bool:
        return isinstance(self.measured, float) and math.isnan(self.measured)

    def interval(self) -> tuple[float, float] | None:
        if self.measured is None or self.undefined:
            return None
        if isinstance(self.measured, Estimate):
            return self.measured.interval
        return self.measured, self.measured

    def standing(self) -> Standing:
        interval = self.interval()
        if interval is None:
            return Standing.UNDEFINED if self.undefined else Standing.MISSING
        return standing(interval, (self.wanted.low, self.wanted.high))

    def __str__(self) -> str:
        if self.measured is None or self.undefined:
            return f"{self.about} {UNDEFINED if self.undefined else ABSENT}"
        if isinstance(self.measured, Estimate):
            one = self.measured
            text = f"{_number(one.median)} [{_number(one.low)}, {_number(one.high)}]"
        else:
            text = _number(self.measured)
        beyond = ""
        if self.standing() is Standing.OUT:
            low, high = self.interval() or (0, 0)
            bound = self.wanted.low if high < self.wanted.low else self.wanted.high
            nearest = high if high < self.wanted.low else low
            sign = "below" if nearest < bound else "above"
            beyond = f", {_number(abs(nearest - bound))} {sign} the range"
        return f"{self.about} {text}{beyond}"


def _number(value: float) -> str:
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2g}"


def judge(parts: Sequence[Part]) -> Verdict:
    return verdict([part.standing() for part in parts])


@dataclass(frozen=True)
class Claim:
    number: str
    text: str  # in our words
    rule: str  # what was compared
    parts: Sequence[Part] = field(default_factory=list)
    explanation: Explanation | None = None

    @property
    def verdict(self) -> Verdict:
        return judge(self.parts)

    def figures(self) -> str:
        return "; ".join(str(part) for part in self.parts) if self.parts else "no figures"

    def range_words(self) -> str:
        """What the paper gives, where it is one range for all parts."""
        ranges = {str(part.wanted) for part in self.parts}
        return ranges.pop() if len(ranges) == 1 else ""

    def why(self) -> str:
        """Why parts are out, where that has been found; nothing of programs that are not."""
        out = {part.about for part in self.parts if part.standing() is Standing.OUT}
        if self.explanation is None or not out:
            return ""
        named = set(self.explanation.programs)
        return self.explanation.text if not named or named & out else ""


def all_claims(results: Results) -> list[Claim]:
    return [claim for one in _CLAIMS for claim in one(results)]


def _programs(results: Results, without: Sequence[str] = ()) -> list[str]:
    """Those that the claim names: a quick study speaks of what it has."""
    known = [one.name for one in results.row("1992") if one.name not in results.missing]
    wanted = known if results.study["quick"] else paper.PROGRAMS
    return [name for name in wanted if name not in without]


def _each(
    results: Results, wanted: Range, value: Callable[[str], Measured], without: Sequence[str] = ()
) -> list[Part]:
    return [Part(name, value(name), wanted) for name in _programs(results, without)]


def _quotient(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return None
    return one / other if other else NOTHING


# Claim by claim

UNINFORMATIVE = ("ghostscript",)  # hardly calls malloc today


def _malloc_time(results: Results) -> Iterator[Claim]:
    def share(name: str) -> Measured:
        return results.share_in_allocator(name, "unoptimised", "cartesian:classic")

    yield Claim(
        "1a",
        "Programs that allocate much spend 23 to 38% of their time in storage management.",
        "share of CPU-clock samples in the allocator, program without its "
        "own allocator under cartesian:classic; ghostscript and yacr allocate little "
        "today",
        _each(results, paper.MALLOC_SHARE, share, (*UNINFORMATIVE, "yacr")),
    )

    def freeing(name: str) -> Measured:
        followed = results.followed(name)
        found = followed and followed["instructions"]
        return _quotient(found["free"], found["malloc"]) if found else None

    yield Claim(
        "1b",
        "Freeing costs more than allocating (yacr excepted).",
        "instructions in free over those in malloc, the same programs",
        _each(results, Range(1, INFINITY), freeing, (*UNINFORMATIVE, "yacr")),
    )


def _collector_cpu(results: Results) -> Iterator[Claim]:
    def ratio(name: str) -> Measured:
        return results.ratio(name, COLLECTED, BASELINE)

    yield Claim(
        "2a",
        "The collector's CPU time is 0.70 to 1.27 of SunOS's.",
        "gc:classic on the program without its own allocator, to cartesian:classic on the "
        "optimised one",
        _each(results, paper.COLLECTOR_CPU, ratio),
    )
    slowest, fastest, known = 0, 0, 0
    for name in _programs(results):
        found = [results.seconds(name, *pair) for pair in ALL_1992]
        if any(one is None for one in found):
            continue
        medians = [one.median for one in found if one is not None]
        known += 1
        slowest += medians[-1] == max(medians)
        fastest += medians[-1] == min(medians)
    missing = known < len(_programs(results)) or known == 0
    yield Claim(
        "2b",
        "The collector is slowest of all in one program of six and fastest in one.",
        "ranks of medians among the four explicit allocators and gc:classic",
        [
            Part(
                "programs in which it is slowest", None if missing else float(slowest), Range(1, 1)
            ),
            Part("fastest", None if missing else float(fastest), Range(1, 1)),
        ],
    )
    yield Claim(
        "2c",
        "cfrac gains about 20% under the collector, because reference counting goes.",
        "CPU time of cfrac uncounted under gc:classic to that of the counted program under "
        "SunOS's, 0.75 to 0.85 taken as about 20%",
        [Part("cfrac", ratio("cfrac"), Range(0.75, 0.85))],
    )


def _program_rules(results: Results) -> Iterator[Claim]:
    ratios: dict[str, list[float]] = {}
    for name in _programs(results):
        found = [results.ratio(name, pair, BASELINE) for pair in ALL_1992]
        if all(one is not None for one in found):
            ratios[name] = [one.median for one in found if one is not None]
    value = None
    if len(ratios) >= 2:
        # Log ratios in two ways: between programs for an algorithm, between algorithms for one
        # program. The first being larger is what the paper says.
        import numpy

        table = numpy.log(numpy.array(list(ratios.values()))[:, 1:])
        between_programs = float(table.std(axis=0).mean())
        between_algorithms = float(table.mean(axis=0).std())
        value = between_programs / between_algorithms if between_algorithms else None
    yield Claim(
        "3",
        "CPU time depends more on the program than on the algorithm.",
        "spread (standard deviation of log ratios) of an algorithm over the programs, in "
        "the mean, over the spread of the algorithms' own means",
        [Part("spread over programs / over algorithms", value, Range(1, INFINITY))],
    )


def _collector_memory(results: Results) -> Iterator[Claim]:
    def to(name: str, choose: Callable[[list[int]], int]) -> float | None:
        peaks = [results.heap_peak(name, *pair) for pair in EXPLICIT]
        known = [peak for peak in peaks if peak is not None]
        return _quotient(results.heap_peak(name, *COLLECTED), choose(known) if known else None)

    yield Claim(
        "4a",
        "The collector needs 30 to 150% more memory than the best explicit "
        "allocator (yacr excepted).",
        "heap high-water mark of gc:classic to the smallest of the four",
        _each(results, paper.COLLECTOR_MEMORY, lambda name: to(name, min), ("yacr",)),
    )
    yield Claim(
        "4b",
        "Every explicit allocator needs less than the collector (yacr excepted).",
        "heap of gc:classic to the largest of the four",
        _each(results, Range(1, INFINITY), lambda name: to(name, max), ("yacr",)),
    )
    yield Claim(
        "4c",
        "yacr is reversed, 0.79, because it never frees.",
        "heap of gc:classic to the smallest of the four: below 1, and 0.7 to 0.9 taken as "
        "agreeing with 0.79",
        [
            Part("reversed:", to("yacr", min), Range(0, 1)),
            Part("to 0.79:", to("yacr", min), Range(0.7, 0.9)),
        ],
    )


def _bsd(results: Results) -> Iterator[Claim]:
    yield Claim(
        "5a",
        "BSD takes up to 42% more space.",
        "heap of bsd:classic to cartesian:classic",
        _each(results, paper.BSD_SPACE, lambda name: results.heap_ratio(name, BSD, BASELINE)),
    )

    def advantage(name: str) -> Measured:
        others = [results.seconds(name, *pair) for pair in EXPLICIT if pair != BSD]
        known = [one.median for one in others if one is not None]
        own = results.seconds(name, *BSD)
        if own is None or len(known) < len(others):
            return None
        best = min(known)
        return Estimate(own.median / best, own.low / best, own.high / best)

    parts = _each(results, Range(0, 1), advantage)
    yield Claim(
        "5b",
        "BSD is consistently the fastest (the paper's text).",
        "CPU time of bsd:classic, with its interval, to the fastest other explicit "
        "allocator's median",
        parts,
    )
    yield Claim(
        "5c",
        "BSD is fastest in three of six (the paper's Table 3).",
        "how often its median is the smallest of the four; the interval: in how many "
        "programs the ratio's interval lies below 1, and in how many it reaches below it",
        [Part("programs", _fastest_in(parts), Range(3, 3))],
    )


def _fastest_in(parts: Sequence[Part]) -> Measured:
    known = [part.measured for part in parts if isinstance(part.measured, Estimate)]
    if len(known) < len(parts):
        return None
    return Estimate(
        sum(one.median <= 1 for one in known),
        sum(lies_below(one.interval, 1) for one in known),
        sum(reaches_below(one.interval, 1) for one in known),
    )


WITHOUT_SWITCH = ("ghostscript", "yacr")  # have no form without an allocator of their own


def _having(results: Results) -> list[str]:
    return _programs(results, WITHOUT_SWITCH)


def _domain(results: Results) -> Iterator[Claim]:
    def gain(name: str, spec: str) -> Measured:
        one = results.ratio(name, ("unoptimised", spec), ("optimised", spec))
        return one and Estimate(one.median - 1, one.low - 1, one.high - 1)

    yield Claim(
        "6a",
        "A domain-specific allocator gains up to 60% (cfrac under SunOS).",
        "CPU time without it over that with it, less 1; 0.4 to 0.8 taken as about 60%",
        [Part("cfrac", gain("cfrac", "cartesian:classic"), Range(0.4, 0.8))],
    )
    yield Claim(
        "6b",
        "Under BSD it gains 2 to 7%.",
        "the same under bsd:classic",
        [Part(name, gain(name, "bsd:classic"), paper.DOMAIN_GAIN_BSD) for name in _having(results)],
    )
    yield Claim(
        "6c",
        "It gains nothing in memory.",
        "heap with it over that without, under cartesian:classic; from 0.98 on",
        [
            Part(
                name,
                results.heap_ratio(name, BASELINE, ("unoptimised", BASELINE[1])),
                Range(0.98, INFINITY),
            )
            for name in _having(results)
        ],
    )
    yield Claim(
        "6d",
        "The unoptimised program under BSD is up to 20% faster than the optimised "
        "one under SunOS.",
        "CPU time of the first over the second",
        [
            Part(name, results.ratio(name, UNOPTIMISED_BSD, BASELINE), Range(0.8, 1.0))
            for name in _having(results)
        ],
    )
    yield Claim(
        "6e",
        "and takes some 10% more space.",
        "heap of the first over the second; 1 to 1.2 taken as some 10%",
        [
            Part(name, results.heap_ratio(name, UNOPTIMISED_BSD, BASELINE), Range(1.0, 1.2))
            for name in _having(results)
        ],
    )
    yield Claim(
        "6f",
        "In ghostscript it is harmful.",
        "Debian's ghostscript has no switch",
        [Part("ghostscript", None, Range(0, 1))],
    )


def _page_faults(results: Results) -> Iterator[Claim]:
    def at_tight(name: str, pair: tuple[str, str]) -> float | None:
        memory = results.tight_memory(name, [BSD, COLLECTED])
        if memory is None:  # both measured, no memory at which both have faults
            known = results.traced(name, *BSD) and results.traced(name, *COLLECTED)
            return NOTHING if known else None
        return _quotient(
            results.replacement_faults(name, *pair, memory),
            results.replacement_faults(name, *BSD, memory),
        )

    yield Claim(
        "7a",
        "At a tight memory the collector has one to two orders of magnitude more "
        "page faults, in every program.",
        "replacement faults of gc:classic to BSD's at "
        "the memory size of largest spread (Figure 4)",
        _each(results, paper.COLLECTOR_FAULTS, lambda name: at_tight(name, COLLECTED)),
    )
    yield Claim(
        "7b",
        "Unoptimised BSD has slightly more page faults than optimised BSD.",
        "the same quotient, 1 to 2 taken as slightly above",
        [Part(name, at_tight(name, UNOPTIMISED_BSD), Range(1, 2)) for name in _having(results)],
    )
    faults = results.replacement_faults("gawk", *COLLECTED, paper.MEMORY_1992)
    base = results.replacement_faults("gawk", *BSD, paper.MEMORY_1992)
    worse = None if faults is None or base is None else float(faults - base)
    yield Claim(
        "7c",
        "gawk is worse off under the collector up to 2 MB.",
        "replacement faults at 2 MiB, collector less BSD",
        [Part("gawk", worse, Range(1, INFINITY))],
    )


def _cache_misses(results: Results) -> Iterator[Claim]:
    def ratio(name: str, size: int) -> Measured:
        return _quotient(
            results.miss_rate(name, *COLLECTED, size), results.miss_rate(name, *BSD, size)
        )

    yield Claim(
        "8a",
        "In a direct-mapped cache of 128 KB the collector misses 3 to 10 times as "
        "often as BSD (ghostscript and yacr excepted).",
        "misses per data reference, 32-byte blocks",
        _each(
            results,
            paper.COLLECTOR_MISSES,
            lambda name: ratio(name, paper.CACHE_1992),
            paper.COLLECTOR_MISSES_EXCEPT,
        ),
    )
    yield Claim(
        "8b",
        "The collector's misses are still high at 2 MB.",
        "misses per data reference to BSD's in a direct-mapped cache of 2 MiB; from 2 on "
        "taken as high",
        _each(
            results,
            Range(2, INFINITY),
            lambda name: ratio(name, paper.MEMORY_1992),
            paper.COLLECTOR_MISSES_EXCEPT,
        ),
    )
    yield Claim(
        "8c",
        "ghostscript's own allocators cost it 25.9% more misses over BSD.",
        "Debian's ghostscript has no switch",
        [Part("ghostscript", None, Range(0, 1))],
    )


def _headers(results: Results) -> Iterator[Claim]:
    def excess(name: str) -> float | None:
        """Conflict misses of the collector beyond BSD's, as a share of what it misses more."""
        one = results.cache(name, *COLLECTED, paper.CACHE_1992)
        base = results.cache(name, *BSD, paper.CACHE_1992)
        references = results.references(name, *COLLECTED)
        others = results.references(name, *BSD)
        if one is None or base is None or not references or not others:
            return None
        more = one["misses"] / references - base["misses"] / others
        conflicts = one["conflict"] / references - base["conflict"] / others
        return conflicts / more if more > 0 else None

    yield Claim(
        "9a",
        "What the collector misses more are conflicts.",
        "conflict misses beyond BSD's over all misses beyond BSD's, at 128 KiB; more than half",
        _each(results, Range(0.5, INFINITY), excess),
    )

    def at_page_starts(name: str) -> float | None:
        shape, base = results.shape(name, *COLLECTED), results.shape(name, *BSD)
        if shape is None or base is None:
            return None
        return _quotient(
            page_start_share(shape["misses_by_set"]), page_start_share(base["misses_by_set"])
        )

    yield Claim(
        "9b",
        "They conflict where page-aligned headers meet.",
        "share of misses in the sets of the first 64 bytes of a page, gc:classic to BSD; "
        "from 2 on",
        _each(results, Range(2, INFINITY), at_page_starts),
    )


def _survival(results: Results) -> Iterator[Claim]:
    def alive(name: str, age: int) -> float | None:
        followed = results.followed(name)
        if followed is None:
            return None
        passed = [share for point, share in followed["survival"]["instructions"] if point <= age]
        return passed[-1] if passed else 1.0

    yield Claim(
        "10a",
        "Fewer than 10% of objects outlive 100,000 cycles (yacr excepted).",
        "age in instructions, Figure 8; ghostscript allocates little today",
        _each(
            results,
            Range(0, paper.SURVIVORS_AT_100_000),
            lambda name: alive(name, 100_000),
            paper.SURVIVORS_AT_100_000_EXCEPT,
        ),
    )
    yield Claim(
        "10b",
        "About half of perl's are alive after 10,000.",
        "the same, 40 to 60%",
        [Part("perl", alive("perl", 10_000), Range(0.4, 0.6))],
    )


def _generations(results: Results) -> Iterator[Claim]:
    yield Claim(
        "11",
        "Generational collection would cut the locality cost (a prediction).",
        "no generational preset is measured here",
        [Part("any program", None, Range(0, 1))],
    )


_CLAIMS = (
    _malloc_time,
    _collector_cpu,
    _program_rules,
    _collector_memory,
    _bsd,
    _domain,
    _page_faults,
    _cache_misses,
    _headers,
    _survival,
    _generations,
)
