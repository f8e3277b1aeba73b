# SPDX-License-Identifier: MIT
"""The account of a run's heap, from the statistics that its processes wrote: its peak, what it
consisted of then, its course over time, and what a collector did."""

from pathlib import Path
from typing import Any, Mapping, Sequence

from ...system.native import read_reports

# What of the statistics' peak is kept beside its waste; with it they add up to mapped_bytes.
AT_PEAK = ("time_seconds", "requested_bytes", "mapped_bytes", "resident_bytes")
TIMELINE_POINTS = 160
# Below it a heap is mostly its allocator's own pages, and a ratio to what was asked for misleads.
LEAST_HEAP_BYTES = 64 << 10


def thin(timeline: Sequence[Mapping[str, Any]] | None) -> dict[str, list[float]] | None:
    """At most TIMELINE_POINTS of a timeline's points, the last among them, by quantity."""
    if not timeline:
        return None
    step = -(-len(timeline) // TIMELINE_POINTS)
    kept = [*timeline[::-1][::step][::-1]]
    return {key: [point[key] for point in kept] for key in kept[0]}


def read_accounts(folder: Path) -> dict[str, Any] | None:
    """The "heap" of a run, from the statistics that its processes wrote (allotrope.stats/1): that
    of the process with the largest heap. None when there are none."""
    accounts = read_reports(folder)
    if not accounts:
        return None
    largest = max(accounts, key=lambda account: account["mapped_peak_bytes"] or 0)
    mapped = largest["mapped_peak_bytes"]
    peak = largest["peak"]
    requested = peak.get("most_requested_bytes") or peak["requested_bytes"]
    large = requested >= LEAST_HEAP_BYTES
    return {
        "command": largest["command"],
        "processes": len(accounts),
        "mapped_peak_bytes": mapped,
        "requested_peak_bytes": requested,
        "fragmentation": mapped / requested if mapped is not None and large else None,
        "waste": peak["waste"],
        "at_peak": {key: peak.get(key) for key in AT_PEAK},
        "live": largest.get("live"),
        "sizes": largest.get("sizes"),
        "resident_peak_bytes": _most_resident(largest),
        "timeline": thin(largest.get("timeline")),
        "metadata_bytes": largest.get("metadata_bytes"),
        "calls": largest.get("calls"),
        "system_calls": largest.get("system_calls"),
        "collector": _collector(largest),
    }


def _most_resident(account: Mapping[str, Any]) -> int | None:
    """Of the heap, as far as it was looked at; None where it was not."""
    points = [account["peak"], *(account.get("timeline") or ())]
    known = [point["resident_bytes"] for point in points if point.get("resident_bytes") is not None]
    return max(known, default=None)


def _collector(account: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a garbage collector did, None where there is none. The historic one does not count
    causes and pauses."""
    if "gc" not in account:
        return None
    names = ["causes", "pauses", "given_up", "stopped"]
    names += ["minor", "full", "first_stop", "generations", "cycles"]
    groups = {name: account.get(f"gc_{name}", {}) for name in names}
    return {**account["gc"], **groups}
