# SPDX-License-Identifier: MIT
"""Claim by claim: what is compared.

The paper has two benchmarks, and says each thing of both; so there is a claim for each, and one
clear counterexample in one benchmark does not speak for the other. Interactive is not the paper's
program here, so its claims are at best consistent. The same rules are asked of workloads that the
paper has not.
"""

import math
from dataclasses import dataclass
from typing import Callable, Mapping, Sequence

from ...statistics.intervals import Estimate, estimate
from ...statistics.verdicts import Quantifier, Verdict
from ..claims import Claim, Part, judge
from ..ranges import LESS, MORE, Range
from . import paper
from .evidence import Evidence
from .paper import DIRTY, TOTAL
from .plan import KERNEL, PAGES, REMSETS
from .results import quotient

SOFTWARE = tuple(one for one in paper.SCHEMES if one != PAGES)
SOFTWARE_CARDS = tuple(one for one in SOFTWARE if one != REMSETS)
ABOVE_ZERO = Range(math.nextafter(0, 1), math.inf)


@dataclass(frozen=True)
class Rule:
    """A claim before it is asked of a workload."""

    number: str
    short: str  # for the chart
    text: str
    where: str
    rule: str
    parts: Callable[[Evidence], list[Part]]
    quantifier: Quantifier = Quantifier.ALL


def _ratio(one: Evidence, scheme: str, base: str, phase: str) -> Estimate | None:
    return quotient(one.times(scheme, phase), one.times(base, phase))


def _best(one: Evidence, schemes: Sequence[str]) -> str | None:
    """With the least total, by its median; None where one is missing."""
    totals = {scheme: one.times(scheme, TOTAL) for scheme in schemes}
    known = {scheme: estimate(times).median for scheme, times in totals.items() if times}
    return min(known, key=lambda scheme: known[scheme]) if len(known) == len(schemes) else None


def _traps_to_checks(one: Evidence) -> list[Part]:
    """Not the other way round: where traps cost nothing, or less, no ratio to them says so."""
    return [Part("traps to checks", quotient(one.trap(), one.break_even()), MORE)]


def _tight_traps_to_checks(one: Evidence) -> list[Part]:
    return [Part("traps to checks", quotient(one.tight_trap(), one.break_even()), MORE)]


def _trap_to_tight(one: Evidence) -> list[Part]:
    return [Part("trap", quotient(one.trap(), one.tight_trap()), MORE)]


def _running_of_pages(one: Evidence) -> list[Part]:
    return [Part(PAGES, _ratio(one, PAGES, DIRTY, "running"), MORE)]


def _running_below_dirty(one: Evidence) -> list[Part]:
    return [Part(scheme, _ratio(one, scheme, DIRTY, "running"), LESS) for scheme in SOFTWARE]


def _roots_of_granules(one: Evidence) -> list[Part]:
    return [
        Part(scheme, _ratio(one, scheme, DIRTY, "roots"), LESS)
        for scheme in ("cards-256", "cards-1024")
    ]


def _roots_of_remsets(one: Evidence) -> list[Part]:
    return [
        Part(f"to {scheme}", _ratio(one, REMSETS, scheme, "roots"), paper.MARKEDLY_LESS)
        for scheme in (*SOFTWARE_CARDS, PAGES, DIRTY)
    ]


def _bits_and_bytes(one: Evidence) -> list[Part]:
    return [Part("cards-4096", _ratio(one, "cards-4096", DIRTY, "roots"), paper.SIMILAR)]


def _hybrid(one: Evidence) -> list[Part]:
    best = _best(one, SOFTWARE_CARDS)
    found = _ratio(one, best, REMSETS, TOTAL) if best else None
    return [Part(best or "cards", found, paper.COMPETITIVE)]


def _pure_scanning(one: Evidence) -> list[Part]:
    found = _ratio(one, "scan-4096", "cards-4096", "roots")
    return [Part("scan-4096", found, MORE)]


def _best_cards(one: Evidence) -> list[Part]:
    return [
        Part(f"to {scheme}", _ratio(one, "cards-1024", scheme, TOTAL), paper.NOT_WORSE)
        for scheme in paper.SCHEMES
        if scheme != "cards-1024"
    ]


def _software_to(base: str) -> Callable[[Evidence], list[Part]]:
    def parts(one: Evidence) -> list[Part]:
        best = _best(one, SOFTWARE)
        return [Part(best or "software", _ratio(one, best, base, TOTAL) if best else None, LESS)]

    return parts


def _granules_over_primitives(one: Evidence) -> list[Part]:
    """(dirty - best software) - (pages - dirty), as a share of dirty."""
    best = _best(one, SOFTWARE)
    times = [one.times(scheme, TOTAL) for scheme in (DIRTY, best or "", PAGES)]
    known = [each for each in times if each is not None]
    found = None
    if len(known) == len(times):
        # Rounded: percents are whole, binary fractions are not.
        shares = [round((2 * d - s - p) / d, 9) for d, s, p in zip(*known)]
        found = estimate(shares)
    return [Part(best or "software", found, ABOVE_ZERO)]


def _call_saves(one: Evidence) -> list[Part]:
    return [Part("dirty to pages", _ratio(one, KERNEL, PAGES, TOTAL), LESS)]


def _call_is_cheap(one: Evidence) -> list[Part]:
    return [Part("other of dirty to pages", _ratio(one, KERNEL, PAGES, "other"), paper.NOT_WORSE)]


