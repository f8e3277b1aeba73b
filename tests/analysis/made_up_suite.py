# SPDX-License-Identifier: MIT
"""A suite's document whose figures are made up: glibc and mock, in whatever programs."""

from typing import Any, Mapping, Sequence

from allotrope.features.suite.means import means, pooled_ratios
from allotrope.features.suite.output import SCHEMA
from allotrope.statistics.intervals import (
    JUDGED_CONFIDENCE,
    ORDER_STATISTIC,
    Estimate,
    summarize,
)
from allotrope.statistics.verdicts import Outcome, judge

MIB = 1 << 20
ROUNDS = 16
Figures = float | Sequence[float]  # of every round, or of each


def _rounds(figures: Figures, rounds: int, scale: float = 1) -> list[float | None]:
    values = figures if isinstance(figures, Sequence) else [figures] * rounds
    return [scale * value for value in values]


def _result(spec: str, own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"spec": spec, "status": "ok", "failure": None}
    result |= dict.fromkeys(("tree_peak_bytes", "served", "served_missing", "heap"))
    for quantity, values in own.items():
        summary = summarize(values, base[quantity])
        assert summary is not None
        ratio = Estimate(summary.ratio or 0, summary.ratio_low or 0, summary.ratio_high or 0)
        verdict = judge(ratio) if summary.interval == ORDER_STATISTIC else Outcome.NOT_DECIDED
        verdict = None if spec == "glibc" else verdict
        result[quantity] = vars(summary) | {"verdict": verdict}
    return result


def measured(
    name: str,
    memory: tuple[Figures, Figures],
    cpu: Figures = 1,
    host: str | None = None,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """memory: MiB, of glibc and of mock; cpu: seconds of mock, where glibc takes one."""
    pair = []
    for size, seconds in zip(memory, (1, cpu)):
        pair.append(
            {
                "cpu_seconds": _rounds(seconds, rounds),
                "wall_seconds": _rounds(seconds, rounds),
                "minor_faults": _rounds(100, rounds),
                "peak_rss_bytes": _rounds(size, rounds, MIB),
            }
        )
    comparison = {
        "machine": {"cpu": "Z80", "kernel": "6.1", "cpus": 1},
        "command": ["program"],
        "baseline": "glibc",
        "rounds": rounds,
        "server": None,
        "incomplete": None,
        "deterministic": True,
        "results": [_result(spec, own, pair[0]) for spec, own in zip(("glibc", "mock"), pair)],
    }
    own = {"name": name, "host": host, "status": "measured", "reason": None}
    return own | {"comparison": comparison}


def made_up(programs: Sequence[Any], **changes: Any) -> dict[str, Any]:
    """varied: makes it a scan's."""
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "title": "made up",
        "varied": None,
        "baseline": "glibc",
        "confidence": JUDGED_CONFIDENCE,
        "rounds": ROUNDS,
        "interrupted": False,
        "allocators": [{"spec": "glibc"}, {"spec": "mock"}],
        "programs": programs,
    } | changes
    made["means"] = means(made)
    made["pooled"] = pooled_ratios(made)
    return made
