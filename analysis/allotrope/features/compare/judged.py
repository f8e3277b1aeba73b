# SPDX-License-Identifier: MIT
"""The verdict of one contender in one quantity."""

from typing import Any, Mapping, Sequence

from ...output.sentences import LITTLE
from ...output.units import format_byte_range, format_coverage
from ...statistics.intervals import (
    JUDGED_CONFIDENCE,
    ORDER_STATISTIC,
    RANGE,
    Estimate,
    Summary,
    interval_rank,
    least_rounds,
)
from ...statistics.verdicts import (
    NOTICEABLE_BYTES,
    Interval,
    Outcome,
    Weight,
    is_told,
    judge,
    noticeable_share,
    weigh,
)
from .comparison import Comparison, Contender


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


def coverage_in_words(coverage: float, until: object) -> str:
    """until: what --until asked for, if it did. Then it is that of all looks together: an interval
    after which one may stop, or go on, is wrong more often than one of so many rounds."""
    return format_coverage(coverage if until is None else JUDGED_CONFIDENCE)


def interval_in_words(comparison: Comparison, count: int) -> str:
    """What stands behind the median of so many rounds."""
    confidence = comparison.confidence()
    rank = interval_rank(count, confidence)
    if rank.kind == RANGE:
        return f"[range; an interval needs {least_rounds(confidence)} rounds]"
    return f"[{coverage_in_words(rank.coverage, comparison.plan.until)} interval]"


def few_rounds(*summaries: Mapping[str, Any] | None) -> int | None:
    """Of quantities of the JSON: how many rounds the one with fewest has, where one of them has
    too few for an interval. What it has then is a range, which decides nothing. This goes by the
    rounds that were measured; an interruption leaves fewer than were asked for."""
    counts = [
        sum(value is not None for value in one["rounds"])
        for one in summaries
        if one is not None and one["interval"] == RANGE
    ]
    return min(counts, default=None)


def verdict_cell(comparison: Comparison, contender: Contender, quantities: Sequence[str]) -> str:
    """For a table: on CPU and memory, whose quantities these are. A difference of memory that is
    little, or perhaps so, has its interval."""
    cpu, memory = (comparison.summary(contender, quantity) for quantity in quantities)
    words = [verdict_of(comparison, contender, one) or "–" for one in (cpu, memory) if one]
    base = comparison.summary(comparison.baseline, quantities[1])
    ratio = memory and memory.ratio_interval()
    if ratio and base:
        words[-1] = verdict_in_words(words[-1], *weighed(ratio, base.median))
    return ", ".join(words) if any(word != "–" for word in words) else "–"


def verdict_in_words(verdict: str, weight: Weight, ends: Interval | None = None) -> str:
    """weight: of a difference of memory; of anything else MUCH. ends: its interval, if there is one
    in bytes. A reader sees by it whether it counts, and it takes no more room than words do."""
    if not is_told(verdict) or weight is Weight.MUCH:
        return verdict
    if ends is not None:
        return f"{verdict} by {format_byte_range(*ends, NOTICEABLE_BYTES)}"
    if weight is Weight.LITTLE:
        return f"{verdict} by less than {LITTLE}"
    return f"{verdict} (perhaps below {LITTLE})"


def remark(weight: Weight) -> str:
    """Behind a difference that is told in figures."""
    words = {Weight.LITTLE: f", below {LITTLE}", Weight.OPEN: f", perhaps below {LITTLE}"}
    return words.get(weight, "")


def difference_of(
    quantity: str, result: Mapping[str, Any], base: Mapping[str, Any] | None
) -> tuple[Weight, Interval | None]:
    """Of a result of the JSON, as verdict_in_words takes it. Only memory is weighed; all else
    counts, whatever it is. base: the baseline's result."""
    mine, others = result.get(quantity), base and base.get(quantity)
    if not quantity.endswith("_bytes") or not mine or not others or mine["ratio"] is None:
        return Weight.MUCH, None
    ratio = Estimate(mine["ratio"], mine["ratio_low"], mine["ratio_high"])
    return weighed(ratio, others["median"])


def weighed(ratio: Estimate, base: float) -> tuple[Weight, Interval]:
    """A difference of memory from `base`, and the interval of its bytes, however they point."""
    least, most = sorted(abs(end - 1) * base for end in ratio.interval)
    return weigh(ratio, noticeable_share(base)), (least, most)
