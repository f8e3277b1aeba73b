# SPDX-License-Identifier: MIT
"""What is run under what, in which steps.

Tables 3 and 4 of the paper compare the programs as they are (optimised: with their own
allocators) under the explicit allocators with the same programs without them under the collector;
so a configuration is a form of a program and an allocator.
"""

from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Sequence

from ...features.compare.measure import padding_of_round
from ...system import allocators
from ...system.allocators import Allocator
from ...system.errors import UserError
from ...system.places import PLACES
from ..store import Step, file_digest
from .paper import EXCEPT_YACR
from .programs import Form, Program

SUNOS = "cartesian:classic"
CLASSIC = (SUNOS, "knuth:classic", "bsd:classic", "gnu:classic")
DEFAULT = ("cartesian", "knuth", "bsd", "gnu")
MODERN = ("glibc", "jemalloc", "mimalloc", "tcmalloc", "blocks")
PEERS = MODERN[:4]  # under which unoptimised programs run: the paper's advice, of today's mallocs
# Of today's explicit allocators; a run of the simulators takes half a minute.
SIMULATED = MODERN[:1]
LIBGC, LIBGC_INCREMENTAL = "libgc", "libgc:incremental"
COLLECTORS = ("gc:classic", "gc:free=ignore", LIBGC, LIBGC_INCREMENTAL)
# The same collector as the second, without and with what the paper predicts; gc:classic has no
# generations. By its own pace it hardly collects a heap as small as those of 1992; so this much
# is handed out between two full collections, and a quarter of it between two minor ones.
WITHOUT_GENERATIONS = f"{COLLECTORS[1]},initial={1 << 20}"
GENERATIONS = f"{WITHOUT_GENERATIONS},generations=2"
PREDICTED = (WITHOUT_GENERATIONS, GENERATIONS)
BASELINE = ("optimised", "cartesian:classic")
# Readings of the originals that cannot be dated, and blocks aligned as in 1992: their memory alone.
VARIANTS = (
    "knuth:classic,cut=end",
    "knuth:classic,align=8",
    "knuth:classic,align=8,cut=end",
    "cartesian:classic,align=8",
)

# How large a heap a collector begins with, to the most that a program has alive at once.
FACTORS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
FACTOR_RUNS = 3
# So many rounds at most: with a heap of today's size a round takes minutes; and of programs that no
# claim speaks of an interval needs no more.
MOST_ROUNDS = {"large": 3, "today": 7, "switch": 7}

# What the paper simulates, a block of today direct-mapped for misses by cause, and in 8 ways.
LOCALITY_OPTIONS = ("--page-size=4096,8192", "--block=32:1,64:8", "--causes")
SHAPE_1992 = "32:4096:1"  # 128 KiB, direct-mapped
# Under the recorder and the simulators a program takes about so many times as long.
TRACED_SLOWDOWN = 130
EVENTS_SLOWDOWN = 60


@dataclass(frozen=True)
class Configuration:
    """A form of a program, and the allocator under it."""

    form: str
    spec: str

    def __str__(self) -> str:
        return f"{self.form} {self.spec}"


@dataclass(frozen=True)
class Extent:
    """How much of the study is done."""

    quick: bool
    rounds: int
    only: Sequence[str] = ()  # programs; all when empty

    QUICK_PROGRAMS = ("cfrac", "yacr")
    QUICK_CLASSIC = ("cartesian:classic", "bsd:classic")
    QUICK_COLLECTORS = ("gc:classic",)

    def programs(self, known: Sequence[Program]) -> list[Program]:
        names = [program.name for program in known]
        for name in self.only:
            if name not in names:
                raise UserError(f"--only: no program '{name}'; valid are {', '.join(names)}")
        wanted = self.only or (self.QUICK_PROGRAMS if self.quick else names)
        chosen = [program for program in known if program.name in wanted]
        return chosen or list(known[:2])

    def timed(self, program: Program) -> list[Configuration]:
        """Whose CPU time and memory are measured."""
        if self.quick:
            pairs = [
                ("optimised", self.QUICK_CLASSIC),
                ("unoptimised", self.QUICK_CLASSIC),
                ("collected", self.QUICK_COLLECTORS),
            ]
        elif program.row == "1992":
            pairs = [
                ("optimised", CLASSIC + MODERN),
                ("unoptimised", CLASSIC + PEERS),
                ("collected", COLLECTORS),
            ]
        elif program.row in ("large", "today"):
            pairs = [("optimised", CLASSIC + MODERN), ("collected", COLLECTORS)]
            if program.row == "today" and "unoptimised" in program.forms:
                pairs.insert(1, ("unoptimised", ("cartesian:classic", "bsd:classic")))
        else:
            both = ("cartesian:classic", "bsd:classic", "glibc")
            pairs = [("optimised", both), ("unoptimised", both)]
        return _resolve(program, pairs)

    def accounted(self, program: Program) -> list[Configuration]:
        """Whose heap's own account is taken."""
        more = VARIANTS if program.row == "1992" and not self.quick else ()
        return [*self.timed(program), *_resolve(program, [("optimised", more)])]

    def traced(self, program: Program) -> list[Configuration]:
        """Whose every data reference is simulated."""
        if program.row != "1992":
            return []
        if self.quick:
            pairs = [("optimised", self.QUICK_CLASSIC), ("collected", self.QUICK_COLLECTORS)]
            return _resolve(program, pairs)
        pairs = [("optimised", CLASSIC + SIMULATED), ("unoptimised", ("bsd:classic",))]
        return _resolve(program, [*pairs, ("collected", (*COLLECTORS, *PREDICTED))])

    def factored(self, program: Program) -> list[Configuration]:
        """Whose time is measured in heaps of several sizes. What a program needs that never frees
        is not known."""
        if program.row != "1992" or program.name in EXCEPT_YACR:
            return []
        specs = self.QUICK_COLLECTORS if self.quick else COLLECTORS[:2]
        return _resolve(program, [("collected", specs)])

    def sampled(self, program: Program) -> list[Configuration]:
        """Whose time in malloc and free is sampled: Table 2 speaks of the unoptimised programs."""
        if program.row != "1992":
            return []
        return _resolve(program, [("unoptimised", self.QUICK_CLASSIC if self.quick else CLASSIC)])

    def followed(self, program: Program) -> list[Configuration]:
        """Whose allocations are followed from birth to death."""
        if program.row != "1992":
            return []
        return _resolve(program, [("unoptimised", ("cartesian:classic",))])


