# SPDX-License-Identifier: MIT
"""Claim by claim: what is compared.

The paper has two benchmarks, and says most things of both; so there is a claim for each, and one
clear counterexample in one benchmark does not speak for the other. Interactive is not the paper's
program here, so its claims are at best consistent. The same rules are asked of workloads that the
paper has not.

A rule that looks at several figures has several chances to be wrong: the best of six equal schemes
looks better than a seventh. So none chooses a scheme and then judges it. Each names the figures
that it looks at and how many of them must agree, and these share the permitted error out: of k
figures each has an interval of 1 - 0.05/k. Then all k enclose the truth together in at least 95 of
100 studies, and whatever the rule makes of them is wrong no more often.
"""

import math
from dataclasses import dataclass, replace
from typing import Callable, Mapping, Sequence

from ...statistics.intervals import CONFIDENCE, RANGE, confidence_of_each, interval_rank
from ...statistics.verdicts import Quantifier, Standing, Verdict, leaves_out
from ..claims import Claim, Part, indication, judge
from ..ranges import LESS, MORE, Range
from . import paper
from .evidence import Evidence, Series, by_round, estimate_of, ratios, there
from .paper import BOOKKEEPING, DIRTY, TOTAL
from .plan import KERNEL, PAGES, REMSETS
from .results import Measured

SOFTWARE = tuple(one for one in paper.SCHEMES if one != PAGES)
SOFTWARE_CARDS = tuple(one for one in SOFTWARE if one != REMSETS)
ABOVE_ZERO = Range(math.nextafter(0, 1), math.inf)
OWN_UNPROTECTING = "pages has in it what the collector unprotects itself, page by page"


@dataclass(frozen=True)
class Asker:
    """A rule's view of one workload: it makes parts with the confidence that the rule has left for
    each."""

    one: Evidence
    confidence: float

    def part(self, about: str, figure: Series | None, wanted: Range, undecided: str = "") -> Part:
        rounds = len(there(figure))
        few = self.one.sampled and interval_rank(rounds, self.confidence).kind == RANGE
        found = estimate_of(figure, self.confidence)
        return Part(about, found, wanted, rounds if few else 0, undecided if found else "")

    def ratio(self, scheme: str, base: str, phase: str, wanted: Range, about: str = "") -> Part:
        figure = ratios(self.one.times(scheme, phase), self.one.times(base, phase))
        return self.part(about or scheme, figure, wanted)


Ask = Callable[[Asker], list[Part]]


@dataclass(frozen=True)
class Rule:
    """A claim before it is asked of a workload."""

    number: str
    short: str  # for the chart
    text: str
    where: str
    rule: str
    ask: Ask
    quantifier: Quantifier = Quantifier.ALL
    figures: int = 1  # that it looks at, of one workload
    of_both: bool = False  # the paper says it of its benchmarks together
    unprinted: str = "a picture"  # why the paper has no figures for it, where it has none

    def parts(self, one: Evidence, workloads: int = 1) -> list[Part]:
        each = confidence_of_each(self.figures * workloads, CONFIDENCE)
        found = self.ask(Asker(one, each))
        if len(found) != self.figures:
            raise AssertionError(f"rule {self.number} looks at {len(found)} figures")
        return found


def _traps_to_checks(ask: Asker) -> list[Part]:
    """Not the other way round: where traps cost nothing, or less, no ratio to them says so."""
    figure = ratios(ask.one.trap(), ask.one.break_even())
    return [ask.part("traps to checks", figure, MORE, ask.one.trap_undecided())]


def _tight_traps_to_checks(ask: Asker) -> list[Part]:
    return [ask.part("traps to checks", ratios(ask.one.tight_trap(), ask.one.break_even()), MORE)]


def _trap_to_tight(ask: Asker) -> list[Part]:
    figure = ratios(ask.one.trap(), ask.one.tight_trap())
    return [ask.part("trap", figure, paper.MUCH_MORE, ask.one.trap_undecided())]


def _each(schemes: Sequence[str], base: str, phase: str, wanted: Range) -> Ask:
    """Each scheme to one."""
    return lambda ask: [ask.ratio(scheme, base, phase, wanted) for scheme in schemes]


def _to_each(scheme: str, bases: Sequence[str], phase: str, wanted: Range) -> Ask:
    """One scheme to each."""
    return lambda ask: [ask.ratio(scheme, base, phase, wanted, f"to {base}") for base in bases]


