# SPDX-License-Identifier: MIT
"""Many programs under many allocators, interleaved, and resumable.

A round of a suite is a round of every program's comparison, one program after the other, so what
drifts over an hour hits all programs and allocators alike. Each program has a folder of its own,
in which `setup` makes its input once and everything runs, and of the environment only what is
named here: figures of a suite do not depend on who runs it, from where, or with which other
programs.

    setups -> references of all programs -> an estimate -> warm-ups and accounts -> round 1, 2, ...

After every program's part of a round the state file is written anew; an interruption loses the
part that was under way and nothing else. The file belongs to one question: the suite's text, the
allocators' libraries and the settings have a fingerprint, and --resume refuses any other. It
refuses another machine, too: the file may lie in a home that several share. And it refuses when a
program that is in the file cannot go on: a new state would lack its rounds.
"""

import dataclasses
import functools
import hashlib
import json
import math
import os
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from ...output.files import replace_file
from ...output.sentences import counted
from ...system.allocators import Allocator, package_version
from ...system.errors import UserError
from ...system.launch import Run
from ...system.machine import machine_facts
from ...system.places import PLACES
from ...system.scratch import scratch_folder
from ...system.shell import run_shell
from ..compare.comparison import Comparison, Contender, Failure, Plan
from ..compare.measure import BaselineFailed, Runner, check_plan, steps as steps_of
from ..server.plan import ServerPlan

STATE_SCHEMA = "allotrope.suite-state/5"
# What of a machine its figures depend on, and how it is called.
MACHINE = {"cpu": "processor", "kernel": "kernel", "libc": "libc"}
# What programs of a suite see of our environment.
INHERITED = (
    *("PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL", "TERM"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD"),
)
SUITE_KEYS = {"title", "environment", "program"}
# What each key of a program must be.
PROGRAM_KEYS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "command": (list, str),
    "input": (str,),
    "setup": (str,),
    "prepare": (str,),
    "check": (str,),
    "packages": (list,),
    "environment": (dict,),
    "timeout_seconds": (int, float),
}


@dataclass(frozen=True)
class Program:
    """One program of a suite; docs/suites.md says what each key means."""

    name: str
    command: Sequence[str]
    input: str | None = None
    setup: str | None = None
    prepare: str | None = None
    check: str = "stdout"
    packages: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    server: ServerPlan | None = None  # of a scan: the command is a server, measured under a load


@dataclass(frozen=True)
class Suite:
    file: Path
    title: str
    programs: Sequence[Program]
    varied: Mapping[str, Sequence[str]] | None = None  # of a scan: the values of each parameter


@dataclass(frozen=True)
class Settings:
    allocators: Sequence[Allocator]
    baseline: int
    rounds: int
    warmup: int
    timeout: float | None = None
    replicate: int = 1  # on how many machines of a cluster each program is measured


@dataclass
class Part:
    """A program's part in the suite."""

    program: Program
    comparison: Comparison | None = None
    runner: Runner | None = None
    status: str = "measured"  # or "skipped", "failed"
    reason: str | None = None
    has_references: bool = False  # measured, now or by an earlier run
    reference_seconds: float = 0.0  # of one run under glibc
    warm: bool = False

    def is_in(self) -> bool:
        return self.status == "measured" and (
            self.comparison is None or self.comparison.incomplete is None
        )

    def rounds(self) -> int:
        return len(self.comparison.baseline.runs) if self.comparison else 0


