# SPDX-License-Identifier: MIT
"""How long each call of an allocator took: the histograms that the library wrote
(allotrope.latency/1), as figures, a table and pictures of a comparison."""

import json
from pathlib import Path
from typing import Any, Mapping, Sequence

from ...output.page import Figure, Section, Table, axis, colour, layout, plain
from ...output.units import format_nanoseconds

CALLS = ("malloc", "free", "calloc", "realloc", "aligned")
QUANTILES = (("p50_ns", "half below"), ("p99_ns", "99% below"), ("p99.9_ns", "99.9% below"),
             ("longest_ns", "longest"))  # fmt: skip
LEAST_SHARE = 0.01  # of an allocator's calls: a kind that is rarer has no picture

Result = Mapping[str, Any]


def read_latencies(folder: Path) -> dict[str, Any] | None:
    """Those of the process that called most, from what a command's processes wrote; None when
    there are none."""
    documents = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    if not documents:
        return None
    most = max(documents, key=lambda one: sum(_calls(one).values()))
    return {
        "command": most["command"],
        "processes": len(documents),
        "own_cost_ns_subtracted": most["own_cost_ns_subtracted"],
        "calls": {call: most[call] for call in CALLS if call in most},
    }


def _calls(histograms: Mapping[str, Any]) -> dict[str, int]:
    return {call: histograms[call]["calls"] for call in CALLS if call in histograms}


def latency_rows(results: Sequence[Result]) -> list[list[str]]:
    """By call, so that allocators stand below each other; header first."""
    rows = [["call", "allocator", "calls", *(title for _, title in QUANTILES)]]
    for call in CALLS:
        first = True
        for one in results:
            found = (one["latency"] or {"calls": {}})["calls"].get(call)
            if found:
                figures = [format_nanoseconds(found[key]) for key, _ in QUANTILES]
                rows.append([call if first else "", one["spec"], f"{found['calls']:,}", *figures])
                first = False
    return rows


def latency_words(results: Sequence[Result]) -> list[str]:
    """What the reader of the figures must know, and who has none."""
    known = [one for one in results if one["latency"]]
    lines = [f"{one['spec']}: {one['latency_missing']}." for one in results
             if one["latency_missing"]]  # fmt: skip
    if not known:
        return lines
    costs = {one["latency"]["own_cost_ns_subtracted"] for one in known}
    slower = [
        one["latency"]["cpu_seconds"] / one["cpu_seconds"]["median"]
        for one in known
        if one["cpu_seconds"] and one["cpu_seconds"]["median"]
    ]
    text = (
        "Every call was timed, in one more run of each allocator. Looking at the clock takes "
        f"{_span([format_nanoseconds(cost) for cost in sorted(costs)])}, which is subtracted"
    )
    if slower:
        text += f"; that run took {_span([f'{one:.2f}' for one in sorted(slower)])} times the CPU"
    text += (
        ". Figures are at most a quarter too large, from some 20 ns on; below that the clock is "
        "too coarse to tell."
    )
    return [text, *lines]


def _span(texts: Sequence[str]) -> str:
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def latency_sections(document: Mapping[str, Any], prefix: str) -> list[Section]:
    results = document["results"]
    if not any(one.get("latency") or one.get("latency_missing") for one in results):
        return []
    figures = [_figure(prefix, call, results) for call in CALLS if _is_common(call, results)]
    rows = latency_rows(results)
    tables = [Table("How long calls took", rows[0], rows[1:], text_columns=2)] if rows[1:] else []
    return [Section("How long calls take", latency_words(results), figures, tables)]


def _is_common(call: str, results: Sequence[Result]) -> bool:
    tallies = [_calls(one["latency"]["calls"]) for one in results if one.get("latency")]
    return any(tally.get(call, 0) >= LEAST_SHARE * sum(tally.values()) for tally in tallies)


def _figure(prefix: str, call: str, results: Sequence[Result]) -> Figure:
    curves = {
        place: share_above(one["latency"]["calls"][call])
        for place, one in enumerate(results)
        if one.get("latency") and call in one["latency"]["calls"]
    }
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": results[place]["spec"],
            "x": [time for time, _ in curve],
            "y": [share for _, share in curve],
            "line": {"color": colour(place), "width": 1.5, "shape": "hv"},
            "text": [f"{share:.3g} of the calls took {format_nanoseconds(time)} or longer"
                     for time, share in curve],
            "hovertemplate": f"<b>{plain(results[place]['spec'])}</b><br>%{{text}}<extra></extra>",
        }
        for place, curve in curves.items()
    ]  # fmt: skip
    longest = max(time for curve in curves.values() for time, _ in curve)
    rarest = min(share for curve in curves.values() for _, share in curve)
    times = _powers(10, longest)
    shares = _powers(1, 1 / rarest)
    return Figure(
        name=f"{prefix}latency-{call}",
        title=call,
        caption="How many of the calls took so long or longer: one in how many. Both axes are "
        "logarithmic; lower is better, and a long tail to the right is what a waiting user meets.",
        data=data,
        layout=layout(
            xaxis=axis("", type="log", tickvals=times, ticktext=[*map(format_nanoseconds, times)]),
            yaxis=axis("one in", type="log", tickvals=[1 / one for one in shares],
                       ticktext=[_short(one) for one in shares]),
            showlegend=True,
            legend={"orientation": "h", "y": -0.2, "yanchor": "top"},
        ),
        height=380,
    )  # fmt: skip


def share_above(histogram: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Times in nanoseconds, each with the share of the calls that took as long or longer."""
    left = calls = histogram["calls"]
    points = [(1.0, 1.0)]
    for end, count in sorted((int(end), count) for end, count in
                             histogram["calls_below_ns"].items()):  # fmt: skip
        left -= count
        if left > 0 and end > 1:
            points.append((float(end), left / calls))
    return [*points, (max(float(histogram["longest_ns"]), points[-1][0]), 1 / calls)]


def _powers(first: int, last: float) -> list[int]:
    """Powers of ten, at most eight of them."""
    found = [first]
    while found[-1] < last:
        found.append(10 * found[-1])
    return found[:: -(-len(found) // 8)]


def _short(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("K", 1000)):
        if number >= size:
            return f"{number // size}{unit}"
    return str(number)
