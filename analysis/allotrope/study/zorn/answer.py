# SPDX-License-Identifier: MIT
"""What a reader of ten minutes gets first: was the paper right, is it still so, and what limits the
answer."""

import math
from dataclasses import dataclass
from typing import Mapping, Sequence

from ...output.units import format_bytes
from ...statistics.intervals import Estimate
from ...statistics.verdicts import Quantifier, Standing, Verdict
from ..claims import Claim, short_number
from ..sheets import ABSENT, number_cell
from . import paper
from .paper import CACHE_1992
from .plan import BASELINE, COLLECTORS, LIBGC, MODERN
from .results import Results
from .tables import BSD, COLLECTED, EXPLICIT

# What a reader of ten minutes wants to know (chosen before there were figures:
# docs/measurements/study.md), and the claim that decides each.
QUESTIONS = {
    "2a": "Does the collector cost CPU time?",
    "4a": "Does it need more memory?",
    "12": "Is the memory system its true cost?",
    "5c": "Which malloc is the fastest, which takes the least room?",
    "13": "Is it better to change the malloc than to write one's own?",
    "11": "What have thirty years done for collectors?",
}
WORDS = {
    Verdict.HOLDS: "still so",
    Verdict.CONSISTENT: "still so, of a substitute",
    Verdict.IN_PART: "in part",
    Verdict.FAILS: "no longer so",
    Verdict.NOT_DECIDED: "not decided",
    Verdict.NOT_MEASURED: "",
}


@dataclass(frozen=True)
class Answer:
    number: str
    question: str
    then: str
    now: str
    verdict: Verdict
    agree: str = ""  # of how many, where it is no longer so of all

    @property
    def word(self) -> str:
        return WORDS[self.verdict] + (f": {self.agree} agree" if self.agree else "")


def _span(values: Sequence[float]) -> str:
    """One range over all programs."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return ABSENT
    ends = [number_cell(min(known)), number_cell(max(known))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


class _Told:
    """The claims as phrases: of the paper's own figures, or of today's. A phrase whose figure was
    not measured is empty."""

    def __init__(self, claims: Mapping[str, Claim]) -> None:
        self.claims = claims

    def span(self, number: str, words: str) -> str:
        """From the least to the greatest of the parts."""
        values = self.claims[number].medians()
        return words.format(_span(values)) if values else ""

    def most(self, number: str, words: str) -> str:
        values = self.claims[number].medians()
        return words.format(_span([max(values)])) if values else ""

    def part(self, number: str, place: int, words: str) -> str:
        value = self._value(number, place)
        return "" if value is None else words.format(_span([value]))

    def programs(self, number: str, place: int, words: str) -> str:
        """A number of programs."""
        value = self._value(number, place)
        return "" if value is None else words.format(f"{value:.0f} of {len(paper.PROGRAMS)}")

    def agree(self, number: str, words: str) -> str:
        claim = self.claims[number]
        known = [part for part in claim.parts if part.interval() is not None]
        return words.format(f"{claim.count(Standing.IN)} of {len(known)}") if known else ""

    def _value(self, number: str, place: int) -> float | None:
        parts = self.claims[number].parts
        value = parts[place].measured if len(parts) > place else None
        return value.median if isinstance(value, Estimate) else value


def _joined(*phrases: str) -> str:
    return "; ".join(filter(None, phrases)) or ABSENT


def _cpu(told: _Told) -> str:
    return _joined(
        told.span("2a", "{} times SunOS's malloc"),
        told.programs("2b", 0, "slowest of all in {} programs"),
        told.programs("2b", 1, "fastest in {}"),
    )


def _memory(told: _Told) -> str:
    return _joined(
        told.span("4a", "a heap {} times that of the best malloc"),
        told.part("4c", 1, "{} times SunOS's in yacr, which never frees"),
    )


def _malloc(told: _Told) -> str:
    return _joined(
        told.programs("5c", 0, "BSD fastest in {} programs"),
        told.most("5a", "its heap up to {} times SunOS's"),
        told.programs("5e", 0, "SunOS's smallest in {}"),
    )


def _own(told: _Told) -> str:
    return _joined(
        told.most("6a", "without it up to {} times the time under the same malloc"),
        told.span("6b", "{} under BSD"),
        told.agree("13", "another malloc gains more in {}"),
    )


def _system(told: _Told) -> str:
    return _joined(
        told.span("7a", "{} times BSD's page faults"),
        told.span("8a", "{} times its misses in 128 KB"),
        told.programs("12", 1, "more than CPU time rise heaps in {} programs"),
        told.programs("12", 2, "page faults in {}"),
        told.programs("12", 3, "misses in {}"),
    )


def _today(results: Results) -> str:
    """Today's collectors beside that of 1992."""
    said = []
    for spec, name in ((COLLECTORS[1], "ours"), (LIBGC, "Debian's libgc")):
        pair = ("collected", spec)
        times = [results.ratio(one, pair, COLLECTED) for one in results.claimed()]
        rates = [
            (results.miss_rate(one, *pair, CACHE_1992), results.miss_rate(one, *BSD, CACHE_1992))
            for one in results.claimed()
        ]
        known = [one.median for one in times if one is not None]
        misses = [rate / base for rate, base in rates if rate is not None and base]
        if known:
            told = f"{name} takes {_span(known)} of the 1992 collector's CPU time"
            said.append(told + (f", with {_span(misses)} times BSD's misses" if misses else ""))
    return _joined(*said)


