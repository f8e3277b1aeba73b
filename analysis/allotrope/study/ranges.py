# SPDX-License-Identifier: MIT
"""The range of figures that a claim gives."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """What a claim gives, ends included.

    `unit`: of the last digit that is printed. A printed figure may have been rounded or cut: 38%
    stands for 37.5 to just below 39. `beyond` is the claim's direction, "more" or "less": a figure
    past that end supports the claim. `effect`, of a claim "up to so much": beyond it, towards the
    range, there is some of what is claimed.
    """

    low: float
    high: float
    unit: float = 0.0
    beyond: str | None = None
    effect: float | None = None

    @property
    def accepted(self) -> tuple[float, float]:
        """The interval in which a figure agrees with the claim, or supports it."""
        low, high = self._as_printed
        if self.beyond == "more":
            return low, math.inf
        return (-math.inf if self.beyond == "less" else low), high

    @property
    def _as_printed(self) -> tuple[float, float]:
        high = math.nextafter(self.high + self.unit, -math.inf) if self.unit else self.high
        return self.low - self.unit / 2, high

    def goes_beyond(self, low: float, high: float) -> bool:
        """Whether an interval lies past the end to which the claim points, as it is printed."""
        least, most = self._as_printed
        if self.beyond == "more":
            return low > most
        return self.beyond == "less" and high < least

    def __str__(self) -> str:
        if math.isinf(self.high) and self.low == math.nextafter(0, 1):
            return "above 0"
        if math.isinf(self.high):
            return f"from {self.low:g} on"
        if math.isinf(self.low):
            return f"up to {self.high:g}"
        return f"{self.low:g} to {self.high:g}" if self.low != self.high else f"{self.low:g}"


ABOVE_ONE = Range(1, math.inf)
BELOW_ONE = Range(-math.inf, 1)
# The same is neither.
MORE = Range(math.nextafter(1, 2), math.inf)
LESS = Range(-math.inf, math.nextafter(1, 0))
