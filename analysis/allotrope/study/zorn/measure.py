# SPDX-License-Identifier: MIT
"""One function for each kind of step: it runs what is to be run and returns what is kept.

A run that fails is a result too: {"failure": why}.

Layout: all runs have the same environment, of the caller's only PATH. What is counted runs at fixed
addresses. In a round the environment is longer by what padding_of_round says, so that the stack
and copies of the environment lie elsewhere in each round, and alike for all that run in it."""

import hashlib
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from ...features.compare.accounts import read_accounts
from ...features.compare.comparison import Load
from ...features.compare.measure import (
    PADDING,
    empty_folders,
    order_of_round,
    padding_of_round,
)
from ...features.trace.reader import TraceError
from ...features.trace.record import recorder_tools
from ...system.allocators import OWN_VARIABLES, Allocator
from ...system.errors import UserError
from ...system.launch import Launch, Run, launch, run_group
from ...system.native import last_line, read_reports, without_name
from ...system.places import PLACES, built
from .plan import (
    FACTOR_RUNS,
    FACTORS,
    LIBGC,
    LOCALITY_OPTIONS,
    SHAPE_1992,
    SUNOS,
    Configuration,
    Planned,
    begun_with,
    choose,
)
from .programs import Form, Program

Result = dict[str, Any]
# A run may take so much longer than under glibc before it is given up.
PATIENCE, LEAST_PATIENCE = 25.0, 60.0
SAMPLES_PER_SECOND = 1997
KEPT_VARIABLES = ("PATH",)  # of the caller's environment, whose length would be in every figure
PAGE = 4096


def patience(probe_seconds: float) -> float:
    return max(LEAST_PATIENCE, PATIENCE * probe_seconds)


def others_variables() -> list[str]:
    """Those of the caller's environment that no run has."""
    return [name for name in os.environ if name not in KEPT_VARIABLES]


def kept_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}


def allocator_of(one: Configuration, program: Program) -> Allocator:
    allocator = choose(one.spec, program.pointers)
    if allocator is None:
        raise UserError(f"{one.spec} is not available any more", 1)
    return allocator


