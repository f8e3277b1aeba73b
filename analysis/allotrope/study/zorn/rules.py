# SPDX-License-Identifier: MIT
"""Claim by claim: what is compared, of which programs, and of how many of them the paper speaks.

A function for each subject. Where the paper says something of all programs, or says it without a
number of them, the claim is of all: one clear counterexample refutes it. Times come from an Asker
(asking.py), which is told how many of them the claim looks at. The rules on page faults and cache
misses are in locality_rules.py.
"""

import math
from typing import Callable, Iterator, Sequence

from ...statistics.intervals import CONFIDENCE, confidence_of_each
from ...statistics.spread import interaction_excess
from ...statistics.verdicts import Quantifier
from ..claims import Claim, Measured, Part, lacking
from ..ranges import ABOVE_ONE, BELOW_ONE, LESS, MORE, Range
from . import paper
from .asking import (
    SAME,
    Answer,
    Asker,
    Figure,
    all_of,
    below,
    greatest,
    least,
    part_of,
    parts_of_each,
    quotient,
    tally,
)
from .evidence import Evidence, Pair
from .locality_rules import (
    FAULTS_FLOOR,
    FLOORS,
    MISSES_FLOOR,
    cache_misses,
    fault_ratio,
    generations,
    headers,
    misses_ratio,
    page_faults,
    tuning_locality,
)
from .pairs import ALL_1992, COLLECTED, EXPLICIT, UNOPTIMISED_BSD
from .pairs import BSD as OPTIMISED_BSD
from .paper import ALGORITHMS, BSD, GS, SUNOS
from .plan import BASELINE, CLASSIC

MOST, SOME, UP_TO = Quantifier.MOST, Quantifier.SOME, Quantifier.UP_TO
AVERAGE, COUNT = Quantifier.AVERAGE, Quantifier.COUNT


def all_claims(evidence: Evidence) -> list[Claim]:
    """In the order of their numbers."""
    found = [claim for one in SUBJECTS for claim in one(evidence)]
    return sorted(found, key=lambda claim: (int(claim.number.rstrip("abcdefgh")), claim.number))


def _malloc_time(evidence: Evidence) -> Iterator[Claim]:
    informative = set(evidence.claimed()) - set(evidence.uninformative())

    def share(name: str) -> Measured:
        confidence = confidence_of_each(len(informative), CONFIDENCE)
        return evidence.share_in_allocator(name, "unoptimised", SUNOS, confidence)

    rule = "share of CPU-clock samples in the allocator, unoptimised programs under SunOS's"
    yield Claim(
        "1a",
        "Programs that allocate much spend 23 to 38% of their time in storage management.",
        "Table 2, section 4",
        f"{rule}; more supports it",
        parts_of_each(evidence, paper.MALLOC_SHARE, share, evidence.uninformative()),
    )
    yield Claim(
        "1b",
        "Freeing costs more than allocating (yacr excepted).",
        "Table 2, section 4",
        "time in free, realloc included, over that in malloc (today: instructions)",
        parts_of_each(
            evidence,
            ABOVE_ONE,
            evidence.free_to_malloc,
            (*evidence.uninformative(), *paper.EXCEPT_YACR),
        ),
    )
    yield Claim(
        "1c",
        "They spend up to 30% of their time in it.",
        "section 6",
        f"{rule}: none more, for the paper calls it the worst case",
        parts_of_each(evidence, paper.MALLOC_SHARE_SUMMARY, share, evidence.uninformative()),
    )


Row = list[Figure | None]


def _to_each(ask: Asker, name: str, pair: Pair, others: Sequence[Pair]) -> Row:
    """CPU time of a configuration to that of each of the others."""
    return [ask.ratio(name, pair, other) for other in others]


def _fastest(row: Row) -> Answer | None:
    """Whether all ratios are below 1."""
    return all_of(below(one, 1) for one in row)


def _slowest(row: Row) -> Answer | None:
    return all_of(below(one and one.inverse, 1) for one in row)


