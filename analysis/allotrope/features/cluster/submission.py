# SPDX-License-Identifier: MIT
"""What is measured on a cluster, whatever it is: a task is measured whole on one machine.

    due tasks ──submit to an idle worker──> takes the host's slot, runs the command
        ^                                       │ dies: the task is due again
        │                                       v
    store (Tasks.keep) <────────────────── what the command wrote

The client gives each idle worker one task, so none waits in a worker's queue, there is nothing to
steal, and a machine measures only what it is to measure (machines.py). A result is counted when it
is in the store. When the scheduler is lost, what is not in the store is submitted to the next that
answers.
"""

import json
import os
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from ...system.errors import UserError
from ...system.native import last_line
from ...system.places import PLACES, found_by
from ..suite.measure import duration, is_inherited
from . import worker
from .connection import (
    LOOK_SECONDS,
    PATIENCE_SECONDS,
    ByValue,
    SchedulerLost,
    ask_new,
    connected,
    dask,
    grace_of,
    scheduler_address,
)
from .machines import Machine, Machines, itself_command
from .shipment import Shipment, package

# How a comparison on the worker ends when its document is whole: all went well, or an allocator or
# the program failed, which is a result too.
MEASURED = (0, 1)
# A task under which so many workers have ended is given up.
MOST_LOSSES = 4
Announce = Callable[[str], None]
Result = Mapping[str, Any]  # what worker.measure() returns


class Tasks(ABC):
    """What is to be measured, and where what was measured is kept."""

    scratch: str  # the command's option for a file or folder of its own on the worker
    returned: Sequence[str] = ()  # which files of that folder the client wants: glob patterns

    def __init__(self, machines: Machines, shipment: Shipment | None = None) -> None:
        self.machines, self.shipment = machines, shipment
        self.failures: dict[str, str] = {}  # by name: why it was given up

    @abstractmethod
    def missing(self) -> Mapping[str, int]:
        """The tasks to be measured, in order, and on how many machines."""

    @abstractmethod
    def depends_on(self) -> list[str]:
        """The files that must be the same on every worker, at the same place."""

    @abstractmethod
    def command(self, name: str) -> Sequence[str]:
        """What one machine runs for this task, but for the scratch."""

    @abstractmethod
    def keep(self, name: str, result: Result) -> str | None:
        """Puts a result into the store, once. Returns why it cannot be used, where it cannot."""

    @abstractmethod
    def save(self) -> None:
        """Something has been found about machines."""

    @abstractmethod
    def goes_on(self) -> str:
        """How to go on, for the end of a sentence; empty where nothing is kept."""

    def is_done_on(self, name: str, host: str) -> bool:
        """Whether this host has measured a task that others are to measure, too."""
        return False

    def measured(self) -> Mapping[str, int]:
        """By host, how many tasks of --replicate it has measured."""
        return {}


def measure_tasks(tasks: Tasks, address: str, announce: Announce, patience: float) -> None:
    """All tasks; those that cannot be measured are among the failures. Raises UserError where
    workers are not like the client, or none may measure."""
    dask()
    grace = grace_of(address, patience)
    with scheduler_address(address) as scheduler:
        while tasks.missing():
            try:
                with connected(scheduler, patience) as client:
                    Submission(client, tasks, announce, patience, grace).measure_all()
            except (SchedulerLost, dask().comm.CommClosedError):
                left = ", ".join(tasks.missing())
                announce(f"the scheduler was lost; to be submitted anew: {left}")


def ended_badly(result: Result, good: Sequence[int] = MEASURED) -> str | None:
    """How the command ended, where it did not end well."""
    return None if result["status"] in good else _ending(result)


def without_document(result: Result) -> str | None:
    """Why the command wrote no whole document, where it did not. Python's own errors end with 1,
    too."""
    if why := ended_badly(result):
        return why
    try:
        json.loads(result["output"])
    except ValueError:
        return _ending(result)
    return None


def _ending(result: Result) -> str:
    said = last_line(result["errors"].encode()) or "without a word"
    return f"the command ended with status {result['status']} ({said})"


