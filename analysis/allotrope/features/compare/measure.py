# SPDX-License-Identifier: MIT
"""Measures one command under several allocators, side by side.

    reference   glibc twice, untimed: does the command work, and is its output always the same?
    warm-up     every other allocator, untimed; its output is held against glibc's
    account     everyone once, untimed and watched: who really serves each process, how many
                allocations there are; of ours the heap's peak, fragmentation and waste as well
    rounds      every allocator once a round, in an order that changes from round to round; in a
                duet all at the same time on one processor
    latencies   if asked for, every allocator once more with each call timed

Each round gives one ratio to the baseline of that round, so that what drifts from round to round
(clock speed, neighbours, page cache) hits all alike. What of a program's surroundings is no
property of its allocator, and yet moves its figures, differs from round to round, so that the
intervals show it: where the kernel puts things, and how large the environment is, which many
programs copy into their heaps. The account, which is taken once, has both fixed instead, and is
the same in every comparison of a program that does the same. (T. Mytkowicz, A. Diwan, M.
Hauswirth, P. F. Sweeney, "Producing Wrong Data Without Doing Anything Obviously Wrong!", 2009.)

In a duet all runs of a round share one processor, a few milliseconds each in turn, so that what
changes its speed for longer than that changes all alike. Where processors are shared with others,
as on virtual machines, ratios of CPU time then vary several times less. Wall time is not measured
then. (L. Bulej, V. Horky, P. Tuma, F. Farquet, A. Prokopec, "Duet Benchmarking:
Improving Measurement Accuracy in the Cloud", ICPE 2020; their pairs have a processor each.)

No figure is dropped. A run that fails ends
its allocator's part: what fails is not measured.
"""

import datetime
import hashlib
import os
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Callable, Mapping, Sequence

from ...output.sentences import enumerate_names
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
from ...system.allocators import (
    OWN_VARIABLES,
    Allocator,
    for_program,
    glibc,
    own_missing,
    with_unwinder,
)
from ...system.errors import UserError
from ...system.executables import SERVES_ITSELF, find_program, preload_obstacle
from ...system.launch import Launch, Run, launch, launch_together
from ...system.machine import busy_seconds, duet_processor, proc_is_mounted
from ...system.native import last_line, read_reports
from ...system.scratch import scratch_folder
from ...system.serving import Watcher
from ...system.shell import Said, run_shell
from ..latency.measure import read_latencies
from ..reach import served
from ..server.plan import ServerPlan, check_server_plan, divide_processors
from ..server.run import METRIC, ServerRun, Surroundings, serve
from ..server.run import QUANTITIES as SERVER_QUANTITIES
from ..sites.measure import read_sites
from ..sites.output import summarize_sites

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
# What of the statistics' peak is kept beside its waste; with it they add up to mapped_bytes.
AT_PEAK = ("time_seconds", "requested_bytes", "mapped_bytes", "resident_bytes")
TIMELINE_POINTS = 160
# Below it a heap is mostly its allocator's own pages, and a ratio to what was asked for misleads.
LEAST_HEAP_BYTES = 64 << 10
MOST_ROUNDS = 400  # of --until
# How much a round may add to the environment, and the variable that it adds.
MOST_PADDING = 4096
HANGS_SECONDS = 30  # from which on a run that is interrupted may have hung
PADDING = "ALLOTROPE_PADDING"
BUILD = "{build}"
ALLOCATOR_LIBRARIES = ("liballotrope", "libjemalloc", "libmimalloc", "libtcmalloc")


Progress = Callable[[str, int], None]


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
        build = allocator.build
        return [word if build is None else word.replace(BUILD, build) for word in self.command]

    def server_of(self, allocator: Allocator) -> ServerPlan | None:
        if self.server is None or allocator.build is None:
            return self.server
        return replace(self.server, server=self.server.server.replace(BUILD, allocator.build))

    def surroundings(self) -> dict[str, str]:
        """The environment of shell commands."""
        return {name: value for name, value in os.environ.items() if name not in self.unset} | dict(
            self.environment
        )


@dataclass(frozen=True)
class Failure:
    """The run that ended an allocator's part."""

    when: str  # "warm-up", "accounting" or "round 3"
    exit_status: int | None
    signal: int | None
    timed_out: bool
    ending: str
    message: str | None  # the last line that it wrote to standard error