def _collector_cpu(evidence: Evidence) -> Iterator[Claim]:
    ask = Asker(evidence, len(evidence.claimed()))
    yield Claim(
        "2a",
        "The collector's CPU time is comparable: 0.70 to 1.27 of SunOS's.",
        "Table 3, section 1; 5.1 and 6 say 'often'",
        "the program without its own allocator under the collector, to the optimised one under "
        "SunOS's; less supports it",
        [
            ask.ratio_part(name, name, COLLECTED, BASELINE, paper.COLLECTOR_CPU)
            for name in evidence.claimed()
        ],
    )
    of_all = Asker(evidence, len(paper.PROGRAMS) * len(EXPLICIT))
    rows = {name: _to_each(of_all, name, COLLECTED, EXPLICIT) for name in paper.PROGRAMS}
    slowest = {name: _slowest(row) for name, row in rows.items()}
    fastest = {name: _fastest(row) for name, row in rows.items()}
    yield Claim(
        "2b",
        "The collector is the slowest of all in only one program of six, and the fastest in one.",
        "section 6",
        "in how many the ratio to each of the four is above 1, or below; the interval: surely, "
        "and perhaps; less often slowest and more often fastest support it",
        [
            tally("slowest in", slowest, Range(0, 1)),
            tally("fastest in", fastest, Range(1, 1, 0.0, "more")),
        ],
        COUNT,
    )
    of_cfrac = Asker(evidence, len(EXPLICIT))
    yield Claim(
        "2c",
        "cfrac gains about 20% over every explicit allocator, because reference counting goes.",
        "section 5.1",
        "CPU time of cfrac uncounted under the collector to that of the counted program under "
        "each; 0.75 to 0.85 taken as about 20%, less supports it",
        [
            of_cfrac.ratio_part(
                f"cfrac, {ALGORITHMS[spec]}", "cfrac", COLLECTED, (form, spec), paper.CFRAC_GAIN
            )
            for form, spec in EXPLICIT
        ],
    )


def _program_rules(evidence: Evidence) -> Iterator[Claim]:
    found = {name: evidence.logarithms(name, ALL_1992) for name in paper.PROGRAMS}
    known = [one for one in found.values() if one is not None]
    excess = Part(
        "excess",
        interaction_excess([means for means, _ in known], [spread for _, spread in known]),
        Range(math.nextafter(0, 1), math.inf),
        undecided=evidence.apart(),
    )
    yield Claim(
        "3",
        "CPU time depends more on the program than on the algorithm.",
        "section 1; 5.1 and 6: it depends on the program",
        "how much the algorithms' differences vary with the program, less how much the algorithms "
        "differ in all of them (standard deviations of logarithms, noise taken out: "
        "statistics/spread.py). Not decided where they ran on machines of different kinds",
        [lacking(excess, [name for name, one in found.items() if one is None])],
    )


def _heap_to(
    evidence: Evidence,
    name: str,
    one: Pair,
    others: Sequence[Pair],
    choose: Callable[[list[float]], float],
    wanted: Range,
    about: str = "",
) -> Part:
    """A heap to the smallest or the largest of others. Of those that no program was run under
    nothing is said; one that is missing for this program may be the smallest."""
    peaks = {pair: evidence.heap_peak(name, *pair) for pair in others}
    known = [peak for peak in peaks.values() if peak is not None]
    missing = [
        ALGORITHMS[spec]
        for (form, spec), peak in peaks.items()
        if peak is None
        and any(evidence.heap_peak(other, form, spec) for other in evidence.claimed())
    ]
    ratio = quotient(evidence.heap_peak(name, *one), choose(known) if known else None)
    return lacking(Part(about or name, ratio, wanted), missing)


def _collector_memory(evidence: Evidence) -> Iterator[Claim]:
    others = [name for name in evidence.claimed() if name not in paper.EXCEPT_YACR]

    def to(
        name: str, choose: Callable[[list[float]], float], wanted: Range, about: str = ""
    ) -> Part:
        return _heap_to(evidence, name, COLLECTED, EXPLICIT, choose, wanted, about)

    yield Claim(
        "4a",
        "The collector needs 30 to 150% more memory than the best explicit "
        "allocator (yacr excepted).",
        "Table 4, section 6; 5.1 says: than SunOS's",
        "heap high-water mark under the collector to the smallest of the four; more supports it",
        [to(name, min, paper.COLLECTOR_MEMORY) for name in others],
    )
    yield Claim(
        "4b",
        "Even the worst explicit allocator needs substantially less than the collector (yacr "
        "excepted).",
        "section 5.1, after it excepted yacr",
        "heap under the collector to the largest of the four; any less taken as substantial",
        [to(name, max, ABOVE_ONE) for name in others],
    )
    yield Claim(
        "4c",
        "yacr is reversed, 0.79 of SunOS's, because it hardly frees.",
        "Table 4, section 5.1",
        "heap under the collector to the smallest of the four, below 1; and to SunOS's, less than "
        "0.79 supports it",
        [
            to("yacr", min, BELOW_ONE, "yacr, to the best"),
            Part(
                "yacr, to SunOS",
                evidence.heap_ratio("yacr", COLLECTED, BASELINE),
                paper.YACR_MEMORY,
            ),
        ],
    )


