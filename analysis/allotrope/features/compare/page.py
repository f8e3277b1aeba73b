# SPDX-License-Identifier: MIT
"""The page of one comparison, from its JSON (docs/compare-format.md)."""

from typing import Any, Callable, Mapping, Sequence

from ...output.page import (
    Figure,
    Page,
    Section,
    Table,
    axis,
    colour,
    layout,
    plain,
    render,
    symbol,
)
from ...output.plots import interval_bar, legend, ratio_layout
from ...output.sentences import counted
from ...output.units import (
    MEBIBYTE,
    format_bytes,
    format_count,
    format_percent,
    format_ratio_of,
    format_seconds_with_unit,
)
from ...statistics.intervals import RANGE
from ...statistics.verdicts import THRESHOLD
from ...system.allocators import own_version
from ..latency.page import latency_sections
from ..reach import served
from .findings import cpu_quantity, memory_quantity
from .heap_page import collector_sections, sites_sections, timeline_sections, waste_section
from .judged import coverage_in_words, difference_of, verdict_in_words
from .recommendation import recommend
from .server_page import (
    command_line,
    format_request_time,
    server_quantities,
    server_sections,
)
from .witness import witness_lines, witness_rows

Document = Mapping[str, Any]
Result = dict[str, Any]

# Quantity, its title, how a figure of it is written.
QUANTITIES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("cpu_seconds", "CPU time", format_seconds_with_unit),
    ("wall_seconds", "Wall time", format_seconds_with_unit),
    ("user_seconds", "CPU time in the program", format_seconds_with_unit),
    ("system_seconds", "CPU time in the kernel", format_seconds_with_unit),
    ("peak_rss_bytes", "Peak memory of the largest process", format_bytes),
    ("tree_peak_bytes", "Peak memory of all processes", format_bytes),
    ("minor_faults", "Minor page faults", format_count),
    ("major_faults", "Major page faults", format_count),
)


def quantities(document: Document) -> Sequence[tuple[str, str, Callable[[float], str]]]:
    """Those of a command, or of a server."""
    return server_quantities(document) if document.get("server") else QUANTITIES


def compare_page(document: Document) -> Page:
    return Page(
        title="Allocators compared",
        command=command_line(document),
        subtitle=f"{document['date']}, {counted(document['rounds'], 'round')}, "
        f"ratios to {document['baseline']} in the same round",
        advice=recommend(document),
        sections=sections(document),
    )


def as_html(page: Page) -> str:
    return render(page, own_version())


def sections(document: Document, prefix: str = "") -> list[Section]:
    """All of a comparison but the advice; `prefix` keeps the figures' names unique where a page
    shows several."""
    return [
        trade_off_section(document, prefix),
        *server_sections(document, prefix),
        quantities_section(document, prefix),
        waste_section(document, prefix),
        *timeline_sections(document, prefix),
        *collector_sections(document, prefix),
        *sites_sections(document, prefix),
        *latency_sections(document, prefix),
        *witness_sections(document),
        *served_sections(document),
        Section(
            "Figures",
            tables=[allocators_table(document), summary_table(document), rounds_table(document)],
        ),
        machine_section(document["machine"], settings(document)),
    ]


# CPU against memory


def trade_off_section(document: Document, prefix: str) -> Section:
    cpu, memory = cpu_quantity(document), memory_quantity(document)
    scale = 1e6 if cpu != "cpu_seconds" else 1
    shown = [
        (place, one) for place, one in enumerate(document["results"]) if one[cpu] and one[memory]
    ]
    if not shown:
        return Section("CPU against memory", ["Nothing was measured."])
    points = [(one[memory]["median"] / MEBIBYTE, scale * one[cpu]["median"]) for _, one in shown]
    front = pareto_front(points)
    data = [
        _front_line(front, points),
        *(_point(place, one, cpu, memory, scale) for place, one in shown),
    ]
    which = "all processes together" if memory == "tree_peak_bytes" else "the largest process"
    figure = Figure(
        name=f"{prefix}trade-off",
        title="CPU against memory",
        caption=f"Down is faster, left is leaner; memory is the peak of {which}. The bars are "
        f"the {spread_word(document)}s of the medians. Nothing measured lies below and left of "
        "the line.",
        data=data,
        layout=layout(
            xaxis=axis("peak memory, MiB", rangemode="normal"),
            yaxis=axis("CPU time, s" if scale == 1 else "CPU time, µs a request"),
            showlegend=True,
            legend=legend(),
        ),
        height=420,
    )
    return Section("CPU against memory", _absent(document), [figure])


