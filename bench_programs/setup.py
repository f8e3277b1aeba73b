#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Prepares the study's programs: study.toml read, checked and acted upon.

    setup.py list                  the programs, their forms, and the Debian packages missing
    setup.py packages              the names of the packages that are missing, for apt-get install
    setup.py prepare [NAME]...     makes the programs and inputs of all, or of those named
    setup.py run NAME FORM         becomes that form of the program
    setup.py suite ROW FORM        a suite of a row's programs in that form, for compare --suite
    setup.py describe              the whole table as JSON, for `allotrope zorn`

--study DIRECTORY says where things are made; else ALLOTROPE_STUDY_DIR, else
~/.cache/allotrope/study. --build DIRECTORY is the build tree, else ALLOTROPE_BUILD_DIR, else the
source tree. --table FILE is another table than study.toml.

--given NAME=DIRECTORY puts a program that somebody holds (of the original study, say) in the place
of ours, which stays beside it as NAME_ours. DIRECTORY/program.toml is a program's table as in
study.toml, without name and row; {dir} stands for the directory.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Iterable

SOURCE = Path(__file__).resolve().parent.parent
TABLE = SOURCE / "bench_programs" / "study.toml"
ROWS = ("1992", "today", "switch")
FORMS = ("optimised", "unoptimised", "collected")
PURPOSES = ("timed", "traced")  # what a program is run for, which decides {scale}
LARGE = "large"  # another, which not all have: a heap of today's size


class StudyError(Exception):
    """What stands in the way, in one line."""


@dataclass(frozen=True)
class Form:
    """One way to run a program, at the scale at which it is timed; `traced` is its command at the
    scale at which it is traced, `large` the one with a heap of today's size, if it has one."""

    command: list[str]
    traced: list[str]
    large: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    stdin: str | None = None


@dataclass(frozen=True)
class Program:
    """One table of study.toml, its paths filled in."""

    name: str
    row: str
    packages: list[str]
    setup: list[list[str]]
    forms: dict[str, Form]
    note: str = ""
    about: str = ""
    pointers: str = "base"

    def form(self, name: str) -> Form:
        """The form itself, or what stands for it: see study.toml."""
        for candidate in FORMS[FORMS.index(name) :: -1]:
            if candidate in self.forms:
                return self.forms[candidate]
        raise StudyError(f"study.toml: {self.name} has no form 'optimised'")


@dataclass(frozen=True)
class Places:
    """What {source}, {build}, {study} and, of a given program, {dir} stand for."""

    build: Path
    study: Path
    dir: Path | None = None

    def fill(self, text: str) -> str:
        places = {"source": SOURCE, "build": self.build, "study": self.study, "dir": self.dir}
        for name, path in places.items():
            if path is not None:
                text = text.replace(f"{{{name}}}", str(path))
        return text


def scaled(word: str, scale: str) -> list[str]:
    """A word of a command; {scale} alone may stand for several."""
    return scale.split() if word == "{scale}" and scale else [word.replace("{scale}", scale)]


def read_form(table: dict[str, Any], scale: dict[str, str], places: Places, where: str) -> Form:
    unknown = set(table) - {"command", "environment", "stdin"}
    if unknown or not table.get("command"):
        raise StudyError(f"study.toml: {where}: needs 'command'; unknown keys: {sorted(unknown)}")
    commands = {
        purpose: [
            places.fill(word)
            for given in table["command"]
            for word in scaled(given, scale.get(purpose, ""))
        ]
        for purpose in (*PURPOSES, LARGE)
    }
    return Form(
        command=commands["timed"],
        traced=commands["traced"],
        large=commands[LARGE] if LARGE in scale else [],
        environment={"LC_ALL": "C"}
        | {key: places.fill(value) for key, value in table.get("environment", {}).items()},
        stdin=places.fill(table["stdin"]) if "stdin" in table else None,
    )