def _bsd(evidence: Evidence) -> Iterator[Claim]:
    yield Claim(
        "5a",
        "BSD takes up to 42% more space than SunOS's.",
        "Table 4, section 5.1",
        "heap under BSD to SunOS's: one reaches 1.42; more supports it",
        parts_of_each(
            evidence,
            paper.BSD_SPACE,
            lambda name: evidence.heap_ratio(name, OPTIMISED_BSD, BASELINE),
        ),
        UP_TO,
    )
    others = [pair for pair in EXPLICIT if pair != OPTIMISED_BSD]
    ask = Asker(evidence, len(paper.PROGRAMS) * len(others))

    def row(name: str) -> Row:
        return _to_each(ask, name, OPTIMISED_BSD, others)

    yield Claim(
        "5b",
        "BSD is consistently the fastest explicit allocator.",
        "section 2.1",
        "CPU time under BSD to that under the fastest other explicit allocator",
        [part_of(name, greatest(row(name)), BELOW_ONE) for name in evidence.claimed()],
    )
    yield Claim(
        "5c",
        "BSD is the fastest in three of six.",
        "Table 3, not the text",
        "in how many programs the ratio to each other is below 1; the interval: surely, and "
        "perhaps; more supports it",
        [
            tally(
                "fastest in",
                {name: _fastest(row(name)) for name in paper.PROGRAMS},
                Range(3, 3, 0.0, "more"),
            )
        ],
        COUNT,
    )
    yield from _sunos_memory(evidence)


def _sunos_memory(evidence: Evidence) -> Iterator[Claim]:
    others = [pair for pair in EXPLICIT if pair != BASELINE]

    def to_best(name: str) -> Part:
        return _heap_to(evidence, name, BASELINE, others, min, BELOW_ONE)

    def smallest(name: str) -> Answer | None:
        part = to_best(name)
        if part.without or not isinstance(part.measured, float):
            return None
        least = part.measured <= 1
        return Answer(least, least, least)

    yield Claim(
        "5d",
        "SunOS's shows the best memory use of the explicit allocators.",
        "section 5.1; 5.2 says 'often'",
        "heap under SunOS's to the smallest of the three others",
        [to_best(name) for name in evidence.claimed()],
    )
    yield Claim(
        "5e",
        "SunOS's heap is the smallest in four of six.",
        "Table 4; section 5.2 says 'often'",
        "in how many programs; more supports it",
        [
            tally(
                "smallest in",
                {name: smallest(name) for name in paper.PROGRAMS},
                Range(4, 4, 0.0, "more"),
            )
        ],
        COUNT,
    )


def _bsd_to_sunos(evidence: Evidence) -> Iterator[Claim]:
    """The paper's example of algorithms that are better in one program and worse in another."""
    of_six, of_all = Asker(evidence, len(paper.PROGRAMS)), Asker(evidence, len(evidence.claimed()))
    found = {name: of_six.ratio(name, OPTIMISED_BSD, BASELINE) for name in paper.PROGRAMS}
    enough = math.nextafter(paper.BSD_BETTER.accepted[1], 2)
    less = {name: below(one, enough) for name, one in found.items()}
    more = {name: below(one and one.inverse, 1) for name, one in found.items()}
    yield Claim(
        "5f",
        "BSD is substantially faster than SunOS's in four programs of six, and slower in the other "
        "two.",
        "Table 3, section 5.1",
        "in how many the ratio of CPU time is at most 0.93, the greatest of the paper's four, and "
        "in how many above 1; the interval: surely, and perhaps; no more and no fewer",
        [tally("faster in", less, Range(4, 4)), tally("slower in", more, Range(2, 2))],
        COUNT,
    )
    yield Claim(
        "5g",
        "BSD is up to 28% slower than SunOS's (ghostscript).",
        "Table 3, section 5.1",
        "CPU time under BSD to that under SunOS's: one reaches 1.28; more supports it",
        [
            of_all.ratio_part(name, name, OPTIMISED_BSD, BASELINE, paper.BSD_WORST)
            for name in evidence.claimed()
        ],
        UP_TO,
    )