@dataclass(frozen=True)
class Written:
    """The files that take what a run writes."""

    output: Path
    errors: Path

    def last_error(self) -> str | None:
        """The last line on standard error."""
        if not self.errors.exists():
            return None
        with self.errors.open("rb") as errors:
            errors.seek(max(0, self.errors.stat().st_size - 4096))
            said = last_line(errors.read()).strip()
        return said[:200] or None


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


class BaselineFailed(Exception):
    """The baseline, which had worked, failed: there is nothing to compare with."""


class Comparison:
    """A measurement in progress, and then its result."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.started = datetime.datetime.now(datetime.timezone.utc)
        program = plan.command[0]
        self.contenders = [Contender(for_program(one, program)) for one in plan.allocators]
        self.baseline = self.contenders[plan.baseline]
        self.reference = Contender(
            for_program(replace(glibc(), build=self.baseline.allocator.build), program)
        )
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
        metrics = (METRIC + one.name for one in self.reference_run.known)
        return (*QUANTITIES, *SERVER_QUANTITIES, *metrics)

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
        """Whether it is what ran before all others."""
        return allocator.name == "glibc" and allocator.build == self.reference.allocator.build

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
        """A quantity over all rounds; None for a failed allocator, or when the machine or the
        command has no such quantity in some round."""
        if contender.failure is not None:
            return None
        values = _values(contender, quantity)
        base = _values(self.baseline, quantity)
        if values is None or base is None:
            return None
        return summarize(values, base, self.confidence())

    def is_narrow(self) -> bool:
        """Whether every interval of CPU is as narrow as was asked for."""
        others = [
            one for one in self.contenders if one.failure is None and one is not self.baseline
        ]
        return all(self._is_narrow(one) for one in others)

    def _is_narrow(self, contender: Contender) -> bool:
        summary = self.summary(contender, "cpu_seconds")
        ratio = summary.ratio_interval() if summary else None
        if summary is None or ratio is None or self.plan.until is None:
            return True  # more rounds would not tell more
        return summary.interval == ORDER_STATISTIC and ratio.half_width <= self.plan.until


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
        return max(0.0, self.others / self.elapsed) if self.elapsed > 0 else None


def _values(contender: Contender, quantity: str) -> list[float | None] | None:
    values = [None if run is None else run.figure(quantity) for run in contender.runs]
    lacking = any(run is not None and value is None for run, value in zip(contender.runs, values))
    return None if lacking else values


def order_of_round(number: int, count: int) -> list[int]:
    """The order in which `count` contenders run in round `number` (from 0).

    Rows of a Williams square: over a cycle everyone stands in every place equally often, and
    comes directly after every other equally often, so that what one run leaves behind for the
    next (caches, free pages) favours nobody. An odd count needs each row's mirror image as well.
    Source: E. J. Williams, Australian Journal of Scientific Research A 2 (1949), 149-168."""
    zigzag = [
        (place + 1) // 2 if place % 2 else (count - place // 2) % count for place in range(count)
    ]
    shift = number // 2 if count % 2 else number
    row = [(start + shift) % count for start in zigzag]
    return row[::-1] if count % 2 and number % 2 else row


def padding_of_round(number: int) -> dict[str, str]:
    """What round `number` (from 0) adds to every allocator's environment: lengths that fill the
    range evenly, however many rounds there are (multiples of the golden ratio)."""
    share = (number + 1) * (5**0.5 - 1) / 2 % 1
    return {PADDING: "-" * int(share * MOST_PADDING)}


def steps(plan: Plan, rounds: int) -> int:
    """How many runs of the command a plan takes, for a progress bar."""
    build = plan.allocators[plan.baseline].build
    foreign = sum(
        allocator.name != "glibc" or allocator.build != build for allocator in plan.allocators
    )
    timed = rounds + plan.latency
    return 2 + foreign * plan.warmup + len(plan.allocators) * (1 + timed)


def check_plan(plan: Plan) -> None:
    """Raises UserError for what can be known before anything is run."""
    if plan.server is not None:
        check_server_plan(plan.server)
    refused: dict[tuple[str, str], list[str]] = {}
    for allocator in plan.allocators:
        name = plan.command_of(allocator)[0]
        obstacle = preload_obstacle(find_program(name), allocator.ours)
        if obstacle is not None and allocator.library:
            refused.setdefault((name, obstacle), []).append(allocator.spec)
    for (name, obstacle), specs in refused.items():
        who = enumerate_names(specs)
        rest = f"there is nothing to compare under {who}"
        if obstacle == SERVES_ITSELF:
            rest = f"leave out {who}: -a names those that are compared"
        raise UserError(f"{name}: this program {obstacle}; {rest}")
    for path in os.environ.get("LD_PRELOAD", "").replace(":", " ").split():
        if Path(path).name.startswith(ALLOCATOR_LIBRARIES):
            raise UserError(
                f"LD_PRELOAD already loads {path}, under which nothing can be compared; unset it"
            )


def compare(plan: Plan, progress: Progress = lambda step, runs: None) -> Comparison:
    """Measures as planned. `progress` is told of each run as it begins, and how many there are.
    An interruption (KeyboardInterrupt) ends the measurement and keeps what there is, marked
    `interrupted`.
    Raises UserError when the plan cannot work: above all when the baseline fails. What goes wrong
    once there are figures makes them `incomplete`."""
    comparison = Comparison(plan)
    check_plan(plan)
    with scratch_folder() as folder:
        if plan.server is not None:
            folder.chmod(0o711)  # a server that gives its rights up writes its account there
        runner = Runner(comparison, folder, progress)
        try:
            runner.measure_reference()
            runner.warm_up()
            runner.take_accounts()
            runner.measure_rounds()
            runner.take_latencies()
        except KeyboardInterrupt:
            comparison.interrupted = True
            comparison.incomplete = f"interrupted{runner.interruption()}"
        except BaselineFailed as failed:
            comparison.incomplete = str(failed)
        except UserError as error:
            if not any(contender.runs for contender in comparison.contenders):
                raise
            comparison.incomplete = error.format_message()
    return comparison


class Runner:
    """Carries a comparison out; `folder` is scratch space."""

    def __init__(self, comparison: Comparison, folder: Path, progress: Progress) -> None:
        self.comparison = comparison
        self.plan = comparison.plan
        self.folder = folder
        self.progress = progress
        self.written = Written(folder / "stdout", folder / "stderr")
        self.verdict = ""  # how --check's command ended, in words
        self.running: tuple[str, float] | None = None  # what runs, and since when

    def interruption(self) -> str:
        """In what run it came: one that hangs is why people interrupt."""
        if self.running is None:
            return ""
        what, began = self.running
        seconds = time.monotonic() - began
        hint = "; --timeout ends a run that takes too long" if seconds >= HANGS_SECONDS else ""
        return f" in the {what}, which took {seconds:.0f} s by then{hint}"

    def measure_reference(self) -> None:
        """glibc twice: what success is, and whether the output is always the same."""
        reference = self.comparison.reference
        endings = set()
        for _ in range(2):
            began = time.monotonic()
            run = self._run(reference.allocator, "reference")
            self.comparison.choose_rounds(time.monotonic() - began)
            self.comparison.reference_run = run
            if isinstance(run, ServerRun):
                self._judge_server(run)
            elif run.timed_out or not (self.plan.ignore_failure or run.exit_status == 0):
                raise UserError(self._explain_failure(run))
            endings.add((run.exit_status, run.signal))
            self._note_output(reference, self.written)
        if reference.rejected:
            raise UserError(
                f"--check: '{self.plan.check}' {self.verdict} for the output under glibc itself; "
                "valid are none, stdout, or a shell command that accepts that output"
            )
        self.comparison.endings = endings

    def _judge_server(self, run: ServerRun) -> None:
        """How it ends when it is told to is its own affair."""
        if run.problem is not None:
            said = (
                f"; the server's last line: {message}"
                if (message := self.written.last_error())
                else ""
            )
            raise UserError(f"under glibc itself: {run.problem}{said}")

    def _ended_well(self, run: Run) -> bool:
        """As under glibc."""
        same = (run.exit_status, run.signal) in self.comparison.endings
        return same and not run.timed_out and run.problem is None

    def _explain_failure(self, run: Run) -> str:
        remedy = (
            "raise --timeout" if run.timed_out else "mend it, or accept that with --ignore-failure"
        )
        return f"the command fails under glibc: {self._ending(run)}; {remedy}"

    def _ending(self, run: Run) -> str:
        """Of the last run, with the last line of its standard error."""
        said = f" ({message})" if (message := self.written.last_error()) else ""
        return f"{run.ending()}{said}"

    def warm_up(self) -> None:
        """glibc is warm by now."""
        for _ in range(self.plan.warmup):
            for contender in self._still_in():
                if not self.comparison.is_reference(contender.allocator):
                    self._attempt(contender, "warm-up")
        failure = self.comparison.baseline.failure
        if failure is not None:
            said = f" ({failure.message})" if failure.message else ""
            raise UserError(
                f"the command fails under the baseline {self.comparison.baseline.allocator.spec}:"
                f" {failure.ending}{said}; choose another with --baseline"
            )

    def take_accounts(self) -> None:
        for contender in self._still_in():
            if contender.allocator.ours:
                self._take_account(contender)
            else:
                self._look_who_serves(contender)

    def _look_who_serves(self, contender: Contender) -> None:
        """Our library stands before an allocator that is not ours, and counts. A program that
        cannot be watched so keeps its place in the rounds."""
        if own_missing() is not None:
            contender.served_missing = "for our library, which counts, is not built"
            return
        reports = self._folder_for_reports(f"reports-{contender.allocator.name}")
        settings = contender.allocator.watched_environment()
        settings["ALLOTROPE_STATS"] = str(reports / "%p.json")
        with Watcher() as watcher:
            run = self._run(contender.allocator, "who serves", settings, watcher=watcher)
        if self._ended_well(run):
            self._note_served(contender, watcher, run, read_reports(reports))
        else:
            _empty(reports)
            contender.served_missing = f"for, when watched, it ended so: {self._ending(run)}"
            run = self._run(contender.allocator, "who serves", settings)
            if self._ended_well(run):
                self._prove_served(contender, run, read_reports(reports), None)
        _empty(reports)

    def _folder_for_reports(self, name: str) -> Path:
        """A server that gives its rights up writes there, too."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777 if self.plan.server is not None else 0o755)
        return folder

    def _note_served(
        self, contender: Contender, watcher: Watcher, run: Run, reports: list[dict[str, Any]]
    ) -> None:
        window = run.window if isinstance(run, ServerRun) else None
        contender.served = served.account(watcher.processes, contender.allocator, window)
        if not proc_is_mounted():
            contender.served, contender.served_missing = None, "for /proc is not mounted"
        if watcher.forbidden:
            contender.served, contender.served_missing = None, served.NO_PTRACE
        if contender.served is None:
            seen = None if watcher.forbidden else len(watcher.processes)
            self._prove_served(contender, run, reports, seen)
        if served.is_out_of_reach(contender.served) and contender.allocator.ours:
            contender.heap, contender.heap_missing = None, served.NO_ACCOUNT

    def _prove_served(
        self, contender: Contender, run: Run, reports: list[dict[str, Any]], seen: int | None
    ) -> None:
        """seen: how many processes there were; None: nobody saw them."""
        if not seen:
            # With /proc the launcher has looked for others all the time.
            seen = 1 if proc_is_mounted() and run.tree_peak_bytes is None else None
        found = served.account_by_reports(reports, contender.allocator, seen)
        if found is not None:
            contender.served, contender.served_missing = found, None

    def _take_account(self, contender: Contender) -> None:
        """Where the memory was allocated is the program's own doing, so the first account that
        succeeds tells it for all."""
        accounts, places = (
            self._folder_for_reports(f"{name}-{contender.allocator.name}")
            for name in ("account", "sites")
        )
        settings = {"ALLOTROPE_STATS": str(accounts / "%p.json")}
        if self.comparison.sites is None:
            program = self.plan.command_of(contender.allocator)[0]
            settings |= with_unwinder(contender.allocator.environment(), program)
            settings["ALLOTROPE_SITES"] = str(places / "%p.json")
        with Watcher(weighs=True) as watcher:
            how: dict[str, Any] = {"settings": settings, "fixed_addresses": True}
            run = self._run(contender.allocator, "accounting", watcher=watcher, **how)
        again: Run | None = None
        if self._ended_well(run):
            self._note_output(contender, self.written)
        else:
            for folder in (accounts, places):
                _empty(folder)
            watched = f"for, when watched, it ended so: {self._ending(run)}"
            again = self._attempt(contender, "accounting", **how)
            if again is None:
                return
            contender.served_missing = watched
        if self.comparison.sites is None:
            found = read_sites(places, contender.allocator)
            self.comparison.sites = summarize_sites(found) if found else None
        contender.heap = read_accounts(accounts)
        if contender.heap is None:
            contender.heap_missing = "no process of the command wrote statistics"
        reports = read_reports(accounts)
        if again is None:
            self._note_served(contender, watcher, run, reports)
        else:
            self._prove_served(contender, again, reports, None)
        served.note_share(contender.served, contender.heap)
        for folder in (accounts, places):
            _empty(folder)

    def take_latencies(self) -> None:
        """Calls are timed when all else is measured: who cannot be watched has only no figures of
        that."""
        for contender in self._still_in() if self.plan.latency else []:
            folder = self.folder / "latencies"
            folder.mkdir(exist_ok=True)
            settings = contender.allocator.watched_environment()
            settings["ALLOTROPE_LATENCY"] = str(folder / "%p.json")
            run = self._run(contender.allocator, "latencies", settings)
            contender.latency = read_latencies(folder)
            for file in folder.iterdir():
                file.unlink()
            if not self._ended_well(run):
                contender.latency = None
                how = self._ending(run)
                contender.latency_missing = f"no latencies, for with its calls timed {how}"
            elif contender.latency is None:
                contender.latency_missing = "no process of the command wrote latencies"
            else:
                contender.latency["cpu_seconds"] = run.cpu_seconds

    def measure_rounds(self) -> None:
        plan, done = self.plan, 0
        for look, rounds in enumerate(self.comparison.look_rounds(), start=1):
            self.comparison.looks = look  # already: an interruption is a look, too
            for number in range(done, rounds):
                self.measure_round(number)
            done = rounds
            if plan.until is not None and self.comparison.is_narrow():
                break

    def measure_round(self, number: int) -> None:
        """Everyone once. Raises BaselineFailed when there is nothing left to compare with. What an
        interrupted round has measured is dropped, so that all have the same rounds; but that of the
        first is all that there is."""
        try:
            with self.comparison.load:
                self._measure_round(number)
        except KeyboardInterrupt:
            if number > 0:
                self.comparison.drop_rounds_from(number)
            raise

    def _measure_round(self, number: int) -> None:
        contenders = self.comparison.contenders
        for contender in contenders:
            contender.runs.append(None)
        order = [contenders[place] for place in order_of_round(number, len(contenders))]
        if self.plan.duet:
            self._measure_duet([one for one in order if one.failure is None], number)
            self._need_baseline()
            return
        for contender in order:
            if contender.failure is None:
                contender.runs[-1] = self._attempt(
                    contender, f"round {number + 1}", settings=padding_of_round(number)
                )
            self._need_baseline()

    def _need_baseline(self) -> None:
        failure = self.comparison.baseline.failure
        if failure is not None:
            raise BaselineFailed(f"the baseline failed in {failure.when}: {failure.ending}")

    def _measure_duet(self, contenders: Sequence[Contender], number: int) -> None:
        """All at the same time. A run's timeout counts as if it had the processor alone."""
        when = f"round {number + 1}"
        files = [
            Written(self.folder / f"stdout-{place}", self.folder / f"stderr-{place}")
            for place in range(len(contenders))
        ]
        commands = []
        for contender, written in zip(contenders, files):
            self._progress(contender.allocator, when)
            one = self._command(contender.allocator, written, padding_of_round(number))
            timeout = one.timeout and one.timeout * len(contenders)
            commands.append(replace(one, timeout=timeout, processors=[duet_processor()]))
        self._prepare()
        runs = launch_together(commands)
        for contender, run, written in zip(contenders, runs, files):
            contender.runs[-1] = self._accept(contender, run, when, written)

    def _still_in(self) -> list[Contender]:
        return [contender for contender in self.comparison.contenders if contender.failure is None]

    def _attempt(self, contender: Contender, when: str, **how: Any) -> Run | None:
        """One run that must end as under glibc; else the contender has failed, and None. how: as
        _run() takes it."""
        run = self._run(contender.allocator, when, **how)
        return self._accept(contender, run, when, self.written)

    def _accept(self, contender: Contender, run: Run, when: str, written: Written) -> Run | None:
        """The run, if it ended as under glibc; else the contender has failed, and None."""
        if not self._ended_well(run):
            contender.failure = Failure(
                when=when,
                exit_status=run.exit_status,
                signal=run.signal,
                timed_out=run.timed_out,
                ending=run.ending(),
                message=written.last_error(),
            )
            return None
        self._note_output(contender, written)
        return run

    def _run(
        self,
        allocator: Allocator,
        when: str,
        settings: dict[str, str] | None = None,
        fixed_addresses: bool = False,
        watcher: Watcher | None = None,
    ) -> Run:
        self._progress(allocator, when)
        self._prepare()
        server = self.plan.server_of(allocator)
        if server is not None:
            return serve(server, self._surroundings(allocator, settings or {}, watcher))
        one = self._command(allocator, self.written, settings or {})
        return launch(replace(one, fixed_addresses=fixed_addresses, watcher=watcher))

    def _progress(self, allocator: Allocator, when: str) -> None:
        runs = steps(self.plan, self.comparison.chosen_rounds)
        self.running = f"{when} under {allocator.spec}", time.monotonic()
        self.progress(f"{when} · {allocator.spec}", runs)

    def _command(
        self, allocator: Allocator, written: Written, settings: Mapping[str, str]
    ) -> Launch:
        """The command under an allocator."""
        return Launch(
            self.plan.command_of(allocator),
            environment={**self.plan.environment, **allocator.environment(), **settings},
            directory=self.plan.directory,
            unset=[*OWN_VARIABLES, *self.plan.unset],
            stdin=self.plan.input or os.devnull,
            stdout=os.devnull if self.plan.check == "none" else written.output,
            stderr=written.errors,
            timeout=self.plan.timeout,
        )

    def _surroundings(
        self, allocator: Allocator, settings: dict[str, str], watcher: Watcher | None
    ) -> Surroundings:
        return Surroundings(
            environment={**self.plan.environment, **allocator.environment(), **settings},
            unset=[*OWN_VARIABLES, *self.plan.unset],
            plain=self.plan.surroundings(),
            processors=divide_processors(),
            stderr=self.written.errors,
            timeout=self.plan.timeout,
            directory=self.plan.directory,
            watcher=watcher,
        )

    def _note_output(self, contender: Contender, written: Written) -> None:
        if self.plan.check == "none":
            return
        with written.output.open("rb") as output:
            if self.plan.check == "stdout":
                contender.outputs.add(hashlib.file_digest(output, "blake2b").hexdigest())
                return
            verdict = self._shell(self.plan.check, output)
            contender.rejected |= verdict.status != 0
            self.verdict = verdict.ending()

    def _prepare(self) -> None:
        command = self.plan.prepare
        if command is None:
            return
        said = self._shell(command)
        if said.status != 0:
            raise UserError(f"--prepare: '{command}' {said.ending()}")

    def _shell(self, script: str, stdin: int | BinaryIO = subprocess.DEVNULL) -> Said:
        return run_shell(script, stdin=stdin, cwd=self.plan.directory, env=self.plan.surroundings())