def read_program(table: dict[str, Any], places: Places) -> Program:
    where = table.get("name", "a program without a name")
    missing = {"name", "row", "packages", "setup", "optimised"} - set(table)
    unknown = set(table) - {
        "name",
        "row",
        "packages",
        "setup",
        "about",
        "note",
        "scale",
        "pointers",
        *FORMS,
    }
    if missing or unknown:
        raise StudyError(
            f"study.toml: {where}: missing keys {sorted(missing)}, unknown keys {sorted(unknown)}"
        )
    if table["row"] not in ROWS:
        raise StudyError(f"study.toml: {where}: bad row '{table['row']}'; valid are {ROWS}")
    scale = table.get("scale", {})
    if scale and set(scale) - {LARGE} != set(PURPOSES):
        raise StudyError(f"study.toml: {where}: scale needs {PURPOSES}, not {sorted(scale)}")
    return Program(
        name=table["name"],
        row=table["row"],
        packages=table["packages"],
        setup=[[places.fill(word) for word in command] for command in table["setup"]],
        forms={
            form: read_form(table[form], scale, places, f"{where}, {form}")
            for form in FORMS
            if form in table
        },
        note=table.get("note", ""),
        about=table.get("about", ""),
        pointers=table.get("pointers", "base"),
    )


def programs(places: Places, table: Path = TABLE) -> list[Program]:
    """Every program of the table, in its order."""
    try:
        with open(table, "rb") as file:
            tables = tomllib.load(file).get("program", [])
    except OSError as error:
        raise StudyError(f"cannot read {table}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{table} is no TOML: {error}") from None
    return [read_program(entry, places) for entry in tables]


def read_given(ours: Program, directory: Path, places: Places) -> Program:
    """The program that DIRECTORY/program.toml describes, under the name of ours."""
    file = directory / "program.toml"
    try:
        with open(file, "rb") as opened:
            table = tomllib.load(opened)
    except OSError as error:
        raise StudyError(f"cannot read {file}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{file} is no TOML: {error}") from None
    if chosen := {"name", "row"} & set(table):
        raise StudyError(f"{file}: leave out {sorted(chosen)}: they are those of {ours.name}")
    whole = {"packages": [], "setup": [], **table, "name": ours.name, "row": ours.row}
    try:
        return read_program(whole, Places(places.build, places.study, directory.resolve()))
    except StudyError as error:
        raise StudyError(str(error).replace("study.toml", str(file), 1)) from None


def with_given(all_programs: list[Program], given: Iterable[str], places: Places) -> list[Program]:
    """Each in the place of ours, and ours behind it under another name."""
    found = list(all_programs)
    for word in given:
        name, _, directory = word.partition("=")
        ours = next((one for one in found if one.name == name and one.row == "1992"), None)
        if ours is None or not directory:
            valid = ", ".join(one.name for one in all_programs if one.row == "1992")
            raise StudyError(f"bad program '{word}'; write NAME=DIR, NAME one of {valid}")
        place = found.index(ours)
        theirs = read_given(ours, Path(directory), places)
        found[place : place + 1] = [theirs, replace(ours, name=f"{name}_ours")]
    return found


def choose(all_programs: list[Program], names: Iterable[str]) -> list[Program]:
    by_name = {program.name: program for program in all_programs}
    for name in names:
        if name not in by_name:
            raise StudyError(f"no program '{name}'; valid are {', '.join(by_name)}")
    return [by_name[name] for name in names] or all_programs


@functools.cache
def is_installed(package: str) -> bool:
    query = ["dpkg-query", "-W", "-f", "${Status}", package]
    result = subprocess.run(query, capture_output=True, text=True, check=False)
    return "ok installed" in result.stdout


def missing_packages(chosen: list[Program]) -> list[str]:
    wanted = {package for program in chosen for package in program.packages}
    return sorted(package for package in wanted if not is_installed(package))


def prepare(program: Program, places: Places) -> None:
    missing = missing_packages([program])
    if missing:
        raise StudyError(f"{program.name} needs packages: apt-get install {' '.join(missing)}")
    places.study.mkdir(parents=True, exist_ok=True)
    for command in program.setup:
        if subprocess.run(command, check=False).returncode:
            raise StudyError(f"the set-up of {program.name} failed: {' '.join(command)}")