def _absent(document: Document) -> list[str]:
    """What is not in the pictures, and why."""
    lines = []
    for result in document["results"]:
        if result["status"] == "failed":
            failure = result["failure"]
            lines.append(
                f"{result['spec']} is missing here: it failed in {failure['when']}, "
                f"{failure['ending']}."
            )
        elif result["cpu_seconds"] is None:
            lines.append(f"{result['spec']} is missing here: it was not measured.")
    return lines


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of which none has both coordinates at most as large and one smaller, by x."""
    front: list[tuple[float, float]] = []
    for point in sorted(set(points)):
        if not front or point[1] < front[-1][1]:
            front.append(point)
    return front


def _front_line(
    front: Sequence[tuple[float, float]], points: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    """The front's steps, drawn on to where the last points are."""
    top, right = max(y for _, y in points), max(x for x, _ in points)
    front = [(front[0][0], top), *front, (right, front[-1][1])]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "Pareto front",
        "x": [x for x, _ in front],
        "y": [y for _, y in front],
        "line": {"color": "var(--muted)", "width": 1.5, "dash": "dot", "shape": "hv"},
        "hoverinfo": "skip",
    }


def _point(place: int, result: Result, time: str, memory: str, scale: float) -> dict[str, Any]:
    cpu, space = result[time], result[memory]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(result["spec"]),
        "x": [space["median"] / MEBIBYTE],
        "y": [scale * cpu["median"]],
        "error_x": _bar(space, 1 / MEBIBYTE, place),
        "error_y": _bar(cpu, scale, place),
        "marker": {"color": colour(place), "symbol": symbol(place), "size": 11},
        "hovertemplate": f"<b>{plain(result['spec'])}</b><br>CPU "
        f"{_with_interval(cpu, format_seconds_with_unit if scale == 1 else format_request_time)}"
        f"<br>memory {_with_interval(space, format_bytes)}<extra></extra>",
    }


def _bar(summary: Result, scale: float, place: int) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [(summary["high"] - summary["median"]) * scale],
        "arrayminus": [(summary["median"] - summary["low"]) * scale],
        "color": colour(place),
        "thickness": 1.5,
        "width": 4,
    }


def _with_interval(summary: Result, write: Callable[[float], str]) -> str:
    text = f"{write(summary['median'])} [{write(summary['low'])}, {write(summary['high'])}]"
    if summary["ratio"] is not None:
        text += f", ratio {format_ratio_of(summary)}"
    return text


# The quantities, round by round


def quantities_section(document: Document, prefix: str) -> Section:
    paragraphs, figures = [], []
    for quantity, title, write in quantities(document):
        missing = _why_missing(document, quantity)
        if missing is not None:
            paragraphs.append(f"{title}: {missing}")
        else:
            figures.append(_strip(document, prefix, quantity, title, write))
    return Section("Round by round", paragraphs, figures)


