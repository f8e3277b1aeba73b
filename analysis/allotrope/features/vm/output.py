# SPDX-License-Identifier: MIT
"""The tables and CSV of `allotrope vm`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Sequence

from ...output.terminal import print_line, print_table, print_wrapped
from ...output.sentences import Sentence, counted, of_whole_rounds
from ...output.units import format_coverage, format_nanoseconds
from .measure import ADD, LESS_THAN_A_TIMER, Document, figure, median_ns
from .paper import TABLE_1, Machine

if TYPE_CHECKING:
    from rich.console import Console

CSV_COLUMNS = ["what", "by", "count", "ns", "ns_low", "ns_high"]
CSV_COLUMNS += ["adds", "adds_low", "adds_high", "why"]
STEPS = ("protect", "first write", "list")
PROVIDERS = ("async", "mprotect", "sigbus")
SYSTEM_CALL = "read(2) into a protected page"
IN_TABLE = (ADD, "trap", "trap+prot1+unprot", "trap+protN+unprot", "map2")

PAPER_HEADER = ["machine", "system", "add", "trap", "+prot1+unprot", "+protN+unprot"]
PAPER_HEADER += ["prot1 in adds", "protN in adds", "map2"]


def rows(document: Document) -> Iterator[list[Any]]:
    yield CSV_COLUMNS
    for one in document["figures"]:
        spreads = [one["ns"], one["adds"]]
        cells = [
            None if spread is None else spread[end]
            for spread in spreads
            for end in ("median", "low", "high")
        ]
        yield [one["what"], one["by"], one["count"], *cells, one.get("why")]


def _us(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value < 1 else f"{value:,.4g}"


def _adds(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _paper_row(one: Machine) -> list[str]:
    times = (one.add, one.trap, one.prot1, one.prot_n)
    adds = (one.prot1 / one.add, one.prot_n / one.add)
    note = "*" if one.note else ""
    return [
        one.machine + note,
        one.system,
        *map(_us, times),
        *map(_adds, adds),
        "yes" if one.map2 else "no",
    ]


def table_1(document: Document) -> list[list[str]]:
    """This machine first, then those of the paper; microseconds, then adds."""
    times = [median_ns(document, what) for what in IN_TABLE]
    add, prot1, prot_n = times[0], times[2], times[3]
    adds = [one / add if one is not None and add else None for one in (prot1, prot_n)]
    own = ["this machine", f"Linux {document['machine']['kernel']}"]
    own += [_us(None if one is None else one / 1000) for one in times[:4]]
    own += [*map(_adds, adds), "–" if times[4] is None else "yes"]
    return [PAPER_HEADER, own, *map(_paper_row, TABLE_1)]


def paper_notes() -> list[str]:
    noted = [f"{one.machine}, {one.system}: {one.note}" for one in TABLE_1 if one.note]
    return [
        "Microseconds, then the last two times in adds. Below this machine: Appel and Li 1991, "
        "Table 1, as printed. * " + "; ".join(noted) + "."
    ]


def _time(one: Document | None) -> str:
    if one is None or one["ns"] is None:
        return "–"
    median = one["ns"]["median"]
    return f"<{LESS_THAN_A_TIMER} ns" if median < LESS_THAN_A_TIMER else format_nanoseconds(median)


def page_counts(document: Document) -> list[int]:
    return [one["count"] for one in figure(document, STEPS[0], PROVIDERS[0])]


def provider_rows(document: Document) -> list[list[str]]:
    counts = page_counts(document)
    header = ["provider", "a page", *(f"{count:,}" for count in counts), "read(2) into it"]
    body = []
    for provider in PROVIDERS:
        system_call = figure(document, SYSTEM_CALL, provider)
        for step in STEPS:
            cells = [_time(one) for one in figure(document, step, provider)]
            said = "–" if not system_call else system_call[0].get("why") or "succeeds"
            body.append([provider, step, *cells, said])
    return [header, *body] if counts else [header]


def stop_rows(document: Document) -> list[list[str]]:
    states = ("running", "blocked")
    stops = {state: figure(document, "stop the world", state) for state in states}
    header = ["threads", *(str(one["count"]) for one in stops[states[0]])]
    return [header, *([state, *map(_time, stops[state])] for state in states if stops[state])]


def other_figures(document: Document) -> list[Document]:
    shown = {*IN_TABLE, *STEPS, SYSTEM_CALL, "stop the world"}
    return [one for one in document["figures"] if one["what"] not in shown]


def other_rows(document: Document) -> list[list[str]]:
    header = ["operation", "of", "time", "interval", "adds"]
    body = []
    for one in other_figures(document):
        parts = [one["by"], pages(one["count"])]
        if one["what"] == "membarrier":
            parts = ["1 running thread"]
        of = ", ".join(part for part in parts if part)
        body.append([one["what"], of, *time_cells(one)])
    return [header, *body]


def pages(count: int | None) -> str | None:
    return None if count is None else "1 page" if count == 1 else f"{count:,} pages"


def time_cells(one: Document) -> list[str]:
    """Median, interval, adds; or why there is none."""
    if one["ns"] is None:
        return ["–", one["why"], "–"]
    low, high = (format_nanoseconds(one["ns"][end]) for end in ("low", "high"))
    return [_time(one), f"{low} to {high}", _adds(one["adds"]["median"])]


def refusals(document: Document) -> list[str]:
    """What could not be measured, and why; an EFAULT is a result."""
    missing = {
        f"{one['by'] or one['what']}: {one['why']}"
        for one in document["figures"]
        if one["ns"] is None and one["what"] != SYSTEM_CALL
    }
    return sorted(missing)


def cut_short(document: Document) -> list[Sentence]:
    """That there are fewer rounds than were asked for."""
    return [of_whole_rounds(document["incomplete"])] if document["incomplete"] else []


def how(document: Document) -> str:
    """One sentence on the machine and the method."""
    machine, loads = document["machine"], document["load_averages"]
    cpu = machine["cpu"] or "unknown processor"
    spread = format_coverage(document["coverage"])
    interval = "range" if document["interval"] == "range" else f"interval ({spread})"
    rounds = counted(document["rounds"], "round")
    return (
        f"{cpu}, {machine['usable_cpus']} processors, Linux {machine['kernel']}; load average "
        f"{min(loads)} to {max(loads)}; medians of {rounds}, and their "
        f"{interval}. What one thread does alone is processor time, the rest is time on the wall."
    )


def _section(console: Console, title: str, table: Sequence[Sequence[str]], **more: Any) -> None:
    if len(table) < 2:
        return
    print_line(console, "")
    print_line(console, title, "bold")
    print_table(console, table, styles=[""] * (len(table) - 1), **more)


def print_results(document: Document, console: Console) -> None:
    print_wrapped(console, how(document))
    _section(console, "Appel and Li's Table 1", table_1(document), left=(0, 1))
    for note in paper_notes():
        print_wrapped(console, note)
    _section(
        console,
        "Which pages were written: each page's share, of so many pages",
        provider_rows(document),
        left=(0, 1),
    )
    _section(console, "Stopping the world", stop_rows(document))
    _section(console, "Other operations, whole calls", other_rows(document), left=(0, 1))
    for line in [*refusals(document), *map(str, cut_short(document))]:
        print_wrapped(console, line)
