# SPDX-License-Identifier: MIT
"""The report of the study of 1993, from what was measured."""

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Mapping, Sequence

from ...output.sentences import enumerate_names
from ...output.text import markdown_table
from ...statistics.intervals import CONFIDENCE, LEAST_ROUNDS, Estimate, confidence_of_each
from ...statistics.verdicts import Verdict, tells_chance
from .. import report as frame
from ..chart import claims_chart
from ..claims import Claim, Part, short_number
from ..explanations import Explanation, file_beside, read_explanations
from ..measured_by import lacking, of_machines
from ..ranges import LESS
from ..sheets import ABSENT, ratio_cell
from . import paper
from .evidence import Series, by_round, estimate_of, ratios
from .measurements import read_measurements
from .plan import KERNEL, ORACLE, PAGES, REMSETS, SUMMARISED, WORKLOADS, repeated_orders
from .printed import PRINTED
from .results import Measured, Results
from .rules import (
    FREQUENCY,
    OF_TRAPS,
    Asker,
    Otherwise,
    all_claims,
    beats,
    by_our_design,
    can_compare,
    claim_number,
    least_other,
    short_names,
)
from .tables import all_figures, all_tables, claims_of_rule, further_tables

TEMPLATE = Path(__file__).parent / "barriers.html.j2"
QUIET_LOAD = 1.5
IN_MARKDOWN = ("matrix", "totals", "stores", "counts")
CARD_SIZES = SUMMARISED
CHECKED = (REMSETS, *CARD_SIZES)
# What a reader of ten minutes wants to know, and the rule that decides each.
QUESTIONS = {
    "1a": "Do checks at stores cost less than page traps?",
    "2a": "Do traps slow the program down?",
    "3a": "Are pages too large to find roots in?",
    "3b": "Does a remembered set find roots with less than half the work?",
    "4a": "Are cards of 1,024 bytes the best of all?",
    "4c": "Does software come near the best that page protection could be?",
    "4e": "Does it even beat that?",
    "5a": "Would the kernel's dirty pages save half of what traps cost?",
}


@dataclass(frozen=True)
class Answer:
    number: str
    question: str
    then: Sequence[Claim]  # of each benchmark
    now: Sequence[Claim]


@dataclass(frozen=True)
class Report(frame.Report):
    answers: Sequence[Answer]
    advice: Sequence[str]  # what should I use today
    lessons: Sequence[str]  # of the generations of gc
    loads: Sequence[float]
    rounds: int  # of any program: large ones have fewer
    by_design: Sequence[str]  # which verdicts rest on our design of pages

    @property
    def asked(self) -> bool:
        """Whether a program of the paper was run, so that its claims were asked."""
        return any(claim.verdict is not Verdict.NOT_MEASURED for claim in self.claims)

    def render(self) -> str:
        return frame.render(self, TEMPLATE)

    def further_files(self) -> Mapping[str, str]:
        return {"study.md": as_markdown(self)}


def report_from(file: Path) -> Report:
    results = read_measurements(file)
    numbers = [claim.number for claim in _claims(results)]
    workloads = [one.name for one in WORKLOADS]
    return make_report(results, read_explanations(file_beside(file), numbers, workloads))


def _claims(results: Results) -> list[Claim]:
    return all_claims({name: results.of_benchmark(name) for name in paper.BENCHMARKS})


def make_report(results: Results, explanations: Mapping[str, Explanation] | None = None) -> Report:
    known = explanations or {}
    claims = [replace(claim, explanation=known.get(claim.number)) for claim in _claims(results)]
    changes = [(one, by_our_design(one)) for one in _judged(results)]
    then = all_claims(PRINTED, today=False)
    printed = {claim.number: claim for claim in then}
    return Report(
        study=dict(results.study),
        claims=claims,
        printed=printed,
        tables=list(all_tables(results)),
        figures=list(all_figures(results)),
        beyond=list(further_tables(results)),
        chart=claims_chart(claims, printed, short_names(), "1993"),
        limits=limits(results, changes),
        answers=[
            Answer(number, question, claims_of_rule(then, number), claims_of_rule(claims, number))
            for number, question in QUESTIONS.items()
        ],
        advice=advice(results),
        lessons=lessons(results),
        loads=results.loads(),
        rounds=results.most_rounds(),
        by_design=[
            f"{number} of {one.workload.title}" for one, found in changes for number in found
        ],
    )


