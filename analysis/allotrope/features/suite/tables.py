# SPDX-License-Identifier: MIT
"""The tables of a suite or a scan, from its document (docs/suites.md).

A suite has a row for each program and a column for each allocator. On a terminal a cell is the
ratio with a mark for its verdict, so that a dozen allocators stand side by side; elsewhere (`full`)
it has the interval and the verdict in words. A scan has few contenders and asks how their ratios
move: there each row is one contender at one value.
"""

from typing import Any, Mapping, NamedTuple

from ...output.sentences import LITTLE, enumerate_names
from ...output.units import (
    format_bytes,
    format_figure,
    format_percent,
    format_ratio,
    format_ratio_of,
    format_time,
)
from ...statistics.intervals import LEAST_JUDGED_ROUNDS, RANGE
from ...statistics.verdicts import THRESHOLD, Interval, Outcome, Weight, is_told
from ..compare.judged import difference_of, verdict_in_words
from ..compare.servers import PER_REQUEST, shown_of, title_of
from ..reach.served import cell
from ..server.metrics import Metric
from ..server.run import METRIC
from .means import (
    MEMORY,
    QUANTITIES,
    key_of,
    pooled_weight,
    replicate,
    shown_mean,
    verdict_of_mean,
)

Document = Mapping[str, Any]
MARKS = {Outcome.BETTER: "*", Outcome.WORSE: "*", Outcome.SAME: "=", Outcome.NOT_DECIDED: "?"}
# Instead, where a difference of memory is better or worse and yet little, or perhaps so.
WEIGHT_MARKS = {Weight.LITTLE: "~", Weight.OPEN: "~?"}


class Listing(NamedTuple):
    title: str
    rows: list[list[str]]  # header first
    left: tuple[int, ...] = (0,)  # the columns of words
    by_row: bool = False  # where it is too wide, rows become paragraphs; else it is divided


def is_scan(document: Document) -> bool:
    """Whether the programs are one command with several values. Documents of before do not say."""
    return bool(document.get("varied"))


def part_word(document: Document) -> str:
    """What its parts are called."""
    return "value" if is_scan(document) else "program"


def tables(document: Document, full: bool = False) -> list[Listing]:
    """All that are shown; the last only where it is known who served."""
    found = []
    if not is_scan(document):
        title = "Geometric means of the ratios to the baseline"
        found.append(Listing(title, means_rows(document, full)))
    by = part_word(document)
    found += [
        listing(document, f"{cpu_title(document)} by {by}", "cpu_seconds", full),
        listing(document, f"Peak memory by {by}", MEMORY, full),
        *load_tables(document, full),
    ]
    who = served_rows(document)
    if who[1:]:
        found.append(Listing("Served by (allocations of the command with most CPU)", who))
    return found


def load_tables(document: Document, full: bool = False) -> list[Listing]:
    """What the loads said, of the metrics that a single server's table has room for."""
    known = {one["name"]: Metric(**one) for of in servers_of(document) for one in of["metrics"]}
    by = part_word(document)
    found = []
    for one in filter(None, shown_of(list(known.values()))):
        order = "more" if one.more_is_better else "less"
        title = f"{title_of(one.name)} of the load, by {by} ({order} is better)"
        found.append(listing(document, title, METRIC + one.name, full))
    return found


def listing(document: Document, title: str, quantity: str, full: bool) -> Listing:
    """A quantity, program by program or value by value."""
    if is_scan(document):
        return Listing(title, value_rows(document, quantity), left=(0, 1, 4), by_row=True)
    return Listing(title, program_rows(document, quantity, full))