def read_suite(file: Path) -> Suite:
    """The suite in a TOML file. Raises UserError, which names the faulty key."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--suite: cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"--suite: {file} is no TOML: {error}") from None
    if unknown := set(table) - SUITE_KEYS:
        valid = ", ".join(sorted(SUITE_KEYS))
        raise UserError(f"--suite: {file}: unknown key '{min(unknown)}'; valid are: {valid}")
    entries = table.get("program")
    tables = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    if not tables or not entries:
        raise UserError(f"--suite: {file} has no [[program]]")
    common = _texts(file, "environment", table.get("environment", {}))
    programs = [_read_program(file, entry, common) for entry in entries]
    names = [program.name for program in programs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--suite: {file}: two programs are called '{name}'")
    return Suite(file, str(table.get("title", file.stem)), programs)


def _texts(file: Path, key: str, table: Any) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise UserError(f"--suite: {file}: {key} must be a table of strings")
    return table


def _read_program(file: Path, entry: dict[str, Any], common: Mapping[str, str]) -> Program:
    name = entry.get("name")
    where = f"--suite: {file}: program '{name}'"
    for key in ("name", "command"):
        if not entry.get(key):
            raise UserError(f"{where} has no {key}")
    for key, value in entry.items():
        if key not in PROGRAM_KEYS:
            raise UserError(f"{where}: unknown key '{key}'; valid are: {', '.join(PROGRAM_KEYS)}")
        if not isinstance(value, PROGRAM_KEYS[key]):
            kinds = " or ".join(kind.__name__ for kind in PROGRAM_KEYS[key])
            raise UserError(f"{where}: {key} must be {kinds}, not {value!r}")
        if isinstance(value, list) and not all(isinstance(word, str) for word in value):
            raise UserError(f"{where}: {key} must hold strings only")
    seconds = entry.get("timeout_seconds", 1)
    if isinstance(seconds, bool) or not 0 < seconds < math.inf:
        raise UserError(f"{where}: timeout_seconds must be a number above 0, not {seconds!r}")
    command = entry["command"]
    if isinstance(command, str):
        command = ["/bin/sh", "-eu", "-c", command]
    else:
        command = [_expand(file, word) for word in command]
    environment = common | _texts(file, f"{name}: environment", entry.get("environment", {}))
    if "input" in entry:
        entry = entry | {"input": _expand(file, entry["input"])}
    return Program(**entry | {"command": command, "environment": environment})


def folders_of(file: Path) -> dict[str, str]:
    """What scripts find in their environment and words may name."""
    return {"SUITE": str(file.resolve().parent), "BUILD": str(PLACES.launcher.resolve().parent)}


def _expand(file: Path, word: str) -> str:
    for name, value in folders_of(file).items():
        word = word.replace(f"${name}", value)
    return word


def choose_programs(suite: Suite, names: Sequence[str]) -> Suite:
    """The suite with the named programs only; all when none is named."""
    known = [program.name for program in suite.programs]
    for name in names:
        if name not in known:
            there = "; ".join(known)
            raise UserError(f"--only: no program '{name}' in {suite.file}; there are: {there}")
    kept = [program for program in suite.programs if not names or program.name in names]
    return dataclasses.replace(suite, programs=kept)


def is_inherited(name: str) -> bool:
    """Whether programs see this variable of ours."""
    return name in INHERITED or name.startswith("LC_")


def folder_of(program: Program) -> str:
    """A name as long for every program, and the same whatever else is measured."""
    return hashlib.blake2b(os.fsencode(program.name), digest_size=4).hexdigest()


class SuiteRun:
    """A suite being measured, and then its result."""

    can_resume = True

    def __init__(self, suite: Suite, settings: Settings, state: Path) -> None:
        self.suite = suite
        self.settings = settings
        self.state = state
        self.parts = [Part(program) for program in suite.programs]
        self.interrupted = False
        self.started = time.time()

    def plan(self, program: Program, folder: Path) -> Plan:
        home = {"HOME": str(folder), "TMPDIR": str(folder)}
        return Plan(
            command=program.command,
            allocators=self.settings.allocators,
            baseline=self.settings.baseline,
            rounds=self.settings.rounds,
            warmup=self.settings.warmup,
            prepare=program.prepare,
            input=program.input,
            timeout=program.timeout_seconds or self.settings.timeout,
            check=program.check,
            directory=folder,
            environment=home | folders_of(self.suite.file) | dict(program.environment),
            unset=[name for name in os.environ if not is_inherited(name)],
            server=program.server,
        )

    def steps_left(self) -> int:
        """Runs still to come."""
        left = 0
        for part in self.parts:
            if part.is_in() and part.comparison is not None:
                contenders = len(self.settings.allocators)
                rounds = self.settings.rounds - part.rounds()
                fixed = (
                    steps_of(part.comparison.plan, self.settings.rounds)
                    - 2
                    - contenders * self.settings.rounds
                )
                left += contenders * rounds + (0 if part.warm else fixed)
        return left

    def seconds_left(self) -> float:
        """An estimate: every allocator as slow as glibc was."""
        seconds = 0.0
        contenders = len(self.settings.allocators)
        for part in self.parts:
            if part.is_in() and part.comparison is not None:
                fixed = (
                    steps_of(part.comparison.plan, self.settings.rounds)
                    - 2
                    - contenders * self.settings.rounds
                )
                runs = contenders * (self.settings.rounds - part.rounds())
                seconds += part.reference_seconds * (runs + (0 if part.warm else fixed))
        return seconds


def measure_suite(
    run: SuiteRun,
    resume: bool,
    announce: Callable[[str], None],
    progress: Callable[[str], None] = lambda step: None,
) -> None:
    """Measures all of `run`. `announce` is told what a reader should know (the estimate, each
    round), `progress` of every single run. An interruption marks it. The state file is the
    caller's to remove, once the results are written."""
    state = begin_state(run, STATE_SCHEMA, resume)
    if state is not None:
        _check_machine(run, state["machine"])
    saved = state["programs"] if state is not None else {}
    with scratch_folder() as scratch:
        scratch.chmod(0o755)  # some servers give up root
        try:
            _measure(run, scratch, saved, announce, progress)
        except KeyboardInterrupt:
            run.interrupted = True
            for part in run.parts:
                _drop_broken_round(run, part)
            later = f"; --resume continues from {run.state}" if run.can_resume else ""
            announce(f"interrupted{later}")
            return


