# SPDX-License-Identifier: MIT
"""Whether a claim of a paper holds today: where each program's interval lies to the claimed range,
and what the programs together say.

A claim is made of parts: a figure with its interval for each program that it names, and the range
that the paper gives (ranges.py). A part is *in* when the interval lies within the range as it is
printed, or past its end in the claim's direction: who needs 160% more where the paper says 30 to
150 supports that more is needed. It is *out* when the two are disjoint, *short* when a claim "up to
so much" is not reached and yet there is an effect (*short-or-out* when an effect is not decided),
*open* when the interval reaches over an end, or the figure is missing or undefined (a ratio to
nothing). It is open too when there were too few rounds for an interval, so that the ends are a
range, or when something else keeps the figure from deciding anything (`few_rounds`, `undecided`).

What is missing from a figure of several programs is named: a number of programs has room for those
in its ends (`without`), of any other figure nothing is decided (`lacking`). What the parts say of
the whole depends on the claim's quantifier (statistics/verdicts.py).

The rules are in each study's rules.py (those on locality of the study of 1992 in
locality_rules.py). They ask for evidence: the study's results, or what the
paper itself prints.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Sequence

from ..statistics.intervals import Estimate
from ..statistics.verdicts import Quantifier, Standing, Verdict, standing, verdict
from .explanations import Explanation
from .ranges import Range
from .sheets import ABSENT, UNDEFINED

NOTHING = math.nan  # the value of an undefined ratio
# Ratios that are exact (counts of one deterministic run) have no interval but themselves.
Measured = Estimate | float | None


@dataclass(frozen=True)
class Part:
    """One program's share in a claim; `wanted` is the paper's range. `about` begins with the
    program's name where it is about one: "gawk", "gawk, Knuth"."""

    about: str
    measured: Measured
    wanted: Range
    few_rounds: int = 0  # so few that the ends are their range: it indicates
    undecided: str = ""  # why the figure decides nothing, wherever it lies
    without: Sequence[str] = ()  # what it would have been made of, too

    @property
    def program(self) -> str:
        return self.about.partition(",")[0]

    @property
    def undefined(self) -> bool:
        return isinstance(self.measured, float) and math.isnan(self.measured)

    def interval(self) -> tuple[float, float] | None:
        if self.measured is None or self.undefined:
            return None
        if isinstance(self.measured, Estimate):
            return self.measured.interval
        return self.measured, self.measured

    def standing(self) -> Standing:
        interval = self.interval()
        if interval is None:
            return Standing.UNDEFINED if self.undefined else Standing.MISSING
        if self.few_rounds or self.undecided:
            return Standing.OPEN
        return standing(interval, self.wanted.accepted, self.wanted.effect)

    @property
    def is_beyond(self) -> bool:
        """Past the range's end in the claim's direction."""
        interval = self.interval()
        return interval is not None and self.wanted.goes_beyond(*interval)

    def distance(self) -> str:
        """How far out of the range, or that it is beyond it."""
        interval = self.interval()
        if self.is_beyond:
            return ", beyond the range"
        if interval is None or self.standing() not in NOT_REACHED:
            return ""
        low, high = interval
        if high < self.wanted.low:
            return f", {short_number(self.wanted.low - high)} below the range"
        return f", {short_number(low - self.wanted.high)} above the range"

    def figure_alone(self) -> str:
        """Without its interval."""
        one = self.measured
        return short_number(one.median) if isinstance(one, Estimate) else self.figure()

    def figure(self) -> str:
        if self.measured is None or self.undefined:
            return UNDEFINED if self.undefined else ABSENT
        if isinstance(self.measured, Estimate):
            one = self.measured
            if one.low == one.high:
                return short_number(one.median)
            ends = f"{short_number(one.low)}, {short_number(one.high)}"
            kind = f"; range of {self.few_rounds}" if self.few_rounds else ""
            return f"{short_number(one.median)} [{ends}{kind}]"
        return short_number(self.measured)

    def __str__(self) -> str:
        named = f"without {', '.join(self.without)}" if self.without else ""
        why = "; ".join(filter(None, [named, self.undecided]))
        why = f" ({why})" if why else ""
        return f"{self.about} {self.figure()}{self.distance()}{why}"


def lacking(part: Part, names: Sequence[str]) -> Part:
    """The figure of what remains, which decides nothing where something is missing."""
    why = "what is missing may be otherwise" if names and part.measured is not None else ""
    return replace(part, without=tuple(names), undecided=part.undecided or why)


def short_number(value: float) -> str:
    if value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2g}"


def judge(parts: Sequence[Part], quantifier: Quantifier = Quantifier.ALL) -> Verdict:
    return verdict([part.standing() for part in parts], quantifier)


def indication(parts: Sequence[Part], quantifier: Quantifier = Quantifier.ALL) -> str:
    """To what the parts of too few rounds point, where these alone keep the claim from a verdict:
    "for", "against" or nothing."""
    if judge(parts, quantifier) is not Verdict.NOT_DECIDED:
        return ""
    found = judge([replace(part, few_rounds=0) for part in parts], quantifier)
    return {Verdict.HOLDS: "for", Verdict.FAILS: "against"}.get(found, "")


@dataclass(frozen=True)
class Claim:
    number: str
    text: str  # in our words
    where: str  # in the paper
    rule: str  # what was compared
    parts: Sequence[Part] = field(default_factory=list)
    quantifier: Quantifier = Quantifier.ALL
    explanation: Explanation | None = None
    substitute: bool = False  # of a program that stands for the paper's: at best consistent
    unprinted: str = "a picture"  # why the paper has no figures for it, where it has none

    @property
    def verdict(self) -> Verdict:
        found = judge(self.parts, self.quantifier)
        return Verdict.CONSISTENT if self.substitute and found is Verdict.HOLDS else found

    @property
    def indication(self) -> str:
        return indication(self.parts, self.quantifier)

    def count(self, *wanted: Standing) -> int:
        return sum(part.standing() in wanted for part in self.parts)

    def figures(self) -> str:
        return "; ".join(str(part) for part in self.parts) if self.parts else "no figures"

    def range_words(self) -> str:
        """What the paper gives, where it is one range for all parts."""
        ranges = {str(part.wanted) for part in self.parts}
        return ranges.pop() if len(ranges) == 1 else ""

    def medians(self) -> list[float]:
        """Of the parts that have a figure."""
        found = [part.measured for part in self.parts if part.interval() is not None]
        values = [one.median if isinstance(one, Estimate) else one for one in found]
        return [value for value in values if value is not None]

    def against(self) -> list[Part]:
        return [part for part in self.parts if part.standing() is Standing.OUT]

    def beyond(self) -> list[Part]:
        return [part for part in self.parts if part.is_beyond]

    def why(self) -> str:
        """Why parts are out of the range or beyond it, where that has been found; nothing of
        programs that are neither."""
        elsewhere = {
            part.program for part in self.parts if part.is_beyond or part.standing() in NOT_REACHED
        }
        if self.explanation is None or not elsewhere:
            return ""
        named = set(self.explanation.programs)
        return self.explanation.text if not named or named & elsewhere else ""


NOT_REACHED = (Standing.OUT, Standing.SHORT, Standing.SHORT_OR_OUT)
