# SPDX-License-Identifier: MIT
"""What the rules of the claims ask for, whoever gives it: a study's results (results.py) or the
paper itself (printed.py). What was not measured, or not printed, is None."""

from typing import Any, Mapping, Protocol, Sequence

from ...statistics.intervals import CONFIDENCE, Estimate

Pair = tuple[str, str]  # a form of the program, and the allocator


class Evidence(Protocol):
    @property
    def sampled(self) -> bool:
        """Whether the figures are of rounds, which chance moves. Printed ones count as they are."""

    def claimed(self) -> Sequence[str]:
        """The programs of the claims."""

    def uninformative(self) -> Sequence[str]:
        """Those that hardly allocate, and say nothing of programs that allocate much."""

    def tunable(self) -> Sequence[str]:
        """Those with an allocator of their own in the paper that can be run without it."""

    def share_in_allocator(
        self, name: str, form: str, spec: str, confidence: float = CONFIDENCE
    ) -> Estimate | None:
        """Of CPU time."""

    def free_to_malloc(self, name: str) -> float | None:
        """What freeing costs over what allocating costs."""

    def apart(self) -> str:
        """Why no program's time can be held against another's, where it cannot."""

    def logarithms(self, name: str, pairs: Sequence[Pair]) -> tuple[list[float], Any] | None:
        """Means of the seconds' logarithms over the rounds in which all of them ran, and the matrix
        of these means' covariances. None where one was not measured."""

    def pairs(self, name: str, one: Pair, base: Pair) -> Sequence[tuple[float, float]]:
        """Seconds of both, of each round in which both ran."""

    def heap_peak(self, name: str, form: str, spec: str) -> float | None:
        ...

    def heap_ratio(self, name: str, one: Pair, base: Pair) -> float | None:
        ...

    def replacement_faults(
        self, name: str, form: str, spec: str, memory: int, page_size: int = 4096
    ) -> int | None:
        ...

    def fixed_memory(self) -> int | None:
        """One memory size for all programs, at which BSD and the collector differ."""

    def references(self, name: str, form: str, spec: str) -> int | None:
        ...

    def marked(self, name: str, form: str, spec: str) -> int | None:
        """References that the recorded run's collector made to mark. None where it did not."""

    def miss_rate(
        self, name: str, form: str, spec: str, size: int, block: int = 32, ways: int = 1
    ) -> float | None:
        ...

    def cache(
        self, name: str, form: str, spec: str, size: int, block: int = 32, ways: int = 1
    ) -> Mapping[str, Any] | None:
        ...

    def shape(self, name: str, form: str, spec: str) -> Mapping[str, Any] | None:
        ...

    def survivors(self, name: str, age: int) -> float | None:
        """The share of objects that are alive after so many instructions."""
