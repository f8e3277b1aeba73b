# SPDX-License-Identifier: MIT
"""The study of 1993 as the frame carries it out (study/frame.py)."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from ...system import allocators
from ..frame import Asked, Opener
from ..report import Report
from ..store import Store
from ..work import Announce, Share, Work
from . import measure
from .measure import Result
from .measurements import as_text, enter
from .plan import (
    LOOPS,
    OF_NO_PROGRAM,
    Extent,
    Planned,
    Workload,
    check_programs,
    loop,
    program,
    repeated_orders,
    sources,
    steps,
)
from .report import report_from
from .results import Results

DEFAULT_ROUNDS, QUICK_ROUNDS = 30, 9
TOOLS = {"gcc": "gcc", "valgrind": "valgrind"}


class Barriers:
    """Hosking and Moss, "Protection traps and alternatives", the collector's half."""

    name = "barriers"

    def rounds(self, quick: bool) -> int:
        return QUICK_ROUNDS if quick else DEFAULT_ROUNDS

    def begin(self, asked: Asked, announce: Announce) -> tuple[Mapping[str, Any], Opener]:
        extent = Extent(asked.quick, asked.rounds or self.rounds(asked.quick), asked.only)
        extent.workloads()
        orders = check_programs(extent)
        versions = {tool: allocators.package_version(package) for tool, package in TOOLS.items()}
        return {"versions": versions}, lambda store: BarriersWork(store, extent, orders, announce)

    def words(self, asked: Asked) -> list[str]:
        return []

    def report_from(self, measurements: Path) -> Report:
        return report_from(measurements)


STUDY = Barriers()


class BarriersWork(Work[Planned]):
    def __init__(
        self, store: Store, extent: Extent, orders: Sequence[str], announce: Announce
    ) -> None:
        super().__init__(store, announce)
        self.extent, self.orders = extent, orders
        self.results = Results(store.study(), extent.barriers())

    def known_steps(self) -> list[Planned]:
        return list(steps(self.extent, self.orders))

    def shares(self) -> list[Share[Planned]]:
        first, *others = self.extent.together()
        alone, *more = (self._share(group) for group in (first, *others))
        of_none = [planned for planned in self.known_steps() if planned.workload is None]
        with_it = replace(alone, planned=[*of_none, *alone.planned], more=[OF_NO_PROGRAM])
        return [with_it, *more]

    def _share(self, group: Sequence[Workload]) -> Share[Planned]:
        own = [planned for planned in self.known_steps() if planned.workload in group]
        sources_of_all = [sources() / source for one in group for source in one.sources]
        needs = [str(file) for file in (*self._programs(), *sources_of_all)]
        return Share([one.name for one in group], own, needs=needs)

    def _programs(self) -> Iterator[Path]:
        for order in self.orders:
            yield from (program(barrier, order) for barrier in self.extent.barriers())
            yield from (loop(one, order) for one in LOOPS)

    def prepare(self, folder: Path) -> list[Planned]:
        if said := repeated_orders(self.extent.rounds, len(self.orders)):
            self.announce(said)
        return self.known_steps()

    def subjects(self) -> str:
        return f"{len(self.extent.workloads())} programs, {len(self.extent.barriers())} barriers, "

    def measure(self, planned: Planned, folder: Path) -> Result:
        if planned.workload is not None:
            barriers = self.extent.barriers()
            order = planned.order
            return measure.measure_round(planned.workload, barriers, planned.number, order, folder)
        if planned.step.kind == "instructions":
            return measure.instructions(planned.barrier)
        return measure.loops(planned.order) if planned.step.kind == "loop" else measure.vm()

    def keep(self, planned: Planned, found: Result) -> None:
        name = planned.workload.name if planned.workload else planned.barrier
        enter(self.results, planned.step.kind, name, found)
        failed = {"": found} if "failure" in found else found.get("barriers", {})
        for barrier, each in failed.items():
            if "failure" in each and planned.number == 0:
                self.announce(f"{name} {barrier}: {each['failure']}")

    def nothing(self) -> str | None:
        return None if self.results.workloads() else "no program was measured"

    def measurements(self) -> str:
        return as_text(self.results)
