# SPDX-License-Identifier: MIT
"""The steps' results, as tables and claims ask for them. What was not measured is None.

A run that failed takes with it only the figures that are made of it, and of these only its round.
What was left out is said (`left_out`)."""

from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Mapping, Sequence

from ...statistics.intervals import Estimate
from ..claims import short_number
from ..measured_by import places_of
from . import paper
from .evidence import Series, by_round, estimate_of, ratios
from .plan import CHECK, KERNEL, OF_NO_PROGRAM, ORACLE, OTHER_OF_DIRTY, PAGES, WORKLOADS, Workload

Result = Mapping[str, Any]
CHECK_KIND = "young_into_old"
# No check is free; what the clock cannot tell from nothing is a picosecond.
LEAST_CHECK_NS = 1e-3


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

    def loop_ns(self, barrier: str, kind: str) -> Series:
        """Of a store, the loop's included."""
        return [each.get(barrier, {}).get(f"{kind}_ns") for each in self.loops]

    def check_ns(self, barrier: str = CHECK, kind: str = CHECK_KIND) -> Series | None:
        """What the barrier's instructions add to a store in a loop of stores."""
        own, plain = self.loop_ns(barrier, kind), self.loop_ns(PAGES, kind)
        return by_round(lambda one, base: max(LEAST_CHECK_NS, one - base), own, plain)

    def add_ns(self) -> Series:
        """An add that waits for the last one takes a cycle."""
        return self._vm("add")

    def tight_trap_ns(self) -> Series:
        """Trap, note the page, unprotect it, return: of 1,000 protected pages each."""
        return self._vm("first write mprotect")

    def first_write_ns(self) -> Series:
        """The kernel notes the first write itself."""
        return self._vm("first write async")

    def _vm(self, key: str) -> Series:
        return [one.get(key) for one in self.vm]

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
            if "load" in run
        ]

    def most_rounds(self) -> int:
        """Of any workload: large ones have fewer than were asked for."""
        return max((len(one) for one in self.rounds.values()), default=0)

    def orders(self) -> list[str]:
        found = {each["order"] for rounds in self.rounds.values() for each in rounds}
        return sorted(found)

    def left_out(self) -> list[str]:
        """What failed, how often and why; a line for each workload, and for what is of none."""
        said = []
        for workload in self.workloads():
            rounds = self.rounds[workload.name]
            if found := _failures(each["barriers"] for each in rounds):
                said.append(f"{workload.title}: {_times_failed(found, 'rounds')}")
        if found := _failures(self.loops):
            said.append(f"the barrier alone: {_times_failed(found, 'loops')}")
        if found := _failures({"": one} for one in self.vm):
            said.append(_times_failed(found, "looks at the machine"))
        if found := _failures([self.instructions]):
            said.append(f"instructions of a store: {_times_failed(found, 'counts')}")
        return said


Failures = dict[str, tuple[int, int, str]]


def _failures(rounds: Iterable[Mapping[str, Result]]) -> Failures:
    """By barrier: in how many rounds it failed, of how many, and why the first time."""
    failed: Failures = {}
    asked: dict[str, int] = {}
    for each in rounds:
        for name, run in each.items():
            asked[name] = asked.get(name, 0) + 1
            if isinstance(run, Mapping) and "failure" in run:
                times, _, why = failed.get(name, (0, 0, run["failure"]))
                failed[name] = (times + 1, 0, why)
    return {name: (times, asked[name], why) for name, (times, _, why) in failed.items()}


def _times_failed(found: Failures, what: str) -> str:
    return ", ".join(
        f"{name}{' in ' if name else ''}{times} of {asked} {what} ({why})"
        for name, (times, asked, why) in found.items()
    )


@dataclass(frozen=True)
class Measured:
    """One workload as evidence (evidence.py)."""

    results: Results
    workload: Workload
    other_of: Mapping[str, str] = field(default_factory=lambda: {paper.DIRTY: OTHER_OF_DIRTY})

    sampled = True

    def with_other_of_dirty(self, scheme: str) -> "Measured":
        """The same, had that scheme dirty's other."""
        return replace(self, other_of={**self.other_of, scheme: OTHER_OF_DIRTY})

    def rounds(self) -> list[Result]:
        return self.results.rounds.get(self.workload.name, [])

    def runs(self, barrier: str) -> list[Result | None]:
        """Of each round; None where there is none, or it failed."""
        found = [each["barriers"].get(barrier) for each in self.rounds()]
        return [None if one is None or "failure" in one else one for one in found]

    def times(self, scheme: str, phase: str) -> Series | None:
        """Nanoseconds."""
        if phase in paper.SUMS:
            parts = [self.times(scheme, one) for one in paper.SUMS[phase]]
            return by_round(lambda *each: sum(each), *parts)
        if phase == "other":
            scheme = self.other_of.get(scheme, scheme)
        if scheme == paper.DIRTY:
            scheme = ORACLE
        found = [None if one is None else float(one["ns"][phase]) for one in self.runs(scheme)]
        return found if any(one is not None for one in found) else None

    def relative(self, scheme: str, phase: str) -> Estimate | None:
        """To dirty's, round by round: a cell of Table 2 or 3."""
        return estimate_of(ratios(self.times(scheme, phase), self.times(paper.DIRTY, phase)))

    def count(self, barrier: str, name: str) -> int | None:
        """None as well where rounds differ, which they must not."""
        found = {one.get(name) for one in self.runs(barrier) if one is not None}
        return found.pop() if len(found) == 1 else None

    def same_of_all(self, name: str) -> int | None:
        """Of all barriers that ran. None as well where they differ, which they must not."""
        runs = [one for barrier in self.results.barriers for one in self.runs(barrier)]
        found = {one.get(name) for one in runs if one is not None}
        return found.pop() if len(found) == 1 else None

    def checks(self) -> int | None:
        return self.same_of_all("store_checks")

    def trap_count(self) -> int | None:
        return self.count(PAGES, "traps")

    def trap(self) -> Series | None:
        traps = self.trap_count()
        if not traps:
            return None
        own, without = self.times(PAGES, "running"), self.times(ORACLE, "running")
        return by_round(lambda one, base: (one - base) / traps / 1000, own, without)

    def _loops_elsewhere(self) -> str:
        """That the loops which a trap is held against ran on another machine, where they did."""
        places = places_of(self.results.study)
        here = places.get(self.workload.name) == places.get(OF_NO_PROGRAM)
        return "" if here else "the loops ran on another machine"

    def trap_undecided(self) -> str:
        """A difference of two long times, divided by few traps: where its interval contains 0 it
        cannot be told from the noise, and no ratio to it means anything."""
        found = estimate_of(self.trap())
        if found is None or found.low > 0:
            return self._loops_elsewhere()
        return (
            "the interval of a trap in the program, "
            f"{short_number(found.low)} to {short_number(found.high)} µs, "
            f"{'contains 0' if found.high >= 0 else 'lies below 0'}"
        )

    def tight_trap(self) -> Series | None:
        return by_round(lambda ns: ns / 1000, self.results.tight_trap_ns())

    def break_even(self) -> Series | None:
        """y = c x / (f t); x / f is what a check takes in a loop of stores."""
        checks, traps = self.checks(), self.trap_count()
        if checks is None or not traps:
            return None
        return by_round(lambda ns: ns * checks / traps / 1000, self.results.check_ns())

    def trap_rate(self) -> Series | None:
        traps = self.trap_count()
        if not traps:
            return None
        return by_round(lambda ns: traps / ns * 1e9, self.times(ORACLE, "running"))
