# SPDX-License-Identifier: MIT
"""How a rule gets its figures: each with the confidence that the rule has left for it.

A rule that looks at several figures has several chances to be wrong, so these share the permitted
error out: of k figures each has an interval of 1 - 0.05/k. Then all k enclose the truth together in
at least 95 of 100 studies (the union bound), and whatever the rule makes of them is wrong no more
often. Of 8 rounds least and greatest are such an interval for 6 figures, of 10 for 25.

No rule chooses the best of several figures and judges that: the least of six that are equal looks
lower than it is. The greatest of several has the greatest of their ends (`greatest`), and a number
of programs has as its ends those of which it is sure and those of which it may be (`tally`).
"""

from dataclasses import dataclass
from typing import Callable, Iterable, Mapping, Sequence

from ...statistics.intervals import (
    CONFIDENCE,
    RANGE,
    Estimate,
    confidence_of_each,
    estimate_ratio,
    interval_rank,
)
from ...statistics.verdicts import lies_below, reaches_below
from ..claims import NOTHING, Measured, Part
from ..ranges import Range
from .evidence import Evidence, Pair


@dataclass(frozen=True)
class Figure:
    """`few`: how many rounds it is of, where that is too few for an interval; the ends are then
    their range."""

    value: Estimate
    few: int = 0

    @property
    def inverse(self) -> "Figure":
        one = self.value
        return Figure(Estimate(1 / one.median, 1 / one.high, 1 / one.low), self.few)

    def over(self, other: "Figure") -> "Figure":
        """Where both intervals hold the truth, so does the quotient's."""
        one, base = self.value, other.value
        ends = one.low / base.high, one.high / base.low
        return Figure(Estimate(one.median / base.median, *ends), max(self.few, other.few))


SAME = Figure(Estimate(1, 1, 1))  # a ratio of 1 that nobody measured


@dataclass(frozen=True)
class Asker:
    """A rule's view of the evidence. `figures`: how many the whole claim looks at."""

    one: Evidence
    figures: int

    @property
    def confidence(self) -> float:
        return confidence_of_each(self.figures, CONFIDENCE)

    def ratio(self, name: str, above: Pair, below: Pair) -> Figure | None:
        """CPU time to CPU time, of the rounds in which both ran."""
        pairs = [pair for pair in self.one.pairs(name, above, below) if pair[1]]
        if not pairs:
            return None
        own, others = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        found = estimate_ratio(own, others, self.confidence)
        few = self.one.sampled and interval_rank(len(pairs), self.confidence).kind == RANGE
        return None if found is None else Figure(found, len(pairs) if few else 0)

    def ratio_part(self, about: str, name: str, above: Pair, below: Pair, wanted: Range) -> Part:
        return part_of(about, self.ratio(name, above, below), wanted)


def part_of(about: str, figure: Figure | None, wanted: Range, undecided: str = "") -> Part:
    if figure is None:
        return Part(about, None, wanted)
    return Part(about, figure.value, wanted, figure.few, undecided)


def parts_of_each(
    evidence: Evidence,
    wanted: Range,
    value: Callable[[str], Measured],
    without: Sequence[str] = (),
) -> list[Part]:
    """A part for each program of the claims. without: those that the paper excepts."""
    names = [name for name in evidence.claimed() if name not in without]
    return [Part(name, value(name), wanted) for name in names]


def quotient(one: float | None, other: float | None) -> float | None:
    """NOTHING where it is undefined, None where a figure is missing."""
    if one is None or other is None:
        return None
    return one / other if other else NOTHING


def greatest(figures: Sequence[Figure | None]) -> Figure | None:
    """Of all of them: where every interval holds the truth, so does this one. None where one is
    missing."""
    known = [one for one in figures if one is not None]
    if not known or len(known) < len(figures):
        return None
    found = Estimate(
        max(one.value.median for one in known),
        max(one.value.low for one in known),
        max(one.value.high for one in known),
    )
    return Figure(found, max(one.few for one in known))


def least(figures: Sequence[Figure | None]) -> Figure | None:
    """The same of their least."""
    found = greatest([one and one.inverse for one in figures])
    return found and found.inverse


@dataclass(frozen=True)
class Answer:
    """Whether something is so of a program: by the medians, surely, and perhaps."""

    likely: bool
    surely: bool
    perhaps: bool
    few: int = 0

    def __and__(self, other: "Answer") -> "Answer":
        return Answer(
            self.likely and other.likely,
            self.surely and other.surely,
            self.perhaps and other.perhaps,
            max(self.few, other.few),
        )


def below(figure: Figure | None, bound: float) -> Answer | None:
    """Whether it is less."""
    if figure is None:
        return None
    interval = figure.value.interval
    likely = figure.value.median < bound
    return Answer(likely, lies_below(interval, bound), reaches_below(interval, bound), figure.few)


def all_of(answers: Iterable[Answer | None]) -> Answer | None:
    """None where one is missing."""
    whole = Answer(True, True, True)
    for one in answers:
        if one is None:
            return None
        whole = whole & one
    return whole


def tally(about: str, answers: Mapping[str, Answer | None], wanted: Range) -> Part:
    """In how many programs it is so. One that is missing may be one of them."""
    known = [one for one in answers.values() if one is not None]
    missing = tuple(name for name, one in answers.items() if one is None)
    if not known:
        return Part(about, None, wanted, without=missing)
    count = Estimate(
        sum(one.likely for one in known),
        sum(one.surely for one in known),
        sum(one.perhaps for one in known) + len(missing),
    )
    return Part(about, count, wanted, max(one.few for one in known), without=missing)
