# SPDX-License-Identifier: MIT
"""How a contender's ratios move with the values of a scan, in words.

A scan asks that, and its values are not programs of which somebody runs a mixture; so it has no
verdict on their mean. Each contender has a sentence: its least and its greatest ratio with their
intervals, and what is decided at which values.

    memory from 0.866 [0.859, 0.872] at phases=1 to 2.141 [2.134, 2.148] at phases=8: better at
    phases=1, worse at phases=8 and phases=32.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Mapping, Sequence

from ...output.sentences import Sentence, counted, enumerate_names
from ...output.units import format_percent, format_ratio
from ...statistics.intervals import RANGE, Estimate
from ...statistics.verdicts import THRESHOLD, Outcome, Weight, is_told, overlap
from ..compare.judged import difference_of, verdict_in_words
from .means import MEMORY, key_of
from .tables import baseline_of, cpu_title, name_of

Document = Mapping[str, Any]
MOST_NAMED = 6  # values


@dataclass(frozen=True)
class Reading:
    """Of one contender in one quantity, at one value."""

    value: str
    ratio: Estimate
    verdict: str
    weight: Weight  # of the difference, if it is of memory

    def counts(self) -> bool:
        return is_told(self.verdict) and self.weight is Weight.MUCH

    def words(self) -> str:
        if self.verdict == Outcome.SAME:
            return f"the same within {format_percent(THRESHOLD)}"
        return verdict_in_words(self.verdict, self.weight)

    def __str__(self) -> str:
        ratio = format_ratio(self.ratio.median, self.ratio.low, self.ratio.high)
        return f"{ratio} at {self.value}"


def readings(document: Document, spec: str, quantity: str) -> list[Reading]:
    """At the values where there is a verdict, in their order. Below so many rounds nothing is
    decided, and what stands for an interval is a range, which shows no change either."""
    found = []
    for entry in document["programs"]:
        comparison = entry["comparison"]
        if comparison is None or comparison["incomplete"]:
            continue
        key, base = key_of(comparison, quantity), baseline_of(comparison)
        for result in comparison["results"]:
            summary = result.get(key)
            if result["spec"] != spec or not summary or not summary.get("verdict"):
                continue
            if summary["interval"] == RANGE:
                continue
            ratio = Estimate(summary["ratio"], summary["ratio_low"], summary["ratio_high"])
            weight, _ = difference_of(key, result, base)
            found.append(Reading(name_of(entry), ratio, summary["verdict"], weight))
    return found


def movement(document: Document, spec: str) -> Sentence | None:
    """Of one contender, in CPU and memory; None where it has no verdict at any value."""
    titles = {cpu_title(document): "cpu_seconds", "memory": MEMORY}
    known = {title: readings(document, spec, quantity) for title, quantity in titles.items()}
    parts = [_moves(title, found) for title, found in known.items() if found]
    if not parts:
        return None
    told = any(one.counts() for found in known.values() for one in found)
    text = f"{'; '.join(parts)}."
    return Sentence(
        "choice" if told else "undecided", f"{spec} against {document['baseline']}", text
    )


def _moves(title: str, found: Sequence[Reading]) -> str:
    groups: dict[str, list[str]] = {}
    for one in found:
        groups.setdefault(one.words(), []).append(one.value)
    if len(found) == 1:
        return f"{title} {found[0]}: {found[0].words()}"
    least = min(found, key=lambda one: one.ratio.median)
    most = max(found, key=lambda one: one.ratio.median)
    said = [f"{words} {_at(values, len(found))}" for words, values in groups.items()]
    moves = f"{title} from {least} to {most}: {', '.join(said)}"
    same = {one.verdict for one in found} == {Outcome.SAME}
    if not same and not _is_shown_to_move(found):
        moves += " (the intervals overlap: that it changes with the value is not shown)"
    return moves


def _is_shown_to_move(found: Sequence[Reading]) -> bool:
    """By any two values: the extreme medians may be those with the most noise."""
    pairs = combinations((one.ratio.interval for one in found), 2)
    return any(not overlap(*both) for both in pairs)


def _at(values: Sequence[str], of: int) -> str:
    if len(values) == of:
        return "at both values" if of == 2 else f"at all {of} values"
    if len(values) > MOST_NAMED:
        return f"at {counted(len(values), 'value')} of {of}"
    return f"at {enumerate_names(values)}"