def _tuning_time(evidence: Evidence) -> Iterator[Claim]:
    def gain(ask: Asker, name: str, spec: str, wanted: Range, about: str = "") -> Part:
        of = about or f"{name}, {ALGORITHMS[spec]}"
        return ask.ratio_part(of, name, ("unoptimised", spec), ("optimised", spec), wanted)

    tuned = evidence.tunable()
    of_all, of_each = Asker(evidence, len(tuned) * len(CLASSIC)), Asker(evidence, len(tuned))
    of_one = Asker(evidence, len(CLASSIC))
    yield Claim(
        "6a",
        "A domain-specific allocator gains up to 60% (cfrac under SunOS's).",
        "Table 5, section 5.2",
        "CPU time without it over that with it: one reaches 1.6; more supports it",
        [gain(of_all, name, spec, paper.DOMAIN_GAIN_MOST) for name in tuned for spec in CLASSIC],
        UP_TO,
    )
    yield Claim(
        "6b",
        "Under BSD it gains only 2 to 7% (ghostscript excepted).",
        "section 5.2",
        "the same under BSD; less supports it",
        [gain(of_each, name, BSD, paper.DOMAIN_GAIN_BSD, name) for name in tuned if name != GS],
    )
    yield Claim(
        "6d",
        "BSD sometimes makes the unoptimised program 20% faster than the optimised one under "
        "SunOS's.",
        "section 5.2",
        "CPU time of the first over the second; less supports it",
        [
            of_each.ratio_part(name, name, UNOPTIMISED_BSD, BASELINE, paper.UNOPTIMISED_BSD_CPU)
            for name in tuned
        ],
        SOME,
    )
    yield Claim(
        "6h",
        "Programmers' enhancements often have little effect on performance.",
        "abstract, section 5.2",
        "CPU time without a program's own allocator over that with it, under each allocator; 1.1 "
        "and less taken as little, as in 6c; 'often' as most",
        [gain(of_all, name, spec, paper.DOMAIN_LITTLE) for name in tuned for spec in CLASSIC],
        MOST,
    )
    yield Claim(
        "6f",
        "In ghostscript its own allocators harm in most cases.",
        "section 5.2",
        "CPU time without them over that with them, under each allocator. Debian's ghostscript has "
        "no switch",
        [
            gain(of_one, GS, spec, LESS)
            if GS in tuned
            else Part(f"{GS}, {ALGORITHMS[spec]}", None, LESS)
            for spec in CLASSIC
        ],
        MOST,
    )


def _tuning_under_sunos(evidence: Evidence) -> Iterator[Claim]:
    tuned = evidence.tunable()
    ask = Asker(evidence, len(tuned) * len(CLASSIC))

    def gain(name: str, spec: str) -> Figure | None:
        return ask.ratio(name, ("unoptimised", spec), ("optimised", spec))

    def to_others(name: str) -> Figure | None:
        """What harms gains nothing, so no gain is one of them."""
        others = [gain(name, spec) for spec in CLASSIC if spec != SUNOS]
        own, most = gain(name, SUNOS), greatest([SAME, *others])
        return own and most and own.over(most)

    yield Claim(
        "6g",
        "Domain-specific allocators gain most under SunOS's.",
        "section 5.2",
        "CPU time without it over that with it under SunOS's, to the greatest of the same under "
        "the three others and of 1, no gain",
        [part_of(name, to_others(name), MORE) for name in tuned],
    )


def _tuning_memory(evidence: Evidence) -> Iterator[Claim]:
    tuned = evidence.tunable()
    yield Claim(
        "6c",
        "Domain-specific allocators have little effect on memory, or a bad one.",
        "Table 6, section 5.2",
        "heap without it over that with it, under each allocator; 1.1 and less taken as little",
        [
            Part(
                f"{name}, {ALGORITHMS[spec]}",
                evidence.heap_ratio(name, ("unoptimised", spec), ("optimised", spec)),
                paper.DOMAIN_MEMORY,
            )
            for name in tuned
            for spec in CLASSIC
        ],
    )
    found = {name: evidence.heap_ratio(name, UNOPTIMISED_BSD, BASELINE) for name in tuned}
    known = [one for one in found.values() if one is not None]
    mean = Part(
        f"mean of {len(known)}",
        sum(known) / len(known) if known else None,
        paper.UNOPTIMISED_BSD_SPACE,
    )
    yield Claim(
        "6e",
        "Unoptimised under BSD they need 10% more memory on average than optimised under SunOS's.",
        "section 5.2",
        "heap of the first over the second, mean; 1.05 to 1.15 taken as 10%, less supports it",
        [lacking(mean, [name for name, one in found.items() if one is None])],
        AVERAGE,
    )

    others = [("unoptimised", spec) for spec in CLASSIC if spec != SUNOS]
    ask = Asker(evidence, len(tuned) * 2 * len(others))

    def choice(name: str) -> Figure | None:
        """SunOS's, with the program's own and without, to the best of the others."""
        return greatest(
            [
                least([ask.ratio(name, base, one) for base in (BASELINE, ("unoptimised", SUNOS))])
                for one in others
            ]
        )

    yield Claim(
        "13",
        "The choice of algorithm has more impact than a programmer's enhancement.",
        "sections 5.2 and 6",
        "CPU time under SunOS's, optimised or not, whichever is less, over that unoptimised under "
        "the best of the three others: above 1, another algorithm gains, and gains more; 'it "
        "appears' taken as most",
        [part_of(name, choice(name), MORE) for name in tuned],
        MOST,
    )