def _measure(
    run: SuiteRun,
    scratch: Path,
    saved: Mapping[str, Any],
    announce: Callable[[str], None],
    progress: Callable[[str], None],
) -> None:
    # All are taken up and made ready before the first is begun, for the state is then written anew.
    for part in run.parts:
        _take_up(run, part, scratch / folder_of(part.program), saved, progress)
    for part in run.parts:
        _make_ready(part)
        if part.status != "measured" and part.program.name in saved:
            raise UserError(
                f"--resume: {part.program.name} cannot go on: {part.reason}; mend that and resume "
                f"again (all rounds are kept), or remove {run.state} and begin anew"
            )
    for part in run.parts:
        _begin(part)
        _save_state(run)
    begun = [part for part in run.parts if part.is_in()]
    announce(
        f"{counted(len(begun), 'value' if run.suite.varied else 'program')} × "
        f"{counted(len(run.settings.allocators), 'allocator')} × "
        f"{counted(run.settings.rounds, 'round')}: {counted(run.steps_left(), 'run')}, "
        f"about {duration(run.seconds_left())}"
    )
    for part in begun:
        if not part.warm:
            _guarded(part, _warm_up)
            part.warm = True
            _save_state(run)
    for number in range(run.settings.rounds):
        due = [part for part in begun if part.is_in() and part.rounds() <= number]
        if due:
            left = duration(run.seconds_left())
            announce(f"round {number + 1} of {run.settings.rounds}, about {left} left")
        for part in due:
            _guarded(part, lambda runner: runner.measure_round(number))
            _save_state(run)


