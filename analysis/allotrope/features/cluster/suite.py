# SPDX-License-Identifier: MIT
"""A suite on a cluster: one program on one machine is one task.

    due programs ──submit to an idle worker──> takes the host's slot, runs the command
        ^                                          │ dies: the program is due again
        │                                          v
    store of steps (--state) <────entry────── the program's part of the suite's document

The client gives each idle worker one program, so none waits in a worker's queue, there is nothing
to steal, and a machine measures only what it is to measure (machines.py). An entry is counted when
it is in the store: once for each program and machine. When the scheduler is lost, what is not in
the store is submitted to the next that answers.
"""

import json
import os
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from ...system.errors import UserError
from ...system.machine import machine_facts
from ...system.native import last_line
from ...system.places import PLACES, found_by
from ..suite.measure import SuiteRun, begin_state, duration, is_inherited, save_state
from ..suite.output import assemble
from . import worker
from .connection import (
    LOOK_SECONDS,
    PATIENCE_SECONDS,
    SchedulerLost,
    ask_new,
    connected,
    dask,
    grace_of,
    scheduler_address,
)
from .machines import Machine, Machines, itself_command

STATE_SCHEMA = "allotrope.suite-steps/2"
# How the command on a worker ends when its document is whole: all went well, or an allocator or the
# program failed, which is a result too.
MEASURED = (0, 1)
# A program under which so many workers have ended is given up.
MOST_LOSSES = 4
Entry = dict[str, Any]
Announce = Callable[[str], None]


class Steps:
    """The entries that are there, by program and host, and the file that keeps them."""

    def __init__(self, run: SuiteRun, machines: Machines, resume: bool) -> None:
        saved = (begin_state(run, STATE_SCHEMA, resume) or {"programs": {}})["programs"]
        self.run = run
        self.machines = machines
        self.names = [program.name for program in run.suite.programs]
        self.entries: dict[str, dict[str, Entry]] = saved.get("entries", {})
        # What was found about machines, also about those that are gone when a suite is resumed.
        self.facts: dict[str, dict[str, Any]] = saved.get("machines", {})
        self.failures: dict[str, str] = {}

    def counted(self, name: str) -> list[Entry]:
        """The program's entries that count: of --replicate's machines, when they are chosen."""
        hosts = self.machines.chosen
        return [
            entry
            for host, entry in self.entries.get(name, {}).items()
            if not hosts or host in hosts
        ]

    def missing(self) -> dict[str, int]:
        """Programs to be measured, in the suite's order, and on how many machines."""
        short = {
            name: self.machines.replicate - len(self.counted(name))
            for name in self.names
            if name not in self.failures
        }
        return {name: count for name, count in short.items() if count > 0}

    def measured(self) -> Mapping[str, int]:
        """By host, how many programs it has measured."""
        return Counter(host for entries in self.entries.values() for host in entries)

    def keep(self, name: str, entry: Entry) -> None:
        self.entries.setdefault(name, {}).setdefault(entry["host"], entry)
        self.save()

    def save(self) -> None:
        self.facts |= {host: one.facts() for host, one in self.machines.hosts.items()}
        save_state(self.run, STATE_SCHEMA, {"machines": self.facts, "entries": self.entries})

    def all_entries(self) -> list[Entry]:
        """In the suite's order; one says so where some are missing."""
        found = []
        for name in self.names:
            found += self.counted(name)
            if len(self.counted(name)) < self.machines.replicate:
                found.append(failed_entry(name, self.failures.get(name, "not measured")))
        return found


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
    noise: float,
    patience: float = PATIENCE_SECONDS,
) -> tuple[dict[str, Any], bool]:
    """The suite's document, and whether all programs are in it. The state file is the caller's to
    remove."""
    dask()
    machines = Machines(noise, run.settings.replicate)
    steps = Steps(run, machines, resume)
    grace = grace_of(address, patience)
    try:
        with scheduler_address(address) as scheduler:
            while steps.missing():
                try:
                    with connected(scheduler, patience) as client:
                        Submission(client, steps, announce, patience, grace).measure_all()
                except (SchedulerLost, dask().comm.CommClosedError):
                    left = ", ".join(steps.missing())
                    announce(f"the scheduler was lost; to be submitted anew: {left}")
    except KeyboardInterrupt:
        run.interrupted = True
        kept = f"; --resume continues from {run.state}" if run.state.exists() else ""
        announce(f"interrupted{kept}")
    entries = steps.all_entries()
    facts = [entry["comparison"]["machine"] for entry in entries if entry["comparison"]]
    document = assemble(
        run, facts[0] if facts else machine_facts(), entries, list(steps.facts.values())
    )
    return document, not steps.missing() and not steps.failures


