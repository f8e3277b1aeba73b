# SPDX-License-Identifier: MIT
"""A comparison as JSON (docs/compare-format.md), CSV, Markdown, hyperfine's JSON, and a table."""

from __future__ import annotations

import dataclasses
import shlex
import statistics
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from ...output import files
from ...output.sentences import LITTLE, Sentence
from ...output.terminal import columns_that_fit, print_table, print_wrapped, table_width
from ...output.text import markdown_code, markdown_table
from ...output.units import (
    format_bytes,
    format_count,
    format_ratio,
    format_seconds,
)
from ...statistics.intervals import Summary
from ...system import capabilities
from ...system.machine import machine_facts
from ..reach import served
from .collector import collections_line
from .comparison import QUANTITIES, Comparison, Contender
from .findings import memory_that_matters
from .judged import interval_in_words, verdict_cell, verdict_of
from .servers import LEAST_WANTED as SERVER_LEAST_WANTED
from .servers import (
    HEAP_PEAK,
    load_rows,
    rising_quantities,
    server_document,
    server_legend,
    server_result,
    server_rows,
    with_ratio,
)

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "allotrope.compare/1"

COLUMNS = (
    *("allocator", "CPU s", "ratio", "CPU, memory", "wall s", "peak RSS", "faults", "heap peak"),
    *("served by", "status"),
)
VERDICT_COLUMN, MEMORY_COLUMN, SERVED_COLUMN, STATUS_COLUMN = 3, 5, 8, 9
TREE_PEAK = "tree peak"  # the memory column where trees are what matters
TEXT_COLUMNS = (0, VERDICT_COLUMN, SERVED_COLUMN, STATUS_COLUMN)
# Statuses of which somebody must be told.
WRONG = {"failed", "different-output", "out-of-reach"}
# Where the terminal is too narrow for all; the status first, if all are well.
LEAST_WANTED = (STATUS_COLUMN, SERVED_COLUMN, 6, 4, 7, 1, 5, VERDICT_COLUMN)