def _why_missing(document: Document, quantity: str) -> str | None:
    known = [result[quantity] for result in document["results"] if result[quantity] is not None]
    if known and any(summary["ratio"] is not None for summary in known):
        return None
    if not known:
        if quantity == "tree_peak_bytes" and any(one["cpu_seconds"] for one in document["results"]):
            return "not measured; the command is a single process, or too short to be looked at."
        return "not measured."
    if all(value in (0, None) for summary in known for value in summary["rounds"]):
        return "there were none in any run."
    if any(value is not None and value < 0 for summary in known for value in summary["rounds"]):
        return "some figures are negative, so there is no ratio; see the table."
    base = document["baseline"]
    return f"{base} had none in some round, so there is no ratio; see the table."


def _strip(
    document: Document, prefix: str, quantity: str, title: str, write: Callable[[float], str]
) -> Figure:
    """A line of dots for each allocator, first round on top, above the interval of their median."""
    results = document["results"]
    base = next(one for one in results if one["spec"] == document["baseline"])[quantity]
    data, labels = [], []
    for place, result in enumerate(results):
        summary = result[quantity]
        labels.append(plain(result["spec"]) if summary else f"{plain(result['spec'])} (none)")
        if summary is not None and base is not None and summary["ratio"] is not None:
            data += _dots(place, result["spec"], summary, base, write)
    kind = next(one[quantity] for one in results if one[quantity])
    coverage = f"{coverage_in_words(kind['coverage'], document.get('until'))} interval"
    bar = "range" if kind["interval"] == RANGE else coverage
    return Figure(
        name=f"{prefix}{quantity.replace('_', '-')}",
        title=title,
        caption=f"Ratio to {document['baseline']} in the same round, first round on top. "
        f"Bar: {bar} of the median ratio; left of 1 is less.",
        data=data,
        layout=ratio_layout(labels, document["baseline"]),
        height=90 + 46 * len(results),
    )


def _dots(
    place: int, spec: str, summary: Result, base: Result, write: Callable[[float], str]
) -> list[dict[str, Any]]:
    rounds = [
        (number, value, value / other)
        for number, (value, other) in enumerate(zip(summary["rounds"], base["rounds"]), start=1)
        if value is not None and other
    ]
    depth = 0.5 / max(len(summary["rounds"]), 1)
    name = plain(spec)
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": [ratio for _, _, ratio in rounds],
        "y": [place - 0.35 + depth * number for number, _, _ in rounds],
        "text": [f"round {number}: {write(value)}, {ratio:.3f}" for number, value, ratio in rounds],
        "marker": {"color": colour(place), "size": 5, "opacity": 0.55},
        "hovertemplate": f"<b>{name}</b><br>%{{text}}<extra></extra>",
    }
    ratio = (summary["ratio_low"], summary["ratio"], summary["ratio_high"])
    hover = f"<b>{name}</b><br>{_with_interval(summary, write)}<extra></extra>"
    return [dots, interval_bar(place, place + 0.32, ratio, 11, hover)]


# What other tools say


def witness_sections(document: Document) -> list[Section]:
    found = document["witness"]
    if found is None:
        return []
    rows = witness_rows(found)
    tables = [Table("What other tools say", rows[0], rows[1:])] if rows[1:] else []
    return [Section("Independent witnesses", witness_lines(found), tables=tables)]


# Who served whom


def served_sections(document: Document) -> list[Section]:
    """Of a document that knows it."""
    known = [one for one in document["results"] if one.get("served")]
    if not known:
        return []
    rows = []
    for one in known:
        for place, row in enumerate(one["served"]["rows"]):
            count, cpu = row["allocations"], row["cpu_seconds"]
            rows.append(
                [
                    one["spec"] if place == 0 else "",
                    row["command"],
                    served.who(row),
                    {True: "yes", False: "no", None: "unknown"}[row["in_reach"]],
                    str(row["processes"]),
                    "–" if cpu is None else format_seconds_with_unit(cpu),
                    "–" if count is None else f"{count:,}",
                ]
            )
    header = ["allocator", "command", "served by", "in reach", "processes", "CPU", "allocations"]
    said = served.notes(document["results"])
    said.append(
        "Taken in one more run, untimed, in which every process is looked at when it ends: whose "
        "malloc its loader found."
    )
    return [
        Section("Who served", said, tables=[Table("By CPU time", header, rows, text_columns=3)])
    ]


