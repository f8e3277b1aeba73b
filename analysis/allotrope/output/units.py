# SPDX-License-Identifier: MIT
"""Figures for people: three digits or so, with a unit."""

import math
from typing import Any, Mapping, Sequence

KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20


def in_unit(value: float, factor: int, units: Sequence[str]) -> tuple[float, str]:
    """A value in the first unit in which it is below 1000, in the last where it is in none. Each
    unit is `factor` times the one before."""
    for unit in units[:-1]:
        if value < 1000:
            return value, unit
        value /= factor
    return value, units[-1]


def format_bytes(size: float) -> str:
    """Three digits or so, in powers of 1024 as memory has it."""
    value, unit = in_unit(size, 1024, ("B", "KiB", "MiB", "GiB"))
    return f"{value:.0f} {unit}" if value >= 99.95 or unit == "B" else f"{value:.1f} {unit}"


def _format_beside(size: float, bound: int) -> str:
    """What is below the bound is not rounded up to it: of 1 MiB, 1013 KiB."""
    text = format_bytes(size)
    if size >= bound or text != format_bytes(bound):
        return text
    return f"{math.floor(size / KIBIBYTE)} KiB"


def format_byte_range(low: float, high: float, bound: int = 0) -> str:
    """512 to 640 KiB: a unit that both have is said once; so is a figure. bound: which an end that
    is below it must not read as; in mebibytes."""
    (least, unit), (most, other) = (_format_beside(size, bound).split() for size in (low, high))
    if (least, unit) == (most, other):
        return f"{most} {other}"
    return f"{least} to {most} {other}" if unit == other else f"{least} {unit} to {most} {other}"


def format_whole_bytes(size: int) -> str:
    """To the byte, with the largest unit that leaves a whole number."""
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size % 1024 == 0 and size > 0 and len(units) > 1:
        size //= 1024
        units.pop(0)
    return f"{size} {units[0]}"


def short_bytes(size: int) -> str:
    """The same where there is little room: 64K."""
    return format_whole_bytes(size).replace(" ", "").replace("iB", "")


def format_seconds(seconds: float) -> str:
    """Three digits or so, without a unit."""
    if 0 < seconds < 0.01:
        return f"{seconds:.5f}"
    return f"{seconds:.3f}" if seconds < 10 else f"{seconds:.2f}"


def format_seconds_with_unit(seconds: float) -> str:
    return f"{format_seconds(seconds)} s"


def format_time(seconds: float) -> str:
    """With its unit: seconds, or microseconds below a millisecond."""
    if seconds >= 1e-3:
        return format_seconds_with_unit(seconds)
    return f"{1e6 * seconds:.4g} µs"


def format_nanoseconds(time: float) -> str:
    value, unit = in_unit(time, 1000, ("ns", "µs", "ms", "s"))
    return f"{value:.0f} {unit}" if value >= 99.5 or unit == "ns" else f"{value:.3g} {unit}"


def format_figure(value: float, digits: int = 4) -> str:
    """So many digits or more, and no power of ten for what is large: 1,160, not 1.16e+03."""
    large = abs(value) >= 10 ** (digits - 1)
    return f"{value:,.0f}" if large else f"{value:.{digits}g}"


def format_ratio(ratio: float, low: float, high: float) -> str:
    """A ratio with its interval."""
    return f"{ratio:.3f} [{low:.3f}, {high:.3f}]"


def format_ratio_of(summary: Mapping[str, Any]) -> str:
    """That of a quantity's summary in a document of `compare`."""
    return format_ratio(summary["ratio"], summary["ratio_low"], summary["ratio_high"])


def format_percent(share: float) -> str:
    """Three digits or fewer."""
    return f"{100 * share:.3g}%"


def format_coverage(coverage: float) -> str:
    """Never more than it is: 99.99% is not 100%."""
    return f"{math.floor(1000 * coverage) / 10:.1f}%"


def format_count(count: float) -> str:
    """A number of faults."""
    if count < 10_000:
        return f"{count:.0f}"
    return f"{count / 1000:.0f}k" if count < 10_000_000 else f"{count / 1e6:.0f}M"