class Workshop:
    """Scratch space in which programs run and leave their output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output, self.errors = folder / "stdout", folder / "stderr"

    def run(
        self,
        form: Form,
        allocator: Allocator | None,
        timeout: float,
        command: Sequence[str] | None = None,
        *,
        fixed_addresses: bool = False,
        **settings: str,
    ) -> Run:
        home = {"HOME": str(self.folder), "TMPDIR": str(self.folder)}
        chosen = allocator.environment() if allocator else {}
        return launch(
            Launch(
                command or form.command,
                environment={**home, **form.environment, **chosen, **settings},
                unset=[*OWN_VARIABLES, *others_variables()],
                stdin=form.stdin or os.devnull,
                stdout=self.output,
                stderr=self.errors,
                timeout=timeout,
                directory=self.folder,
                fixed_addresses=fixed_addresses,
            )
        )

    def output_digest(self) -> str:
        with self.output.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()[:32]

    def failure(self, run: Run) -> str | None:
        if run.exit_status == 0 and not run.timed_out and run.error is None:
            return None
        text = self.errors.read_text(errors="replace") if self.errors.exists() else ""
        said = last_line(text)[:160]
        return run.ending() + (f" ({said})" if said else "")


def probe(planned: Planned, workshop: Workshop) -> Result:
    """Both loads once under glibc: seconds and what is written."""
    form = planned.program.forms[planned.configurations[0].form]
    result: Result = {}
    for which, command in (("timed", form.command), ("traced", form.traced)):
        run = workshop.run(form, None, 900, command)
        if failure := workshop.failure(run):
            return {"failure": failure}
        result[which] = run.wall_seconds
        result[f"{which}_output"] = workshop.output_digest()
    return result


def was_slow(run: Run) -> bool:
    """Given up, and it ran for most of the time. Where it did not, the machine, or its group of
    processes, may have been stopped, and another attempt is worth while."""
    return run.timed_out and run.cpu_seconds >= run.wall_seconds / 2


@dataclass(frozen=True)
class Attempt:
    """One run of a round: what is kept of it, and whether it is worth another."""

    found: Result
    hopeless: bool = False


def measure_round(
    planned: Planned,
    workshop: Workshop,
    known: Mapping[str, Any],
    before: Mapping[str, Result],
    given_up: Mapping[str, str],
) -> Result:
    """Every configuration once, in the order of a comparison's rounds and in this round's layout.
    What fails is tried once more; what fails again is missing from this round alone.

    The runs of a round are held against each other, so they are of one time. before: what an
    earlier attempt at this round has. What failed there is tried first. If nothing of it succeeds
    now, the rest of that attempt is kept, else it is measured again.

    known: the probes by form. given_up: what is not tried, and why."""
    places = order_of_round(planned.number, len(planned.configurations))
    order = [planned.configurations[place] for place in places]
    kept = {name: run for name, run in before.items() if "failure" not in run}

    def measured(one: Configuration) -> Result:
        if str(one) in given_up:
            return {"failure": given_up[str(one)], "not_tried": True}
        return _run_of_round(planned, workshop, one, known[one.form])

    found = {str(one): measured(one) for one in order if str(one) not in kept}
    if all("failure" in run for run in found.values()):
        found |= kept
    else:
        found |= {str(one): measured(one) for one in order if str(one) in kept}
    return {str(one): found[str(one)] for one in order}


def _run_of_round(
    planned: Planned, workshop: Workshop, one: Configuration, reference: Mapping[str, Any]
) -> Result:
    first = _attempt(planned, workshop, one, reference)
    if "failure" not in first.found or first.hopeless:
        return first.found
    return _attempt(planned, workshop, one, reference).found | {"again": first.found["failure"]}


def _attempt(
    planned: Planned, workshop: Workshop, one: Configuration, reference: Mapping[str, Any]
) -> Attempt:
    """`reference`: the probe of this form."""
    before, load = round(os.getloadavg()[0], 2), Load()
    layout = padding_of_round(planned.number)
    try:
        allocator = allocator_of(one, planned.program)
        with load:
            run = workshop.run(
                planned.program.forms[one.form],
                allocator,
                patience(reference["timed"]),
                fixed_addresses=False,
                **layout,
            )
    except UserError as error:
        return Attempt({"failure": str(error)})
    if failure := workshop.failure(run):
        return Attempt({"failure": failure}, hopeless=was_slow(run))
    if workshop.output_digest() != reference["timed_output"]:
        return Attempt({"failure": "writes something else than under glibc"})
    others = load.processors()
    return Attempt(
        {
            "cpu": run.cpu_seconds,
            "user": run.user_seconds,
            "system": run.system_seconds,
            "wall": run.wall_seconds,
            "rss": run.peak_rss_bytes,
            "faults": run.minor_faults,
            "padding": len(layout[PADDING]),
            "load": before,
            "others": None if others is None else round(others, 2),
        }
    )


def account(planned: Planned, workshop: Workshop, timeout: float) -> Result:
    """The allocator's own account of the heap, and for a collector of its collections."""
    one = planned.configurations[0]
    folder = workshop.folder / "account"
    folder.mkdir(exist_ok=True)
    form, allocator = planned.program.forms[one.form], allocator_of(one, planned.program)
    if allocator.name == LIBGC:
        return _libgc_account(form, allocator, workshop, timeout, folder)
    return _own_account(workshop, form, form.command, allocator, timeout, folder)