@dataclass(frozen=True)
class Task:
    """What a worker has been given: a program, or its machine to compare with itself."""

    address: str
    machine: Machine
    name: str | None

    def words(self) -> str:
        return self.name or f"the comparison of {self.machine.host} with itself"


class Submission:
    """What one scheduler is asked."""

    def __init__(
        self, client: Any, steps: Steps, announce: Announce, patience: float, grace: float
    ) -> None:
        self.client = client
        self.steps = steps
        self.machines = steps.machines
        self.announce = announce
        self.patience = patience  # to a cluster without a worker
        self.grace = grace  # to workers of which none may measure: others may join
        self.under_way: dict[Any, Task] = {}
        self.losses: Counter[str] = Counter()
        self.begun = time.monotonic()
        self.done = 0
        self.busy = time.monotonic()  # when something was under way

    def measure_all(self) -> None:
        """Every program that is missing. Raises SchedulerLost, and UserError where workers are not
        like the client, or none may measure."""
        self.expected = worker.fingerprints(depends_on(self.steps.run))
        self.present: list[str] = []  # addresses of workers that have introduced themselves
        try:
            while self.steps.missing():
                self.meet()
                self.choose()
                self.submit()
                self.collect()
        finally:
            for future in self.under_way:
                future.release()

    def meet(self) -> None:
        """Who is there. A worker that ends meanwhile is none. Who is not like the client ends it
        all, before it measures."""
        workers = list(self.client.scheduler_info()["workers"])
        self.present = [address for address in self.present if address in workers]
        new = [address for address in workers if address not in self.present]
        if not new:
            return
        doctor = [sys.executable, "-I", sys.argv[0], "doctor", "--json"]
        asked = ask_new(self.client, new, worker.introduce, self.expected, doctor, environment())
        for address, one in asked.items():
            self.machines.meet(address, one)
            self.present.append(address)
            lacks = f"; lacks {', '.join(one['lacks'])}" if one["lacks"] else ""
            self.announce(f"worker {address} on {one['host']}: {one['kind']}{lacks}")
        self.steps.save()

    def hosts(self) -> list[str]:
        """Of the workers that are present."""
        return list(dict.fromkeys(self.machines.of_worker[one].host for one in self.present))

    def choose(self) -> None:
        if self.machines.replicate == 1 or self.machines.chosen:
            return
        self.machines.choose(self.hosts(), self.steps.measured())
        if self.machines.chosen:
            self.announce(f"--replicate: measured on {', '.join(self.machines.chosen)}")

    def submit(self) -> None:
        """A task for each idle worker."""
        busy = {task.address for task in self.under_way.values()}
        for address in self.present:
            task = None if address in busy else self.task_for(address)
            if task is None:
                continue
            future = self.client.submit(
                worker.measure,
                question(self.steps.run, task.name, self.expected),
                key=f"allotrope-{task.name or 'itself'}-{uuid.uuid4()}",
                pure=False,
                workers=[address],
            )
            self.under_way[future] = task

    def task_for(self, address: str) -> Task | None:
        """What this worker does next; None: nothing now."""
        machine = self.machines.of_worker[address]
        here = {task.name for task in self.under_way.values() if task.machine is machine}
        if machine.quiet is None:
            return None if None in here else Task(address, machine, None)
        if not self.machines.may_measure(machine):
            return None
        taken = here
        if self.machines.replicate == 1:
            taken = {task.name for task in self.under_way.values()}
        for name in self.steps.missing():
            if name not in taken and machine.host not in self.steps.entries.get(name, {}):
                return Task(address, machine, name)
        return None

    def collect(self) -> None:
        """What has ended by now, or in LOOK_SECONDS."""
        if not self.under_way:
            self.look()
            time.sleep(worker.POLL_SECONDS)
            return
        self.busy = time.monotonic()
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
        """Takes tasks back whose worker is gone. Raises UserError when nobody measures, and who
        might come has had time to."""
        if self.client.status != "running":
            raise SchedulerLost
        workers = self.client.scheduler_info()["workers"]
        for future, task in list(self.under_way.items()):
            if task.address not in workers and future.status == "pending":
                del self.under_way[future]
                future.release()
                self.lose(task)
        if self.under_way:
            return
        bearable = self.grace if workers else self.patience
        if time.monotonic() - self.busy > bearable:
            left = ", ".join(self.steps.missing())
            raise UserError(
                f"--cluster: {self.machines.hindrance(self.hosts())}; not measured: {left}; "
                f"--resume continues from {self.steps.run.state}"
            )

    def lose(self, task: Task) -> None:
        """A worker has ended under it: it is due again, unless that happens again and again."""
        self.losses[task.words()] += 1
        if task.name and self.losses[task.words()] >= MOST_LOSSES:
            self.fail(task.name, "every worker that measured it was lost")
        else:
            self.announce(f"worker {task.address} was lost; begun anew: {task.words()}")

    def fail(self, name: str, why: str) -> None:
        self.steps.failures[name] = why
        self.announce(f"{name}: {why}")

    def take(self, task: Task, future: Any) -> None:
        try:
            result = future.result()
        except dask().CancelledError:
            raise SchedulerLost from None
        except Exception as error:  # whatever the worker raised
            # Dask's own name for a task whose worker ended
            if type(error).__name__ == "KilledWorker":
                self.lose(task)
            elif task.name is None:
                self.decide(task.machine, f"{error!r}")
            else:
                self.fail(task.name, f"{error!r}")
            return
        if "unlike" in result:
            raise UserError(f"--cluster: a worker on {result['host']}: {result['unlike'][0]}")
        host, status = result["host"], result["status"]
        why = None
        if status not in MEASURED:
            said = last_line(result["errors"].encode()) or "without a word"
            why = f"on {host} the command ended with status {status} ({said})"
        if task.name is None:
            self.decide(task.machine, why, result["output"])
        elif why is not None:
            self.fail(task.name, why)
        else:
            self.steps.keep(task.name, entry_of(task.name, result))
            self.tell(task.name, host)

    def decide(self, machine: Machine, why: str | None, output: str = "") -> None:
        """Whether a machine is quiet, from the comparison with itself; `why` there is none."""
        machine.decide(json.loads(output) if why is None else None, self.machines.noise)
        self.announce(f"{machine.host}, {machine.found()}{f' ({why})' if why else ''}")
        self.steps.save()

    def tell(self, name: str, host: str) -> None:
        self.done += 1
        left = sum(self.steps.missing().values())
        seconds = (time.monotonic() - self.begun) / self.done * left
        count = len(self.present)
        self.announce(
            f"{name} was measured on {host}; {left} to come on {count} "
            f"worker{'' if count == 1 else 's'}, about {duration(seconds)} left"
        )


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


