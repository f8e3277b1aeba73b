# SPDX-License-Identifier: MIT
"""Figures for people: three digits or so, with a unit."""

KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20


def format_bytes(size: float) -> str:
    """Three digits or so, in powers of 1024 as memory has it."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1000:
            break
        size /= 1024
    else:
        unit = "GiB"
    return f"{size:.0f} {unit}" if size >= 99.95 or unit == "B" else f"{size:.1f} {unit}"


def format_seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 10 else f"{seconds:.2f}"


def format_nanoseconds(time: float) -> str:
    for unit in ("ns", "µs", "ms"):
        if time < 1000:
            break
        time /= 1000
    else:
        unit = "s"
    return f"{time:.0f} {unit}" if time >= 99.5 or unit == "ns" else f"{time:.3g} {unit}"


def format_ratio(ratio: float, low: float, high: float) -> str:
    """A ratio with its interval."""
    return f"{ratio:.3f} [{low:.3f}, {high:.3f}]"


def format_count(count: float) -> str:
    """A number of faults."""
    if count < 10_000:
        return f"{count:.0f}"
    return f"{count / 1000:.0f}k" if count < 10_000_000 else f"{count / 1e6:.0f}M"
