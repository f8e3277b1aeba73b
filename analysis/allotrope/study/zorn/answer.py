# SPDX-License-Identifier: MIT
"""What a reader of ten minutes gets first: was the paper right, is it still so, and what limits the
answer."""

from dataclasses import dataclass
from typing import Mapping, Sequence

from ...output.units import format_bytes
from ...statistics.intervals import Estimate
from ...statistics.verdicts import Quantifier, Standing, Verdict
from . import paper
from .claims import Claim, short_number
from .plan import BASELINE
from .results import Results
from .tables import COLLECTED, EXPLICIT

# The claims that the paper's conclusions rest on.
QUESTIONS = {
    "12": "Is the collector's true cost the memory system, and not CPU time?",
    "2a": "Does the collector take about as much CPU time as malloc and free (0.70 to 1.27)?",
    "3": "Does CPU time depend more on the program than on the algorithm?",
    "4a": "Does the collector need 30 to 150% more memory than the best malloc?",
    "7a": "Does it cause more page faults in every program?",
    "8a": "Does it miss 3 to 10 times as often in a cache of 128 KB?",
    "6b": "Do programmers' own allocators gain hardly anything under BSD (2 to 7%)?",
    "13": "Does a change of algorithm gain more than an allocator of one's own?",
    "10a": "Do fewer than 10% of objects live long, so that generations will pay?",
}
WORDS = {
    Verdict.HOLDS: "yes",
    Verdict.IN_PART: "in part",
    Verdict.FAILS: "no",
    Verdict.NOT_DECIDED: "not decided",
    Verdict.NOT_MEASURED: "not measured",
}


@dataclass(frozen=True)
class Answer:
    number: str
    question: str
    then: str
    now: str
    verdict: Verdict


def medians(claim: Claim) -> list[float]:
    found = [part.measured for part in claim.parts if part.interval() is not None]
    values = [one.median if isinstance(one, Estimate) else one for one in found]
    return [value for value in values if value is not None]


def _spread(claim: Claim) -> str:
    """The figures of all parts, as one range."""
    values = medians(claim)
    if not values:
        return ""
    ends = [short_number(min(values)), short_number(max(values))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _said(claim: Claim) -> str:
    word, spread = WORDS[claim.verdict], _spread(claim)
    if not spread:
        return word
    agree = ""
    if claim.quantifier in (Quantifier.ALL, Quantifier.MOST) and len(claim.parts) > 1:
        agree = f"; {claim.count(Standing.IN)} of {len(claim.parts)} agree"
    return f"{word} ({spread}{agree})"


def answers(claims: Sequence[Claim], printed: Mapping[str, Claim]) -> list[Answer]:
    found = {claim.number: claim for claim in claims}
    return [
        Answer(
            number,
            question,
            _said(printed[number]) if medians(printed[number]) else "yes (a picture only)",
            _said(found[number]),
            found[number].verdict,
        )
        for number, question in QUESTIONS.items()
    ]


def contradictions(printed: Mapping[str, Claim]) -> list[tuple[Claim, str]]:
    """Claims that the paper's own tables refute, and the figures that do."""
    return [
        (claim, "; ".join(f"{part.about} {part.figure_alone()}" for part in claim.against()))
        for claim in printed.values()
        if claim.verdict is Verdict.FAILS
    ]


def reconciliation(results: Results) -> str:
    """Heap and resident memory of the collector say different things; None of it is wrong."""
    heaps, residents = [], []
    for name in results.claimed():
        peaks = [results.heap_peak(name, *pair) for pair in EXPLICIT]
        known = [peak for peak in peaks if peak]
        own, resident = results.heap_peak(name, *COLLECTED), results.ratio(
            name, COLLECTED, BASELINE, "rss"
        )
        if known and own and resident:
            heaps.append(own / min(known))
            residents.append(resident.median)
    if not heaps:
        return ""

    def span(values: Sequence[float]) -> str:
        return f"{short_number(min(values))} to {short_number(max(values))}"

    return (
        f"The collector's heap is {span(heaps)} times that of the best malloc, its resident memory "
        f"{span(residents)} times that of SunOS's. Both are right. The heap is what the paper's "
        "Table 4 compares: the allocator's memory alone, at its highest. Resident memory is the "
        "whole process, with the program's code, its libraries and its stack, which are the same "
        "under every allocator. Where a heap is small these outweigh it, and the ratio comes near "
        "1; the larger the heap, the nearer the two figures."
    )


def limits(results: Results) -> list[str]:
    """What keeps today's figures from being the paper's study once more."""
    found = []
    loads = results.loads()
    rounds = results.study["rounds"]
    load = (
        f"the machine's load was {sorted(loads)[len(loads) // 2]:.1f} (median; at most "
        f"{max(loads):.1f})"
        if loads
        else "the machine's load was not kept"
    )
    quiet = "" if rounds >= 30 else " (30 and a quiet machine were wanted)"
    found.append(f"{rounds} rounds{quiet}; {load}.")
    if sizes := _heap_sizes(results):
        found.append(f"Heaps are not those of 1992 (optimised, SunOS's): {'; '.join(sizes)}.")
    found += [
        "cfrac and yacr are written anew; gawk, perl, espresso and ghostscript are today's "
        "versions. ghostscript hardly calls malloc, and has no switch for its own allocators.",
        "Blocks are aligned to 16 bytes, not 8, and words have 8 bytes: headers and rounding cost "
        "more than on a SPARC of 1992.",
        "The paper defines neither its memory size nor its page size. Here memory is the heap's "
        "high-water mark. yacr allocated 28.8 MB and freed hardly any, yet Table 4 has 13.8: "
        "perhaps an average.",
        "Figures 4 to 8 are pictures without values, so ten claims cannot be held against the "
        "paper's own data.",
    ]
    return found


def _heap_sizes(results: Results) -> list[str]:
    sizes = []
    for name in results.claimed():
        peak = results.heap_peak(name, *BASELINE)
        if peak is not None:
            then = paper.TABLE_4[name][paper.SUNOS].absolute if name in paper.TABLE_4 else None
            past = f" for {then:,g} KB" if then else ""
            sizes.append(f"{name} {format_bytes(peak)}{past}")
    return sizes
