# SPDX-License-Identifier: MIT
"""The verdict of one contender in one quantity."""

from typing import Any, Mapping, Sequence

from ...output.sentences import LITTLE
from ...statistics.intervals import ORDER_STATISTIC, Estimate, Summary
from ...statistics.verdicts import Outcome, Weight, is_told, judge, noticeable_share, weigh
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
    said to be little, proven or perhaps."""
    cpu, memory = (comparison.summary(contender, quantity) for quantity in quantities)
    words = [verdict_of(comparison, contender, one) or "–" for one in (cpu, memory) if one]
    base = comparison.summary(comparison.baseline, quantities[1])
    ratio = memory and memory.ratio_interval()
    if ratio and base:
        words[-1] = verdict_in_words(words[-1], weigh(ratio, noticeable_share(base.median)))
    return ", ".join(words) if any(word != "–" for word in words) else "–"


def verdict_in_words(verdict: str, weight: Weight) -> str:
    """weight: of a difference of memory; of anything else MUCH."""
    if not is_told(verdict) or weight is Weight.MUCH:
        return verdict
    if weight is Weight.LITTLE:
        return f"{verdict} by less than {LITTLE}"
    return f"{verdict} (perhaps below {LITTLE})"


def remark(weight: Weight) -> str:
    """Behind a difference that is told in figures."""
    words = {Weight.LITTLE: f", below {LITTLE}", Weight.OPEN: f", perhaps below {LITTLE}"}
    return words.get(weight, "")


def weight_of(
    quantity: str, result: Mapping[str, Any], base: Mapping[str, Any] | None
) -> Weight:
    """Of a result of the JSON, if the quantity is memory; all else counts whatever it is. base: the
    baseline's result."""
    mine, others = result.get(quantity), base and base.get(quantity)
    if not quantity.endswith("_bytes") or not mine or not others or mine["ratio"] is None:
        return Weight.MUCH
    ratio = Estimate(mine["ratio"], mine["ratio_low"], mine["ratio_high"])
    return weigh(ratio, noticeable_share(others["median"]))
