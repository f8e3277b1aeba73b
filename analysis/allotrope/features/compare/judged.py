# SPDX-License-Identifier: MIT
"""The verdict of one contender in one quantity."""

from typing import Any, Mapping, Sequence

from ...output.sentences import LITTLE
from ...statistics.intervals import ORDER_STATISTIC, Summary
from ...statistics.verdicts import Outcome, is_little, is_told, judge
from .measure import Comparison, Contender


def verdict_of(
    comparison: Comparison, contender: Contender, summary: Summary, more_is_better: bool = False
) -> str | None:
    """None for the baseline, and where no interval could tell."""
    ratio = summary.ratio_interval()
    judged = comparison.status(contender) == "ok" and comparison.status(comparison.baseline) == "ok"
    if ratio is None or contender is comparison.baseline or not judged:
        return None
    if summary.interval != ORDER_STATISTIC:
        return Outcome.NOT_DECIDED
    return judge(ratio, comparison.plan.threshold, more_is_better)


def verdict_cell(comparison: Comparison, contender: Contender, quantities: Sequence[str]) -> str:
    """For a table: on CPU and memory, whose quantities these are. A difference of little memory is
    said to be little."""
    cpu, memory = (comparison.summary(contender, quantity) for quantity in quantities)
    words = [verdict_of(comparison, contender, one) or "–" for one in (cpu, memory) if one]
    base = comparison.summary(comparison.baseline, quantities[1])
    if memory and base:
        words[-1] = verdict_in_words(words[-1], is_little(memory.median, base.median))
    return ", ".join(words) if any(word != "–" for word in words) else "–"


def verdict_in_words(verdict: str, little: bool) -> str:
    """little: it is of memory, of which too little to count."""
    return f"{verdict} by less than {LITTLE}" if little and is_told(verdict) else verdict


def is_of_little(quantity: str, result: Mapping[str, Any], base: Mapping[str, Any] | None) -> bool:
    """Of a result of the JSON: whether a quantity is memory, and too little to count. base: the
    baseline's result."""
    mine, others = result.get(quantity), base and base.get(quantity)
    if not quantity.endswith("_bytes") or not mine or not others:
        return False
    return is_little(mine["median"], others["median"])