def as_document(comparison: Comparison, machine: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything that was measured, docs/compare-format.md. `machine`: if it is known already."""
    plan = comparison.plan
    return {
        "schema": SCHEMA,
        "command": list(plan.command),
        "date": comparison.started.isoformat(timespec="seconds"),
        "machine": machine or machine_facts() | {"lacks": capabilities.lacking()},
        "baseline": comparison.baseline.allocator.spec,
        "rounds": comparison.rounds(),
        "confidence": comparison.confidence(),
        "threshold": plan.threshold,
        "others_cpus": comparison.load.processors(),
        "until": None if plan.until is None else _until(comparison),
        "settings": {
            "warmup": plan.warmup,
            "prepare": plan.prepare,
            "input": plan.input,
            "timeout_seconds": plan.timeout,
            "ignore_failure": plan.ignore_failure,
            "check": plan.check,
            "latency": plan.latency,
            "duet": plan.duet,
        },
        "deterministic": comparison.deterministic(),
        "interrupted": comparison.interrupted,
        "incomplete": comparison.incomplete,
        "results": [_result(comparison, contender) for contender in comparison.contenders],
        "server": server_document(comparison),
        "sites": comparison.sites,
        "witness": comparison.witness,
    }


def _until(comparison: Comparison) -> dict[str, Any]:
    return {
        "half_width": comparison.plan.until,
        "most_rounds": comparison.plan.most_rounds,
        "looks": comparison.looks,
        "reached": comparison.is_narrow(),
    }


def as_json(document: Mapping[str, Any]) -> str:
    return files.as_json(document, indent=2)


def _result(comparison: Comparison, contender: Contender) -> dict[str, Any]:
    allocator = contender.allocator
    methods = {run.tree_peak_method for run in contender.runs if run is not None}
    result: dict[str, Any] = {
        "allocator": allocator.name,
        "spec": allocator.spec,
        "preset": allocator.preset,
        "options": allocator.options,
        "version": allocator.version,
        "build": allocator.build,
        "status": comparison.status(contender),
        "failure": contender.failure and dataclasses.asdict(contender.failure),
    }
    for quantity in QUANTITIES:
        summary = comparison.summary(contender, quantity)
        result[quantity] = summary and dataclasses.asdict(summary)
        if summary is not None:
            result[quantity]["verdict"] = verdict_of(comparison, contender, summary)
    result |= server_result(comparison, contender)
    is_tree = result["tree_peak_bytes"] is not None
    result["tree_peak_method"] = methods.pop() if is_tree and len(methods) == 1 else None
    result["served"] = contender.served
    result["served_missing"] = contender.served_missing
    result["heap"] = contender.heap
    result["heap_missing"] = contender.heap_missing
    result["latency"] = contender.latency
    result["latency_missing"] = contender.latency_missing
    return result


CSV_COLUMNS = (
    *("allocator", "status", "quantity", "median", "low", "high"),
    *("ratio", "ratio_low", "ratio_high", "interval", "coverage", "rounds", "verdict"),
)


def as_csv(comparison: Comparison) -> str:
    """One line per allocator and quantity; what is lacking is left empty."""
    lines: list[Sequence[Any]] = [CSV_COLUMNS]
    rising = rising_quantities(comparison)
    for contender in comparison.contenders:
        known = {"allocator": contender.allocator.spec, "status": comparison.status(contender)}
        for quantity in comparison.quantities():
            summary = comparison.summary(contender, quantity)
            values = dataclasses.asdict(summary) if summary else {}
            if summary:
                values["rounds"] = sum(value is not None for value in summary.rounds)
                more_is_better = quantity in rising
                values["verdict"] = verdict_of(comparison, contender, summary, more_is_better)
            cells = known | {"quantity": quantity} | values
            lines.append([cells.get(column) for column in CSV_COLUMNS])
    return files.as_csv(lines)


def as_hyperfine_json(comparison: Comparison) -> str:
    """What hyperfine --export-json writes: times are wall seconds, user and system are means.
    Failed allocators are left out, for hyperfine's scripts know no missing figures; the scripts
    call a result by its command, so each has the allocator's name in front."""
    results = []
    command = shlex.join(comparison.plan.command)
    for contender in comparison.contenders:
        runs = [run for run in contender.runs if run is not None]
        if contender.failure is not None or not runs:
            continue
        times = [run.wall_seconds for run in runs]
        results.append(
            {
                "command": f"{contender.allocator.spec}: {command}",
                "mean": statistics.fmean(times),
                "stddev": statistics.stdev(times) if len(times) > 1 else None,
                "median": statistics.median(times),
                "user": statistics.fmean(run.user_seconds for run in runs),
                "system": statistics.fmean(run.system_seconds for run in runs),
                "min": min(times),
                "max": max(times),
                "times": times,
                "exit_codes": [run.exit_status for run in runs],
                "parameters": {"allocator": contender.allocator.spec},
            }
        )
    return files.as_json({"results": results}, indent=2)


def _ratio(summary: Summary | None) -> str:
    ratio = summary and summary.ratio_interval()
    return format_ratio(ratio.median, ratio.low, ratio.high) if ratio else "–"


def _heap(contender: Contender) -> str:
    if contender.heap is None or contender.heap["mapped_peak_bytes"] is None:
        return "–"
    text = format_bytes(contender.heap["mapped_peak_bytes"])
    fragmentation = contender.heap["fragmentation"]
    return text if fragmentation is None else f"{text} ({fragmentation:.2f})"


def memory_quantity(comparison: Comparison) -> str:
    """What the memory column shows."""
    measured = [contender for contender in comparison.contenders if contender.failure is None]
    trees = [comparison.summary(contender, "tree_peak_bytes") for contender in measured]
    largest = [comparison.summary(contender, "peak_rss_bytes") for contender in measured]
    return memory_that_matters(
        [
            (tree.median if tree else None, one.median if one else None)
            for tree, one in zip(trees, largest)
        ]
    )


def table_rows(comparison: Comparison) -> list[list[str]]:
    """The cells of the table, header first."""
    if comparison.plan.server is not None:
        return server_rows(comparison)
    memory = memory_quantity(comparison)
    rows = [list(COLUMNS)]
    if memory == "tree_peak_bytes":
        rows[0][MEMORY_COLUMN] = TREE_PEAK
    for contender in comparison.contenders:
        cpu, wall, peak, faults = (
            comparison.summary(contender, quantity)
            for quantity in ("cpu_seconds", "wall_seconds", memory, "minor_faults")
        )
        rows.append(
            [
                contender.allocator.spec,
                format_seconds(cpu.median) if cpu else "–",
                "baseline" if contender is comparison.baseline and cpu else _ratio(cpu),
                verdict_cell(comparison, contender, ("cpu_seconds", memory)),
                format_seconds(wall.median) if wall else "–",
                with_ratio(format_bytes(peak.median), peak) if peak else "–",
                format_count(faults.median) if faults else "–",
                _heap(contender),
                served.cell(contender.served),
                comparison.status(contender),
            ]
        )
    return rows


def legend(comparison: Comparison, titles: Sequence[str]) -> list[str]:
    """What the reader of the columns with these titles must know, and what went wrong."""
    if comparison.plan.server is not None:
        return [
            *server_legend(comparison, titles),
            *_memory_rule(comparison, titles),
            *_what_went_wrong(comparison, titles),
        ]
    baseline = comparison.baseline.allocator.spec
    count = sum(run is not None for run in comparison.baseline.runs)
    interval = interval_in_words(comparison, count)
    how = "duet" if comparison.plan.duet else "interleaved"
    rounds = f"1 {how} round" if count == 1 else f"{count} {how} rounds"
    has_memory = {COLUMNS[MEMORY_COLUMN], TREE_PEAK} & set(titles)
    in_parentheses = "; in parentheses: memory's ratio" if has_memory else ""
    lines = [
        f"Medians of {rounds}. ratio: CPU to {baseline}'s in the same round, median {interval}"
        f"{in_parentheses}."
        if count > 0
        else "No round was measured."
    ]
    if comparison.plan.duet:
        lines.append(
            "duet: all of a round at the same time on one processor, so no wall time is measured."
        )
    if "heap peak" in titles and any(contender.heap for contender in comparison.contenders):
        lines.append(f"{HEAP_PEAK} (over the most that the program asked for, from 64 KiB on).")
    if TREE_PEAK in titles:
        methods = {
            str(run.tree_peak_method)
            for contender in comparison.contenders
            for run in contender.runs
            if run is not None
        }
        lines.append(f"tree peak: all processes together ({', '.join(sorted(methods))}).")
    if comparison.deterministic() is False:
        lines.append(
            "nondeterministic: the output varies under glibc itself, so it proves nothing."
        )
    return [*lines, *_memory_rule(comparison, titles), *_what_went_wrong(comparison, titles)]


def _memory_rule(comparison: Comparison, titles: Sequence[str]) -> list[str]:
    """For whoever sees a verdict that says how much memory that is."""
    cells = [row[VERDICT_COLUMN] for row in table_rows(comparison)]
    if COLUMNS[VERDICT_COLUMN] not in titles or not any(" by " in cell for cell in cells):
        return []
    return [f"Memory: a difference below {LITTLE} does not count in the choice."]


def _allocations_by_command(comparison: Comparison) -> list[str]:
    """Those of the first contender that has any; the others' are in the page and in JSON."""
    for contender in comparison.contenders:
        if said := served.by_command(contender.served):
            return [f"Allocations by command, under {contender.allocator.spec}: {said}."]
    return []


def _what_went_wrong(comparison: Comparison, titles: Sequence[str]) -> list[str]:
    """And what collectors did."""
    lines = []
    if comparison.incomplete is not None:
        lines.append(f"Incomplete: {comparison.incomplete}.")
    if COLUMNS[SERVED_COLUMN] in titles and any(one.served for one in comparison.contenders):
        lines.append(
            "served by: whose malloc the command with most CPU really uses (its allocations)."
        )
        lines += _allocations_by_command(comparison)
    lines += served.notes([_result(comparison, one) for one in comparison.contenders])
    for contender in comparison.contenders:
        if contender.failure is not None:
            failure = contender.failure
            said = f": {failure.message}" if failure.message else ""
            lines.append(
                f"{contender.allocator.spec} failed ({failure.when}): {failure.ending}{said}"
            )
        collector = contender.heap and contender.heap["collector"]
        if collector:
            lines.append(f"{contender.allocator.spec}: {collections_line(collector)}.")
        if contender.heap_missing is not None:
            lines.append(f"{contender.allocator.spec}: no heap account, {contender.heap_missing}")
    return lines


def as_markdown(comparison: Comparison, advice: Sequence[Sentence] = ()) -> str:
    rows = table_rows(comparison)
    table = markdown_table(rows, left=(0, len(rows[0]) - 1))
    lines = [markdown_code(shlex.join(comparison.plan.command)), "", *table]
    load = load_rows(comparison) if comparison.plan.server else []
    if load[1:]:
        lines += ["", "What the load said:", "", *markdown_table(load, (0, 1, 4))]
    for sentence in advice:
        lines += ["", f"**{sentence.title}:** {sentence.text}"]
    for line in legend(comparison, rows[0]):
        lines += ["", line]
    return "\n".join(lines) + "\n"


def _least_wanted(comparison: Comparison, statuses: Sequence[str]) -> list[int]:
    """Who served whom is the first to go where everyone served, and the last where not."""
    least = list(LEAST_WANTED if comparison.plan.server is None else SERVER_LEAST_WANTED)
    if any(status != "ok" for status in statuses):
        least.remove(STATUS_COLUMN)
    if served.notes([_result(comparison, one) for one in comparison.contenders]):
        least.remove(SERVED_COLUMN)
        least.append(SERVED_COLUMN)
    return least


def _is_empty(rows: Sequence[Sequence[str]], column: int) -> bool:
    """As the wall times of a duet, and the heaps of peers."""
    return all(row[column] == "–" for row in rows[1:])


def _columns(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> list[list[str]]:
    return [[row[column] for column in columns] for row in rows]


def print_comparison(console: Console, comparison: Comparison) -> None:
    """The table, as much of it as fits, and what its reader must know."""
    rows = table_rows(comparison)
    statuses = [comparison.status(contender) for contender in comparison.contenders]
    filled = [column for column in range(len(rows[0])) if not _is_empty(rows, column)]
    least = [filled.index(one) for one in _least_wanted(comparison, statuses) if one in filled]
    fitting = columns_that_fit(_columns(rows, filled), table_width(console), least)
    kept = [filled[place] for place in fitting]
    styles = ["red" if status in WRONG else "" for status in statuses]
    left = [place for place, column in enumerate(kept) if column in TEXT_COLUMNS]
    shown = _columns(rows, kept)
    print_table(console, shown, left=left, styles=styles)
    for line in legend(comparison, [rows[0][column] for column in kept]):
        print_wrapped(console, line)
    if STATUS_COLUMN not in kept:
        print_wrapped(console, "All are ok.")
    left_out = [
        title
        for column, title in enumerate(rows[0])
        if column in filled and column not in kept and column != STATUS_COLUMN
    ]
    if left_out:
        print_wrapped(
            console,
            f"Left out at {console.width} columns: {', '.join(left_out)}; --markdown and --json "
            "have all.",
        )
