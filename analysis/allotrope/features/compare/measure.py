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

import hashlib
import os
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Callable, Mapping, Sequence

from ...output.sentences import enumerate_names
from ...system.allocators import OWN_VARIABLES, Allocator, glibc, own_missing, with_unwinder
from ...system.errors import UserError
from ...system.executables import SERVES_ITSELF, find_program, preload_obstacle
from ...system.launch import Launch, Run, launch, launch_together
from ...system.machine import duet_processor, proc_is_mounted
from ...system.native import last_line, read_reports
from ...system.scratch import scratch_folder
from ...system.serving import Watcher
from ...system.shell import Said, run_shell
from ..latency.measure import read_latencies
from ..reach import served
from ..server.plan import check_server_plan, divide_processors
from ..server.run import ServerRun, Surroundings, serve
from ..sites.measure import read_sites
from ..sites.output import summarize_sites
from .accounts import read_accounts
from .comparison import Comparison, Contender, Failure, Plan

# How much a round may add to the environment, and the variable that it adds.
MOST_PADDING = 4096
HANGS_SECONDS = 30  # from which on a run that is interrupted may have hung
PADDING = "ALLOTROPE_PADDING"
ALLOCATOR_LIBRARIES = ("liballotrope", "libjemalloc", "libmimalloc", "libtcmalloc")

Progress = Callable[[str, int], None]


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


class BaselineFailed(Exception):
    """The baseline, which had worked, failed: there is nothing to compare with."""


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
    reference = replace(glibc(), build=plan.allocators[plan.baseline].build)
    foreign = sum(not allocator.same_choice(reference) for allocator in plan.allocators)
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
            empty_folders(reports)
            contender.served_missing = f"for, when watched, it ended so: {self._ending(run)}"
            run = self._run(contender.allocator, "who serves", settings)
            if self._ended_well(run):
                self._prove_served(contender, run, read_reports(reports), None)
        empty_folders(reports)

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
            # The launcher has looked for others all the time. Without /proc it sees none.
            seen = 1 if run.processes == 1 else None
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
            empty_folders(accounts, places)
            watched = f"for, when watched, it ended so: {self._ending(run)}"
            again = self._attempt(contender, "accounting", **how)
            if again is None:
                empty_folders(accounts, places)
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
        empty_folders(accounts, places)

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
            empty_folders(folder)
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


def empty_folders(*folders: Path) -> None:
    """Of their files, before another run writes there."""
    for folder in folders:
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
