# SPDX-License-Identifier: MIT
"""The latencies of a comparison as rows, and in words."""

from typing import Any, Mapping, Sequence

from ...output.units import format_nanoseconds
from .measure import CALLS

QUANTILES = (
    ("p50_ns", "half below"),
    ("p99_ns", "99% below"),
    ("p99.9_ns", "99.9% below"),
    ("longest_ns", "longest"),
)

Result = Mapping[str, Any]


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
    lines = [
        f"{one['spec']}: {one['latency_missing']}." for one in results if one["latency_missing"]
    ]
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
