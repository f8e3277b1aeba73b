# SPDX-License-Identifier: MIT
"""How long each call of an allocator took: the histograms that the library wrote
(allotrope.latency/1)."""

from pathlib import Path
from typing import Any, Mapping

from ...system.native import read_reports

CALLS = ("malloc", "free", "calloc", "realloc", "aligned")


def read_latencies(folder: Path) -> dict[str, Any] | None:
    """Those of the process that called most, from what a command's processes wrote; None when
    there are none."""
    documents = read_reports(folder)
    if not documents:
        return None
    most = max(documents, key=lambda one: sum(count_calls(one).values()))
    return {
        "command": most["command"],
        "processes": len(documents),
        "own_cost_ns_subtracted": most["own_cost_ns_subtracted"],
        "calls": {call: most[call] for call in CALLS if call in most},
    }


def count_calls(histograms: Mapping[str, Any]) -> dict[str, int]:
    return {call: histograms[call]["calls"] for call in CALLS if call in histograms}
