# SPDX-License-Identifier: MIT
"""A comparison: what is to be measured (`Plan`), each allocator's part (`Contender`), and all of
them with what was measured so far (`Comparison`).

measure.py carries a plan out and fills these in; whoever shows or judges a comparison reads them.
"""

import datetime
import os
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from ...statistics.intervals import (
    JUDGED_CONFIDENCE,
    JUDGED_ROUNDS,
    ORDER_STATISTIC,
    Summary,
    confidence_of_each,
    look_rounds,
    rounds_within,
    summarize,
)
from ...statistics.verdicts import THRESHOLD
from ...system.allocators import Allocator, for_program, glibc
from ...system.launch import Run
from ...system.machine import busy_seconds
from ..reach import served
from ..server.metrics import REQUESTS, Metric
from ..server.plan import ServerPlan
from ..server.run import METRIC, ServerRun
from ..server.run import QUANTITIES as SERVER_QUANTITIES

# What is measured: the key in the JSON and the attribute of a Run are the same.
QUANTITIES = (
    "cpu_seconds",
    "user_seconds",
    "system_seconds",
    "wall_seconds",
    "peak_rss_bytes",
    "tree_peak_bytes",
    "minor_faults",
    "major_faults",
)
MOST_ROUNDS = 400  # of --until
BUILD = "{build}"


@dataclass(frozen=True)
class Plan:
    command: Sequence[str]
    allocators: Sequence[Allocator]
    baseline: int = 0  # index into allocators
    rounds: int | None = None  # None: JUDGED_ROUNDS, and more of a short command
    until: float | None = None  # go on until intervals of CPU are so narrow (half, relative)
    most_rounds: int = MOST_ROUNDS  # then
    duet: bool = False  # everyone of a round at the same time, on one processor
    threshold: float = THRESHOLD  # of verdicts
    warmup: int = 1
    prepare: str | None = None  # a shell command before every run
    input: str | None = None  # a file for standard input
    timeout: float | None = None  # seconds for one run
    ignore_failure: bool = False
    latency: bool = False  # one more run of each, in which every call is timed
    check: str = "stdout"  # "none", "stdout", or a shell command that reads the output
    directory: Path | None = None  # where everything runs; None: here
    environment: Mapping[str, str] = field(default_factory=dict)  # for everything that runs
    unset: Sequence[str] = ()  # variables of ours that nothing that runs is given
    server: ServerPlan | None = None  # the command is a server, measured under a load

    def compares_builds_alone(self) -> bool:
        """Whether builds of a program are what differs, and not the allocator."""
        first = self.allocators[0]
        return first.build is not None and all(
            replace(one, build=first.build).same_choice(first) for one in self.allocators
        )

    def command_of(self, allocator: Allocator) -> list[str]:
        """What runs under it: {build} stands for the program of its build."""
        return _with_build(self.command, allocator.build)

    def as_preloaded(self, allocator: Allocator) -> Allocator:
        """As it is preloaded into its program. Where builds alone differ, each keeps the malloc
        that it is linked with."""
        if self.compares_builds_alone():
            return allocator
        return for_program(allocator, self.command_of(allocator)[0])

    def server_of(self, allocator: Allocator) -> ServerPlan | None:
        if self.server is None or allocator.build is None:
            return self.server
        words = _with_build(self.server.command(), allocator.build)
        return replace(self.server, server=shlex.join(words))

    def surroundings(self) -> dict[str, str]:
        """The environment of shell commands."""
        return {name: value for name, value in os.environ.items() if name not in self.unset} | dict(
            self.environment
        )


def _with_build(command: Sequence[str], build: str | None) -> list[str]:
    return [word if build is None else word.replace(BUILD, build) for word in command]


@dataclass(frozen=True)
class Failure:
    """The run that ended an allocator's part."""

    when: str  # "warm-up", "accounting" or "round 3"
    exit_status: int | None
    signal: int | None
    timed_out: bool
    ending: str
    message: str | None  # the last line that it wrote to standard error


@dataclass
class Contender:
    """An allocator's part in the comparison, as far as it has come."""

    allocator: Allocator
    runs: list[Run | None] = field(default_factory=list)  # one place per round
    outputs: set[str] = field(default_factory=set)  # digests of what the command wrote
    rejected: bool = False  # --check's command said no
    failure: Failure | None = None
    heap: dict[str, Any] | None = None
    heap_missing: str | None = None  # why there is no account although it is ours
    served: dict[str, Any] | None = None  # who really served each process
    served_missing: str | None = None  # why that is not known
    latency: dict[str, Any] | None = None
    latency_missing: str | None = None  # why there is none although it was asked for