def _own_account(
    workshop: Workshop,
    form: Form,
    command: Sequence[str],
    allocator: Allocator,
    timeout: float,
    folder: Path,
) -> Result:
    """Of one of our allocators. Leaves the folder empty."""
    settings = {"ALLOTROPE_STATS": str(folder / "%p.json")}
    run = workshop.run(form, allocator, timeout, command, fixed_addresses=True, **settings)
    heap, reports = read_accounts(folder), read_reports(folder)
    empty_folders(folder)
    if failure := workshop.failure(run):
        return {"failure": failure}
    if heap is None:
        return {"failure": "no statistics were written"}
    largest = max(reports, key=lambda each: int(each["calls"]["malloc"]))
    if failure := _impossible_collections(largest.get("gc"), run.cpu_seconds):
        return {"failure": failure}
    return {
        "heap": heap | {"mapped_mean_bytes": _mean(heap["timeline"])},
        "cpu": run.cpu_seconds,
        "calls": largest["calls"],
        "total": largest.get("total"),
        "peak": largest["peak"],
        "gc": largest.get("gc"),
    }


def _mean(timeline: Mapping[str, Sequence[float | None]] | None) -> float | None:
    """Of the heap over the run: the points are equally far apart in time."""
    known = [one for one in (timeline or {}).get("mapped_bytes", ()) if one is not None]
    return statistics.fmean(known) if known else None


def _impossible_collections(gc: Mapping[str, Any] | None, cpu_seconds: float) -> str | None:
    """Both are of one run and of one clock, the process's; yet nothing that contradicts itself is
    shown."""
    inside = (gc or {}).get("cpu_ns", 0) / 1e9
    if inside <= cpu_seconds:
        return None
    return f"collections took {inside:.3f} s of a run of {cpu_seconds:.3f} s of CPU time"


def _libgc_account(
    form: Form, allocator: Allocator, workshop: Workshop, timeout: float, folder: Path
) -> Result:
    """What libgc_redirect.c writes: of the process with the largest heap."""
    run = workshop.run(form, allocator, timeout, fixed_addresses=True, LIBGC_STATS=str(folder))
    reports = read_reports(folder)
    empty_folders(folder)
    if failure := workshop.failure(run):
        return {"failure": failure}
    if not reports:
        return {"failure": "no statistics were written"}
    largest = max(reports, key=lambda each: int(each["heap_bytes"]))
    if failure := _impossible_collections(largest, run.cpu_seconds):
        return {"failure": failure}
    heap = {"mapped_peak_bytes": largest.pop("heap_bytes")}
    return {"heap": heap, "cpu": run.cpu_seconds, "peak": {}, "gc": largest}


