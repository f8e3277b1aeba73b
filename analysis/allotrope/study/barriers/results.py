# SPDX-License-Identifier: MIT
"""The steps' results, as tables and claims ask for them. What was not measured is None."""

import statistics
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from ...statistics.intervals import Estimate, estimate
from . import paper
from .plan import CHECK, KERNEL, LOOPS, ORACLE, OTHER_OF_DIRTY, PAGES, WORKLOADS, Workload

Result = Mapping[str, Any]
CHECK_KIND = "young_into_old"
# The same in all rounds and link orders; of `same_of_all` in all barriers too.
COUNTS = (
    *("scavenges", "store_checks", "remembered", "dirty", "traps", "unprotected", "refused"),
    *("survived_bytes", "promoted_bytes", "old_bytes", "result"),
)


@dataclass
class Results:
    """Everything of a study."""

    study: Mapping[str, Any]
    barriers: Sequence[str]
    rounds: dict[str, list[Result]] = field(default_factory=dict)  # by workload
    loops: list[Result] = field(default_factory=list)
    instructions: dict[str, Result] = field(default_factory=dict)  # by barrier
    vm: list[Result] = field(default_factory=list)

    def workloads(self) -> list[Workload]:
        return [one for one in WORKLOADS if self.rounds.get(one.name)]

    def of(self, workload: Workload) -> "Measured":
        return Measured(self, workload)

    def of_benchmark(self, benchmark: str) -> "Measured":
        return Measured(self, next(one for one in WORKLOADS if one.paper == benchmark))

    def loop_ns(self, barrier: str, kind: str) -> list[float] | None:
        """Of a store, the loop's included; of each round."""
        found = [each.get(barrier, {}).get(f"{kind}_ns") for each in self.loops]
        known = [float(one) for one in found if one is not None]
        return known if known and len(known) == len(found) else None

    def check_ns(self, barrier: str = CHECK, kind: str = CHECK_KIND) -> list[float] | None:
        """What the barrier's instructions add to a store in a loop of stores; of each round."""
        own, plain = self.loop_ns(barrier, kind), self.loop_ns(PAGES, kind)
        if own is None or plain is None:
            return None
        # No check is free; what the clock cannot tell from nothing is a picosecond.
        return [max(1e-3, one - base) for one, base in zip(own, plain, strict=True)]

    def add_ns(self) -> float | None:
        """An add that waits for the last one takes a cycle."""
        return self._vm_median("add")

    def tight_trap_ns(self) -> float | None:
        """Trap, note the page, unprotect it, return: of 1,000 protected pages each."""
        return self._vm_median("first write mprotect")

    def first_write_ns(self) -> float | None:
        """The kernel notes the first write itself."""
        return self._vm_median("first write async")

    def _vm_median(self, key: str) -> float | None:
        found = [one[key] for one in self.vm if one.get(key) is not None]
        return statistics.median(found) if found else None

    def turn(self, barrier: str, kind: str) -> float | None:
        """Instructions of a store: what a turn of the loop has more than that of a plain store,
        and the store itself."""
        plain = self.instructions.get(PAGES, {}).get("young_into_young")
        counted = CHECK if barrier.startswith("cards-") else barrier
        own = self.instructions.get(counted, {}).get(kind)
        if barrier in (PAGES, KERNEL):  # the same object code
            own = plain
        return None if plain is None or own is None else own - plain + 1

    def loads(self) -> list[float]:
        return [
            float(run["load"])
            for rounds in self.rounds.values()
            for each in rounds
            for run in each["barriers"].values()
        ]

    def orders(self) -> list[str]:
        found = {each["order"] for rounds in self.rounds.values() for each in rounds}
        return sorted(found)

    def failures(self) -> dict[str, str]:
        """By workload and barrier, why there is no figure."""
        return {
            f"{name} {barrier}": run["failure"]
            for name, rounds in self.rounds.items()
            for each in rounds
            for barrier, run in each["barriers"].items()
            if "failure" in run
        }

    def loop_barriers(self) -> Sequence[str]:
        return LOOPS


@dataclass(frozen=True)
class Measured:
    """One workload as evidence (evidence.py)."""

    results: Results
    workload: Workload

    def runs(self, barrier: str) -> list[Result] | None:
        """Of each round; None when one is missing or failed."""
        found = [each["barriers"].get(barrier) for each in self.rounds()]
        known = [one for one in found if one is not None and "failure" not in one]
        return known if known and len(known) == len(found) else None

    def rounds(self) -> list[Result]:
        return self.results.rounds.get(self.workload.name, [])

    def times(self, scheme: str, phase: str) -> list[float] | None:
        """Nanoseconds."""
        if phase == paper.TOTAL:
            parts = [self.times(scheme, one) for one in paper.PHASES]
            known = [one for one in parts if one is not None]
            return [sum(one) for one in zip(*known)] if len(known) == len(parts) else None
        if scheme == paper.DIRTY:
            scheme = OTHER_OF_DIRTY if phase == "other" else ORACLE
        found = self.runs(scheme)
        return None if found is None else [float(one["ns"][phase]) for one in found]

    def relative(self, scheme: str, phase: str) -> Estimate | None:
        """To dirty's, round by round: a cell of Table 2 or 3."""
        return quotient(self.times(scheme, phase), self.times(paper.DIRTY, phase))

    def count(self, barrier: str, name: str) -> int | None:
        """None as well where rounds differ, which they must not."""
        found = {one.get(name) for one in self.runs(barrier) or ()}
        return found.pop() if len(found) == 1 else None

    def same_of_all(self, name: str) -> int | None:
        found = {self.count(barrier, name) for barrier in self.results.barriers}
        return found.pop() if len(found) == 1 else None

    def checks(self) -> int | None:
        return self.same_of_all("store_checks")

    def trap_count(self) -> int | None:
        return self.count(PAGES, "traps")

    def trap(self) -> list[float] | None:
        traps = self.trap_count()
        own, without = self.times(PAGES, "running"), self.times(ORACLE, "running")
        if not traps or own is None or without is None:
            return None
        return [(one - base) / traps / 1000 for one, base in zip(own, without, strict=True)]

    def tight_trap(self) -> list[float] | None:
        found = self.results.tight_trap_ns()
        return None if found is None else [found / 1000]

    def break_even(self) -> list[float] | None:
        """y = c x / (f t); x / f is what a check takes in a loop of stores."""
        checks, traps, check = self.checks(), self.trap_count(), self.results.check_ns()
        if checks is None or not traps or check is None:
            return None
        return [checks * statistics.median(check) / traps / 1000]


def quotient(one: Sequence[float] | None, base: Sequence[float] | None) -> Estimate | None:
    """Round by round; what is one figure for all rounds stands against each of them."""
    if one is None or base is None or not one or not base:
        return None
    most = max(len(one), len(base))
    above = list(one) * (most if len(one) == 1 else 1)
    below = list(base) * (most if len(base) == 1 else 1)
    if any(value == 0 for value in below):
        return None
    return estimate([value / other for value, other in zip(above, below, strict=True)])