def prepare_all(chosen: list[Program], places: Places) -> int:
    """One program that cannot be had does not keep the others away. Returns the exit status."""
    status = 0
    for program in chosen:
        print(f"{program.name} ...", flush=True)
        try:
            prepare(program, places)
        except StudyError as error:
            print(f"setup.py: {error}", file=sys.stderr)
            status = 1
    return status


def run(form: Form) -> None:
    """Becomes the program."""
    if form.stdin:
        os.dup2(os.open(form.stdin, os.O_RDONLY), 0)
    try:
        os.execvpe(form.command[0], form.command, os.environ | form.environment)
    except OSError as error:
        raise StudyError(f"cannot run {form.command[0]}: {error.strerror}") from None


def print_suite(chosen: list[Program], title: str, form_name: str) -> None:
    """As docs/suites.md says. JSON's strings and lists are TOML's, too."""
    print(f"title = {json.dumps(title)}")
    for program in chosen:
        form = program.form(form_name)
        print(f"\n[[program]]\nname = {json.dumps(program.name)}")
        print(f"packages = {json.dumps(program.packages)}")
        print(f"command = {json.dumps(form.command)}")
        if form.stdin:
            print(f"input = {json.dumps(form.stdin)}")
        for key, value in form.environment.items():
            print(f"environment.{key} = {json.dumps(value)}")


def print_description(all_programs: list[Program]) -> None:
    described = [
        {
            "name": program.name,
            "row": program.row,
            "about": program.about,
            "note": program.note,
            "pointers": program.pointers,
            "missing_packages": missing_packages([program]),
            "forms": {name: vars(form) for name, form in program.forms.items()},
        }
        for program in all_programs
    ]
    print(json.dumps({"programs": described}, indent=1))


def print_list(all_programs: list[Program]) -> None:
    for program in all_programs:
        print(f"{program.name:12} {program.row:7} {', '.join(program.forms)}")
        if program.note:
            print(f"{'':12} {program.note}")
    missing = missing_packages(all_programs)
    print(f"missing packages: {' '.join(missing)}" if missing else "all packages are installed")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="setup.py", description="The study's programs.")
    study = os.environ.get("ALLOTROPE_STUDY_DIR", Path.home() / ".cache" / "allotrope" / "study")
    parser.add_argument("--study", type=Path, default=study, metavar="DIRECTORY")
    build = os.environ.get("ALLOTROPE_BUILD_DIR", SOURCE)
    parser.add_argument("--build", type=Path, default=build, metavar="DIRECTORY")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    parser.add_argument("--given", action="append", default=[], metavar="NAME=DIRECTORY")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list")
    actions.add_parser("packages")
    actions.add_parser("describe")
    actions.add_parser("prepare").add_argument("name", nargs="*")
    runner = actions.add_parser("run")
    runner.add_argument("name")
    runner.add_argument("form", choices=FORMS)
    suite = actions.add_parser("suite")
    suite.add_argument("row", choices=ROWS)
    suite.add_argument("form", choices=FORMS)
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    places = Places(Path(arguments.build).resolve(), Path(arguments.study).resolve())
    try:
        found = with_given(programs(places, arguments.table), arguments.given, places)
        if arguments.action == "list":
            print_list(found)
        elif arguments.action == "describe":
            print_description(found)
        elif arguments.action == "packages":
            print(" ".join(missing_packages(found)))
        elif arguments.action == "prepare":
            return prepare_all(choose(found, arguments.name), places)
        elif arguments.action == "suite":
            chosen = [program for program in found if program.row == arguments.row]
            title = f"the study's programs, {arguments.row}, {arguments.form}"
            print_suite(chosen, title, arguments.form)
        else:
            run(choose(found, [arguments.name])[0].form(arguments.form))
    except StudyError as error:
        print(f"setup.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
