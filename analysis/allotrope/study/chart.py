# SPDX-License-Identifier: MIT
"""The chart of the claims: a row each, what the paper printed above what is measured today.

A row has a scale of its own, since claims have different units: its ends are the least and the
greatest figure of either, or of the paper's range, which is grey. The paper's marks are hollow,
today's are filled and have their intervals."""

import math
from typing import Any, Callable, Mapping, Sequence

from ..statistics.intervals import Estimate
from ..statistics.verdicts import Verdict
from .claims import Claim, Part, short_number
from .pictures import PAPER, canvas, svg_of
from .sheets import Sheet

COLOURS = {
    Verdict.HOLDS: "#006300",
    Verdict.CONSISTENT: "#006300",
    Verdict.FAILS: "#b42525",
    Verdict.IN_PART: "#7a5a00",
    Verdict.NOT_DECIDED: "#7a5a00",
    Verdict.NOT_MEASURED: "#5d5b54",
}
ROW_INCHES = 0.27


def claims_chart(
    claims: Sequence[Claim],
    printed: Mapping[str, Claim],
    short: Mapping[str, str],
    year: str = "1992",
) -> Sheet:
    """`printed`: the claims on the paper's own figures; `short`: a few words for each; both by
    number."""
    figure, axes = canvas(1, 1, 9.5, ROW_INCHES * len(claims) + 0.5)
    plot = axes[0][0]
    for row, claim in enumerate(claims):
        _draw_row(plot, -row, claim, printed[claim.number], short[claim.number])
    plot.set_xlim(-0.62, 1.5)
    plot.set_ylim(-len(claims) + 0.4, 1.1)
    plot.set_axis_off()
    for place, text in (
        (-0.62, "claim"),
        (0, "least"),
        (1, "greatest"),
        (1.1, year),
        (1.3, "now"),
    ):
        aligned = "right" if place == 1 else "left"
        plot.text(place, 0.75, text, fontsize=8, color="#5d5b54", ha=aligned, va="center")
    return Sheet(
        "claims",
        f"The claims, {year} and today",
        "A row a claim, on a scale of its own, by factors where figures differ much. Grey: the "
        "paper's range, a line where it is one figure; hollow: its own figures; filled: today's "
        "with intervals; a mark a program, or a number of programs. To the right whether the claim "
        "holds, then and now.",
        [],
        svg=svg_of(figure, "claims"),
    )


def _draw_row(plot: Any, height: float, claim: Claim, then: Claim, short: str) -> None:
    plot.text(-0.62, height, f"{claim.number}  {short}", fontsize=8, va="center")
    known = str(then.verdict) if then.medians() else then.unprinted
    _say(plot, 1.1, height, then.verdict, known)
    _say(plot, 1.3, height, claim.verdict, str(claim.verdict))
    ends = _ends([*claim.parts, *then.parts])
    if ends is None:
        return
    low, high = ends
    place = _scale(low, high)
    # Of a quick study no program may be left of which the claim speaks.
    wanted = [*claim.parts, *then.parts][0].wanted
    first, last = max(wanted.low, low), min(wanted.high, high)
    if first <= last:
        grey = [place(first), max(place(last), place(first) + 0.004)]
        plot.plot(grey, [height] * 2, color=PAPER, lw=9, solid_capstyle="butt", zorder=1)
    for end, x, aligned in ((low, -0.015, "right"), (high, 1.015, "left")):
        text = short_number(end) if abs(end) > 1e-9 else "0"
        plot.text(x, height, text, fontsize=6.5, ha=aligned, va="center")
    for part in then.parts:
        _mark(plot, place, part, height + 0.14, "white")
    for part in claim.parts:
        _mark(plot, place, part, height - 0.14, "#0b62b8")


def _say(plot: Any, x: float, height: float, verdict: Verdict, text: str) -> None:
    plot.text(x, height, text, fontsize=8, color=COLOURS[verdict], va="center")


def _mark(plot: Any, place: Callable[[float], float], part: Part, height: float, fill: str) -> None:
    interval = part.interval()
    if interval is None or not all(map(math.isfinite, interval)):
        return
    one = part.measured
    value = one.median if isinstance(one, Estimate) else interval[0]
    if interval[0] < interval[1]:
        plot.plot([place(end) for end in interval], [height] * 2, color="#0b62b8", lw=1, zorder=2)
    look = {"ms": 4.5, "mfc": fill, "mec": "#000000", "mew": 0.7, "ls": "none", "zorder": 3}
    plot.plot(place(value), height, marker="o", **look)


def _ends(parts: Sequence[Part]) -> tuple[float, float] | None:
    """The least and the greatest of all figures and of the range's finite ends."""
    values = [end for part in parts for end in part.interval() or ()]
    if not values:
        return None
    values += [end for part in parts for end in (part.wanted.low, part.wanted.high)]
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite), max(finite)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _scale(low: float, high: float) -> Callable[[float], float]:
    """To 0 and 1; by factors where they differ much and none is nothing."""
    if low > 0 and high > 5 * low:
        return lambda value: math.log(value / low) / math.log(high / low)
    return lambda value: (value - low) / (high - low)
