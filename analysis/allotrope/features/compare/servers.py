# SPDX-License-Identifier: MIT
"""What a comparison of a server shows beside, or instead of, what one of a command shows: CPU time
per request, the load's own figures, and memory over time."""

import dataclasses
from typing import Any, Sequence

from ...output.units import format_bytes, format_figure, format_ratio, format_seconds
from ...statistics.intervals import Summary
from ..reach import served
from ..server.metrics import REQUESTS, THROUGHPUT, Metric
from ..server.plan import divide_processors
from ..server.run import METRIC, ServerRun
from .comparison import QUANTITIES as COMMAND_QUANTITIES
from .comparison import Comparison, Contender
from .judged import interval_in_words, verdict_cell, verdict_of

PER_REQUEST = "cpu_per_request_seconds"
HEAP_PEAK = (
    "heap peak: the most addresses that the heap had from the system, whether the program touched "
    "them or not, its own tables included, without what is mapped ahead of its blocks"
)
# As output.py's, for the columns below.
LEAST_WANTED = (9, 8, 7, 6, 4, 1, 5, 3)


def rising_quantities(comparison: Comparison) -> set[str]:
    """Those of which more is better."""
    return {METRIC + one.name for one in comparison.known_metrics() if one.more_is_better}


# JSON


def server_document(comparison: Comparison) -> dict[str, Any] | None:
    """The "server" of a comparison's JSON."""
    plan = comparison.plan.server
    if plan is None:
        return None
    processors = divide_processors()
    run = comparison.reference_run
    return {
        **{key: getattr(plan, key) for key in ("server", "ready", "load", "setup", "cleanup")},
        "ready_timeout_seconds": plan.ready_timeout,
        "stop_timeout_seconds": plan.stop_timeout,
        "server_processors": list(processors.server),
        "load_processors": list(processors.load),
        "metrics": [dataclasses.asdict(one) for one in comparison.known_metrics()],
        "cpu_quantity": comparison.cpu_quantity(),
        "killed": bool(run and run.killed),
    }


def server_result(comparison: Comparison, contender: Contender) -> dict[str, Any]:
    """What a result has only for a server."""
    if comparison.plan.server is None:
        return {}

    rising = rising_quantities(comparison)

    def summary(quantity: str) -> dict[str, Any] | None:
        found = comparison.summary(contender, quantity)
        if found is None:
            return None
        verdict = verdict_of(comparison, contender, found, quantity in rising)
        return dataclasses.asdict(found) | {"verdict": verdict}

    own = [quantity for quantity in comparison.quantities() if quantity not in COMMAND_QUANTITIES]
    result: dict[str, Any] = {quantity: summary(quantity) for quantity in own}
    runs = [run for run in contender.runs if isinstance(run, ServerRun) and run.timeline]
    last = runs[-1].timeline if runs and contender.failure is None else None
    result["memory_timeline"] = last and {
        "seconds": [round(at, 4) for at, _ in last],
        "bytes": [size for _, size in last],
    }
    return result


# The table


def title_of(metric: str) -> str:
    """With its unit, where it is known: what is called p99_us has it in its name."""
    return f"{metric}/s" if metric == THROUGHPUT else metric


def with_ratio(text: str, summary: Summary) -> str:
    return text if summary.ratio is None else f"{text} ({summary.ratio:.2f})"


def _tail(known: Sequence[Metric]) -> Metric | None:
    """The metric that says how slow the slowest are."""
    less = [one for one in known if not one.more_is_better]
    return next((one for one in less if one.name.startswith("p99")), less[0] if less else None)


def _shown(comparison: Comparison) -> tuple[Metric | None, Metric | None]:
    """The metrics that the table has room for."""
    return shown_of(comparison.known_metrics())


def shown_of(known: Sequence[Metric]) -> tuple[Metric | None, Metric | None]:
    """How much was done in a second, and how slow the slowest were."""
    rates = [one for one in known if one.more_is_better and one.name != REQUESTS]
    rate = next((one for one in rates if one.name == THROUGHPUT), rates[0] if rates else None)
    return rate, _tail(known)


def server_rows(comparison: Comparison) -> list[list[str]]:
    """As of a command, header first, in the same order of importance."""
    rate, tail = _shown(comparison)
    per_request = comparison.cpu_quantity() == PER_REQUEST
    header = ["allocator", "CPU µs/request" if per_request else "CPU s", "ratio", "CPU, memory"]
    header += [title_of(rate.name) if rate else "load s", "memory"]
    header += [tail.name if tail else "at end"]
    rows = [[*header, "heap peak", "served by", "status"]]
    for contender in comparison.contenders:
        rows.append(_row(comparison, contender, rate, tail))
    return rows