def _granules_over_primitives(ask: Asker) -> list[Part]:
    """(dirty - software) - (pages - dirty), as a share of dirty."""

    def share(dirty: float, software: float, pages: float) -> float:
        # Rounded: percents are whole, binary fractions are not.
        return round((2 * dirty - software - pages) / dirty, 9)

    dirty, pages = ask.one.times(DIRTY, TOTAL), ask.one.times(PAGES, TOTAL)
    return [
        ask.part(scheme, by_round(share, dirty, ask.one.times(scheme, TOTAL), pages), ABOVE_ZERO)
        for scheme in SOFTWARE
    ]


def _call_saves(ask: Asker) -> list[Part]:
    """Half of what pages take more than dirty is saved by who lies below the middle of the two."""
    kernel, pages, dirty = (ask.one.times(name, TOTAL) for name in (KERNEL, PAGES, DIRTY))
    middle = by_round(lambda one, other: (one + other) / 2, pages, dirty)
    return [
        ask.ratio(KERNEL, PAGES, TOTAL, LESS, "to pages"),
        ask.part("to the middle of pages and dirty", ratios(kernel, middle), LESS),
    ]


OTHERS_OF_REMSETS = (*SOFTWARE_CARDS, PAGES, DIRTY)
OTHERS_OF_CARDS = tuple(one for one in paper.SCHEMES if one != "cards-1024")
SMALLER = ("cards-256", "cards-1024")
RULES = (
    Rule(
        "1a",
        "traps to checks",
        "All store checks together cost less than all page traps.",
        "Table 1, section 3.2.3",
        "f t y / (c x): the trap in the midst of the program, over the one at which both cost the "
        "same; x of a card's check (the paper: 10 cycles; today: in a loop of stores). Not decided "
        "where a trap's time cannot be told from 0",
        _traps_to_checks,
    ),
    Rule(
        "1b",
        "tight-loop traps to checks",
        "They would even if each trap cost only what it costs in a tight loop.",
        "section 3.2.3",
        "the same of a trap in a loop of nothing else",
        _tight_traps_to_checks,
    ),
    Rule(
        "1c",
        "trap to tight loop",
        "A trap in the midst of a program costs much more than in a tight loop.",
        "section 3.2.3 (“can be much more expensive”, of these two figures)",
        "running of pages less that of the oracle, by trap, over that in a tight loop; twice taken "
        "as much more. Not decided where it cannot be told from 0",
        _trap_to_tight,
    ),
    Rule(
        "2a",
        "running of pages",
        "dirty has less running time than pages.",
        "section 3.2.3",
        "running of pages to that of dirty: above 1",
        _each([PAGES], DIRTY, "running", MORE),
    ),
    Rule(
        "2b",
        "running below dirty's",
        "dirty has not the best running time, though it executes the least: caches decide.",
        "section 3.2.3",
        "running of each software scheme to that of dirty: one is below 1",
        _each(SOFTWARE, DIRTY, "running", LESS),
        Quantifier.SOME,
        len(SOFTWARE),
    ),
    Rule(
        "3a",
        "roots of smaller granules",
        "Granules of a page's size impose significant overhead to find roots.",
        "section 3.2.3",
        "roots of cards of 256 and 1,024 bytes to those of dirty; a fifth less taken as "
        "significant: twice what 3c takes as little",
        _each(SMALLER, DIRTY, "roots", paper.SIGNIFICANTLY_LESS),
        figures=len(SMALLER),
    ),
    Rule(
        "3b",
        "roots of remsets",
        "Pure remembered sets have markedly less overhead to determine the roots.",
        "section 3.2.3",
        "roots of remsets to those of each other scheme; half taken as markedly less",
        _to_each(REMSETS, OTHERS_OF_REMSETS, "roots", paper.MARKEDLY_LESS),
        figures=len(OTHERS_OF_REMSETS),
    ),
    Rule(
        "3c",
        "bytes to bits",
        "A bit table or a byte table makes little difference for roots.",
        "section 3.2.3",
        "roots of cards of 4,096 bytes (bytes) to dirty's (bits); within a tenth taken as little",
        _each(["cards-4096"], DIRTY, "roots", paper.SIMILAR),
    ),
    Rule(
        "3d",
        "cards to remsets",
        "Summarised into remembered sets, card schemes are competitive with pure remembered sets.",
        "section 3.2.3",
        "total of cards of each size to that of remsets: more than half of the five; 5% more taken "
        "as competitive. Of all five it is not said (the paper's own cards of 16 bytes take 17% "
        "more)",
        _each(SOFTWARE_CARDS, REMSETS, TOTAL, paper.COMPETITIVE),
        Quantifier.MOST,
        len(SOFTWARE_CARDS),
    ),
    Rule(
        "3e",
        "pure scanning's roots",
        "Pure cards of a page's size perform poorly, which summarising improves.",
        "section 5; figures in another paper",
        "roots of pure cards of 4,096 bytes to those of summarised ones: above 1",
        _each(["scan-4096"], "cards-4096", "roots", MORE),
        unprinted="another paper",
    ),
    Rule(
        "4a",
        "cards-1024 to others",
        "The total of cards of 1,024 bytes is best overall.",
        "section 3.2.3",
        "their total to that of each other scheme: none has less",
        _to_each("cards-1024", OTHERS_OF_CARDS, TOTAL, paper.NOT_WORSE),
        figures=len(OTHERS_OF_CARDS),
    ),
    Rule(
        "4b",
        "software to pages",
        "Software solutions outperform page protection.",
        "abstract",
        f"total of each software scheme to that of pages: one is below 1 ({OWN_UNPROTECTING})",
        _each(SOFTWARE, PAGES, TOTAL, LESS),
        Quantifier.SOME,
        len(SOFTWARE),
    ),
    Rule(
        "4c",
        "software approaches dirty",
        "Software can approach the best that page protection could be.",
        "section 1",
        "total of each software scheme to that of dirty: one is at most 1.05",
        _each(SOFTWARE, DIRTY, TOTAL, paper.COMPETITIVE),
        Quantifier.SOME,
        len(SOFTWARE),
    ),
    Rule(
        "4d",
        "granules over primitives",
        "Large granules are the problem, not the cost of the primitives.",
        "section 5, of all its applications",
        "what dirty takes more than a software scheme, less what pages takes more than dirty, as a "
        f"share of dirty: above 0 for one ({OWN_UNPROTECTING})",
        _granules_over_primitives,
        Quantifier.SOME,
        len(SOFTWARE),
    ),
    Rule(
        "4e",
        "software below dirty",
        "In some cases software outperforms the best that page protection could be.",
        "section 1",
        "total of each software scheme to that of dirty, in both benchmarks: one is below 1",
        _each(SOFTWARE, DIRTY, TOTAL, LESS),
        Quantifier.SOME,
        len(SOFTWARE),
        of_both=True,
    ),
    Rule(
        "5a",
        "a dirty call to traps",
        "A system call that tells dirty pages would save much of what traps cost.",
        "section 2.1.1 (the paper: its estimate, dirty, so this holds wherever dirty takes less "
        "than pages; today: the kernel's)",
        "total with it to that of pages: below 1; and to the middle of pages and dirty: below 1, "
        f"so that half of the difference is saved, which is taken as much ({OWN_UNPROTECTING})",
        _call_saves,
        figures=2,
    ),
    Rule(
        "5b",
        "its bookkeeping",
        "It would cost no more than to change protections.",
        "section 2.1.1 (expected, not measured)",
        "roots and other together with it to those of pages: not above 1. Both find roots in the "
        f"same pages, so the difference is what the system is asked ({OWN_UNPROTECTING})",
        _each([KERNEL], PAGES, BOOKKEEPING, paper.NOT_WORSE),
        unprinted="expected only",
    ),
)
FREQUENCY = "1d"
# Claims that rest on what a trap costs in the midst of a program.
OF_TRAPS = ("1a", "1c")