class Comparison:
    """A measurement in progress, and then its result."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.started = datetime.datetime.now(datetime.timezone.utc)
        self.contenders = [Contender(plan.as_preloaded(one)) for one in plan.allocators]
        self.baseline = self.contenders[plan.baseline]
        reference = replace(glibc(), build=self.baseline.allocator.build)
        self.reference = Contender(plan.as_preloaded(reference))
        self.endings: set[tuple[int | None, int | None]] = {(0, None)}  # that count as success
        self.interrupted = False
        self.incomplete: str | None = None  # why there are fewer rounds than asked for
        self.chosen_rounds = plan.rounds or JUDGED_ROUNDS
        self.looks = 1  # how often it was looked whether to go on; only with until
        self.load = Load()  # what others did meanwhile
        self.sites: dict[str, Any] | None = None  # where the program allocates
        self.witness: dict[str, Any] | None = None  # what other tools say, if they were asked
        self.reference_run: Run | None = None  # the last under glibc before the rounds

    def quantities(self) -> tuple[str, ...]:
        """What is measured of each run."""
        if not isinstance(self.reference_run, ServerRun):
            return QUANTITIES
        metrics = (METRIC + one.name for one in self.known_metrics())
        return (*QUANTITIES, *SERVER_QUANTITIES, *metrics)

    def known_metrics(self) -> Sequence[Metric]:
        """What a server's load prints."""
        return self.reference_run.known if isinstance(self.reference_run, ServerRun) else ()

    def cpu_quantity(self) -> str:
        """What is judged of CPU. It is per request where the load says how many there were: of a
        load that lasts as long as it was told to, CPU time alone says nothing."""
        names = [one.name for one in self.known_metrics()]
        return "cpu_per_request_seconds" if REQUESTS in names else "cpu_seconds"

    def deterministic(self) -> bool | None:
        """Whether all runs under glibc wrote the same; None when that was not looked at."""
        if self.plan.check != "stdout":
            return None
        outputs = set(self.reference.outputs)
        for contender in self.contenders:
            if self.is_reference(contender.allocator):
                outputs |= contender.outputs
        return len(outputs) <= 1

    def is_reference(self, allocator: Allocator) -> bool:
        """Whether it is what ran before all others. A tuned glibc is another allocator."""
        return allocator.same_choice(self.reference.allocator)

    def confidence(self) -> float:
        """Of every interval."""
        return confidence_of_each(len(self.look_rounds()), JUDGED_CONFIDENCE)

    def look_rounds(self) -> Sequence[int]:
        """After how many rounds to look whether to go on; the last is the end."""
        if self.plan.until is None:
            return [self.chosen_rounds]
        return look_rounds(self.chosen_rounds, self.plan.most_rounds)

    def rounds(self) -> int:
        """To be done, or begun where the figures say how many it takes."""
        return self.chosen_rounds if self.plan.until is None else len(self.baseline.runs)

    def drop_rounds_from(self, number: int) -> None:
        """Takes back what was measured of this round and those behind it."""
        for contender in self.contenders:
            del contender.runs[number:]

    def choose_rounds(self, run_seconds: float) -> None:
        """Where neither their number nor a width is asked for. run_seconds: what a run takes."""
        if self.plan.rounds is None and self.plan.until is None:
            self.chosen_rounds = rounds_within(run_seconds * len(self.contenders))

    def status(self, contender: Contender) -> str:
        """ok, failed, not-measured, different-output, out-of-reach, reach-unknown or
        nondeterministic."""
        if contender.failure is not None:
            return "failed"
        if not any(contender.runs):
            return "not-measured"
        if contender.rejected:
            return "different-output"
        if self.deterministic() is not False and not contender.outputs <= self.reference.outputs:
            return "different-output"
        if not self.plan.compares_builds_alone():  # whose figures are theirs, whoever serves them
            if served.is_out_of_reach(contender.served):
                return "out-of-reach"
            if served.is_unknown(contender.served):
                return "reach-unknown"
        return "nondeterministic" if self.deterministic() is False else "ok"

    def summary(self, contender: Contender, quantity: str) -> Summary | None:
        """A quantity over the rounds in which it and the baseline have it; None for a failed
        allocator, and where most rounds lack it. One may: no look at memory came in time."""
        if contender.failure is not None:
            return None
        values, base = _values(contender, quantity), _values(self.baseline, quantity)
        if values is None or base is None:
            return None
        values = [None if other is None else own for own, other in zip(values, base)]
        return summarize(values, base, self.confidence())

    def is_narrow(self) -> bool:
        """Whether every interval of CPU is as narrow as was asked for."""
        others = [
            one for one in self.contenders if one.failure is None and one is not self.baseline
        ]
        return all(self._is_narrow(one) for one in others)

    def _is_narrow(self, contender: Contender) -> bool:
        summary = self.summary(contender, self.cpu_quantity())
        ratio = summary.ratio_interval() if summary else None
        if summary is None or ratio is None or self.plan.until is None:
            return True  # more rounds would not tell more
        return summary.interval == ORDER_STATISTIC and ratio.half_width <= self.plan.until


# Below it the kernel's ticks, of 10 ms, say nothing of what others used.
LEAST_LOAD_SECONDS = 0.2


class Load:
    """How much processor time others used while rounds were measured."""

    def __init__(self) -> None:
        self.elapsed = self.others = 0.0
        self._began: tuple[float, float] | None = None

    def __enter__(self) -> None:
        self._began = self._now()

    def __exit__(self, *_: object) -> None:
        ended = self._now()
        if self._began is not None and ended is not None:
            self.elapsed += ended[0] - self._began[0]
            self.others += ended[1] - self._began[1]

    @staticmethod
    def _now() -> tuple[float, float] | None:
        """The clock, and what others have used up to now."""
        busy, ours = busy_seconds(), os.times()
        if busy is None:
            return None
        used = ours.user + ours.system + ours.children_user + ours.children_system
        return ours.elapsed, busy - used

    def processors(self) -> float | None:
        """How many of them on average; None where that is not known."""
        known = self.elapsed >= LEAST_LOAD_SECONDS
        return max(0.0, self.others / self.elapsed) if known else None


def _values(contender: Contender, quantity: str) -> list[float | None] | None:
    """By round; None where most of the rounds that were measured lack it."""
    values = [None if run is None else run.figure(quantity) for run in contender.runs]
    unmeasured = contender.runs.count(None)
    lacking = values.count(None) - unmeasured
    return None if lacking * 2 > len(values) - unmeasured else values