def _survival(evidence: Evidence) -> Iterator[Claim]:
    yield Claim(
        "10a",
        "Fewer than 10% of objects outlive 100,000 cycles (yacr excepted).",
        "Figure 8, section 6.1",
        "age in instructions, as the paper counts it; of programs that allocate much",
        parts_of_each(
            evidence,
            paper.SURVIVORS,
            lambda name: evidence.survivors(name, 100_000),
            (*evidence.uninformative(), *paper.EXCEPT_YACR),
        ),
    )
    yield Claim(
        "10b",
        "About half of perl's are alive after 10,000.",
        "Figure 8, section 6.1",
        "the same, 40 to 60%",
        [Part("perl", evidence.survivors("perl", 10_000), paper.PERL_SURVIVORS)],
    )


# More than half of the six.
IN_MOST = Range(4, 4, 0.0, "more")


def _rises_more(cost: float | None, cpu: Figure | None, floor: float = 1.0) -> Answer | None:
    """Whether something rises at all, and by more than CPU time. Less CPU time makes no rise of
    what stays. `floor`: what a count may differ by from one layout of memory to the next."""
    if cost is None or math.isnan(cost) or cpu is None:
        return None
    one = cpu.value
    bar, least, most = (max(1, value) for value in (one.median, one.low, one.high))
    return Answer(cost > bar, cost > most * floor, cost * floor >= least, cpu.few)


def _true_cost(evidence: Evidence) -> Iterator[Claim]:
    """The abstract's headline. It says two things: CPU time is not the cost, memory is."""
    memory = evidence.fixed_memory()
    ask = Asker(evidence, 2 * len(paper.PROGRAMS))

    def cpu(name: str, base: Pair) -> Figure | None:
        return ask.ratio(name, COLLECTED, base)

    def comparable(name: str) -> Answer | None:
        return below(cpu(name, BASELINE), math.nextafter(paper.COLLECTOR_CPU.accepted[1], 2))

    def heap(name: str) -> Answer | None:
        return _rises_more(evidence.heap_ratio(name, COLLECTED, BASELINE), cpu(name, BASELINE))

    def faults(name: str) -> Answer | None:
        cost = fault_ratio(evidence, name, COLLECTED, OPTIMISED_BSD, memory)
        return _rises_more(cost, cpu(name, OPTIMISED_BSD), FAULTS_FLOOR)

    def misses(name: str) -> Answer | None:
        cost = misses_ratio(evidence, name, paper.CACHE_1992)
        return _rises_more(cost, cpu(name, OPTIMISED_BSD), MISSES_FLOOR)

    asked = {
        "CPU time comparable in": comparable,
        "heap rises more in": heap,
        "page faults rise more in": faults,
        "misses rise more in": misses,
    }
    yield Claim(
        "12",
        "The collector's true cost is the memory system, not CPU time.",
        "abstract",
        "in how many programs CPU time is at most 1.27 of SunOS's; and in how many the collector's "
        "heap to SunOS's, its page faults and its misses in 128 KB to BSD's are above 1 and above "
        "the ratio of CPU time to the same; each in more than half of the six. The interval: "
        f"surely, and perhaps; of one layout {FLOORS}",
        [
            tally(about, {name: ask_of(name) for name in paper.PROGRAMS}, IN_MOST)
            for about, ask_of in asked.items()
        ],
        COUNT,
    )


SUBJECTS = (
    _true_cost,
    _malloc_time,
    _collector_cpu,
    _program_rules,
    _collector_memory,
    _bsd,
    _bsd_to_sunos,
    _tuning_time,
    _tuning_under_sunos,
    _tuning_memory,
    tuning_locality,
    page_faults,
    cache_misses,
    headers,
    _survival,
    generations,
)