def limits(results: Results, changes: "Changes") -> list[str]:
    """What keeps today's figures from being the paper's study once more."""
    loads, rounds = sorted(results.loads()), results.most_rounds()
    load = "the load was not kept"
    if loads:
        load = f"the machine's load was {median(loads):.1f} (median; at most {loads[-1]:.1f})"
    quiet = bool(loads) and median(loads) <= QUIET_LOAD and rounds >= 30
    wanted = "" if quiet else " (30 and a quiet machine were wanted)"
    orders = len(results.orders())
    turns = "; in it every barrier runs in several turns, and the least time of each phase counts"
    found = [
        f"{rounds} rounds{wanted}; {load}. Each round has "
        f"{f'one of {orders} link orders' if orders != 1 else 'the same link order'}"
        f"{turns if any(one.runs > 1 for one in results.workloads()) else ''}. Time is elapsed, "
        "as in the paper, so what others take of the processor is in it where they take it always.",
        "Destroy is written anew: its sizes are ours, chosen so that its tree has the paper's 2 MB "
        "and its collections and store checks come out as the paper's. Interactive is a "
        "substitute: another program on another image, with a fifth of the paper's traps; its "
        "claims are at best consistent.",
        "The interpreter is plain: stores are a smaller share of running than in a fast one or in "
        "compiled code. Words have 8 bytes. The old generation is not collected.",
        "Where the collector itself writes to a protected page, it unprotects that page first, one "
        "call a page; that counts as other. The paper does not say where it has it, nor whether it "
        "unprotects more at once. So it is our design, and it weighs on 4a, 4b, 4d, 5a and 5b. "
        + _of_our_design(changes),
        "Figures 2 and 3 have no values in print: only what the text says of them is judged.",
    ]
    found[1:1] = of_machines(results.study)
    if said := repeated_orders(rounds, orders):
        found.insert(1, said)
    if not any(one.paper for one in results.workloads()):
        found.insert(0, "Neither Destroy nor Interactive was run, so no claim has a verdict.")
    found += _large(results) + _little_collecting(results) + _traps_undecided(results)
    found += [f"Not measured: {name} ({why})." for name, why in lacking(results.study).items()]
    return found + [f"Left out, since it failed: {line}." for line in results.left_out()]


def _judged(results: Results) -> list[Measured]:
    """Workloads with rounds enough for verdicts."""
    known = [results.of(one) for one in results.workloads()]
    return [one for one in known if tells_chance(len(one.rounds()))]


Changes = Sequence[tuple[Measured, Mapping[str, Otherwise]]]  # of each workload, by_our_design()


def _of_our_design(changes: Changes) -> str:
    if not changes:
        return ""
    changed = [
        f"{number} of {one.workload.title} {otherwise.figures}"
        for one, found in changes
        for number, otherwise in found.items()
    ]
    turns = [
        f"5a of {one.workload.title} holds while other of pages takes more than "
        f"{_milliseconds(least_other(one))}; it takes {_milliseconds(one.times(PAGES, 'other'))}."
        for one, found in changes
        if "5a" in found and found["5a"].today is Verdict.HOLDS
    ]
    said = (
        f"these would be others: {', '.join(changed)}" if changed else "no verdict would be another"
    )
    return " ".join([f"{LEAST_OTHER} {said}.", *turns])


def _milliseconds(ns: Series | None) -> str:
    found = estimate_of(by_round(lambda one: one / 1e6, ns))
    return _short(found, " ms") if found else ABSENT


def _short(found: Estimate, unit: str = "") -> str:
    low, high = map(short_number, found.interval)
    return f"{short_number(found.median)}{unit} [{low}, {high}]"


LEAST_OTHER = (
    "Were other of pages that of dirty, which asks the system for nothing and so is less than any "
    "design can have,"
)


def _little_collecting(results: Results) -> list[str]:
    """Where totals say next to nothing of the schemes, whatever they are."""
    said = []
    for one in _judged(results):
        share = estimate_of(
            by_round(
                lambda running, total: 1 - running / total,
                one.times(paper.DIRTY, "running"),
                one.times(paper.DIRTY, paper.TOTAL),
            )
        )
        if share and share.high < LITTLE:
            said.append(
                f"{one.workload.title}: scavenges are {100 * share.median:.1f}% of the time of "
                "dirty. So totals there tell next to nothing of the schemes, and most claims of "
                "totals are not decided."
            )
    return said


