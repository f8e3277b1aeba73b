# SPDX-License-Identifier: MIT
"""The study's programs, as bench_programs/setup.py describes them."""

import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from ...system.errors import UserError
from ...system.places import PLACES

FORMS = ("optimised", "unoptimised", "collected")
SETUP = Path(__file__).resolve().parents[4] / "bench_programs" / "setup.py"
# What every program of ours needs beside what it names: today/ has what scripts there start.
OWN_FILES = [str(SETUP.with_name(name)) for name in ("setup.py", "study.toml", "today")]


@dataclass(frozen=True)
class Form:
    """One way to run a program. `traced`: its command with the smaller load; `large`: with a heap
    of today's size, empty when it has none."""

    command: Sequence[str]
    traced: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    large: Sequence[str] = ()

    def words(self) -> list[str]:
        """In which the files are named that it is run with."""
        return [*self.command, *self.traced, *self.large, self.stdin or ""]

    def missing(self) -> str | None:
        """A file that the form needs and that is not there."""
        paths = [word for word in self.words() if word.startswith("/") and word != "/dev/null"]
        return next((path for path in paths if not Path(path).exists()), None)


@dataclass(frozen=True)
class Program:
    name: str
    row: str  # "1992", "today", "switch", or "large": one of 1992 with a heap of today's size
    about: str
    note: str
    pointers: str  # "base" or "interior": which ones the collector of 1992 must heed
    forms: Mapping[str, Form]
    missing: str | None  # why it cannot be run, and the remedy

    def form_name(self, wanted: str) -> str:
        """The form itself, or the one that stands for it: see study.toml."""
        candidates = FORMS[FORMS.index(wanted) :: -1]
        return next(name for name in candidates if name in self.forms)

    def words(self) -> list[str]:
        """In which the files and folders are named that it needs."""
        forms = self.forms.values()
        return [word for form in forms for word in (*form.words(), *form.environment.values())]


def _read(described: dict[str, Any]) -> Program:
    forms = {name: Form(**form) for name, form in described["forms"].items()}
    missing = None
    if described["missing_packages"]:
        missing = f"needs packages: apt-get install {' '.join(described['missing_packages'])}"
    else:
        absent = next(filter(None, (form.missing() for form in forms.values())), None)
        if absent is not None:
            missing = (
                f"{absent} is missing: run ./bootstrap study, or "
                f"bench_programs/setup.py prepare {described['name']}"
            )
    return Program(
        name=described["name"],
        row=described["row"],
        about=described["about"],
        note=described["note"],
        pointers=described["pointers"],
        forms=forms,
        missing=missing,
    )


def read_programs(table: str | None, given: Sequence[str] = ()) -> list[Program]:
    """All programs of study.toml, or of another table. `given`: NAME=DIR, programs that take the
    place of ours; ours stay beside them."""
    if not SETUP.exists():
        raise UserError(
            "the study's programs are part of the source tree; run ./allotrope zorn "
            "there, after make"
        )
    build = PLACES.launcher.resolve().parent
    words = [sys.executable, str(SETUP), "--build", str(build)]
    if table is not None:
        words += ["--table", table]
    for one in given:
        words += ["--given", one]
    done = subprocess.run([*words, "describe"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(done.stderr.strip().removeprefix("setup.py: ") or "setup.py failed")
    found = [_read(described) for described in json.loads(done.stdout)["programs"]]
    return [
        *found,
        *(large_of(one) for one in found if any(one.forms[key].large for key in one.forms)),
    ]


def large_of(program: Program) -> Program:
    """The same program with a heap of today's size: a row of its own."""
    forms = {
        name: replace(form, command=form.large, traced=form.large, large=())
        for name, form in program.forms.items()
        if form.large
    }
    return replace(program, name=f"{program.name}_large", row="large", forms=forms)
