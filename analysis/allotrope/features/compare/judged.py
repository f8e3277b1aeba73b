# SPDX-License-Identifier: MIT
"""The verdict of one contender in one quantity."""

from typing import Sequence

from ...output.sentences import NOTICEABLE_BYTES, is_little
from ...output.units import format_bytes
from ...statistics.intervals import ORDER_STATISTIC, Summary
from ...statistics.verdicts import Outcome, judge
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
    if memory and base and words[-1] in (Outcome.BETTER, Outcome.WORSE):
        if is_little(memory.median, base.median):
            words[-1] += f" by less than {format_bytes(NOTICEABLE_BYTES)}"
    return ", ".join(words) if any(word != "–" for word in words) else "–"