def legend(document: Document, full: bool = False) -> list[str]:
    """What the reader of the tables must know."""
    base = document["baseline"]
    if not full and not is_scan(document):
        return [f"Ratios to {base}. {marks_legend()}"]
    spread = f"{100 * document['confidence']:.3g}% interval"
    measured, ranges = _with_figures(document)
    if not measured:
        return []
    if ranges:
        needs = f"range; an interval needs {LEAST_JUDGED_ROUNDS} rounds"
        spread = (
            needs if ranges == measured else f"{spread}; of {enumerate_names(ranges)} a {needs}"
        )
    return [
        f"Ratios are to {base}'s in the same round, medians [{spread}]; verdicts are at "
        f"{format_percent(THRESHOLD)}."
    ]


def marks_legend() -> str:
    return (
        f"* better or worse: the interval lies beyond {format_percent(THRESHOLD)}; = the same "
        f"within that; ? not decided; {WEIGHT_MARKS[Weight.LITTLE]} better or worse by less than "
        f"{LITTLE}, {WEIGHT_MARKS[Weight.OPEN]} perhaps so. --markdown and --json have the "
        "intervals."
    )


def mark_of(verdict: str, weight: Weight) -> str:
    """weight: of the difference, if it is of memory."""
    mark = MARKS[Outcome(verdict)]
    return WEIGHT_MARKS.get(weight, mark) if is_told(verdict) else mark


def _with_figures(document: Document) -> tuple[list[str], list[str]]:
    """The programs that have some, and those of them that have a range: an interrupted suite has
    rounds enough of some."""
    kinds = {
        name_of(entry): result["cpu_seconds"]["interval"]
        for entry in document["programs"]
        for result in (entry["comparison"] or {"results": ()})["results"]
        if result["cpu_seconds"]
    }
    return list(kinds), [name for name, kind in kinds.items() if kind == RANGE]


# The means


def means_rows(document: Document, full: bool = False) -> list[list[str]]:
    wall = "load time" if servers_of(document) else "wall"
    rows = [["allocator", cpu_title(document), wall, "peak memory", "faults", "programs"]]
    for spec, found in document["means"].items():
        cpu = found["cpu_seconds"]
        cells = [_mean_cell(*shown_mean(found, quantity), full) for quantity in QUANTITIES]
        if spec == document["baseline"]:
            cells = ["baseline" if found[quantity] else "–" for quantity in QUANTITIES]
        rows.append([spec, *cells, str(cpu["programs"]) if cpu else "0"])
    return rows


def _mean_cell(mean: Mapping[str, Any] | None, weight: Weight, full: bool) -> str:
    if mean is None:
        return "–"
    ratio = format_ratio(mean["ratio"], mean["low"], mean["high"])
    return _with_verdict(ratio, verdict_of_mean(mean), full, weight)


def _with_verdict(
    ratio: str, verdict: str | None, full: bool, weight: Weight, ends: Interval | None = None
) -> str:
    """In words, or as a mark (legend)."""
    if verdict is None:
        return ratio
    if full:
        return f"{ratio} {verdict_in_words(verdict, weight, ends)}"
    return ratio + mark_of(verdict, weight)


# Program by program


def name_of(entry: Mapping[str, Any]) -> str:
    """A program's name, with the machine that measured it on a cluster. Documents of before have
    no host."""
    host = entry.get("host")
    return f"{entry['name']} ({host})" if host else str(entry["name"])


def status_in_words(entry: Mapping[str, Any]) -> str:
    """In words, of a program without figures."""
    return str(entry["status"]).replace("-", " ")