def claim_number(number: str, benchmark: str) -> str:
    return f"{number}-{benchmark[0]}"


def numbers_of(asked: Rule) -> list[str]:
    if asked.of_both:
        return [asked.number]
    return [claim_number(asked.number, benchmark) for benchmark in paper.BENCHMARKS]


def short_names() -> dict[str, str]:
    names = {number: asked.short for asked in RULES for number in numbers_of(asked)}
    return names | {FREQUENCY: "frequent traps, cheaper traps"}


def _claim(asked: Rule, benchmark: str, evidence: Evidence, today: bool) -> Claim:
    return Claim(
        claim_number(asked.number, benchmark),
        f"{benchmark}: {asked.text}",
        asked.where,
        asked.rule,
        asked.parts(evidence),
        asked.quantifier,
        substitute=today and benchmark == paper.INTERACTIVE,
        unprinted=asked.unprinted,
    )


def _claim_of_both(asked: Rule, by_benchmark: Mapping[str, Evidence], today: bool) -> Claim:
    """What one benchmark proves rests on the substitute only where that is the one."""
    parts = {
        name: [
            replace(part, about=f"{name}, {part.about}")
            for part in asked.parts(one, len(by_benchmark))
        ]
        for name, one in by_benchmark.items()
    }
    own = judge(parts[paper.DESTROY], asked.quantifier)
    return Claim(
        asked.number,
        asked.text,
        asked.where,
        asked.rule,
        [part for of_one in parts.values() for part in of_one],
        asked.quantifier,
        substitute=today and own is not Verdict.HOLDS,
        unprinted=asked.unprinted,
    )


