# SPDX-License-Identifier: MIT
"""The steps' results, as tables, figures and claims ask for them. What was not measured is None."""

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from ...features.locality.simulate import faults_with
from ...statistics.intervals import Estimate, estimate, estimate_ratio
from .plan import Configuration
from .programs import Program

Result = Mapping[str, Any]


@dataclass
class Results:
    """Everything of a study. Keys are (program's name, str(configuration))."""

    programs: Sequence[Program]
    study: Mapping[str, Any]
    missing: dict[str, str] = field(default_factory=dict)  # programs that could not be measured
    rounds: dict[str, list[Result]] = field(default_factory=dict)  # by program
    accounts: dict[tuple[str, str], Result] = field(default_factory=dict)
    samples: dict[tuple[str, str], Result] = field(default_factory=dict)
    events: dict[tuple[str, str], Result] = field(default_factory=dict)
    locality: dict[tuple[str, str], Result] = field(default_factory=dict)

    def program(self, name: str) -> Program | None:
        return next((one for one in self.programs if one.name == name), None)

    def row(self, row: str) -> list[Program]:
        return [program for program in self.programs if program.row == row]

    def key(self, name: str, form: str, spec: str) -> str | None:
        """The configuration, with the form that stands for one that the program lacks."""
        program = self.program(name)
        if program is None:
            return None
        return str(Configuration(program.form_name(form), spec))

    # CPU time and memory

    def values(self, name: str, form: str, spec: str, quantity: str) -> list[float] | None:
        """The quantity of each round; None when a round is missing or failed."""
        key = self.key(name, form, spec)
        found = [each.get(key or "") for each in self.rounds.get(name, [])]
        if not found or any(one is None or "failure" in one for one in found):
            return None
        return [float(one[quantity]) for one in found if one is not None]

    def failure(self, name: str, form: str, spec: str) -> str | None:
        """Why there are no rounds, where one failed."""
        key = self.key(name, form, spec)
        found = [each.get(key or "", {}) for each in self.rounds.get(name, [])]
        return next((one["failure"] for one in found if "failure" in one), None)

    def seconds(self, name: str, form: str, spec: str) -> Estimate | None:
        values = self.values(name, form, spec, "cpu")
        return estimate(values) if values else None

    def ratio(
        self, name: str, one: tuple[str, str], base: tuple[str, str], quantity: str = "cpu"
    ) -> Estimate | None:
        """Median ratio round by round, with its interval."""
        values = self.values(name, *one, quantity)
        others = self.values(name, *base, quantity)
        return estimate_ratio(values, others) if values and others else None

    def heap_peak(self, name: str, form: str, spec: str) -> int | None:
        """The heap's high-water mark in bytes, the allocator's own data included."""
        found = self.accounts.get((name, self.key(name, form, spec) or ""))
        if found is None or "failure" in found:
            return None
        peak: int | None = found["heap"]["mapped_peak_bytes"]
        return peak

    def heap_ratio(self, name: str, one: tuple[str, str], base: tuple[str, str]) -> float | None:
        peak, other = self.heap_peak(name, *one), self.heap_peak(name, *base)
        return peak / other if peak is not None and other else None

    def account(self, name: str, form: str, spec: str) -> Result | None:
        found = self.accounts.get((name, self.key(name, form, spec) or ""))
        return None if found is None or "failure" in found else found

    def share_in_allocator(self, name: str, form: str, spec: str) -> Estimate | None:
        """Of CPU samples, with Wilson's interval."""
        found = self.samples.get((name, self.key(name, form, spec) or ""))
        if found is None or "failure" in found or not found["samples"]:
            return None
        from scipy import stats

        test = stats.binomtest(found["in_allocator"], found["samples"])
        interval = test.proportion_ci(method="wilson")
        share = found["in_allocator"] / found["samples"]
        return Estimate(share, float(interval.low), float(interval.high))

    # References

    def traced(self, name: str, form: str, spec: str) -> Result | None:
        found = self.locality.get((name, self.key(name, form, spec) or ""))
        return None if found is None or "failure" in found else found

    def references(self, name: str, form: str, spec: str) -> int | None:
        found = self.traced(name, form, spec)
        return found["pages"]["references"] if found else None

    def page_curve(self, name: str, form: str, spec: str, page_size: int) -> Result | None:
        found = self.traced(name, form, spec)
        if found is None:
            return None
        pages: list[Result] = found["pages"]["pages"]
        return next(page for page in pages if page["page_size"] == page_size)

    def replacement_faults(
        self, name: str, form: str, spec: str, memory: int, page_size: int = 4096
    ) -> int | None:
        page = self.page_curve(name, form, spec, page_size)
        if page is None:
            return None
        return int(faults_with(page["curve"], max(1, memory // page_size)) - page["cold"])

    def cache(
        self, name: str, form: str, spec: str, size: int, block: int = 32, ways: int = 1
    ) -> Result | None:
        """Misses of one cache, with their causes."""
        found = self.traced(name, form, spec)
        if found is None:
            return None
        results: list[Result] = found["caches"]["results"]
        for one in results:
            if (one["bytes"], one["block"], one["ways"]) == (size, block, ways):
                return one
        return None

    def miss_rate(
        self, name: str, form: str, spec: str, size: int, block: int = 32, ways: int = 1
    ) -> float | None:
        """Misses per data reference."""
        one = self.cache(name, form, spec, size, block, ways)
        references = self.references(name, form, spec)
        return one["misses"] / references if one and references else None

    def shape(self, name: str, form: str, spec: str) -> Result | None:
        """The 1992 cache in detail: misses per set."""
        found = self.traced(name, form, spec)
        return found["caches"]["shapes"][0] if found and found["caches"]["shapes"] else None

    def class_shares(self, name: str, form: str, spec: str) -> dict[str, Any] | None:
        """Of references: program, allocator, collector. None where nobody told them apart."""
        found = self.traced(name, form, spec)
        if found is None:
            return None
        classes = {one["class"]: one["references"] for one in found["pages"]["classes"]}
        if set(classes) <= {"program"}:
            return None
        total = sum(classes.values())
        return {one: count / total for one, count in classes.items()}

    def tight_memory(
        self, name: str, specs: Sequence[tuple[str, str]], page_size: int = 4096
    ) -> int | None:
        """The memory size of the largest spread: of all powers of two, the largest at which the
        most and the fewest replacement faults differ most as a ratio, the fewest being at least
        one in a million references."""
        best: tuple[float, int] | None = None
        for memory in (1 << power for power in range(14, 31)):
            found = [self.replacement_faults(name, *one, memory, page_size) for one in specs]
            counts = [count for count in found if count is not None]
            references = self.references(name, *specs[0])
            if len(counts) < 2 or references is None or min(counts) * 1e6 < references:
                continue
            spread = max(counts) / min(counts)
            if best is None or spread >= best[0]:
                best = (spread, memory)
        return best[1] if best else None

    # Births and deaths

    def followed(self, name: str) -> Result | None:
        """The unoptimised program's allocations from birth to death, under SunOS's algorithm."""
        key = self.key(name, "unoptimised", "cartesian:classic")
        found = self.events.get((name, key or ""))
        return None if found is None or "failure" in found else found