def _resolve(program: Program, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[Configuration]:
    """Configurations, each once, with the forms that the program has."""
    found = [
        Configuration(program.form_name(form), spec) for form, specs in pairs for spec in specs
    ]
    return list(dict.fromkeys(found))


def choose(spec: str, pointers: str = "base") -> Allocator | None:
    """The allocator, None where it is not there on this machine. `pointers`: a program's need."""
    if spec == COLLECTORS[0] and pointers != "base":
        return allocators.choose(allocators.with_option(spec, f"pointers={pointers}"))
    if spec in (LIBGC, LIBGC_INCREMENTAL):
        library = PLACES.library.parent.parent / "bench_programs" / "libgc_redirect.so"
        if not library.exists():
            return None
        version = allocators.package_version("libgc1")
        variables = {"GC_ENABLE_INCREMENTAL": "1"} if spec == LIBGC_INCREMENTAL else {}
        return Allocator(
            spec=spec, name=LIBGC, version=version, library=library, variables=variables
        )
    try:
        return allocators.choose(spec)
    except UserError:
        return None


def begun_with(collector: Allocator, heap_bytes: int) -> Allocator:
    """The same collector with a heap that begins with so many bytes."""
    return allocators.choose(allocators.with_option(collector.spec, f"initial={heap_bytes}"))


def depends(program: Program, form: Form, allocator: Allocator | None) -> dict[str, Any]:
    """What a run of the program under the allocator depends on."""
    library = allocator.library if allocator else None
    return {
        "command": list(form.command),
        "traced": list(form.traced),
        "environment": dict(form.environment),
        "stdin": form.stdin,
        "program": file_digest(form.command[0]),
        "allocator": allocator.spec if allocator else None,
        "library": file_digest(str(library)) if library else None,
    }


@dataclass(frozen=True)
class Planned:
    """A step with what it needs to be carried out."""

    step: Step
    program: Program
    configurations: Sequence[Configuration]
    number: int = 0  # of a round


def probe_step(program: Program, form: str) -> Planned:
    """A first run under glibc: that it works, how long it takes, what it writes."""
    step = Step("probe", f"{program.name} {form}", depends(program, program.forms[form], None), 3)
    return Planned(step, program, [Configuration(form, "glibc")])


ALL = CLASSIC + MODERN + COLLECTORS + PREDICTED + VARIANTS
Probe = Callable[[Program, str], Mapping[str, float] | None]


def steps(extent: Extent, programs: Sequence[Program], probe: Probe) -> Iterator[Planned]:
    """Every step after the probes, in order: what is counted first, for which the machine may be
    busy; then what is timed, a round of all programs after the other, so that what drifts hits all
    alike."""
    chosen = {spec: choose(spec) for spec in ALL}

    def available(wanted: Sequence[Configuration]) -> list[Configuration]:
        return [one for one in wanted if chosen[one.spec] is not None]

    def needs(program: Program, one: Configuration) -> dict[str, Any]:
        return depends(program, program.forms[one.form], choose(one.spec, program.pointers))

    def of(
        program: Program, one: Configuration, kind: str, factor: float, which: str, **more: Any
    ) -> Planned:
        known = probe(program, one.form) or {"timed": 1.0, "traced": 1.0}
        name = f"{program.name} {one}"
        step = Step(kind, name, needs(program, one) | more, known[which] * factor)
        return Planned(step, program, [one])

    for program in programs:
        for one in available(extent.accounted(program)):
            allocator = chosen[one.spec]
            if allocator is not None and (allocator.ours or allocator.name == LIBGC):
                yield of(program, one, "account", 1.5, "timed")
        for one in available(extent.followed(program)):
            yield of(program, one, "events", EVENTS_SLOWDOWN, "traced", recorder=_recorder())
        for one in available(extent.traced(program)):
            more = {"options": LOCALITY_OPTIONS, "recorder": _recorder()}
            yield of(program, one, "locality", TRACED_SLOWDOWN, "traced", **more)
    for program in programs:
        for one in available(extent.factored(program)):
            factor = 1.5 * len(FACTORS) * FACTOR_RUNS
            yield of(program, one, "factors", factor, "traced", factors=FACTORS)
    for program in programs:
        for one in available(extent.sampled(program)):
            yield of(program, one, "samples", 2, "timed")
    for number in range(extent.rounds):
        for program in programs:
            if number >= MOST_ROUNDS.get(program.row, extent.rounds):
                continue
            timed = available(extent.timed(program))
            all_needs: dict[str, Any] = {str(one): needs(program, one) for one in timed}
            all_needs["layout"] = padding_of_round(number)
            seconds = sum((probe(program, one.form) or {"timed": 1.0})["timed"] for one in timed)
            step = Step("round", f"{program.name} {number + 1}", all_needs, 1.3 * seconds)
            yield Planned(step, program, timed, number)


def _recorder() -> list[str | None]:
    tools = sorted(PLACES.tools.glob("*-amd64-linux"))
    return [file_digest(str(one)) for one in (PLACES.simulator, *tools)]
