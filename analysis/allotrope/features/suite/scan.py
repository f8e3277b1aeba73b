# SPDX-License-Identifier: MIT
"""A parameter scan: one command, or one server and its load, with several values of their
parameters, as a suite of programs.

Each combination of values is a program of that suite, called by its values: "size=10 kind=map". So
the combinations take turns, round by round. Other than a suite's programs they run here, in the
user's own environment.
"""

import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any, Mapping, Sequence

from ...system.errors import UserError
from ..compare.comparison import Plan
from ..server.plan import ServerPlan
from .measure import Program, Settings, Suite, SuiteRun

VARIED = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)
Varied = Mapping[str, Sequence[str]]


def read_varied(texts: Sequence[str]) -> dict[str, list[str]]:
    """NAME=VALUE,VALUE,... by name."""
    varied: dict[str, list[str]] = {}
    for text in texts:
        match = VARIED.fullmatch(text)
        if match is None:
            raise UserError(f"--vary: '{text}' is not of the form NAME=VALUE,VALUE,...")
        if match[1] in varied:
            raise UserError(f"--vary: {match[1]} is given twice; name all its values in one")
        values = match[2].split(",")
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise UserError(f"--vary: '{text}' has {twice} twice; leave one out")
        varied[match[1]] = values
    return varied


def _fill(text: str, values: Mapping[str, str]) -> str:
    """All at once: what a value has in braces stays as it is."""
    return re.sub(r"\{(\w+)\}", lambda braces: values.get(braces[1], braces[0]), text)


def combinations(varied: Varied) -> dict[str, dict[str, str]]:
    """Values by name, by what the combination is called."""
    found = (dict(zip(varied, values)) for values in itertools.product(*varied.values()))
    return {" ".join(f"{name}={value}" for name, value in one.items()): one for one in found}


def programs(
    command: Sequence[str],
    varied: Varied,
    settings: Mapping[str, str | None],
    server: ServerPlan | None = None,
) -> list[Program]:
    """One for each combination of values. settings: `input`, `prepare` and `check`, in which values
    are filled in too, as in all commands of a server."""
    texts = [*command, *(text for text in settings.values() if text)]
    texts += server.texts() if server is not None else []
    for name in varied:
        if not any(f"{{{name}}}" in text for text in texts):
            raise UserError(f"--vary: the command has no {{{name}}} where {name} could stand")
    return [
        _program(name, values, command, settings, server)
        for name, values in combinations(varied).items()
    ]


def _program(
    name: str,
    values: Mapping[str, str],
    command: Sequence[str],
    settings: Mapping[str, str | None],
    server: ServerPlan | None,
) -> Program:
    def fill(text: str) -> str:
        return _fill(text, values)

    filled: dict[str, Any] = {key: text and fill(text) for key, text in settings.items()}
    loaded = server and server.filled(fill)
    words = loaded.command() if loaded is not None else [fill(word) for word in command]
    return Program(name=name, command=words, server=loaded, **filled)


def check_names(varied: Varied, taken: Mapping[str, str]) -> None:
    """taken: what a name in braces means already."""
    for name in varied:
        if name in taken:
            raise UserError(f"--vary: {{{name}}} is {taken[name]}; choose another name")


class ScanRun(SuiteRun):
    """A suite whose programs run where the user is."""

    can_resume = False

    def __init__(self, suite: Suite, settings: Settings, state: Path, ignore_failure: bool) -> None:
        super().__init__(suite, settings, state)
        self.ignore_failure = ignore_failure

    def plan(self, program: Program, folder: Path) -> Plan:
        return dataclasses.replace(
            super().plan(program, folder),
            directory=None,
            environment={},
            unset=[],
            ignore_failure=self.ignore_failure,
        )


def scan(
    command: Sequence[str],
    varied: Varied,
    texts: Mapping[str, str | None],
    settings: Settings,
    folder: Path,
    ignore_failure: bool = False,
    server: ServerPlan | None = None,
) -> ScanRun:
    """folder: scratch space, for what a suite keeps in files."""
    title = " × ".join(f"{name}={','.join(values)}" for name, values in varied.items())
    file = folder / "scan"
    file.write_text(f"{title}\n{list(command)}\n", errors="backslashreplace")
    suite = Suite(file, title, programs(command, varied, texts, server), varied)
    return ScanRun(suite, settings, folder / "state", ignore_failure)
