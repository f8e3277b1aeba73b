# SPDX-License-Identifier: MIT
"""Carries a study out, step by step, and gathers what the steps have found."""

import datetime
import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from ...features.suite.measure import duration
from ...system import allocators
from ...system.errors import UserError
from ...system.machine import machine_facts
from ...system.scratch import scratch_folder
from . import measure
from .measure import Result, Workshop
from .plan import (
    CLASSIC,
    COLLECTORS,
    DEFAULT,
    LIBGC,
    MODERN,
    Extent,
    Planned,
    choose,
    probe_step,
    steps,
)
from .programs import Program
from .results import Results
from .store import Store

TOOLS = {"perf": "linux-perf", "valgrind": "valgrind"}
# What makes a machine another one; its load does not.
MACHINE_KEYS = tuple(
    "cpu cpus memory_bytes kernel distribution libc transparent_huge_pages".split()
)

Announce = Callable[[str], None]


def question(extent: Extent, table: str | None, given: Sequence[str] = ()) -> dict[str, Any]:
    """What a study is about: kept in its study.json. `table`: of other programs; `given`: those
    that take the place of ours."""
    facts = machine_facts()
    versions = {
        spec: one.version
        for spec in CLASSIC[:1] + MODERN + (LIBGC,)
        if (one := choose(spec)) is not None
    }
    versions |= {tool: allocators.package_version(package) for tool, package in TOOLS.items()}
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "begun": now.isoformat(timespec="seconds"),
        "quick": extent.quick,
        "rounds": extent.rounds,
        "only": list(extent.only),
        "programs": table,
        "given": list(given),
        "machine": {key: facts[key] for key in MACHINE_KEYS},
        "versions": versions,
    }


class Study:
    def __init__(
        self, store: Store, extent: Extent, programs: Sequence[Program], announce: Announce
    ) -> None:
        self.store, self.extent, self.programs = store, extent, programs
        self.announce = announce
        self.probes: dict[str, dict[str, Result]] = {}
        self.results = Results(programs, store.study())
        # Measured over estimated seconds, by kind: what is left is corrected by it.
        self.pace: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def gather(self) -> Results:
        """What was measured, whatever has changed since; measures nothing."""
        known = list(steps(self.extent, self.programs, lambda *_: None))
        for planned in known:
            found = self.store.get(planned.step, as_it_is=True)
            if found is not None:
                self._keep(planned, found)
        if outdated := self._outdated(known):
            self.announce(
                f"{outdated} results are of other programs, allocators or simulators "
                "than are here now; the page shows them as they are"
            )
        return self.results

    def _outdated(self, known: Sequence[Planned]) -> int:
        """How many steps were measured in other circumstances."""
        return sum(
            self.store.get(one.step) is None and self.store.get(one.step, as_it_is=True) is not None
            for one in known
        )

    def run(self) -> Results:
        """Measures what is not measured yet."""
        with scratch_folder() as folder:
            folder.chmod(0o755)  # some servers give up root
            able = self._probe_all(folder)
            if not able:
                return self.results
            todo = list(steps(self.extent, able, self._seconds_of))
            waiting = [one for one in todo if self.store.get(one.step) is None]
            self.announce(
                f"{len(able)} programs, {len(todo)} steps"
                + (f", {len(todo) - len(waiting)} done before" if len(waiting) < len(todo) else "")
                + f"; about {duration(self._left(waiting))}"
            )
            if outdated := self._outdated(waiting):
                self.announce(
                    f"{outdated} were measured with other programs, allocators or "
                    "simulators than are here now: measured anew"
                )
            for planned in todo:
                self._settle(planned, waiting, folder)
        return self.results

    def _seconds_of(self, program: Program, form: str) -> Mapping[str, float] | None:
        return self.probes.get(program.name, {}).get(form)

    def _probe_all(self, folder: Path) -> list[Program]:
        """The programs that can be measured; what the others lack is noted."""
        able = []
        for program in self.programs:
            reason = program.missing
            if reason is None:
                found = {
                    form: self._probe(probe_step(program, form), folder) for form in program.forms
                }
                reason = measure.needs_probe(program, found)
                self.probes[program.name] = found
            if reason is None:
                able.append(program)
            else:
                self.results.missing[program.name] = reason
                self.announce(f"{program.name}: {reason}")
        return able

    def _probe(self, planned: Planned, folder: Path) -> Result:
        return self._once(planned, lambda: measure.probe(planned, self._workshop(folder, planned)))

    def _workshop(self, folder: Path, planned: Planned) -> Workshop:
        own = folder / planned.program.name
        own.mkdir(exist_ok=True)
        own.chmod(0o755)
        return Workshop(own)

    def _once(self, planned: Planned, do: Callable[[], Result]) -> Result:
        """The step's result, measured if it is not there yet."""
        found = self.store.get(planned.step)
        if found is None:
            begun = time.monotonic()
            found = do()
            seconds = time.monotonic() - begun
            self.store.put(planned.step, found, seconds)
            pace = self.pace[planned.step.kind]
            pace[0] += seconds
            pace[1] += planned.step.seconds
        result: Result = found
        return result

    def _left(self, waiting: Sequence[Planned]) -> float:
        seconds = 0.0
        for one in waiting:
            took, meant = self.pace[one.step.kind]
            # As estimated at first; as experienced once there is experience of some seconds.
            seconds += one.step.seconds * (took / meant if meant > 5 else 1.0)
        return seconds

    def _settle(self, planned: Planned, waiting: list[Planned], folder: Path) -> None:
        if planned in waiting:
            left = duration(self._left(waiting))
            self.announce(f"{planned.step.kind} · {planned.step.name}; about {left} left")
        workshop = self._workshop(folder, planned)
        found = self._once(planned, lambda: self._measure(planned, workshop))
        if planned in waiting:
            waiting.remove(planned)
        self._keep(planned, found)

    def _measure(self, planned: Planned, workshop: Workshop) -> Result:
        known = self.probes[planned.program.name]
        if planned.step.kind == "round":
            failed = {
                one: each["failure"]
                for before in self.results.rounds.get(planned.program.name, [])
                for one, each in before.items()
                if "failure" in each
            }
            return measure.measure_round(planned, workshop, known, failed)
        timed = known[planned.configurations[0].form]
        if planned.step.kind == "account":
            return measure.account(planned, workshop, measure.patience(timed["timed"]))
        if planned.step.kind == "samples":
            return measure.samples(planned, workshop, 2 * measure.patience(timed["timed"]))
        if planned.step.kind == "factors":
            return measure.factors(planned, workshop, measure.patience(timed["traced"]))
        if planned.step.kind == "locality":
            return measure.locality(planned, workshop, 60 + 1000 * timed["traced"])
        return measure.events(planned, workshop, 60 + 1000 * timed["traced"])

    def _keep(self, planned: Planned, found: Result) -> None:
        name = planned.program.name
        if planned.step.kind == "round":
            self.results.rounds.setdefault(name, []).append(found)
            for one, each in found.items():
                if "failure" in each and planned.number == 0:
                    self.announce(f"{name} {one}: {each['failure']}")
            return
        kind = planned.step.kind
        where = getattr(self.results, "accounts" if kind == "account" else kind)
        where[name, str(planned.configurations[0])] = found
        if "failure" in found:
            self.announce(f"{name} {planned.configurations[0]}: {found['failure']}")


def check_tools() -> None:
    """Raises UserError for what the whole study needs."""
    for spec in CLASSIC + DEFAULT + COLLECTORS[:2]:
        allocators.choose(spec)
    if shutil.which("valgrind") is None:
        raise UserError("valgrind is missing: install the Debian package valgrind")
