# SPDX-License-Identifier: MIT
"""What is run under which write barriers, in which steps.

A workload is a program of the small language with its sizes. All its figures are of one build: the
barriers are separate binaries whose only difference is the store (docs/barriers.md). Where code and
data lie changes what they cost, by 10 to 20% in Destroy. So each round has a link order of its own,
the same for all barriers: rounds are independent samples of it, and an interval contains what it
does. Only where there are more rounds than orders do these repeat; then rounds are not independent,
and repeated_orders says so.

A processor that is shared with strangers has two speeds, one half as fast again as the other, and
changes between them within a fraction of a second. What disturbs a run only makes it longer. So in
a round each barrier runs several times, in turns, and the least time of each phase counts (Chen &
Revels, "Robust benchmarking in noisy environments", arXiv 1608.04295, 2016).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Sequence

from ...system.errors import UserError
from ...system.places import PLACES
from ..store import Step, file_digest
from . import paper

CARDS = (16, 64, 256, 512, 1024, 4096)
SUMMARISED = tuple(f"cards-{size}" for size in CARDS)
SCANNED = tuple(f"scan-{size}" for size in CARDS)
ORACLE, PAGES, KERNEL, REMSETS = "oracle", "pages", "kernel", "remsets"
OTHER_OF_DIRTY = "cards-4096"  # whose other makes dirty: it has 100% in both of the paper's tables
BARRIERS = (REMSETS, *SUMMARISED, *SCANNED, PAGES, ORACLE, KERNEL)
QUICK_BARRIERS = (*paper.SCHEMES, "cards-512", "scan-512", "scan-4096", ORACLE, KERNEL)
LOOPS = (REMSETS, *SUMMARISED, PAGES, KERNEL)
CHECK = "cards-1024"  # whose check is the paper's x: the same instructions for cards of any size
# Callgrind follows no PAGEMAP_SCAN; the stores of pages and kernel are the same object code.
COUNTED_LOOPS = (REMSETS, CHECK, PAGES)
KINDS = ("integer_into_old", "old_into_old", "young_into_old", "young_into_young")
ORDERS = ("", *(f"-order{number}" for number in range(2, 31)))  # as runtime.am links them
LARGE_ROUNDS = 3  # of a workload whose round takes minutes
LOOP_MILLIONS, LOOP_TURNS = 17, 3
OF_NO_PROGRAM = "loops and traps alone"
VM_GROUPS = ("table", "providers")


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    sources: Sequence[str]
    options: Sequence[str]
    seconds: float  # of one run on a quiet machine, the mean of all barriers
    paper: str | None = None  # the paper's benchmark
    substitute: bool = False  # stands for the paper's, is not it
    large: bool = False
    runs: int = 1  # in a round, of which the least time counts, phase by phase

    def rounds(self, wanted: int) -> int:
        return min(wanted, LARGE_ROUNDS) if self.large else wanted


DESTROY = ("kernel.st", "destroy.st")
INTERACTIVE = ("kernel.st", "compiler.st", "interactive.st")
LARGE = ("scale=100", "old=2048")
WORKLOADS = (
    Workload("destroy", "Destroy", DESTROY, (), 0.05, paper.DESTROY, runs=9),
    Workload(
        "interactive",
        "Interactive substitute",
        INTERACTIVE,
        ("young=520000",),
        0.45,
        paper.INTERACTIVE,
        substitute=True,
        runs=3,
    ),
    Workload("json", "JSON", ("kernel.st", "json.st"), ("young=524288",), 0.6, runs=3),
    Workload("destroy-100", "Destroy, 100 trees", DESTROY, LARGE, 20, large=True),
    Workload(
        "interactive-100",
        "Interactive substitute, 100 times the iterations",
        INTERACTIVE,
        ("young=520000", *LARGE),
        35,
        substitute=True,
        large=True,
    ),
)
QUICK_WORKLOADS = ("destroy", "interactive")


@dataclass(frozen=True)
class Extent:
    """How much of the study is done."""

    quick: bool
    rounds: int
    only: Sequence[str] = ()  # workloads; all when empty

    def workloads(self) -> list[Workload]:
        names = [one.name for one in WORKLOADS]
        for name in self.only:
            if name not in names:
                raise UserError(f"--only: no program '{name}'; valid are {', '.join(names)}")
        wanted = self.only or (QUICK_WORKLOADS if self.quick else names)
        return [one for one in WORKLOADS if one.name in wanted]

    def together(self) -> list[list[Workload]]:
        """What is compared with each other, and so must be of one machine. The first are those of
        the claims, with whatever is of no workload: loops, instructions, traps."""
        workloads = self.workloads()
        first = [one for one in workloads if one.paper] or workloads[:1]
        return [first, *([one] for one in workloads if one not in first)]

    def barriers(self) -> Sequence[str]:
        return QUICK_BARRIERS if self.quick else BARRIERS


def runtime() -> Path:
    """Where the programs are built."""
    return PLACES.launcher.resolve().parent / "bench_programs" / "runtime"


def sources() -> Path:
    """Where the files of the small language are."""
    return Path(__file__).resolve().parents[4] / "bench_programs" / "runtime"


def program(barrier: str, order: str = "") -> Path:
    return runtime() / f"run-{barrier}{order}"


def loop(barrier: str, order: str = "") -> Path:
    return runtime() / f"loop-{barrier}{order}"


def check_programs(extent: Extent) -> Sequence[str]:
    """The link orders that there are. Raises UserError for what the study needs."""
    if not program(REMSETS).exists() or not (sources() / "kernel.st").exists():
        raise UserError(
            "the study's programs are part of the source tree; run ./allotrope study barriers "
            "there, after make"
        )
    there = [order for order in ORDERS if _has_order(extent, order)]
    wanted = ORDERS[: extent.rounds]
    if not extent.quick and any(order not in there for order in wanted):
        raise UserError("the other link orders are missing: run make runtime-orders")
    return there


def _has_order(extent: Extent, order: str) -> bool:
    programs = [program(barrier, order) for barrier in extent.barriers()]
    return all(file.exists() for file in [*programs, *(loop(one, order) for one in LOOPS)])


def repeated_orders(rounds: int, orders: int) -> str:
    """What a reader must know of the link orders; empty where each round has its own. An interval
    of repeated orders is too narrow: it does not know what other orders would do."""
    if orders >= rounds:
        return ""
    if orders == 1:
        return (
            f"All {rounds} rounds have one link order: what differs may be layout alone. These are "
            "indications; make runtime-orders links more."
        )
    return (
        f"{rounds} rounds have {orders} link orders, which repeat: the intervals are too narrow "
        "for what layout does."
    )


@dataclass(frozen=True)
class Planned:
    """A step with what it needs to be carried out: of a round the workload, of others a barrier."""

    step: Step
    workload: Workload | None = None
    barrier: str = ""
    number: int = 0
    order: str = ""


def steps(extent: Extent, orders: Sequence[str]) -> Iterator[Planned]:
    """What is counted first, for which the machine may be busy; then rounds of all workloads, one
    after the other, so that what drifts hits all alike. Round n has link order n."""
    depends: dict[str, Any]
    for barrier in COUNTED_LOOPS:
        depends = {"loop": file_digest(str(loop(barrier)))}
        yield Planned(Step("instructions", barrier, depends, 4), barrier=barrier)
    for number in range(extent.rounds):
        order = orders[number % len(orders)]
        depends = {"loops": [file_digest(str(loop(barrier, order))) for barrier in LOOPS]}
        name = f"round {number + 1}"
        yield Planned(Step("loop", name, depends, 4), number=number, order=order)
        vm = {"vm": file_digest(str(PLACES.vm)), "groups": list(VM_GROUPS)}
        yield Planned(Step("vm", name, vm, 3), number=number)
        for workload in extent.workloads():
            if number < workload.rounds(extent.rounds):
                yield _round(workload, extent.barriers(), number, order)


def _round(workload: Workload, barriers: Sequence[str], number: int, order: str) -> Planned:
    depends: dict[str, Any] = {
        "sources": [file_digest(str(sources() / name)) for name in workload.sources],
        "options": list(workload.options),
        "runs": workload.runs,
        "programs": {one: file_digest(str(program(one, order))) for one in barriers},
    }
    seconds = workload.seconds * workload.runs * (len(barriers) + 1)
    step = Step("round", f"{workload.name} {number + 1}", depends, seconds)
    return Planned(step, workload, "", number, order)