# Tables


def spread_word(document: Document) -> str:
    """Few rounds have no interval."""
    known = next((one["cpu_seconds"] for one in document["results"] if one["cpu_seconds"]), None)
    return "range" if known is not None and known["interval"] == RANGE else "interval"


def summary_table(document: Document) -> Table:
    """By quantity, so that allocators stand below each other; a quantity that nobody has is left
    to the words above the pictures."""
    rows = []
    results = {one["spec"]: one for one in document["results"]}
    base = results.get(document["baseline"])
    for quantity, title, write in quantities(document):
        if any(result[quantity] for result in document["results"]):
            rows += [
                [
                    title if place == 0 else "",
                    result["spec"],
                    *_cells(result[quantity], write),
                    _verdict(quantity, result, base),
                ]
                for place, result in enumerate(document["results"])
            ]
    word = spread_word(document)
    header = ["quantity", "allocator", "median", word, f"ratio to {document['baseline']}"]
    within = format_percent(document.get("threshold", THRESHOLD))
    header.append(f"verdict at {within}")
    return Table(f"Medians with their {word}s", header, rows, text_columns=2)


def _cells(summary: Result | None, write: Callable[[float], str]) -> list[str]:
    if summary is None:
        return ["–", "–", "–"]
    interval = f"{write(summary['low'])} to {write(summary['high'])}"
    ratio = format_ratio_of(summary) if summary["ratio"] is not None else "–"
    return [write(summary["median"]), interval, ratio]


def _verdict(quantity: str, result: Result, base: Result | None) -> str:
    verdict = (result[quantity] or {}).get("verdict")  # documents of before have none
    return verdict_in_words(verdict or "–", *difference_of(quantity, result, base))


def allocators_table(document: Document) -> Table:
    rows = [
        [
            one["spec"],
            one["version"] or "unknown",
            one["status"],
            ", ".join(f"{key}={value}" for key, value in one["options"].items()),
        ]
        for one in document["results"]
    ]
    header = ["allocator", "version", "status", "options"]
    return Table("What was compared", header, rows, words=True)


def rounds_table(document: Document) -> Table:
    rows = [
        [result["spec"], quantity, *("–" if value is None else f"{value:.6g}" for value in values)]
        for result in document["results"]
        for quantity, _, _ in quantities(document)
        if result[quantity] and (values := result[quantity]["rounds"])
    ]
    header = ["allocator", "quantity", *(f"{number + 1}" for number in range(document["rounds"]))]
    return Table("Every round's raw figures", header, rows, text_columns=2, folded=True)


# The machine


def settings(document: Document) -> list[list[str]]:
    given = [
        [key.replace("_", " "), str(value)]
        for key, value in document["settings"].items()
        if value is not None
    ]
    return [["rounds", str(document["rounds"])], *given]


def machine_section(machine: Mapping[str, Any], asked: Sequence[Sequence[str]]) -> Section:
    """What the machine was, and what it lacked."""
    rows, unknown = [], []
    for key, value in machine.items():
        if key == "lacks":
            continue
        words = key.removesuffix("_bytes").replace("_", " ")
        if value is None:
            unknown.append(words)
        else:
            rows.append([words, format_bytes(value) if key.endswith("_bytes") else str(value)])
    lacks = [[one["name"], one["state"], one["consequence"]] for one in machine.get("lacks", ())]
    tables = [Table("What it was", [], rows, words=True)]
    if lacks:
        header = ["missing", "state", "what follows"]
        tables.append(Table("What it lacked", header, lacks, words=True))
    tables.append(Table("What was asked", [], asked, words=True))
    told = [f"This machine does not tell: {', '.join(unknown)}."] if unknown else []
    return Section("The machine", told, tables=tables)