LITTLE = 0.05


def _large(results: Results) -> list[str]:
    titles = [one.title for one in results.workloads() if one.large]
    if not titles:
        return []
    return [
        f"{' and '.join(titles)}: three rounds, so their figures are indications. A hundred trees "
        "are a hundred times the data; a hundred times the iterations are no more live data, but "
        "more garbage that is old."
    ]


def _traps_undecided(results: Results) -> list[str]:
    """Why y, and what rests on it, is not decided."""
    found = []
    both = False
    for benchmark in paper.BENCHMARKS:
        if why := results.of_benchmark(benchmark).trap_undecided():
            numbers = [claim_number(number, benchmark) for number in OF_TRAPS]
            found.append(
                f"y of {benchmark} cannot be had by subtraction here: {why}. So "
                f"{', '.join([*numbers, FREQUENCY] if not both else numbers)} are not decided."
            )
            both = True
    return found


def _spoken(scheme: str) -> str:
    kind, _, size = scheme.partition("-")
    return f"{kind} of {int(size):,} bytes" if size else scheme


def _listed(schemes: Sequence[str]) -> str:
    return ", ".join(map(_spoken, schemes))


def _unbeaten(one: Measured, schemes: Sequence[str], programs: int = 1) -> list[str]:
    """Those than which none is shown to take less. `programs`: as for beats."""
    slower = {loser for _, loser in beats(one, schemes, programs)}
    return [scheme for scheme in schemes if scheme not in slower]


def advice(results: Results) -> list[str]:
    """What should I use today? Each line follows from totals and their intervals; without a
    workload there is none."""
    said = []
    workloads = [one for one in results.workloads() if results.of(one).times(REMSETS, paper.TOTAL)]
    for workload in (one for one in workloads if not one.large):
        said.append(f"{workload.title}: {_of_checks(results.of(workload))}.")
    if workloads:
        measured = [results.of(one) for one in workloads]
        said.append(_of_sizes(measured))
        said.insert(0, f"{_of_help(measured)} {_without_help(measured)}".rstrip())
    return said + [
        f"{workload.title}: {line}."
        for workload in workloads
        if (line := _of_system(results.of(workload)))
    ]


def _of_checks(one: Measured) -> str:
    schemes = [name for name in CHECKED if one.times(name, paper.TOTAL)]
    if not can_compare(one, schemes):
        return "too few rounds to compare the schemes with checks with each other"
    best, pairs = _unbeaten(one, schemes), beats(one, schemes)
    if len(best) == len(schemes):
        return "of the schemes with checks none is shown to take less time than another"
    if all((best[0], other) in pairs for other in schemes if other != best[0]):
        return f"{_spoken(best[0])} take less time than each other scheme with checks"
    return f"of the schemes with checks none is shown to take less time than {_listed(best)}"


def _of_help(measured: Sequence[Measured]) -> str:
    """Whether a compiler that puts checks at stores is worth having."""
    contenders = (REMSETS, PAGES, KERNEL)
    known = [one for one in measured if can_compare(one, contenders, len(measured))]
    pairs = {one.workload.title: beats(one, contenders, len(measured)) for one in known}
    if not known:
        return "There are too few rounds to compare checks with page protection."
    if any(loser == REMSETS for found in pairs.values() for _, loser in found):
        return "Checks are not always the better way: in some program remsets take more time."
    said = "in no program do page traps or the kernel's dirty pages take less time than remsets"
    if not any(REMSETS in pair for found in pairs.values() for pair in found):
        return f"Nothing tells checks from page protection: {said}, nor more."
    for name, spoken in ((PAGES, "page traps"), (KERNEL, "the kernel's dirty pages")):
        slower = [title for title, found in pairs.items() if (REMSETS, name) in found]
        said += f"; {spoken} take more in {enumerate_names(slower)}" if slower else ""
    return f"Use checks where a compiler can put them at stores: {said}."