RULES = (
    Rule(
        "1a",
        "traps to checks",
        "All store checks together cost less than all page traps.",
        "Table 1, section 3.2.3",
        "f t y / (c x): the trap in the midst of the program, over the one at which both cost the "
        "same; x of a card's check (the paper: 10 cycles; today: in a loop of stores)",
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
        "A trap in the midst of a program costs more than in a tight loop.",
        "sections 2.1.1, 3.2.3",
        "running of pages less that of the oracle, by trap, over that in a tight loop",
        _trap_to_tight,
    ),
    Rule(
        "2a",
        "running of pages",
        "dirty has less running time than pages.",
        "section 3.2.3",
        "running of pages to that of dirty: above 1",
        _running_of_pages,
    ),
    Rule(
        "2b",
        "running below dirty's",
        "dirty has not the best running time, though it executes the least: caches decide.",
        "section 3.2.3",
        "running of each software scheme to that of dirty: one is below 1",
        _running_below_dirty,
        Quantifier.SOME,
    ),
    Rule(
        "3a",
        "roots of smaller granules",
        "Granules of a page's size cost significantly more to find roots.",
        "section 3.2.3",
        "roots of cards of 256 and 1,024 bytes to those of dirty: below 1",
        _roots_of_granules,
    ),
    Rule(
        "3b",
        "roots of remsets",
        "Pure remembered sets have markedly less overhead to determine the roots.",
        "section 3.2.3",
        "roots of remsets to those of each other scheme; half taken as markedly less",
        _roots_of_remsets,
    ),
    Rule(
        "3c",
        "bytes to bits",
        "A bit table or a byte table makes little difference for roots.",
        "section 3.2.3",
        "roots of cards of 4,096 bytes (bytes) to dirty's (bits); a tenth taken as little",
        _bits_and_bytes,
    ),
    Rule(
        "3d",
        "best cards to remsets",
        "Summarised into remembered sets, cards are competitive with pure remembered sets.",
        "sections 3.2.3, 5",
        "total of the best cards to that of remsets; 5% more taken as competitive",
        _hybrid,
    ),
    Rule(
        "3e",
        "pure scanning's roots",
        "Pure cards of a page's size perform poorly, which summarising improves.",
        "section 5; figures in another paper",
        "roots of pure cards of 4,096 bytes to those of summarised ones: above 1",
        _pure_scanning,
    ),
    Rule(
        "4a",
        "cards-1024 to others",
        "The total of cards of 1,024 bytes is best overall.",
        "section 3.2.3",
        "their total to that of each other scheme: none has less",
        _best_cards,
    ),
    Rule(
        "4b",
        "best software to pages",
        "Software outperforms page protection.",
        "abstract",
        "total of the best software scheme to that of pages: below 1",
        _software_to(PAGES),
    ),
    Rule(
        "4c",
        "best software to dirty",
        "Software approaches, in some cases outperforms, the best that page protection could be.",
        "section 1",
        "total of the best software scheme to that of dirty: below 1",
        _software_to(DIRTY),
    ),
    Rule(
        "4d",
        "granules over primitives",
        "Large granules are the problem, not the cost of the primitives.",
        "section 5, of all its applications",
        "what dirty takes more than the best software, less what pages takes more than dirty, as a "
        "share of dirty: above 0",
        _granules_over_primitives,
    ),
    Rule(
        "5a",
        "a dirty call to traps",
        "A system call that tells dirty pages would save much of what traps cost.",
        "section 2.1.1 (the paper: its estimate, dirty; today: the kernel's)",
        "total with it to that of pages: below 1",
        _call_saves,
    ),
    Rule(
        "5b",
        "its bookkeeping",
        "It would cost no more than to change protections.",
        "section 2.1.1 (the paper: its estimate; today: the kernel's)",
        "other with it to that of pages: not above 1",
        _call_is_cheap,
    ),
)
FREQUENCY = "1d"


def rule(number: str) -> Rule:
    return next(one for one in RULES if one.number == number)


def claim_number(number: str, benchmark: str) -> str:
    return f"{number}-{benchmark[0]}"


def short_names() -> dict[str, str]:
    names = {
        claim_number(one.number, benchmark): one.short
        for one in RULES
        for benchmark in paper.BENCHMARKS
    }
    return names | {FREQUENCY: "more traps, cheaper traps"}


def _claim(asked: Rule, benchmark: str, evidence: Evidence, today: bool) -> Claim:
    return Claim(
        claim_number(asked.number, benchmark),
        f"{benchmark}: {asked.text}",
        asked.where,
        asked.rule,
        asked.parts(evidence),
        asked.quantifier,
        substitute=today and benchmark == paper.INTERACTIVE,
    )


def _frequency(by_benchmark: Mapping[str, Evidence], today: bool) -> Claim:
    """Asked of both together: so it rests on the substitute too."""
    many, few = sorted(by_benchmark.values(), key=lambda one: one.trap_count() or 0, reverse=True)
    both = None not in (many.trap_count(), few.trap_count())
    found = quotient(many.trap(), few.trap()) if both else None
    return Claim(
        FREQUENCY,
        "The more traps a program has, the less each costs.",
        "section 3.2.3 (suggested)",
        "a trap of the benchmark that has more of them to one of the other: below 1",
        [Part("more to fewer", found, LESS)],
        substitute=today,
    )


def all_claims(by_benchmark: Mapping[str, Evidence], today: bool = True) -> list[Claim]:
    """`today`: not of the paper's own figures; then Interactive is a substitute."""
    found = [
        _claim(asked, benchmark, evidence, today)
        for asked in RULES
        for benchmark, evidence in by_benchmark.items()
    ]
    places = [place for place, one in enumerate(found) if one.number.startswith("1c")]
    found.insert(places[-1] + 1, _frequency(by_benchmark, today))
    return found


def verdict_of(asked: Rule, evidence: Evidence) -> Verdict:
    """Of a workload that the paper may not have."""
    return judge(asked.parts(evidence), asked.quantifier)