def _row(
    comparison: Comparison, contender: Contender, rate: Metric | None, tail: Metric | None
) -> list[str]:
    quantity = comparison.cpu_quantity()
    cpu = comparison.summary(contender, quantity)
    peak = comparison.summary(contender, "tree_peak_bytes")
    end = comparison.summary(contender, "memory_end_bytes")
    wall = comparison.summary(contender, "wall_seconds")
    heap = contender.heap and contender.heap["mapped_peak_bytes"]
    verdict = verdict_cell(comparison, contender, (quantity, "tree_peak_bytes"))
    cells = [contender.allocator.spec, "–", "–", verdict]
    if cpu is not None:
        scaled = format_figure(1e6 * cpu.median)
        cells[1] = scaled if quantity == PER_REQUEST else format_seconds(cpu.median)
        cells[2] = "baseline" if contender is comparison.baseline else _interval(cpu)
    if rate is not None:
        cells.append(_metric_cell(comparison, contender, rate))
    else:
        cells.append(format_seconds(wall.median) if wall else "–")
    cells.append(with_ratio(format_bytes(peak.median), peak) if peak else "–")
    if tail is not None:
        cells.append(_metric_cell(comparison, contender, tail))
    else:
        cells.append(with_ratio(format_bytes(end.median), end) if end else "–")
    cells.append(format_bytes(heap) if heap else "–")
    return [*cells, served.cell(contender.served), comparison.status(contender)]


def _interval(summary: Summary) -> str:
    ratio = summary.ratio_interval()
    return format_ratio(ratio.median, ratio.low, ratio.high) if ratio else "–"


def _metric_cell(comparison: Comparison, contender: Contender, one: Metric) -> str:
    summary = comparison.summary(contender, METRIC + one.name)
    return with_ratio(format_figure(summary.median), summary) if summary else "–"


def load_rows(comparison: Comparison) -> list[list[str]]:
    """The load's own figures that the table shows, with their intervals and verdicts; header
    first."""
    rows = [["figure", "allocator", "median", "ratio", "verdict"]]
    for one in filter(None, _shown(comparison)):
        for contender in comparison.contenders:
            summary = comparison.summary(contender, METRIC + one.name)
            if summary is None:
                continue
            is_baseline = contender is comparison.baseline
            verdict = verdict_of(comparison, contender, summary, one.more_is_better)
            ratio = "baseline" if is_baseline else _interval(summary)
            cells = [title_of(one.name), contender.allocator.spec, format_figure(summary.median)]
            rows.append([*cells, ratio, verdict or "–"])
    return rows


def server_legend(comparison: Comparison, titles: Sequence[str]) -> list[str]:
    """What the reader of the columns with these titles must know."""
    count = sum(run is not None for run in comparison.baseline.runs)
    if count == 0:
        return ["No round was measured."]
    interval = interval_in_words(comparison, count)
    starts = "1 start" if count == 1 else f"{count} interleaved starts"
    beside = {"memory", "at end", *(title_of(one.name) for one in comparison.known_metrics())}
    others = "; others in parentheses" if beside & set(titles) else ""
    held = " memory: the most that all its processes held (PSS, looked at every 50 ms)."
    memory = held if {"memory", "CPU, memory"} & set(titles) else ""
    lines = [
        f"Medians of {starts} of the server. CPU: of the server's processes while the load "
        f"lasted. ratio: to {comparison.baseline.allocator.spec}'s in the same round, median "
        f"{interval}{others}.{memory}"
    ]
    if "heap peak" in titles and any(contender.heap for contender in comparison.contenders):
        lines.append(f"{HEAP_PEAK}; of the process with the largest heap.")
    return [*lines, *_cautions(comparison)]


def _cautions(comparison: Comparison) -> list[str]:
    plan, run, lines = comparison.plan.server, comparison.reference_run, []
    if divide_processors().shared:
        lines.append("The machine has one processor: the load and the server took turns on it.")
    if plan is not None and run is not None and run.killed:
        lines.append(
            f"The server does not end within {plan.stop_timeout:g} s of TERM and was killed each "
            "time, after it was measured; raise --stop-timeout, or tell it to heed TERM."
        )
    names = [one.name for one in comparison.known_metrics()]
    if not names:
        lines.append(
            "The load prints no figures that are known here; --metric 'requests=REGEX' gives CPU "
            "per request, --metric 'throughput=REGEX' how much it did in a second."
        )
    elif REQUESTS not in names:
        lines.append(
            "The load does not print how many requests there were; --metric 'requests=REGEX' "
            "gives CPU per request."
        )
    return lines