def _of_sizes(measured: Sequence[Measured]) -> str:
    known = [one for one in measured if can_compare(one, CARD_SIZES, len(measured))]
    if not known:
        return "There are too few rounds to compare the sizes of cards with each other."
    best = [set(_unbeaten(one, CARD_SIZES, len(measured))) for one in known]
    left = [size for size in CARD_SIZES if all(size in each for each in best)]
    if len(left) == len(CARD_SIZES):
        return "No size of cards is shown to take less time than another in any program."
    if not left:
        return "There is no size of cards that is not slower than another one in some program."
    return f"In no program is another size of cards shown to take less than {_listed(left)}."


def _kernel_to_pages(one: Measured, programs: int = 1) -> tuple[Part, str]:
    """Their totals, and which of the two takes less, if one does: by the interval, or by the range
    of few rounds. `programs`: as for beats."""
    confidence = confidence_of_each(programs, CONFIDENCE)
    part = Asker(one, confidence).ratio(KERNEL, PAGES, paper.TOTAL, LESS)
    low, high = part.interval() or (1, 1)
    return part, KERNEL if high < 1 else PAGES if low > 1 else ""


def _without_help(measured: Sequence[Measured]) -> str:
    """What to take where no compiler puts checks at stores."""
    found: dict[str, list[str]] = {KERNEL: [], PAGES: []}
    for one in measured:
        part, less = _kernel_to_pages(one, len(measured))
        if less:
            few = " (an indication)" if part.few_rounds else ""
            found[less].append(f"{one.workload.title}{few}")
    spoken = {KERNEL: "the kernel's dirty pages take less than traps", PAGES: "traps take less"}
    said = [
        f"{spoken[name]} in {enumerate_names(titles)}" for name, titles in found.items() if titles
    ]
    return f"Where none can, {', and '.join(said)}." if said else ""


def _of_system(one: Measured) -> str:
    """Without a compiler's help: the kernel's dirty pages or traps."""
    part, less = _kernel_to_pages(one)
    if part.interval() is None:
        return ""
    found = f"(kernel to pages: {part.figure()} of its total time)"
    if less and not part.few_rounds:
        return f"{less} takes less than {PAGES if less == KERNEL else KERNEL} {found}"
    leaning = f"; an indication for {less}" if less else ""
    return f"whether kernel or pages takes less is not decided {found}{leaning}"


def _per_scavenge(one: Measured, barrier: str, phase: str = paper.BOOKKEEPING) -> str:
    """Microseconds, with their interval; nothing where they are not known."""
    scavenges = one.same_of_all("scavenges")
    times = one.times(barrier, phase)
    found = estimate_of(by_round(lambda ns: ns / (scavenges or 1) / 1000, times))
    if found is None or not scavenges:
        return ""
    return _short(found)


def lessons(results: Results) -> list[str]:
    """A drop-in collector has no compiler that would put a barrier at stores: of all this it can
    have the kernel's dirty pages, or traps."""
    said = []
    trap = ratios(results.first_write_ns(), results.tight_trap_ns())
    if found := estimate_of(trap):
        said.append(
            "The first write to a clean page in a loop of nothing else, which the kernel notes: "
            f"{ratio_cell(found)} of a trap there."
        )
    for workload in results.workloads():
        if line := _lesson(results.of(workload)):
            said.append(line)
    return said


def _lesson(one: Measured) -> str:
    found = {name: _per_scavenge(one, name) for name in (KERNEL, PAGES, ORACLE)}
    old, rounds = one.same_of_all("old_bytes"), len(one.rounds())
    if not all(found.values()) or old is None:
        return ""
    few = f" The range of {rounds} rounds: an indication." if rounds < LEAST_ROUNDS else ""
    return (
        f"{one.workload.title}, {old / (1 << 20):.0f} MiB old at the end: roots and other take "
        f"{found[KERNEL]} µs a collection by the kernel, {found[PAGES]} by protection (of it "
        f"{_per_scavenge(one, PAGES, 'other')} other, which is our design), {found[ORACLE]} by "
        f"the oracle, which knows for nothing.{few}"
    )


def as_markdown(report: Report) -> str:
    """The tables beside the paper's, for docs/measurements."""
    lines = []
    for sheet in [*report.tables, *(one for one in report.beyond if one.name in IN_MARKDOWN)]:
        lines += [f"**{sheet.title}.** {sheet.caption}", ""]
        lines += [*markdown_table([sheet.header, *sheet.rows], range(sheet.text_columns)), ""]
    return "\n".join(lines)