def question(run: SuiteRun, name: str | None, expected: Mapping[str, str | None]) -> dict[str, Any]:
    """What worker.measure() is asked: the command that measures this program on one machine, or
    for None the machine with itself."""
    return {
        "expected": dict(expected),
        "command": itself_command() if name is None else program_command(run, name),
        "keeps_state": name is not None,
        "environment": environment(),
        "directory": os.getcwd(),
    }


def program_command(run: SuiteRun, name: str) -> Sequence[str]:
    settings = run.settings
    command = [sys.executable, "-I", sys.argv[0], "compare", "--json", "-"]
    command += ["--suite", str(run.suite.file.resolve()), "--only", name]
    for allocator in settings.allocators:
        command += ["-a", allocator.spec]
    command += ["--baseline", settings.allocators[settings.baseline].spec]
    command += ["--rounds", str(settings.rounds), "--warmup", str(settings.warmup)]
    if settings.timeout is not None:
        command += ["--timeout", str(settings.timeout)]
    return command


def entry_of(name: str, result: Mapping[str, Any]) -> Entry:
    """The program's entry in the document that the command on the worker wrote."""
    entries = json.loads(result["output"])["programs"]
    found: Entry = next(entry for entry in entries if entry["name"] == name)
    return found | {"host": result["host"]}