def _warm_up(runner: Runner) -> None:
    runner.warm_up()
    runner.take_accounts()


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def _take_up(
    run: SuiteRun,
    part: Part,
    folder: Path,
    saved: Mapping[str, Any],
    progress: Callable[[str], None],
) -> None:
    """Makes the program's folder and restores what an earlier run has measured of it. saved: that,
    by program."""
    missing = [name for name in part.program.packages if package_version(name) is None]
    if missing:
        part.status = "skipped"
        part.reason = f"needs the Debian package {' '.join(missing)}"
        return
    folder.mkdir()
    folder.chmod(0o755)
    plan = run.plan(part.program, folder)
    part.comparison = Comparison(plan)
    work = folder.with_name(f"{folder.name}-runs")
    work.mkdir()
    if plan.server is not None:
        work.chmod(0o711)  # a server that gives its rights up writes its account there
    part.runner = Runner(
        part.comparison, work, lambda step, _: progress(f"{part.program.name}: {step}")
    )
    if part.program.name in saved:
        _restore(part, saved[part.program.name])


def _make_ready(part: Part) -> None:
    """Sets the program up. One that cannot be measured has failed."""
    if part.comparison is None:
        return
    try:
        _set_up(part.program, part.comparison.plan)
        check_plan(part.comparison.plan)
    except UserError as error:
        part.status, part.reason = "failed", error.format_message()


def _begin(part: Part) -> None:
    """Runs the program's references unless they are known."""
    if part.runner is None or part.status != "measured" or part.has_references:
        return
    begun = time.monotonic()
    try:
        part.runner.measure_reference()
    except UserError as error:
        part.status, part.reason = "failed", error.format_message()
        return
    part.reference_seconds = (time.monotonic() - begun) / 2
    part.has_references = True


def _set_up(program: Program, plan: Plan) -> None:
    if program.setup is None:
        return
    said = run_shell(program.setup, "-eu -c", cwd=plan.directory, env=plan.surroundings())
    if said.status != 0:
        raise UserError(f"setup {said.ending()}")


def _guarded(part: Part, step: Callable[[Runner], object]) -> None:
    """A program that goes wrong ends its own part only."""
    assert part.runner is not None and part.comparison is not None
    try:
        step(part.runner)
    except BaselineFailed as failed:
        part.comparison.incomplete = str(failed)
    except UserError as error:
        part.comparison.incomplete = error.format_message()
    if part.comparison.incomplete is not None and part.rounds() == 0:
        part.status, part.reason = "failed", part.comparison.incomplete


def _drop_broken_round(run: SuiteRun, part: Part) -> None:
    """Takes back what an interrupted round has measured of a program, so that memory and the
    state file say the same."""
    if part.comparison is None or not run.state.exists():
        return
    saved = json.loads(run.state.read_text())["programs"].get(part.program.name)
    kept = len(saved["contenders"][0]["runs"]) if saved else 0
    part.comparison.drop_rounds_from(kept)


# The state file


@functools.cache
def fingerprint(run: SuiteRun) -> dict[str, Any]:
    """What must be the same for figures to belong together."""
    libraries = [
        hashlib.blake2b(one.library.read_bytes(), digest_size=16).hexdigest() if one.library else ""
        for one in run.settings.allocators
    ]
    return {
        "suite": hashlib.blake2b(run.suite.file.read_bytes(), digest_size=16).hexdigest(),
        "programs": [program.name for program in run.suite.programs],
        "allocators": [one.spec for one in run.settings.allocators],
        "libraries": libraries,
        "baseline": run.settings.allocators[run.settings.baseline].spec,
        "rounds": run.settings.rounds,
        "warmup": run.settings.warmup,
        "timeout": run.settings.timeout,
        "replicate": run.settings.replicate,
    }


def begin_state(run: SuiteRun, schema: str, resume: bool) -> dict[str, Any] | None:
    """What an earlier run left, when it is to be resumed. Raises UserError where there is none to
    resume, or one that would be lost."""
    if resume:
        return _load_state(run, schema)
    if run.state.exists():
        raise UserError(
            f"{run.state} holds a suite that was not finished; continue it with --resume, or "
            "remove the file"
        )
    return None