def _frequency(by_benchmark: Mapping[str, Evidence], today: bool) -> Claim:
    """Asked of both together: so it rests on the substitute too."""
    (name, one), (other_name, other) = by_benchmark.items()
    rates = estimate_of(ratios(one.trap_rate(), other.trap_rate()))
    if rates is not None and rates.median < 1:
        (name, one), (other_name, other) = (other_name, other), (name, one)
    undecided = one.trap_undecided() or other.trap_undecided()
    if rates is not None and one.sampled and not leaves_out(rates.interval, 1):
        undecided = undecided or "which has the more frequent traps is not decided"
    ask = Asker(one, confidence_of_each(2, CONFIDENCE))
    figure = ratios(one.trap(), other.trap()) if rates is not None else None
    return Claim(
        FREQUENCY,
        "The more frequent traps are, the less each costs.",
        "section 3.2.3 (suggested)",
        "a trap of the benchmark that has more of them a second, by the running time without them, "
        "to one of the other: below 1. Not decided where the time of either cannot be told from 0",
        [ask.part(f"{name} to {other_name}", figure, LESS, undecided)],
        substitute=today,
    )


def all_claims(by_benchmark: Mapping[str, Evidence], today: bool = True) -> list[Claim]:
    """`today`: not of the paper's own figures; then Interactive is a substitute."""
    found: list[Claim] = []
    for asked in RULES:
        if asked.of_both:
            found.append(_claim_of_both(asked, by_benchmark, today))
            continue
        found += [_claim(asked, name, one, today) for name, one in by_benchmark.items()]
        if asked.number == "1c":
            found.append(_frequency(by_benchmark, today))
    return found


def verdict_of(asked: Rule, evidence: Evidence) -> Verdict:
    """Of a workload that the paper may not have."""
    return judge(asked.parts(evidence), asked.quantifier)


@dataclass(frozen=True)
class Otherwise:
    """A verdict that would be another, and the figures that would make it."""

    today: Verdict
    figures: str


def by_our_design(one: Measured) -> dict[str, Otherwise]:
    """By rule: which verdicts would be others if `pages` had dirty's other, in which the collector
    has no page to unprotect."""
    found = {}
    for asked in RULES:
        parts = asked.parts(one.with_other_of_dirty(PAGES))
        then, otherwise = verdict_of(asked, one), judge(parts, asked.quantifier)
        if otherwise is not then and Verdict.NOT_MEASURED not in (then, otherwise):
            found[asked.number] = Otherwise(then, f"“{otherwise}” ({'; '.join(map(str, parts))})")
    return found


def least_other(one: Evidence) -> Series | None:
    """What other of pages must take for a dirty call to save half of what traps cost (5a)."""
    kernel, pages, dirty = (one.times(name, TOTAL) for name in (KERNEL, PAGES, DIRTY))
    other = one.times(PAGES, "other")
    return by_round(lambda k, p, d, o: 2 * k - d - (p - o), kernel, pages, dirty, other)


def indication_of(asked: Rule, evidence: Evidence) -> str:
    """Of one with too few rounds for a verdict (study/claims.py)."""
    return indication(asked.parts(evidence), asked.quantifier)


def can_compare(one: Evidence, schemes: Sequence[str], programs: int = 1) -> bool:
    """Whether there are rounds enough to compare them all with each other. `programs`: of how many
    the sentence is."""
    rounds = min(len(there(one.times(scheme, TOTAL))) for scheme in schemes)
    return interval_rank(rounds, _of_pairs(len(schemes), programs)).kind != RANGE


def _of_pairs(schemes: int, programs: int) -> float:
    return confidence_of_each(programs * schemes * (schemes - 1) // 2, CONFIDENCE)


def beats(one: Evidence, schemes: Sequence[str], programs: int = 1) -> set[tuple[str, str]]:
    """Pairs of which the first is shown to take less in all. All pairs of all programs that the
    sentence is of share the permitted error."""
    pairs = [(left, right) for left in schemes for right in schemes if left < right]
    ask = Asker(one, _of_pairs(len(schemes), programs))
    found = set()
    for left, right in pairs:
        stands = ask.ratio(left, right, TOTAL, LESS).standing()
        inverse = ask.ratio(right, left, TOTAL, LESS).standing()
        if stands is Standing.IN:
            found.add((left, right))
        elif inverse is Standing.IN:
            found.add((right, left))
    return found
