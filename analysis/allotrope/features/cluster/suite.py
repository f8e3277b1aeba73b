# SPDX-License-Identifier: MIT
"""A suite on a cluster: one program on one machine is one task (submission.py), and its entry in
the suite's document the result. An entry is kept once for each program and machine."""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from ...system.machine import machine_facts
from ..suite.measure import Program, SuiteRun, begin_state, folders_of, save_state
from ..suite.output import assemble
from .connection import PATIENCE_SECONDS, dask
from .machines import Machines
from .shipment import Shipment, named_paths, own_shipment
from .submission import Announce, Result, Tasks, installed_files, measure_tasks, without_document

STATE_SCHEMA = "allotrope.suite-steps/2"
Entry = dict[str, Any]


class Steps(Tasks):
    """The entries that are there, by program and host, and the file that keeps them."""

    scratch = "--state"

    def __init__(
        self, run: SuiteRun, machines: Machines, resume: bool, shipment: Shipment | None = None
    ) -> None:
        super().__init__(machines, shipment)
        saved = (begin_state(run, STATE_SCHEMA, resume) or {"programs": {}})["programs"]
        self.run = run
        self.names = [program.name for program in run.suite.programs]
        self.entries: dict[str, dict[str, Entry]] = saved.get("entries", {})
        # What was found about machines, also about those that are gone when a suite is resumed.
        self.facts: dict[str, dict[str, Any]] = saved.get("machines", {})

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

    def is_done_on(self, name: str, host: str) -> bool:
        return host in self.entries.get(name, {})

    def depends_on(self) -> list[str]:
        allocators = self.run.settings.allocators
        libraries = [str(one.library) for one in allocators if one.library is not None]
        return list(dict.fromkeys([*installed_files(), str(self._file()), *libraries]))

    def _file(self) -> Path:
        return self.run.suite.file.resolve()

    def command(self, name: str) -> Sequence[str]:
        settings = self.run.settings
        command = [sys.executable, "-I", sys.argv[0], "compare", "--json", "-"]
        command += ["--suite", str(self._file()), "--only", name]
        for allocator in settings.allocators:
            command += ["-a", allocator.spec]
        command += ["--baseline", settings.allocators[settings.baseline].spec]
        command += ["--rounds", str(settings.rounds), "--warmup", str(settings.warmup)]
        if settings.timeout is not None:
            command += ["--timeout", str(settings.timeout)]
        return command

    def keep(self, name: str, result: Result) -> str | None:
        why = without_document(result)
        if why is None:
            entry = entry_of(name, result)
            self.entries.setdefault(name, {}).setdefault(entry["host"], entry)
            self.save()
        return why

    def goes_on(self) -> str:
        return f"; --resume continues from {self.run.state}"

    def save(self) -> None:
        self.facts |= {host: one.facts() for host, one in self.machines.hosts.items()}
        programs = {"machines": self.facts, "entries": self.entries}
        save_state(self.run, STATE_SCHEMA, {"programs": programs})

    def all_entries(self) -> list[Entry]:
        """In the suite's order; one says so where some are missing."""
        found = []
        for name in self.names:
            found += self.counted(name)
            if len(self.counted(name)) < self.machines.replicate:
                found.append(failed_entry(name, self.failures.get(name, "not measured")))
        return found


def _files(run: SuiteRun, announce: Announce) -> Iterator[Path]:
    """The suite's own, and those that its programs or the allocators name. Folders are told: what
    of them is needed is not known."""
    yield run.suite.file.resolve()
    yield from named_paths(str(one.library or "") for one in run.settings.allocators)
    folders = folders_of(run.suite.file)
    told: set[Path] = set()
    for program in run.suite.programs:
        for path in named_paths(_expand(text, folders) for text in _texts(program)):
            if not path.is_dir():
                yield path
            elif path not in told:
                told.add(path)
                announce(f"not shipped: {path}, which {program.name} names; --ship-with brings it")


def _texts(program: Program) -> Iterator[str]:
    yield from program.command
    yield from program.environment.values()
    yield from filter(None, (program.input, program.setup, program.prepare, program.check))


def _expand(text: str, folders: Mapping[str, str]) -> str:
    """As a shell does, also where the name is quoted by itself."""
    for name, folder in folders.items():
        variable = rf"\$(?:{name}(?!\w)|{{{name}}})"
        text = re.sub(rf'"{variable}"|{variable}', folder.replace("\\", r"\\"), text)
    return text


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
    ship: Sequence[Path] | None = None,
    patience: float = PATIENCE_SECONDS,
) -> tuple[dict[str, Any], bool]:
    """The suite's document, and whether all programs are in it. The state file is the caller's to
    remove. ship: what is shipped beside what the suite names; None: nothing is."""
    dask()
    shipment = None if ship is None else own_shipment([*_files(run, announce), *ship])
    steps = Steps(run, Machines(noise, run.settings.replicate), resume, shipment)
    try:
        measure_tasks(steps, address, announce, patience)
    except KeyboardInterrupt:
        run.interrupted = True
        announce(f"interrupted{steps.goes_on() if run.state.exists() else ''}")
    entries = steps.all_entries()
    facts = [entry["comparison"]["machine"] for entry in entries if entry["comparison"]]
    document = assemble(
        run, facts[0] if facts else machine_facts(), entries, list(steps.facts.values())
    )
    return document, not steps.missing() and not steps.failures


def entry_of(name: str, result: Result) -> Entry:
    """The program's entry in the document that the command on the worker wrote."""
    entries = json.loads(result["output"])["programs"]
    found: Entry = next(entry for entry in entries if entry["name"] == name)
    return found | {"host": result["host"]}
