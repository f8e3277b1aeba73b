# SPDX-License-Identifier: MIT
"""The study of 1992 as the frame carries it out (study/frame.py), and what its steps have found."""

import shutil
from pathlib import Path
from typing import Any, Mapping, Sequence

from ...system import allocators
from ...system.errors import UserError
from ..frame import Asked, Opener
from ..measured_by import LACKING
from ..report import Report
from ..store import Store
from ..work import Announce, Share, Work
from . import measure
from .measure import Result, Workshop
from .measurements import as_text
from .plan import (
    ALL,
    CLASSIC,
    COLLECTORS,
    LIBGC,
    MODERN,
    Extent,
    Planned,
    choose,
    probe_step,
    steps,
)
from .programs import OWN_FILES, Program, read_programs
from .report import report_from
from .results import Results

DEFAULT_ROUNDS, QUICK_ROUNDS = 30, 6
TOOLS = {"perf": "linux-perf", "valgrind": "valgrind"}


class Zorn:
    """B. Zorn, "The Measured Cost of Conservative Garbage Collection"."""

    name = "zorn"

    def rounds(self, quick: bool) -> int:
        return QUICK_ROUNDS if quick else DEFAULT_ROUNDS

    def begin(self, asked: Asked, announce: Announce) -> tuple[Mapping[str, Any], Opener]:
        """`asked.more`: "programs", another table, and "given", those that take the place of
        ours."""
        table, given = asked.more.get("programs"), tuple(asked.more.get("given") or ())
        extent = Extent(asked.quick, asked.rounds or self.rounds(asked.quick), asked.only)
        programs = extent.programs(read_programs(table, given))
        check_tools()
        more = {"programs": table, "given": list(given), "versions": versions()}
        return more, lambda store: ZornWork(store, extent, programs, announce)

    def words(self, asked: Asked) -> list[str]:
        table, given = asked.more.get("programs"), asked.more.get("given") or ()
        found = ["--programs", table] if table else []
        return [*found, *(word for one in given for word in ("--program", one))]

    def report_from(self, measurements: Path) -> Report:
        return report_from(measurements)


STUDY = Zorn()


def versions() -> dict[str, str | None]:
    found = {
        spec: one.version
        for spec in CLASSIC[:1] + MODERN + (LIBGC,)
        if (one := choose(spec)) is not None
    }
    return found | {tool: allocators.package_version(package) for tool, package in TOOLS.items()}


class Failing:
    """Which configurations have failed in rounds since the study was begun or resumed. One that
    never succeeds would cost two attempts in each round, perhaps of minutes."""

    ROUNDS = 2  # without a success, after which nothing more is tried

    def __init__(self) -> None:
        self._failed: dict[tuple[str, str], list[str]] = {}
        self._succeeded: set[tuple[str, str]] = set()

    def note_tried(self, program: str, found: Mapping[str, Result]) -> None:
        for one, run in found.items():
            if "failure" in run and not run.get("not_tried"):
                self._failed.setdefault((program, one), []).append(run["failure"])

    def note_succeeded(self, program: str, found: Mapping[str, Result]) -> None:
        """Of a round of now or of before."""
        self._succeeded |= {(program, one) for one, run in found.items() if "failure" not in run}

    def given_up(self, program: str) -> dict[str, str]:
        """By configuration the reason of the last failure."""
        return {
            one: reasons[-1]
            for (name, one), reasons in self._failed.items()
            if name == program
            and len(reasons) >= self.ROUNDS
            and (name, one) not in self._succeeded
        }


class ZornWork(Work[Planned]):
    def __init__(
        self, store: Store, extent: Extent, programs: Sequence[Program], announce: Announce
    ) -> None:
        super().__init__(store, announce)
        self.extent, self.programs = extent, programs
        study = store.study()
        self.able: list[Program] = []
        self.probes: dict[str, dict[str, Result]] = {}
        self.results = Results(programs, study, dict(study.get(LACKING, {})))
        self.failing = Failing()

    def known_steps(self) -> list[Planned]:
        return list(steps(self.extent, self.programs, lambda *_: None))

    def shares(self) -> list[Share[Planned]]:
        """Each program by itself, with its probes."""
        known = self.known_steps()
        chosen = [choose(spec) for spec in ALL]
        libraries = [str(one.library) for one in chosen if one and one.library]
        return [
            Share(
                [one.name],
                [probe_step(one, form) for form in one.forms]
                + [planned for planned in known if planned.program.name == one.name],
                one.missing,
                needs=[*OWN_FILES, *libraries, *one.words()],
            )
            for one in self.programs
        ]

    def prepare(self, folder: Path) -> list[Planned]:
        self.able = self._probe_all(folder)
        return list(steps(self.extent, self.able, self._seconds_of)) if self.able else []

    def subjects(self) -> str:
        return f"{len(self.able)} programs, "

    def nothing(self) -> str | None:
        if self.results.missing and len(self.results.missing) == len(self.programs):
            return "no program could be measured; run ./bootstrap study"
        return None

    def measurements(self) -> str:
        return as_text(self.results)

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
        found: Result = self.once(
            planned, lambda: measure.probe(planned, self._workshop(folder, planned))
        )
        return found

    def _workshop(self, folder: Path, planned: Planned) -> Workshop:
        own = folder / planned.program.name
        own.mkdir(exist_ok=True)
        own.chmod(0o755)
        return Workshop(own)

    def measure(self, planned: Planned, folder: Path) -> Result:
        if planned.step.kind == "round":
            return self._measure_round(planned, folder)
        found = self._measure_once(planned, folder)
        if "failure" not in found or found.get("hopeless"):
            return found
        return self._measure_once(planned, folder)

    def _measure_round(self, planned: Planned, folder: Path) -> Result:
        name = planned.program.name
        before = self.store.get(planned.step) or {}
        workshop = self._workshop(folder, planned)
        given_up = self.failing.given_up(name)
        found = measure.measure_round(planned, workshop, self.probes[name], before, given_up)
        self.failing.note_tried(name, found)
        return found

    def _measure_once(self, planned: Planned, folder: Path) -> Result:
        workshop = self._workshop(folder, planned)
        known = self.probes[planned.program.name]
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

    def is_whole(self, planned: Planned, found: Result) -> bool:
        if planned.step.kind == "round":
            return not any("failure" in each for each in found.values())
        return "failure" not in found

    def keep(self, planned: Planned, found: Result) -> None:
        name = planned.program.name
        if planned.step.kind == "round":
            self.results.rounds.setdefault(name, []).append(found)
            self.failing.note_succeeded(name, found)
            for one, each in found.items():
                if "failure" in each and not each.get("not_tried"):
                    self.announce(f"{name} {one}: {each['failure']}")
            return
        kind = planned.step.kind
        where = getattr(self.results, "accounts" if kind == "account" else kind)
        where[name, str(planned.configurations[0])] = found
        if "failure" in found:
            self.announce(f"{name} {planned.configurations[0]}: {found['failure']}")


def check_tools() -> None:
    """Raises UserError for what the whole study needs."""
    for spec in CLASSIC + COLLECTORS[:2]:
        allocators.choose(spec)
    if shutil.which("valgrind") is None:
        raise UserError("valgrind is missing: install the Debian package valgrind")
