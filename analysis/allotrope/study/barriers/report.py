# SPDX-License-Identifier: MIT
"""The report of the study of 1993, from what was measured."""

import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Mapping, Sequence

from ...statistics.intervals import estimate
from .. import report as frame
from ..chart import claims_chart
from ..claims import Claim
from ..explanations import Explanation, file_beside, read_explanations
from . import paper
from .measurements import read_measurements
from .plan import KERNEL, PAGES, REMSETS, WORKLOADS, Workload
from .printed import PRINTED
from .results import Measured, Results
from .rules import SOFTWARE, all_claims, short_names
from .tables import all_figures, all_tables, claim_numbers, further_tables

TEMPLATE = Path(__file__).parent / "barriers.html.j2"
QUIET_LOAD = 1.5
IN_MARKDOWN = ("matrix", "stores", "counts")
# What a reader of ten minutes wants to know, and the rule that decides each.
QUESTIONS = {
    "1a": "Do checks at stores cost less than page traps?",
    "2a": "Do traps slow the program down?",
    "3a": "Are pages too large to find roots in?",
    "3b": "Does a remembered set find roots with the least work?",
    "4a": "Are cards of 1,024 bytes the best of all?",
    "4c": "Does software beat even page protection for nothing?",
    "5a": "Would the kernel's dirty pages save what traps cost?",
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
        limits=limits(results),
        answers=[
            Answer(number, question, claim_numbers(then, number), claim_numbers(claims, number))
            for number, question in QUESTIONS.items()
        ],
        advice=advice(results),
        lessons=lessons(results),
        loads=results.loads(),
    )


def limits(results: Results) -> list[str]:
    """What keeps today's figures from being the paper's study once more."""
    loads, rounds = sorted(results.loads()), results.study["rounds"]
    load = f"the machine's load was {loads[len(loads) // 2]:.1f} (median; at most {loads[-1]:.1f})"
    quiet = loads[len(loads) // 2] <= QUIET_LOAD and rounds >= 30
    wanted = "" if quiet else " (30 and a quiet machine were wanted)"
    orders = len(results.orders())
    found = [
        f"{rounds} rounds{wanted}; {load if loads else 'the load was not kept'}. Each round runs "
        f"every barrier once, in one of {orders} link order{'s' if orders != 1 else ''}. Time is "
        "elapsed, as in the paper, so what others take of the processor is in it.",
        "Destroy is written anew, with the paper's sizes, collections and store checks. "
        "Interactive is a substitute: another program on another image, with a fifth of the "
        "paper's traps; its claims are at best consistent.",
        "The interpreter is plain: stores are a smaller share of running than in a fast one or in "
        "compiled code. Words have 8 bytes. The old generation is not collected.",
        "Where the collector itself writes to a protected page, it unprotects the page first; that "
        "counts as other. The paper does not say where it has it.",
        "Figures 2 and 3 have no values in print: only what the text says of them is judged.",
    ]
    failures = results.failures()
    found += [f"Not measured: {name} ({why})." for name, why in list(failures.items())[:4]]
    return found


def _best(one: Measured, schemes: Sequence[str]) -> list[tuple[str, float]]:
    """Schemes by the median of their totals to that of remsets, least first."""
    found = []
    base = one.times(REMSETS, paper.TOTAL)
    for scheme in schemes:
        times = one.times(scheme, paper.TOTAL)
        if times and base:
            ratios = [value / other for value, other in zip(times, base, strict=True)]
            found.append((scheme, estimate(ratios).median))
    return sorted(found, key=lambda pair: pair[1])


def advice(results: Results) -> list[str]:
    """What should I use today? Of figures; without a workload nothing."""
    said = []
    for workload in results.workloads():
        one = results.of(workload)
        order = _best(one, (*SOFTWARE, "cards-512", PAGES, KERNEL))
        if not order:
            continue
        names = [f"{scheme} {ratio:.2f}" for scheme, ratio in order]
        close = [name for name, (_, ratio) in zip(names, order) if ratio <= 1.03 * order[0][1]]
        rest = dict(order)
        slow = [f"{one} {rest[one]:.2f}" for one in (PAGES, KERNEL) if one in rest]
        said.append(
            f"{workload.title}, total time to that of remsets: at most 3% above the least are "
            f"{', '.join(close[:4])}{'; ' + ', '.join(slow) if slow else ''}."
        )
    return said


def _per_scavenge(one: Measured, barrier: str, phases: Sequence[str]) -> float | None:
    """Microseconds."""
    times = [one.times(barrier, phase) for phase in phases]
    scavenges = one.same_of_all("scavenges")
    known = [each for each in times if each]
    if len(known) < len(times) or not scavenges:
        return None
    return statistics.median(map(sum, zip(*known))) / scavenges / 1000


def lessons(results: Results) -> list[str]:
    """A drop-in collector has no compiler that would put a barrier at stores: of all this it can
    have the kernel's dirty pages, or traps."""
    said = []
    for workload in results.workloads():
        if line := _lesson(results, workload):
            said.append(line)
    return said


def _lesson(results: Results, workload: Workload) -> str:
    one = results.of(workload)
    phases = ("roots", "other")
    found = {name: _per_scavenge(one, name, phases) for name in (KERNEL, PAGES, "oracle")}
    old = one.same_of_all("old_bytes")
    kernel, pages, oracle = found.values()
    if kernel is None or pages is None or oracle is None or old is None:
        return ""
    return (
        f"{workload.title}, {old / (1 << 20):.0f} MiB old at the end: roots and other take "
        f"{kernel:,.0f} µs a collection by the kernel, {pages:,.0f} by protection, {oracle:,.0f} "
        "by the oracle, which knows for nothing."
    )


def as_markdown(report: Report) -> str:
    """The tables beside the paper's, for docs/measurements."""
    lines = []
    for sheet in [*report.tables, *(one for one in report.beyond if one.name in IN_MARKDOWN)]:
        lines += [f"**{sheet.title}.** {sheet.caption}", ""]
        lines.append("| " + " | ".join(cell or " " for cell in sheet.header) + " |")
        lines.append("|---" * sheet.text_columns + "|--:" * (len(sheet.header) - 1) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in sheet.rows]
        lines.append("")
    return "\n".join(lines)