def _empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def thin(timeline: Sequence[Mapping[str, Any]] | None) -> dict[str, list[float]] | None:
    """At most TIMELINE_POINTS of a timeline's points, the last among them, by quantity."""
    if not timeline:
        return None
    step = -(-len(timeline) // TIMELINE_POINTS)
    kept = [*timeline[::-1][::step][::-1]]
    return {key: [point[key] for point in kept] for key in kept[0]}


def read_accounts(folder: Path) -> dict[str, Any] | None:
    """The "heap" of a run, from the statistics that its processes wrote (allotrope.stats/1): that
    of the process with the largest heap. None when there are none."""
    accounts = read_reports(folder)
    if not accounts:
        return None
    largest = max(accounts, key=lambda account: account["mapped_peak_bytes"] or 0)
    mapped = largest["mapped_peak_bytes"]
    peak = largest["peak"]
    requested = peak.get("most_requested_bytes") or peak["requested_bytes"]
    large = requested >= LEAST_HEAP_BYTES
    return {
        "command": largest["command"],
        "processes": len(accounts),
        "mapped_peak_bytes": mapped,
        "requested_peak_bytes": requested,
        "fragmentation": mapped / requested if mapped is not None and large else None,
        "waste": peak["waste"],
        "at_peak": {key: peak.get(key) for key in AT_PEAK},
        "live": largest.get("live"),
        "sizes": largest.get("sizes"),
        "resident_peak_bytes": _most_resident(largest),
        "timeline": thin(largest.get("timeline")),
        "metadata_bytes": largest.get("metadata_bytes"),
        "calls": largest.get("calls"),
        "system_calls": largest.get("system_calls"),
        "collector": _collector(largest),
    }


def _most_resident(account: Mapping[str, Any]) -> int | None:
    """Of the heap, as far as it was looked at; None where it was not."""
    points = [account["peak"], *(account.get("timeline") or ())]
    known = [point["resident_bytes"] for point in points if point.get("resident_bytes") is not None]
    return max(known, default=None)


def _collector(account: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a garbage collector did, None where there is none. The historic one does not count
    causes and pauses."""
    if "gc" not in account:
        return None
    names = ["causes", "pauses", "given_up", "stopped"]
    names += ["minor", "full", "first_stop", "generations", "cycles"]
    groups = {name: account.get(f"gc_{name}", {}) for name in names}
    return {**account["gc"], **groups}
