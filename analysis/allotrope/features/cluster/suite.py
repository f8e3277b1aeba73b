# SPDX-License-Identifier: MIT
"""A suite on a cluster: one program is one task.

    programs not in the store ──submit──> worker: takes the host's slot, runs the command
            ^                                 │ dies: Dask gives the task to another worker
            │                                 v
         store of steps (--state) <──entry── the program's part of the suite's document

Dask keeps the tasks, finds workers that die, and gives their tasks to others. The client keeps as
many programs under way as there are workers, so none waits in a worker's queue and there is nothing
to steal. An entry is counted when it is in the store: once for each program, by its name. When
the scheduler is lost, what is not in the store is submitted to the next that answers.
"""

import json
import os
import sys
import time
import uuid
from typing import Any, Callable, Mapping

from ...system.errors import UserError
from ...system.machine import machine_facts
from ...system.native import last_line
from ...system.places import PLACES, found_by
from ..suite.measure import SuiteRun, begin_state, duration, is_inherited, save_state
from ..suite.output import assemble
from . import worker
from .connection import PATIENCE_SECONDS, connected, dask, other_versions, scheduler_address

STATE_SCHEMA = "allotrope.suite-steps/1"
# How the command on a worker ends when its document is whole: all went well, or an allocator or the
# program failed, which is a result too.
MEASURED = (0, 1)
LOOK_SECONDS = 2.0  # how often it is seen whether there still are workers
Entry = dict[str, Any]
Announce = Callable[[str], None]


class SchedulerLost(Exception):
    """The client's tasks are gone with the scheduler."""


class Steps:
    """The entries that are there, and the file that keeps them."""

    def __init__(self, run: SuiteRun, resume: bool) -> None:
        saved = begin_state(run, STATE_SCHEMA, resume)
        self.run = run
        self.entries: dict[str, Entry] = saved["programs"] if saved else {}
        self.failures: dict[str, str] = {}

    def missing(self) -> list[str]:
        """Programs to be measured, in the suite's order."""
        names = [program.name for program in self.run.suite.programs]
        return [name for name in names if name not in self.entries and name not in self.failures]

    def keep(self, name: str, entry: Entry) -> None:
        self.entries.setdefault(name, entry)
        self.save()

    def save(self) -> None:
        save_state(self.run, STATE_SCHEMA, self.entries)

    def all_entries(self) -> list[Entry]:
        """One for each program, in the suite's order."""
        return [
            self.entries.get(program.name)
            or failed_entry(program.name, self.failures.get(program.name, "not measured"))
            for program in self.run.suite.programs
        ]


def failed_entry(name: str, reason: str) -> Entry:
    return {
        "name": name,
        "host": None,
        "status": "failed",
        "reason": reason,
        "comparison": None,
    }


def measure_on_cluster(
    run: SuiteRun,
    address: str,
    resume: bool,
    announce: Announce,
    patience: float = PATIENCE_SECONDS,
) -> tuple[dict[str, Any], bool]:
    """The suite's document, and whether all programs are in it. The state file is the caller's to
    remove."""
    dask()
    steps = Steps(run, resume)
    try:
        with scheduler_address(address) as scheduler:
            while steps.missing():
                try:
                    with connected(scheduler, patience) as client:
                        Submission(client, steps, announce, patience).measure_all()
                except (SchedulerLost, dask().comm.CommClosedError):
                    left = ", ".join(steps.missing())
                    announce(f"the scheduler was lost; to be submitted anew: {left}")
    except KeyboardInterrupt:
        run.interrupted = True
        kept = f"; --resume continues from {run.state}" if run.state.exists() else ""
        announce(f"interrupted{kept}")
    entries = steps.all_entries()
    machines = [entry["comparison"]["machine"] for entry in entries if entry["comparison"]]
    document = assemble(run, machines[0] if machines else machine_facts(), entries)
    return document, not steps.missing() and not steps.failures