def factors(planned: Planned, workshop: Workshop, timeout: float) -> Result:
    """The traced load in heaps that begin with so many times what is alive at most: the median CPU
    time of some runs, and the collections of the last."""
    one = planned.configurations[0]
    folder = workshop.folder / "account"
    folder.mkdir(exist_ok=True)
    program = planned.program
    collector = allocator_of(one, program)
    explicit = Configuration(program.form_name("unoptimised"), SUNOS)

    def account_of(form: str, allocator: Allocator) -> Result:
        chosen = program.forms[form]
        return _own_account(workshop, chosen, chosen.traced, allocator, timeout, folder)

    freed = account_of(explicit.form, allocator_of(explicit, program))
    if "failure" in freed:
        return freed
    live = int(freed["peak"]["most_requested_bytes"])
    sizes = {factor: round(factor * live) // PAGE * PAGE for factor in FACTORS}
    runs = [
        {
            factor: account_of(one.form, begun_with(collector, size))
            for factor, size in sizes.items()
        }
        for _ in range(FACTOR_RUNS)
    ]
    return {"live_bytes": live, "heaps": [_heap_of(factor, runs) for factor in FACTORS]}


def _heap_of(factor: float, runs: Sequence[Mapping[float, Result]]) -> Result:
    found = [each[factor] for each in runs]
    failure = next((each["failure"] for each in found if "failure" in each), None)
    if failure is not None:
        return {"factor": factor, "failure": failure}
    return {
        "factor": factor,
        "heap_bytes": found[-1]["heap"]["mapped_peak_bytes"],
        "cpu": statistics.median(each["cpu"] for each in found),
        "gc_cpu": statistics.median(each["gc"]["cpu_ns"] / 1e9 for each in found),
        "collections": found[-1]["gc"]["collections"],
        "longest_pause_ns": statistics.median(each["gc"]["longest_pause_ns"] for each in found),
    }


def samples(planned: Planned, workshop: Workshop, timeout: float) -> Result:
    """Where the CPU clock finds the program: how often in the allocator."""
    from ...features.compare import witness  # numpy and scipy, which only this needs

    one = planned.configurations[0]
    allocator = allocator_of(one, planned.program)
    form = planned.program.forms[one.form]
    data = workshop.folder / "perf.data"
    record = witness.record_line(data, SAMPLES_PER_SECOND, form.command)
    environment = {**kept_environment(), **form.environment, **allocator.environment()}
    try:
        with open(form.stdin or os.devnull, "rb") as given:
            status, errors = run_group(record, given, subprocess.DEVNULL, timeout, environment)
    except FileNotFoundError:
        return {"failure": "perf is not installed: Debian package linux-perf"}
    if status != 0:
        return {"failure": f"perf: {last_line(errors) or status or 'took too long'}"}
    found = witness.take_samples(data)
    inside = sum(witness.is_allocator(allocator, symbol, library) for _, symbol, library in found)
    return {"samples": len(found), "in_allocator": inside}


def _run_traced(
    planned: Planned, workshop: Workshop, tool: Sequence[str], timeout: float
) -> tuple[int | None, str]:
    """Runs the traced load under a tool that records it; as run_group, of what it wrote the last
    line."""
    one = planned.configurations[0]
    form, allocator = planned.program.forms[one.form], allocator_of(one, planned.program)
    settings = {"HOME": str(workshop.folder), **form.environment, **allocator.watched_environment()}
    words = [*tool, *(f"--env={name}={value}" for name, value in settings.items())]
    with open(form.stdin or os.devnull, "rb") as given, workshop.output.open("wb") as taken:
        line = [*words, "--", *form.traced]
        status, errors = run_group(line, given, taken, timeout, kept_environment())
    return status, last_line(errors)


def locality(planned: Planned, workshop: Workshop, timeout: float) -> Result:
    """The traced load under the recorder and the simulators."""
    with tempfile.TemporaryDirectory(dir=workshop.folder) as folder:
        document = Path(folder, "locality.json")
        tool = [str(built(PLACES.simulator)), "locality", f"--output={document}"]
        tool += [*LOCALITY_OPTIONS, f"--shape={SHAPE_1992}", f"--tools={recorder_tools()}"]
        status, said = _run_traced(planned, workshop, tool, timeout)
        if status is None:
            return {"failure": f"not done after {timeout:.0f} s", "hopeless": True}
        if status != 0 or not document.exists():
            return {"failure": without_name(said) or "no result"}
        found: Result = json.loads(document.read_text())
    if found["status"] != 0:
        return {"failure": f"exit status {found['status']} under the recorder"}
    for shape in found["caches"]["shapes"]:
        worst = sorted(shape["misses_by_function"], key=lambda each: -int(each["misses"]))
        shape["misses_by_function"] = worst[:20]
    return {"output": workshop.output_digest(), "pages": found["pages"], "caches": found["caches"]}


def events(planned: Planned, workshop: Workshop, timeout: float) -> Result:
    """Births and deaths of the traced load's objects."""
    from .births import follow

    with tempfile.TemporaryDirectory(dir=workshop.folder) as folder:
        trace = Path(folder, "run.alt")
        tool = [str(built(PLACES.recorder)), "--tools", recorder_tools(), "--output", str(trace)]
        status, said = _run_traced(planned, workshop, tool, timeout)
        if status is None:
            return {"failure": f"not done after {timeout:.0f} s", "hopeless": True}
        if status != 0 or not trace.exists():
            return {"failure": said or f"exit status {status} under the recorder"}
        try:
            return follow(trace)
        except (UserError, TraceError) as error:
            return {"failure": str(error)}


def needs_probe(program: Program, known: Mapping[str, Any]) -> str | None:
    """Why the program cannot be measured, from its probes by form."""
    failures = [found["failure"] for found in known.values() if "failure" in found]
    return f"{program.name} fails under glibc: {failures[0]}" if failures else None
