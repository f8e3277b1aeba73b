# SPDX-License-Identifier: MIT
"""What a reader of ten minutes gets first: was the paper right, is it still so, and what limits the
answer."""

import math
import statistics
from dataclasses import dataclass
from typing import Mapping, Sequence

from ...output.sentences import counted
from ...output.units import format_bytes, short_bytes
from ...statistics.intervals import Estimate
from ...statistics.verdicts import Quantifier, Standing, Verdict
from ..claims import Claim, short_number
from ..measured_by import of_machines
from ..sheets import ABSENT, number_cell
from . import paper
from .evidence import Evidence, Pair
from .locality_rules import FLOORS
from .pairs import COLLECTED, EXPLICIT
from .paper import SUNOS
from .plan import BASELINE, COLLECTORS, LIBGC, MODERN
from .printed import PRINTED
from .results import Results
from .rules import all_claims

# What a reader of ten minutes wants to know (chosen before there were figures:
# docs/measurements/study.md), and the claim that decides each. Where the answer is yes or no, "yes"
# is what the paper says, so that "still so" means yes.
QUESTIONS = {
    "2a": "Is the collector's CPU time comparable to malloc's?",
    "4a": "Does it need 30 to 150% more memory?",
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


# Of what the paper foretold; and of who is first, where the question does not name them.
FORETOLD = {
    Verdict.HOLDS: "generations: as foretold",
    Verdict.CONSISTENT: "generations: as foretold, of another collector",
    Verdict.FAILS: "generations: not as foretold",
    Verdict.NOT_DECIDED: "generations: not decided",
}
FASTEST = {
    Verdict.HOLDS: "fastest: still BSD",
    Verdict.FAILS: "fastest: no longer BSD",
    Verdict.NOT_DECIDED: "fastest: not decided",
}
SMALLEST = {
    Verdict.HOLDS: "least room: still SunOS's",
    Verdict.FAILS: "least room: no longer SunOS's",
}


@dataclass(frozen=True)
class Answer:
    number: str
    question: str
    then: str
    now: str
    verdict: Verdict
    word: str


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
        """A number of programs, with its ends where intervals leave it open."""
        value = self._value(number, place)
        if value is None:
            return ""
        part = self.claims[number].parts[place]
        known = len(paper.PROGRAMS) - len(part.without)
        low, high = part.interval() or (value, value)
        ends = f" [{low:.0f}, {high:.0f}]" if low < high else ""
        return words.format(f"{value:.0f} of {known}") + ends

    def outside(self, number: str) -> str:
        """Which programs refute a claim, and on which side of its range."""
        sides: dict[str, list[str]] = {"more": [], "less": []}
        for part in self.claims[number].against():
            low = (part.interval() or (0.0, 0.0))[0]
            sides["more" if low > part.wanted.high else "less"].append(part.program)
        return "; ".join(
            f"{side} than the paper says in {', '.join(dict.fromkeys(names))}"
            for side, names in sides.items()
            if names
        )

    def beyond(self, number: str) -> str:
        """Which programs go past the range in the claim's own direction."""
        names = dict.fromkeys(part.program for part in self.claims[number].beyond())
        return f"beyond what the paper says in {', '.join(names)}" if names else ""

    def agree(self, number: str, words: str) -> str:
        claim = self.claims[number]
        known = [part for part in claim.parts if part.interval() is not None]
        return words.format(f"{claim.count(Standing.IN)} of {len(known)}") if known else ""

    def _value(self, number: str, place: int) -> float | None:
        parts = self.claims[number].parts
        value = parts[place].measured if len(parts) > place else None
        return value.median if isinstance(value, Estimate) else value


def _joined_or_nothing(*phrases: str) -> str:
    return "; ".join(one for one in phrases if one and one != ABSENT)


def _joined(*phrases: str) -> str:
    return _joined_or_nothing(*phrases) or ABSENT


def _beside_itself(evidence: Evidence) -> str:
    """The collector's time to malloc's under one form of the program; Table 3 compares two. cfrac
    counts references in the one form and not in the other."""
    malloc = ("unoptimised", SUNOS)
    names = [name for name in evidence.claimed() if name != "cfrac"]
    taken = [evidence.pairs(name, COLLECTED, malloc) for name in names]
    known = [statistics.median(one / other for one, other in pairs) for pairs in taken if pairs]
    return f"{_span(known)} beside the same program, unoptimised (cfrac apart)" if known else ""


def _cpu(told: _Told, evidence: Evidence) -> str:
    return _joined(
        told.span("2a", "{} times SunOS's malloc"),
        _beside_itself(evidence),
        told.programs("2b", 0, "slowest of all in {} programs"),
        told.programs("2b", 1, "fastest in {}"),
    )


def _memory(told: _Told) -> str:
    return _joined(
        told.span("4a", "a heap {} times that of the best malloc"),
        told.beyond("4a"),
        told.part("4c", 1, "{} times SunOS's in yacr, which hardly frees"),
    )


def _malloc(told: _Told) -> str:
    return _joined(
        told.programs("5c", 0, "BSD fastest in {} programs"),
        told.most("5a", "its heap up to {} times SunOS's"),
        told.programs("5e", 0, "SunOS's smallest in {}"),
    )


def _own(told: _Told) -> str:
    return _joined(
        told.most("6a", "without its own up to {} times the time under the same malloc"),
        told.span("6b", "{} under BSD (ghostscript apart)"),
        told.agree("13", "another malloc gains more in {}"),
    )


def _system(told: _Told, memory: str) -> str:
    return _joined(
        told.span("7a", f"{{}} times BSD's page faults in {memory}"),
        told.span("8a", "{} times its misses in 128 KB"),
        told.programs("12", 0, "CPU time comparable in {} programs"),
        told.programs("12", 1, "heaps rise more than CPU time in {}"),
        told.programs("12", 2, "page faults in {}"),
        told.programs("12", 3, "misses in {}"),
    )


def _ratios(results: Results, one: Pair, base: Pair) -> list[float]:
    """Of CPU time, the median of each program that has one."""
    found = [results.ratio(name, one, base) for name in results.claimed()]
    return [ratio.median for ratio in found if ratio is not None]


def _today(results: Results) -> str:
    """Today's collectors beside that of 1992."""
    said: list[str] = []
    own = COLLECTORS[1]
    for spec, name in ((own, f"this project's ({own})"), (LIBGC, "Debian's libgc")):
        pair = ("collected", spec)
        known = _ratios(results, pair, COLLECTED)
        heaps = [results.heap_ratio(one, pair, COLLECTED) for one in results.claimed()]
        larger = [ratio for ratio in heaps if ratio is not None]
        if known:
            of = " takes {} times the 1992 collector's CPU time" if not said else " {}"
            told = [name + of.format(_span(known))]
            told += [f"in a heap {_span(larger)} times as large"] if larger else []
            said.append(", ".join(told))
    return _joined(*said)


def _libgc(results: Results) -> str:
    """The 1992 collector's descendant, which can be installed."""
    known = _ratios(results, ("collected", LIBGC), BASELINE)
    return f"its descendant, Debian's libgc: {_span(known)} times SunOS's" if known else ""


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
    return (
        f"without its own, under the best of today's, {_span(values)} times what it takes with it "
        "under glibc's"
    )


def _generations(told: _Told) -> str:
    """Ours with them, to ours without."""

    def span(what: str, words: str) -> str:
        parts = [part for part in told.claims["11"].parts if part.about.endswith(what)]
        values = [part.measured for part in parts if isinstance(part.measured, float)]
        return words.format(_span(values)) if values else ""

    return _joined_or_nothing(
        span("page faults", "with generations {} times the page faults of the same without"),
        span("misses", "{} times its misses (ghostscript, yacr apart)"),
    )


def answers(
    results: Results, claims: Sequence[Claim], printed: Mapping[str, Claim]
) -> list[Answer]:
    found = {claim.number: claim for claim in claims}
    then, now = _Told(printed), _Told(found)
    pairs = {
        "2a": (
            _cpu(then, PRINTED),
            _joined(_cpu(now, results), now.outside("2a"), _libgc(results)),
        ),
        "4a": (_memory(then), _joined(_memory(now), now.outside("4a"))),
        "12": (
            "the abstract says so: mostly 10 to 100 times BSD's page faults in 2 MB, 3 to 10 "
            "times its misses in 128 KB",
            _system(now, _fixed(results)),
        ),
        "5c": (_malloc(then), _malloc(now)),
        "13": (_own(then), _joined(_own(now), _best_today(results))),
        "11": (
            "foretold: generations, better locality, smaller heaps",
            _joined(_today(results), _generations(now)),
        ),
    }
    return [
        Answer(number, question, *pairs[number], found[number].verdict, _word(found, number))
        for number, question in QUESTIONS.items()
    ]


def _word(found: Mapping[str, Claim], number: str) -> str:
    """The verdict in the words of the question."""
    claim = found[number]
    if number == "5c":
        told = (FASTEST.get(claim.verdict, ""), SMALLEST.get(found["5e"].verdict, ""))
        return "; ".join(filter(None, told)) or WORDS[claim.verdict]
    if number == "11":
        return FORETOLD.get(claim.verdict, WORDS[claim.verdict])
    if number == "4a" and claim.verdict is Verdict.HOLDS and claim.beyond():
        known = sum(part.interval() is not None for part in claim.parts)
        return f"still 30% and more; beyond 150% in {len(claim.beyond())} of {known}"
    return WORDS[claim.verdict] + _agree(claim)


def _agree(claim: Claim) -> str:
    """One counterexample refutes a claim of all; the reader is told how many there are."""
    known = [part for part in claim.parts if part.interval() is not None]
    several = claim.quantifier is Quantifier.ALL and len(known) > 1
    if claim.verdict is not Verdict.FAILS or not several:
        return ""
    agree, refute = claim.count(Standing.IN), claim.count(Standing.OUT)
    rest = len(known) - agree - refute
    return f": {agree} agree, {refute} refute it" + (f", {rest} undecided" if rest else "")


@dataclass(frozen=True)
class _Sizes:
    """A program's bytes under the best malloc, SunOS's and the collector."""

    name: str
    best: float
    heaps: tuple[float, float]
    processes: tuple[float, float]

    @property
    def grown(self) -> tuple[float, float]:
        return self.heaps[1] / self.heaps[0], self.processes[1] / self.processes[0]


def _sizes(results: Results, name: str) -> _Sizes | None:
    peaks = [peak for pair in EXPLICIT if (peak := results.heap_peak(name, *pair))]
    heaps = [results.heap_peak(name, *pair) for pair in (BASELINE, COLLECTED)]
    processes = [results.values(name, *pair, "rss") for pair in (BASELINE, COLLECTED)]
    if not all(heaps) or not all(processes):
        return None
    least, most = (statistics.median(one or [0.0]) for one in processes)
    return _Sizes(name, min(peaks), (float(heaps[0] or 0), float(heaps[1] or 0)), (least, most))


def reconciliation(results: Results) -> str:
    """Heap and resident memory of the collector say different things; None of it is wrong."""
    names = [one for one in results.claimed() if one not in paper.EXCEPT_YACR]
    found = [one for name in names if (one := _sizes(results, name)) is not None]
    if not found:
        return ""

    def span(values: Sequence[float]) -> str:
        ends = short_number(min(values)), short_number(max(values))
        return ends[0] if ends[0] == ends[1] else " to ".join(ends)

    heap, resident = zip(*(one.grown for one in found))
    best = [one.heaps[1] / one.best for one in found]
    told = (
        f"The collector's heap is {span(best)} times that of the best malloc and {span(heap)} "
        f"times SunOS's (yacr excepted); its resident memory is {span(resident)} times SunOS's. "
        "The heap, which our Table 4 compares, is the addresses the allocator has; resident "
        "memory is what the whole process has touched. "
    )
    furthest = max(found, key=lambda one: abs(math.log(one.grown[0] / one.grown[1])))
    return told + _reconciled(furthest)


def _reconciled(one: _Sizes) -> str:
    """The two of one program, in bytes."""

    def change(pair: tuple[float, float]) -> str:
        return f"{format_bytes(pair[0])} to {format_bytes(pair[1])}"

    heap, resident = (pair[1] - pair[0] for pair in (one.heaps, one.processes))
    told = f"They differ most in {one.name}: heap {change(one.heaps)}, process "
    told += f"{change(one.processes)}. "
    rest = one.processes[0] - one.heaps[0]
    if heap > 0 and resident > 0 and rest > 0 and one.grown[1] < one.grown[0]:
        return told + (
            f"Some {format_bytes(rest)} of that process are no heap under SunOS's; where that is "
            "much, the ratio of processes comes near 1."
        )
    return told + "There the heap's addresses are no measure of what is touched."


def _fixed(results: Results) -> str:
    """Figure 4's memory."""
    memory = results.fixed_memory()
    return short_bytes(memory) if memory else "a fixed memory"


QUIET_LOAD, QUIET_ROUNDS = 1.5, 30
MOST_FAILURES = 4


def limits(results: Results) -> list[str]:
    """What keeps today's figures from being the paper's study once more."""
    failures = _failures(results)
    unprinted = [claim for claim in all_claims(PRINTED) if not claim.medians()]
    found = [_conditions(results) + ("" if failures else " No run failed.")]
    found += of_machines(results.study)
    found += [one for one in (_missing(results), failures) if one]
    found += [
        "Intervals are of 95%; a claim's are wider, for all its figures together.",
        f"Page faults and misses are of one layout of memory, without interval: {FLOORS}.",
    ]
    if others := _other_heaps(results):
        found.append(f"Heaps unlike the paper's by more than a factor of 2: {'; '.join(others)}.")
    if roots := _roots(results):
        found.append(roots)
    found += [
        "cfrac, yacr and the algorithms are written anew, espresso is the paper's 2.3 under a "
        "larger load, the others are of today. ghostscript has no switch for its own allocators.",
        "Blocks are aligned to 16 bytes, words have 8: headers and rounding cost more than on a "
        "SPARC of 1992.",
        "Memory is the heap's high-water mark. yacr allocated 28.8 MB and freed hardly any, yet "
        "Table 4 has 13.8: "
        f"perhaps an average over the run.{_yacr_on_average(results)}",
        f"The paper prints no values to hold {len(unprinted)} claims, and parts of claim 12, "
        "against.",
    ]
    return found


def _conditions(results: Results) -> str:
    """How many rounds there are, and what else the machine did."""
    loads, others = sorted(results.loads()), sorted(results.others())
    load = "the machine's load was not kept"
    if loads:
        middle = loads[len(loads) // 2]
        load = f"the machine's load was {middle:.1f} (median; at most {loads[-1]:.1f})"
    if others:
        load += (
            f", and other processes kept {others[len(others) // 2]:.1f} processors busy "
            f"(median; at most {others[-1]:.1f})"
        )
    taken = [len(results.rounds.get(name, ())) for name in results.claimed()]
    taken = [count for count in taken if count]
    asked = results.study["rounds"]
    rounds = f"{asked} rounds"
    if taken and (min(taken), max(taken)) != (asked, asked):
        ends = dict.fromkeys((str(min(taken)), str(max(taken))))
        rounds = f"{' to '.join(ends)} of {asked} rounds"
    median = loads[len(loads) // 2] if loads else math.inf
    quiet = median <= QUIET_LOAD and min(taken or [0]) >= QUIET_ROUNDS
    wanted = "" if quiet else f" ({QUIET_ROUNDS} and a quiet machine were wanted)"
    return f"{rounds}{results.fewer_rounds()}{wanted}; {load}."


def _missing(results: Results) -> str:
    """Programs that were not measured, and why."""
    lacking = {name: "" for name in paper.PROGRAMS if not results.rounds.get(name)}
    lacking |= results.missing
    each = [name + (f" ({why})" if why else "") for name, why in lacking.items()]
    return f"Missing: {counted(len(each), 'program')}: {', '.join(each)}." if each else ""


def _failures(results: Results) -> str:
    """Runs that failed: how many, and which."""
    failed = [
        (one, f"{name} under {one} in {count} of {len(results.rounds[name])} rounds")
        for (name, one), count in results.failed_runs().items()
    ]
    for kind, where in (
        ("heap", results.accounts),
        ("samples", results.samples),
        ("births and deaths", results.events),
        ("page faults and misses", results.locality),
        ("heaps of several sizes", results.factors),
    ):
        failed += [
            (one, f"{name} under {one}, {kind} ({run['failure']})")
            for (name, one), run in where.items()
            if "failure" in run
        ]
    if not failed:
        return ""
    more = len(failed) - MOST_FAILURES
    rest = f"; and {more} more, in results.json" if more > 0 else ""
    told = "; ".join(text for _, text in failed[:MOST_FAILURES])
    of_paper = {spec for _, spec in (*EXPLICIT, COLLECTED)}
    concerned = any(one.partition(" ")[2] in of_paper for one, _ in failed)
    none = "" if concerned else " None is under an algorithm of the paper."
    return f"{counted(len(failed), 'failure')}: {told}{rest}.{none}"


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
    return f"A collection reads {' to '.join(ends)} of roots, mostly static data of libraries."


def _other_heaps(results: Results) -> list[str]:
    """Under SunOS's. The rest are as large as in 1992 or nearly so: Table 4 has both."""
    found = []
    for name in results.claimed():
        peak, printed = results.heap_peak(name, *BASELINE), paper.TABLE_4.get(name)
        if peak is None or printed is None:
            continue
        then = printed[SUNOS].absolute
        if not then / 2 <= peak / 1000 <= 2 * then:
            found.append(f"{name} {format_bytes(peak)} for {then:,g} KB")
    return found
