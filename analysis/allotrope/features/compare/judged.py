# SPDX-License-Identifier: MIT
"""The verdict of one contender in one quantity."""

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