class Submission:
    """What one scheduler is asked."""

    def __init__(self, client: Any, steps: Steps, announce: Announce, patience: float) -> None:
        self.client = client
        self.steps = steps
        self.announce = announce
        self.patience = patience
        self.waiting = steps.missing()
        self.under_way: dict[Any, str] = {}
        self.begun = time.monotonic()
        self.done = 0
        self.seen = time.monotonic()  # when there was a worker

    def measure_all(self) -> None:
        """Every program that is missing. Raises SchedulerLost, and UserError where workers are not
        like the client, or are no more."""
        self.expected = worker.fingerprints(depends_on(self.steps.run))
        self.know_workers()
        self.steps.save()
        try:
            while self.waiting or self.under_way:
                self.submit()
                self.collect()
        finally:
            for future in self.under_way:
                future.release()

    def know_workers(self) -> None:
        """Tells who they are. A worker that ends meanwhile is none; one that comes later is held
        against the client when it gets a program."""
        lines = other_versions(self.client)
        asked: dict[str, Any] = {}
        if not lines:
            doctor = [sys.executable, "-I", sys.argv[0], "doctor", "--json"]
            asked = self.client.run(
                worker.introduce, self.expected, doctor, environment(), on_error="return"
            )
            asked = {address: one for address, one in asked.items() if not lost(one)}
            lines = [line for address, one in asked.items() for line in faults(address, one)]
        if lines:
            raise UserError("--cluster: " + "; ".join(lines))
        for address, one in asked.items():
            lacks = f"; lacks {', '.join(one['lacks'])}" if one["lacks"] else ""
            self.announce(f"worker {address} on {one['host']}: {one['kind']}{lacks}")

    def workers(self) -> int:
        return len(self.client.scheduler_info()["workers"])

    def submit(self) -> None:
        while self.waiting and len(self.under_way) < max(self.workers(), 1):
            name = self.waiting.pop(0)
            future = self.client.submit(
                worker.measure,
                question(self.steps.run, name, self.expected),
                key=f"allotrope-{name}-{uuid.uuid4()}",
                pure=False,
            )
            self.under_way[future] = name

    def collect(self) -> None:
        """What has ended by now, or in LOOK_SECONDS."""
        try:
            dask().wait(list(self.under_way), timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
        except TimeoutError:
            self.look()
        except dask().CancelledError:
            pass
        for future in [future for future in self.under_way if future.status != "pending"]:
            if future.status == "cancelled" or self.client.status != "running":
                raise SchedulerLost
            self.take(self.under_way.pop(future), future)

    def look(self) -> None:
        if self.client.status != "running":
            raise SchedulerLost
        now = time.monotonic()
        if self.workers():
            self.seen = now
        elif now - self.seen > self.patience:
            left = ", ".join(self.steps.missing())
            raise UserError(
                f"--cluster: no worker is left; not measured: {left}; --resume continues from "
                f"{self.steps.run.state}"
            )

    def take(self, name: str, future: Any) -> None:
        try:
            result = future.result()
        except dask().CancelledError:
            raise SchedulerLost from None
        except Exception as error:  # whatever the worker raised
            # Dask's own name for a task whose workers ended, allowed-failures times and once more
            lost = type(error).__name__ == "KilledWorker"
            why = "every worker that measured it was lost" if lost else f"{error!r}"
            self.steps.failures[name] = why
            self.announce(f"{name}: {why}")
            return
        if "unlike" in result:
            raise UserError(f"--cluster: a worker on {result['host']}: {result['unlike'][0]}")
        host, status = result["host"], result["status"]
        if status not in MEASURED:
            said = last_line(result["errors"].encode()) or "without a word"
            self.steps.failures[name] = f"on {host} the command ended with status {status} ({said})"
            self.announce(f"{name}: {self.steps.failures[name]}")
            return
        self.steps.keep(name, entry_of(name, result))
        self.tell(name, host)

    def tell(self, name: str, host: str) -> None:
        self.done += 1
        left = len(self.waiting) + len(self.under_way)
        seconds = (time.monotonic() - self.begun) / self.done * left
        count = self.workers()
        self.announce(
            f"{name} was measured on {host}; {left} to come on {count} "
            f"worker{'' if count == 1 else 's'}, about {duration(seconds)} left"
        )


def lost(answer: Any) -> bool:
    """Whether the connection to a worker broke."""
    return isinstance(answer, dask().comm.CommClosedError)


def faults(address: str, answer: Any) -> list[str]:
    """Why this worker will not do."""
    if isinstance(answer, BaseException):
        return [f"worker {address}: {answer!r}"]
    return [f"worker {address} on {answer['host']}: {line}" for line in answer["unlike"]]


def environment() -> dict[str, str]:
    """What the command needs on the worker, and what programs of a suite see: the client's, so that
    figures do not depend on who started the workers."""
    seen = {name: value for name, value in os.environ.items() if is_inherited(name)}
    if "TMPDIR" in os.environ:
        seen["TMPDIR"] = os.environ["TMPDIR"]
    return seen | found_by()


def depends_on(run: SuiteRun) -> list[str]:
    """The files that must be the same on every worker, at the same place."""
    libraries = [str(one.library) for one in run.settings.allocators if one.library is not None]
    parts = [os.path.dirname(sys.modules["allotrope"].__file__ or ""), str(PLACES.launcher)]
    parts += [str(PLACES.library), str(run.suite.file.resolve()), sys.executable]
    return list(dict.fromkeys([*parts, *libraries]))


def question(run: SuiteRun, name: str, expected: Mapping[str, str | None]) -> dict[str, Any]:
    """What worker.measure() is asked: the command that measures this program on one machine."""
    settings = run.settings
    command = [sys.executable, "-I", sys.argv[0], "compare", "--json", "-"]
    command += ["--suite", str(run.suite.file.resolve()), "--only", name]
    for allocator in settings.allocators:
        command += ["-a", allocator.spec]
    command += ["--baseline", settings.allocators[settings.baseline].spec]
    command += ["--rounds", str(settings.rounds), "--warmup", str(settings.warmup)]
    if settings.timeout is not None:
        command += ["--timeout", str(settings.timeout)]
    return {
        "expected": dict(expected),
        "command": command,
        "environment": environment(),
        "directory": os.getcwd(),
    }


def entry_of(name: str, result: Mapping[str, Any]) -> Entry:
    """The program's entry in the document that the command on the worker wrote."""
    entries = json.loads(result["output"])["programs"]
    found: Entry = next(entry for entry in entries if entry["name"] == name)
    return found | {"host": result["host"]}
