# SPDX-License-Identifier: MIT
"""Our native programs, asked for what they know, and the reports that our library leaves behind."""

import contextlib
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from .children import ends_with_us, was_killed
from .places import built

# What a program of ours begins its one line on standard error with.
OWN_NAME = re.compile(r"allotrope(-\w+)?: ")
# Counts by powers of two, as the library's vm/number.h writes their keys: of sizes in bytes, and of
# times in microseconds.
POWER_KEY = re.compile(r"2\^(\d\d)|from_2\^(\d\d)_us")


@dataclass(frozen=True)
class Answer:
    output: bytes
    message: str  # what it said on standard error, without its name; often empty
    status: int


def ask(program: Path, *words: str | Path) -> Answer:
    """Runs one of our programs until it ends; if we end first, it is killed. Raises UserError where
    it is not built. The output of a program that was killed is dropped."""
    line = [str(built(program)), *map(str, words)]
    done = subprocess.run(line, capture_output=True, check=False, preexec_fn=ends_with_us())
    if done.returncode < 0:
        return Answer(b"", was_killed(program, done.returncode), 128 - done.returncode)
    said = without_name(done.stderr.decode(errors="replace").strip())
    return Answer(done.stdout, said, done.returncode)


def without_name(message: str) -> str:
    """A message of one of our programs, which the command says in its own name."""
    return OWN_NAME.sub("", message, count=1) if OWN_NAME.match(message) else message


def last_line(text: str | bytes) -> str:
    """The last line of what a program wrote; empty when it wrote none."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def name_in_report(text: str) -> str:
    """The name of a program or file, of which our library writes each byte as the character of the
    same number."""
    try:
        return os.fsdecode(text.encode("latin-1"))
    except UnicodeEncodeError:
        return text


def read_reports(folder: Path) -> list[dict[str, Any]]:
    """The JSON that a command's processes wrote into a folder, each into a file of its own. One
    that is not whole is left out: its process outlives the command, or was killed as it wrote."""
    reports = []
    for file in sorted(folder.glob("*.json")):
        with contextlib.suppress(ValueError):
            reports.append(json.loads(file.read_text()))
    for report in reports:
        if "command" in report:
            report["command"] = name_in_report(report["command"])
    return reports


def by_power(counts: Mapping[str, int]) -> dict[int, int]:
    """Counts by the power of two that is in their key: "2^07" or "from_2^07_us"."""
    found = {}
    for key, count in counts.items():
        match = POWER_KEY.fullmatch(key)
        if match is None:
            raise ValueError(f"{key} names no power of two")
        found[int(match[1] or match[2])] = count
    return found