def _load_state(run: SuiteRun, schema: str) -> dict[str, Any]:
    try:
        saved: dict[str, Any] = json.loads(run.state.read_text())
    except OSError as error:
        raise UserError(f"--resume: cannot read {run.state}: {error.strerror}") from None
    except ValueError:
        raise UserError(f"--resume: {run.state} is damaged; remove it and begin anew") from None
    if not isinstance(saved, dict) or saved.get("schema") != schema:
        raise UserError(f"--resume: {run.state} is not the state of a suite that ran this way")
    for key, now in fingerprint(run).items():
        if saved["fingerprint"].get(key) != now:
            raise UserError(
                f"--resume: {run.state} was begun with other {key}; give the same, or "
                "remove the file and begin anew"
            )
    run.started = saved["started"]
    return saved


def _save_state(run: SuiteRun) -> None:
    programs = {
        part.program.name: _frozen(part)
        for part in run.parts
        if part.has_references and part.status == "measured"
    }
    save_state(run, STATE_SCHEMA, {"machine": _this_machine(), "programs": programs})


def save_state(run: SuiteRun, schema: str, found: Mapping[str, Any]) -> None:
    """Replaces the file as a whole: it is never half written."""
    state = {"schema": schema, "fingerprint": fingerprint(run), "started": run.started, **found}
    replace_file(run.state, json.dumps(state))


@functools.cache
def _this_machine() -> dict[str, str | None]:
    facts = machine_facts()
    return {key: facts[key] for key in MACHINE}


def _check_machine(run: SuiteRun, begun_on: Mapping[str, str | None]) -> None:
    for key, here in _this_machine().items():
        if begun_on[key] != here:
            raise UserError(
                f"--resume: {run.state} was begun with another {MACHINE[key]} ({begun_on[key]}; "
                f"here: {here}); go on there, or remove the file and begin anew"
            )


def _frozen(part: Part) -> dict[str, Any]:
    comparison = part.comparison
    assert comparison is not None
    return {
        "reference_seconds": part.reference_seconds,
        "sites": comparison.sites,
        "warm": part.warm,
        "endings": sorted(comparison.endings, key=str),
        "incomplete": comparison.incomplete,
        "load": [comparison.load.elapsed, comparison.load.others],
        "reference_outputs": sorted(comparison.reference.outputs),
        "contenders": [_frozen_contender(contender) for contender in comparison.contenders],
    }


def _frozen_contender(contender: Contender) -> dict[str, Any]:
    return {
        "runs": [run and dataclasses.asdict(run) for run in contender.runs],
        "outputs": sorted(contender.outputs),
        "rejected": contender.rejected,
        "failure": contender.failure and dataclasses.asdict(contender.failure),
        "heap": contender.heap,
        "heap_missing": contender.heap_missing,
        "served": contender.served,
        "served_missing": contender.served_missing,
    }


def _restore(part: Part, saved: dict[str, Any]) -> None:
    comparison = part.comparison
    assert comparison is not None
    part.has_references, part.warm = True, saved["warm"]
    part.reference_seconds = saved["reference_seconds"]
    comparison.sites = saved["sites"]
    comparison.endings = {(status, signal) for status, signal in saved["endings"]}
    comparison.incomplete = saved["incomplete"]
    comparison.load.elapsed, comparison.load.others = saved["load"]
    comparison.reference.outputs = set(saved["reference_outputs"])
    for contender, was in zip(comparison.contenders, saved["contenders"], strict=True):
        contender.runs = [run and Run(**run) for run in was["runs"]]
        contender.outputs = set(was["outputs"])
        contender.rejected = was["rejected"]
        contender.failure = Failure(**was["failure"]) if was["failure"] else None
        contender.heap, contender.heap_missing = was["heap"], was["heap_missing"]
        contender.served, contender.served_missing = was["served"], was["served_missing"]
