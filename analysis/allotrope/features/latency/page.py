# SPDX-License-Identifier: MIT
"""The latencies of a comparison as a section of its page."""

from typing import Any, Mapping, Sequence

from ...output.page import Figure, Section, Table, axis, colour, layout, plain
from ...output.plots import legend, times_axis
from ...output.units import format_nanoseconds
from .measure import CALLS, count_calls
from .output import Result, latency_rows, latency_words

LEAST_SHARE = 0.01  # of an allocator's calls: a kind that is rarer has no picture


def latency_sections(document: Mapping[str, Any], prefix: str) -> list[Section]:
    results = document["results"]
    if not any(one.get("latency") or one.get("latency_missing") for one in results):
        return []
    figures = [_figure(prefix, call, results) for call in CALLS if _is_common(call, results)]
    rows = latency_rows(results)
    tables = [Table("How long calls took", rows[0], rows[1:], text_columns=2)] if rows[1:] else []
    return [Section("How long calls take", latency_words(results), figures, tables)]


def _is_common(call: str, results: Sequence[Result]) -> bool:
    tallies = [count_calls(one["latency"]["calls"]) for one in results if one.get("latency")]
    known = [tally for tally in tallies if call in tally]
    return any(tally[call] >= LEAST_SHARE * sum(tally.values()) for tally in known)


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
            "name": plain(results[place]["spec"]),
            "x": [time for time, _ in curve],
            "y": [share for _, share in curve],
            "line": {"color": colour(place), "width": 1.5, "shape": "hv"},
            "text": [
                f"{share:.3g} of the calls took {format_nanoseconds(time)} or longer"
                for time, share in curve
            ],
            "hovertemplate": f"<b>{plain(results[place]['spec'])}</b><br>%{{text}}<extra></extra>",
        }
        for place, curve in curves.items()
    ]
    rarest = min(share for curve in curves.values() for _, share in curve)
    shares = _powers(1 / rarest)
    one_in = {"tickvals": [1 / one for one in shares], "ticktext": [*map(_short, shares)]}
    return Figure(
        name=f"{prefix}latency-{call}",
        title=call,
        caption="How many of the calls took so long or longer: one in how many. Both axes are "
        "logarithmic; lower is better, and a long tail to the right is what a waiting user meets.",
        data=data,
        layout=layout(
            xaxis=times_axis("", (time for curve in curves.values() for time, _ in curve)),
            yaxis=axis("one in", type="log", **one_in),
            showlegend=True,
            legend=legend(),
        ),
        height=380,
    )


def share_above(histogram: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Times in nanoseconds, each with the share of the calls that took as long or longer."""
    left = calls = histogram["calls"]
    points = [(1.0, 1.0)]
    below = histogram["calls_below_ns"].items()
    for end, count in sorted((int(end), count) for end, count in below):
        left -= count
        if left > 0 and end > 1:
            points.append((float(end), left / calls))
    return [*points, (max(float(histogram["longest_ns"]), points[-1][0]), 1 / calls)]


def _powers(last: float) -> list[int]:
    """Powers of ten from 1, at most eight of them."""
    found = [1]
    while found[-1] < last:
        found.append(10 * found[-1])
    return found[:: -(-len(found) // 8)]


def _short(number: int) -> str:
    for unit, size in (("M", 1_000_000), ("K", 1000)):
        if number >= size:
            return f"{number // size}{unit}"
    return str(number)