def installed_files() -> list[str]:
    """Those that every task depends on."""
    return [str(one) for one in (package(), PLACES.launcher, PLACES.library, sys.executable)]


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
        self, client: Any, tasks: Tasks, announce: Announce, patience: float, grace: float
    ) -> None:
        self.client = client
        self.tasks = tasks
        self.machines = tasks.machines
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
        shipped = self.tasks.shipment.paths() if self.tasks.shipment else []
        self.expected = worker.fingerprints([*self.tasks.depends_on(), *shipped])
        self.present: list[str] = []  # addresses of workers that have introduced themselves
        try:
            while self.tasks.missing():
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
        if self.tasks.shipment:
            self.tasks.shipment.deliver(self.client, new, self.announce)
        doctor = [sys.executable, "-I", sys.argv[0], "doctor", "--json"]
        asked = ask_new(self.client, new, worker.introduce, self.expected, doctor, environment())
        for address, one in asked.items():
            self.machines.meet(address, one)
            self.present.append(address)
            lacks = f"; lacks {', '.join(one['lacks'])}" if one["lacks"] else ""
            self.announce(f"worker {address} on {one['host']}: {one['kind']}{lacks}")
        self.tasks.save()

    def hosts(self) -> list[str]:
        """Of the workers that are present."""
        return list(dict.fromkeys(self.machines.of_worker[one].host for one in self.present))

    def choose(self) -> None:
        if self.machines.replicate == 1 or self.machines.chosen:
            return
        self.machines.choose(self.hosts(), self.tasks.measured())
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
                ByValue(worker.measure),
                self.question(task.name),
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
        for name in self.tasks.missing():
            if name not in taken and not self.tasks.is_done_on(name, machine.host):
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
            task = self.under_way.pop(future)
            if future.status == "lost":  # its worker ended before the result was fetched
                self.lose(task)
            else:
                self.take(task, future)

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
            left = ", ".join(self.tasks.missing())
            why = f"{self.machines.hindrance(self.hosts())}; not measured: {left}"
            raise UserError(f"--cluster: {why}{self.tasks.goes_on()}")

    def question(self, name: str | None) -> dict[str, Any]:
        """What worker.measure() is asked: a task, or for None the machine with itself."""
        return {
            "expected": self.expected,
            "command": itself_command() if name is None else self.tasks.command(name),
            "scratch": None if name is None else self.tasks.scratch,
            "returned": [] if name is None else list(self.tasks.returned),
            "environment": environment(),
            "directory": os.getcwd(),
        }

    def lose(self, task: Task) -> None:
        """A worker has ended under it: it is due again, unless that happens again and again."""
        self.losses[task.words()] += 1
        if task.name and self.losses[task.words()] >= MOST_LOSSES:
            self.fail(task.name, "every worker that measured it was lost")
        else:
            self.announce(f"worker {task.address} was lost; begun anew: {task.words()}")

    def fail(self, name: str, why: str) -> None:
        self.tasks.failures[name] = why
        self.announce(f"{name}: {why}")

    def take(self, task: Task, future: Any) -> None:
        try:
            result = future.result(timeout=PATIENCE_SECONDS)
        except TimeoutError:  # its worker ended after it had said that it has the result
            self.lose(task)
            return
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
        if task.name is None:
            self.decide(task.machine, without_document(result), result["output"])
        elif why := self.tasks.keep(task.name, result):
            self.fail(task.name, f"on {result['host']} {why}")
        else:
            self.tell(task.name, result["host"])

    def decide(self, machine: Machine, why: str | None, output: str = "") -> None:
        """Whether a machine is quiet, from the comparison with itself; `why` there is none."""
        machine.decide(json.loads(output) if why is None else None, self.machines.noise)
        self.announce(f"{machine.host}, {machine.found()}{f' ({why})' if why else ''}")
        self.tasks.save()

    def tell(self, name: str, host: str) -> None:
        self.done += 1
        left = sum(self.tasks.missing().values())
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