def baseline_of(comparison: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Its result."""
    named = (one for one in comparison["results"] if one["spec"] == comparison["baseline"])
    return next(named, None)


def program_rows(document: Document, quantity: str, full: bool = False) -> list[list[str]]:
    """The ratio of each program and allocator, header first."""
    specs = [allocator["spec"] for allocator in document["allocators"]]
    rows = [["program", *specs]]
    for entry in document["programs"]:
        comparison = entry["comparison"]
        if comparison is None:
            rows.append([name_of(entry), status_in_words(entry), *[""] * (len(specs) - 1)])
            continue
        key, base = key_of(comparison, quantity), baseline_of(comparison)
        cells = (_cell(one, base, key, full) for one in comparison["results"])
        rows.append([name_of(entry), *cells])
    for name in document.get("pooled") or ():
        cells = (_pooled_cell(document, name, spec, quantity, full) for spec in specs)
        rows.append([f"{name} ({replicate(document)} machines)", *cells])
    return rows


def _cell(result: Mapping[str, Any], base: Mapping[str, Any] | None, key: str, full: bool) -> str:
    summary, status = result.get(key), str(result["status"])
    if summary is None or summary["ratio"] is None:
        return "–" if status == "ok" else status
    if not full:
        ratio = f"{summary['ratio']:.2f}"
    elif result is base:
        ratio = "baseline"
    else:
        ratio = format_ratio_of(summary)
    if full and status != "ok":
        return f"{ratio} {status}"
    return _with_verdict(ratio, summary.get("verdict"), full, *difference_of(key, result, base))


def _pooled_cell(document: Document, name: str, spec: str, quantity: str, full: bool) -> str:
    mean = document["pooled"][name][spec].get(quantity)
    if mean is None:
        return "–"
    if spec == document["baseline"]:
        return "baseline" if full else f"{mean['ratio']:.2f}"
    weight = pooled_weight(document, name, spec) if quantity == MEMORY else Weight.MUCH
    if full:
        return _mean_cell(mean, weight, full)
    return _with_verdict(f"{mean['ratio']:.2f}", verdict_of_mean(mean), full, weight)


def served_rows(document: Document) -> list[list[str]]:
    """Whose malloc the command with most CPU used, header first; no more where nobody knows."""
    rows = [[part_word(document), *(allocator["spec"] for allocator in document["allocators"])]]
    for entry in document["programs"]:
        comparison = entry["comparison"]
        if comparison is not None and any(one.get("served") for one in comparison["results"]):
            cells = [cell(one.get("served")) for one in comparison["results"]]
            rows.append([name_of(entry), *cells])
    return rows


# Value by value


def value_rows(document: Document, quantity: str) -> list[list[str]]:
    """Of a scan: each contender at each value, header first."""
    rows = [["value", "allocator", "median", f"ratio to {document['baseline']}", "verdict"]]
    for entry in document["programs"]:
        comparison = entry["comparison"]
        if comparison is None:
            rows.append([name_of(entry), "–", "–", "–", status_in_words(entry)])
            continue
        key, base = key_of(comparison, quantity), baseline_of(comparison)
        for result in comparison["results"]:
            rows.append([name_of(entry), result["spec"], *_reading(result, base, key)])
    return rows


def _reading(
    result: Mapping[str, Any], base: Mapping[str, Any] | None, key: str
) -> tuple[str, str, str]:
    """Median, ratio and verdict."""
    summary, status = result.get(key), str(result["status"])
    verdict = "–" if status == "ok" else status
    if summary is None:
        return "–", "–", verdict
    median = _write(key, summary["median"])
    if result is base or summary["ratio"] is None:
        return median, "baseline" if result is base else "–", verdict
    if summary.get("verdict"):
        verdict = verdict_in_words(summary["verdict"], *difference_of(key, result, base))
    return median, format_ratio_of(summary), verdict


def _write(key: str, value: float) -> str:
    """A figure of a quantity."""
    if key.endswith("_bytes"):
        return format_bytes(value)
    return format_time(value) if key.endswith("_seconds") else format_figure(value)


# Servers


def servers_of(document: Document) -> list[Mapping[str, Any]]:
    """What the programs' comparisons say of their servers; of commands nothing."""
    entries = [entry["comparison"] for entry in document["programs"] if entry["comparison"]]
    return [one["server"] for one in entries if one.get("server")]


def cpu_title(document: Document) -> str:
    """What the column and the table of CPU are of."""
    quantities = {server["cpu_quantity"] for server in servers_of(document)}
    return "CPU a request" if quantities == {PER_REQUEST} else "CPU"
