# SPDX-License-Identifier: MIT
"""The steps' results, as tables, figures and claims ask for them (evidence.py). What was not
measured is None."""

import statistics
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Sequence

from ...features.locality.simulate import faults_with
from ...statistics.intervals import CONFIDENCE, LEAST_ROUNDS, Estimate, estimate, estimate_ratio
from ...statistics.spread import mean_logarithms
from ..measured_by import unlike_kinds
from . import paper
from .evidence import Pair
from .plan import Configuration
from .programs import Program

Result = Mapping[str, Any]


# Rows that take fewer rounds (plan.MOST_ROUNDS), in words.
FEWER = {
    "today": "programs that no claim speaks of",
    "switch": "programs that no claim speaks of",
    "large": "those with heaps of today's size",
}
UNINFORMATIVE = ("ghostscript",)  # hardly calls malloc today
NO_SWITCH = ("ghostscript",)  # Debian's, for its own allocator
# Whose faults choose the memory size of Figure 4.
TIGHT = (("optimised", "bsd:classic"), ("collected", "gc:classic"))


@dataclass
class Results:
    """Everything of a study. Keys are (program's name, str(configuration))."""

    sampled = True  # (evidence.py)

    programs: Sequence[Program]
    study: Mapping[str, Any]
    missing: dict[str, str] = field(default_factory=dict)  # programs that could not be measured
    rounds: dict[str, list[Result]] = field(default_factory=dict)  # by program
    accounts: dict[tuple[str, str], Result] = field(default_factory=dict)
    samples: dict[tuple[str, str], Result] = field(default_factory=dict)
    events: dict[tuple[str, str], Result] = field(default_factory=dict)
    locality: dict[tuple[str, str], Result] = field(default_factory=dict)
    factors: dict[tuple[str, str], Result] = field(default_factory=dict)

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

    # Of whom the claims speak

    def claimed(self) -> Sequence[str]:
        """The paper's six; of a quick study those that it has."""
        known = [one.name for one in self.row("1992") if one.name not in self.missing]
        return known if self.study["quick"] else paper.PROGRAMS

    def uninformative(self) -> Sequence[str]:
        """ghostscript 10 asks for 12,000 blocks where version 2.1 asked for 0.92 million."""
        return UNINFORMATIVE

    def tunable(self) -> Sequence[str]:
        """Those of Tables 5 and 6 that can be run without their own allocator, whether or not they
        were; of a quick study those that it has."""
        lacking = [one.name for one in self.programs if "unoptimised" not in one.forms]
        known = [name for name in paper.OWN_ALLOCATOR if name in self.claimed()]
        switchless = [name for name in NO_SWITCH if self.program(name) is None]
        return [name for name in known if name not in (*lacking, *switchless)]

    def apart(self) -> str:
        return unlike_kinds(self.study, paper.PROGRAMS)

    # CPU time and memory

    def rounds_of(
        self, name: str, form: str, spec: str, quantity: str
    ) -> list[float | None] | None:
        """The quantity of each round, None in one that failed; None altogether where fewer are
        left than a figure is made of: six, or all but one."""
        key = self.key(name, form, spec)
        runs = [each.get(key or "") for each in self.rounds.get(name, [])]
        found = [None if run is None or "failure" in run else float(run[quantity]) for run in runs]
        measured = sum(one is not None for one in found)
        return found if measured >= max(1, min(LEAST_ROUNDS, len(found) - 1)) else None

    def values(self, name: str, form: str, spec: str, quantity: str) -> list[float] | None:
        """The quantity of the rounds that did not fail; None where too many did."""
        found = self.rounds_of(name, form, spec, quantity)
        return None if found is None else [one for one in found if one is not None]

    def loads(self) -> list[float]:
        """The machine's load before each timed run; of an older study nothing."""
        return [run["load"] for run in self._timed_runs() if "load" in run]

    def others(self) -> list[float]:
        """How many processors others kept busy during each timed run; of an older study, and where
        the kernel does not tell, nothing."""
        return [run["others"] for run in self._timed_runs() if run.get("others") is not None]

    def fewer_rounds(self) -> str:
        """Of which programs there are fewer rounds than were asked for; empty where of none."""
        asked, said = self.study["rounds"], dict[str, int]()
        for one in self.programs:
            taken = len(self.rounds.get(one.name, ()))
            if one.row in FEWER and 0 < taken < asked:
                said[FEWER[one.row]] = max(taken, said.get(FEWER[one.row], 0))
        told = "; ".join(f"{taken} for {what}" for what, taken in said.items())
        return f" ({told})" if told else ""

    def failed_runs(self) -> dict[tuple[str, str], int]:
        """In how many rounds a program had no figure under a configuration."""
        found: dict[tuple[str, str], int] = {}
        for name, rounds in self.rounds.items():
            for each in rounds:
                for one, run in each.items():
                    if "failure" in run:
                        found[name, one] = found.get((name, one), 0) + 1
        return found

    def _timed_runs(self) -> Iterator[Result]:
        for rounds in self.rounds.values():
            for each in rounds:
                yield from each.values()

    def failure(self, name: str, form: str, spec: str) -> str | None:
        """Why a round has no figure, where one has none."""
        key = self.key(name, form, spec) or ""
        rounds = self.rounds.get(name, [])
        found = [each[key]["failure"] for each in rounds if "failure" in each.get(key, {})]
        if not found or len(found) == len(rounds):
            return found[0] if found else None
        return f"in {len(found)} of {len(rounds)} rounds: {found[0]}"

    def seconds(self, name: str, form: str, spec: str) -> Estimate | None:
        values = self.values(name, form, spec, "cpu")
        return estimate(values) if values else None

    def logarithms(self, name: str, pairs: Sequence[Pair]) -> tuple[list[float], Any] | None:
        taken = [self.rounds_of(name, *pair, "cpu") or [] for pair in pairs]
        return mean_logarithms([each for each in zip(*taken) if all(each)])

    def pairs(
        self, name: str, one: tuple[str, str], base: tuple[str, str], quantity: str = "cpu"
    ) -> list[tuple[float, float]]:
        """Of each round in which both ran: in one layout, so a round that lacks one of them is no
        pair."""
        values = self.rounds_of(name, *one, quantity)
        others = self.rounds_of(name, *base, quantity)
        return [
            (value, other)
            for value, other in zip(values or (), others or ())
            if value is not None and other is not None
        ]

    def ratio(
        self, name: str, one: tuple[str, str], base: tuple[str, str], quantity: str = "cpu"
    ) -> Estimate | None:
        """Median ratio round by round, with its interval."""
        pairs = self.pairs(name, one, base, quantity)
        return estimate_ratio([own for own, _ in pairs], [other for _, other in pairs])

    def _of(
        self, store: Mapping[tuple[str, str], Result], name: str, form: str, spec: str
    ) -> Result | None:
        """What one run found. Of a configuration that fails in every round nothing: what such a
        run counts, which writes something else than under glibc, is another program's."""
        key = self.key(name, form, spec) or ""
        found = store.get((name, key))
        if found is None or "failure" in found:
            return None
        rounds = self.rounds.get(name, [])
        runs = [each[key] for each in rounds if key in each]
        return None if runs and all("failure" in run for run in runs) else found

    def heap_peak(self, name: str, form: str, spec: str) -> int | None:
        """The heap's high-water mark in bytes, the allocator's own data included."""
        found = self.account(name, form, spec)
        peak: int | None = found["heap"]["mapped_peak_bytes"] if found else None
        return peak

    def heap_ratio(self, name: str, one: tuple[str, str], base: tuple[str, str]) -> float | None:
        peak, other = self.heap_peak(name, *one), self.heap_peak(name, *base)
        return peak / other if peak is not None and other else None

    def account(self, name: str, form: str, spec: str) -> Result | None:
        return self._of(self.accounts, name, form, spec)

    def share_in_allocator(
        self, name: str, form: str, spec: str, confidence: float = CONFIDENCE
    ) -> Estimate | None:
        """Of CPU samples, with Wilson's interval."""
        found = self.samples.get((name, self.key(name, form, spec) or ""))
        if found is None or "failure" in found or not found["samples"]:
            return None
        from scipy import stats

        test = stats.binomtest(found["in_allocator"], found["samples"])
        interval = test.proportion_ci(confidence, method="wilson")
        share = found["in_allocator"] / found["samples"]
        return Estimate(share, float(interval.low), float(interval.high))

    # References

    def traced(self, name: str, form: str, spec: str) -> Result | None:
        return self._of(self.locality, name, form, spec)

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

    def marked(self, name: str, form: str, spec: str) -> int | None:
        """References that the recorded run's collector made to mark. None where it did not."""
        found = self.traced(name, form, spec)
        classes = found["pages"]["classes"] if found else []
        return next((one["references"] for one in classes if one["class"] == "mark"), None)

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

    def fixed_memory(self) -> int | None:
        """One memory size for all programs, as in Figure 4: the paper chose one "for which there
        is a significant difference between the allocators". Of all powers of two it is that at
        which most programs still replace pages under BSD and under the collector, once in a
        million references; of these that of the largest median ratio."""
        best: tuple[int, float, int] | None = None
        for memory in (1 << power for power in range(14, 31)):
            ratios = [one for name in self.claimed() if (one := self._tight_ratio(name, memory))]
            if not ratios:
                continue
            rank = (len(ratios), statistics.median(ratios), memory)
            best = max(best or rank, rank)
        return best[2] if best else None

    def _tight_ratio(self, name: str, memory: int) -> float | None:
        base, other = (self.replacement_faults(name, *pair, memory) for pair in TIGHT)
        references = self.references(name, *TIGHT[0])
        if base is None or other is None or references is None:
            return None
        return other / base if min(base, other) * 1e6 >= references else None

    def free_to_malloc(self, name: str) -> float | None:
        """By instructions, realloc counted with free as in the paper."""
        followed = self.followed(name)
        if followed is None or not followed["instructions"]["malloc"]:
            return None
        spent = followed["instructions"]
        freeing = int(spent["free"]) + int(spent["realloc"])
        return freeing / int(spent["malloc"])

    def heaps(self, name: str, form: str, spec: str) -> Sequence[Result]:
        """The program's time in heaps of several sizes; none where that was not measured."""
        found = self._of(self.factors, name, form, spec)
        heaps: Sequence[Result] = found["heaps"] if found else ()
        return heaps

    # Births and deaths

    def survivors(self, name: str, age: int) -> float | None:
        followed = self.followed(name)
        if followed is None:
            return None
        passed = [share for point, share in followed["survival"]["instructions"] if point <= age]
        return passed[-1] if passed else 1.0

    def followed(self, name: str) -> Result | None:
        """The unoptimised program's allocations from birth to death, under SunOS's algorithm."""
        key = self.key(name, "unoptimised", "cartesian:classic")
        found = self.events.get((name, key or ""))
        return None if found is None or "failure" in found else found
