# SPDX-License-Identifier: MIT
"""A table or figure as it is kept: records for CSV and JSON, cells for people."""

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from ..output.units import format_bytes
from ..statistics.intervals import Estimate

ABSENT = "not measured"
UNDEFINED = "undefined"  # a ratio to nothing
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Sheet:
    """`name` is unique and serves as file name; `header` and `rows` are what people read, `svg`
    the picture of a figure."""

    name: str
    title: str
    caption: str
    records: Sequence[Record]
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    text_columns: int = 1
    words: bool = False
    svg: str | None = None
    beyond: bool = False  # the paper has no such table


def estimate_fields(one: Estimate | None) -> dict[str, Any]:
    if one is None:
        return {"value": None, "low": None, "high": None}
    return {"value": one.median, "low": one.low, "high": one.high}


def ratio_cell(one: Estimate | None) -> str:
    if one is None:
        return ABSENT
    return f"{number_cell(one.median)} [{number_cell(one.low)}, {number_cell(one.high)}]"


def number_cell(value: float | None) -> str:
    """Two places behind the point, or two digits where these would be noughts."""
    if value is None:
        return ABSENT
    return f"{value:.2g}" if 0 < abs(value) < 0.095 else f"{value:,.2f}"


def count_cell(value: int | float | None) -> str:
    return ABSENT if value is None else f"{value:,.0f}"


def bytes_cell(value: float | None) -> str:
    return ABSENT if value is None else format_bytes(value)


def percent_cell(value: float | None, digits: int = 2) -> str:
    return ABSENT if value is None else f"{100 * value:.{digits}f}%"


def share_cell(one: Estimate | None) -> str:
    if one is None:
        return ABSENT
    return f"{100 * one.median:.1f}% [{100 * one.low:.1f}, {100 * one.high:.1f}]"