def _best_today(results: Results) -> str:
    """Of programs without their own allocators under the best of today's mallocs."""
    values = []
    for name in results.tunable():
        base = ("optimised", "glibc")
        found = [results.ratio(name, ("unoptimised", spec), base) for spec in MODERN]
        known = [one.median for one in found if one is not None]
        if known:
            values.append(min(known))
    if not values:
        return ""
    return f"under the best of today's {_span(values)} times that with it under glibc's"


def answers(
    results: Results, claims: Sequence[Claim], printed: Mapping[str, Claim]
) -> list[Answer]:
    found = {claim.number: claim for claim in claims}
    then, now = _Told(printed), _Told(found)
    pairs = {
        "2a": (_cpu(then), _cpu(now)),
        "4a": (_memory(then), _memory(now)),
        "12": (
            "yes: 10 to 100 times BSD's page faults, 3 to 10 times its misses in 128 KB",
            _system(now),
        ),
        "5c": (_malloc(then), _malloc(now)),
        "13": (_own(then), _joined(_own(now), _best_today(results))),
        "11": ("hoped for: generations, and better locality", _today(results)),
    }
    return [
        Answer(number, question, *pairs[number], found[number].verdict, _agree(found[number]))
        for number, question in QUESTIONS.items()
    ]


def _agree(claim: Claim) -> str:
    """One counterexample refutes a claim of all; the reader is told how many agree."""
    several = claim.quantifier is Quantifier.ALL and len(claim.parts) > 1
    if claim.verdict is not Verdict.FAILS or not several:
        return ""
    return f"{claim.count(Standing.IN)} of {len(claim.parts)}"


def reconciliation(results: Results) -> str:
    """Heap and resident memory of the collector say different things; None of it is wrong."""
    heaps, residents = [], []
    for name in (one for one in results.claimed() if one not in paper.EXCEPT_YACR):
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
        f"The collector's heap is {span(heaps)} times that of the best malloc (yacr excepted), its "
        f"resident memory {span(residents)} times that of SunOS's. Both are right. The heap is "
        "what the paper's Table 4 compares: the allocator's memory alone, at its highest. Resident "
        "memory is the whole process, with the program's code, its libraries and its stack, which "
        "are the same under every allocator. Where a heap is small these outweigh it, and the "
        "ratio comes near 1; the larger the heap, the nearer the two figures."
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
    found.append(f"{rounds} rounds{results.fewer_rounds()}{quiet}; {load}.")
    if sizes := _heap_sizes(results):
        found.append(f"Heaps are not those of 1992 (optimised, SunOS's): {'; '.join(sizes)}.")
    if roots := _roots(results):
        found.append(roots)
    found += [
        "cfrac and yacr are written anew; gawk, perl, espresso and ghostscript are today's "
        "versions. ghostscript hardly calls malloc, and has no switch for its own allocators.",
        "Blocks are aligned to 16 bytes, not 8, and words have 8 bytes: headers and rounding cost "
        "more than on a SPARC of 1992.",
        "The paper defines neither its memory nor its page size. Here memory is the heap's "
        "high-water mark. yacr allocated 28.8 MB and freed hardly any, yet Table 4 has 13.8: "
        f"perhaps an average over the run.{_yacr_on_average(results)}",
        "Figures 4 to 8 are pictures without values, so ten claims cannot be held against the "
        "paper's own data.",
    ]
    return found


def _yacr_on_average(results: Results) -> str:
    """Today's yacr both ways; nothing of a study that did not keep it."""
    account = results.account("yacr", *BASELINE)
    mean = account["heap"].get("mapped_mean_bytes") if account else None
    peak = results.heap_peak("yacr", *BASELINE)
    if not mean or not peak:
        return ""
    return f" Ours: {format_bytes(peak)} at its highest, {format_bytes(mean)} on average."


def _roots(results: Results) -> str:
    """What a collection of the paper's collector reads before it comes to the heap."""
    found = []
    for name in results.claimed():
        gc = (results.account(name, *COLLECTED) or {}).get("gc") or {}
        if gc.get("collections"):
            found.append(gc.get("root_bytes", 0) / gc["collections"])
    if not found:
        return ""
    ends = list(dict.fromkeys(format_bytes(end) for end in (min(found), max(found))))
    return (
        f"A collection reads {' to '.join(ends)} of roots, most of it the static data of "
        "today's C library and of what else is loaded."
    )


def _heap_sizes(results: Results) -> list[str]:
    sizes = []
    for name in results.claimed():
        peak = results.heap_peak(name, *BASELINE)
        if peak is not None:
            then = paper.TABLE_4[name][paper.SUNOS].absolute if name in paper.TABLE_4 else None
            past = f" for {then:,g} KB" if then else ""
            sizes.append(f"{name} {format_bytes(peak)}{past}")
    return sizes
