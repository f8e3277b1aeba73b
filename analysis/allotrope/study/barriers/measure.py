# SPDX-License-Identifier: MIT
"""One function for each kind of step: it runs what is to be run and returns what is kept.

A run that fails is a result too: {"failure": why}."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Sequence

from ...features.compare.measure import order_of_round
from ...system.children import ends_with_us
from ...system.native import ask, last_line, without_name
from ...system.places import PLACES
from .plan import (
    KINDS,
    LOOP_MILLIONS,
    LOOP_TURNS,
    LOOPS,
    ORACLE,
    PAGES,
    VM_GROUPS,
    Workload,
    loop,
    program,
    sources,
)

Result = dict[str, Any]
# So much longer than estimated may a run take before it is given up; at least so many seconds. The
# estimate is a mean of barriers; cards of 16 bytes take five times as much in destroy-100, and a
# machine with six others takes three times as much again.
PATIENCE, LEAST_PATIENCE = 60.0, 120.0
COLLECTED = re.compile(r"Collected : (\d+)")
SLOTS = 512  # of the loop's array
TURNS = (1000000 // SLOTS + 1) * SLOTS  # of a loop of a million stores: it is filled once before


def run(words: Sequence[str | Path], timeout: float) -> Result:
    """The line of JSON that a program of the runtime writes."""
    environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            check=False,
            preexec_fn=ends_with_us(),
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"not done after {timeout:.0f} s"}
    if done.returncode != 0:
        said = without_name(last_line(done.stderr))
        return {"failure": said or f"ended with status {done.returncode}"}
    found: Result = json.loads(done.stdout)
    return found


def _patience(workload: Workload) -> float:
    return max(LEAST_PATIENCE, PATIENCE * workload.seconds)


def _words(workload: Workload, barrier: str, order: str) -> list[str | Path]:
    files = [sources() / name for name in workload.sources]
    return [program(barrier, order), *files, *workload.options]


def _record(workload: Workload, folder: Path) -> str | None:
    """The file=NAME of what the oracle knows; None where no run with traps could write it. Which
    pages are dirty depends on no link order."""
    file = folder / f"{workload.name}.dirty"
    if not file.exists():
        words = [*_words(workload, PAGES, ""), f"file={file}"]
        if "failure" in run(words, _patience(workload)):
            file.unlink(missing_ok=True)
            return None
    return f"file={file}"


def measure_round(
    workload: Workload, barriers: Sequence[str], number: int, order: str, folder: Path
) -> Result:
    """Every barrier workload.runs times, in as many turns; each turn has another of the orders of a
    comparison's rounds."""
    commands = {one: _words(workload, one, order) for one in barriers}
    runs: dict[str, list[Result]] = {one: [] for one in barriers}
    loads: dict[str, float] = {}
    for turn in range(workload.runs):
        for place in order_of_round(number * workload.runs + turn, len(barriers)):
            barrier = barriers[place]
            if _failed(runs[barrier]):
                continue
            loads.setdefault(barrier, round(os.getloadavg()[0], 2))
            runs[barrier].append(_run(workload, barrier, commands[barrier], folder))
    found = {one: _least(runs[one]) | {"load": loads[one]} for one in barriers}
    return {"order": order or "-order1", "barriers": found}


def _run(workload: Workload, barrier: str, words: Sequence[str | Path], folder: Path) -> Result:
    if barrier != ORACLE:
        return run(words, _patience(workload))
    record = _record(workload, folder)
    if record is None:
        return {"failure": "a run with traps could not write what it found"}
    return run([*words, record], _patience(workload))


def _least(runs: Sequence[Result]) -> Result:
    """The least time of each phase. What was counted must be the same in all runs."""
    if failed := _failed(runs):
        return failed
    counts = [{key: one[key] for key in one if key != "ns"} for one in runs]
    if any(each != counts[0] for each in counts):
        return {"failure": "runs of the same program counted differently"}
    return counts[0] | {"ns": _each_least([one["ns"] for one in runs])}


def _failed(runs: Sequence[Result]) -> Result | None:
    return next((one for one in runs if "failure" in one), None)


def _each_least(runs: Sequence[Result]) -> Result:
    return {name: min(one[name] for one in runs) for name in runs[0]}


def loops(order: str) -> Result:
    """By barrier and kind, nanoseconds of a store, the loop's included; the least of LOOP_TURNS."""
    turns = [
        {one: run([loop(one, order), str(LOOP_MILLIONS)], LEAST_PATIENCE) for one in LOOPS}
        for _ in range(LOOP_TURNS)
    ]
    found: Result = {}
    for one in LOOPS:
        runs = [turn[one] for turn in turns]
        found[one] = _failed(runs) or _each_least(runs)
    return found


def instructions(barrier: str) -> Result:
    """By kind, instructions of one turn of the loop."""
    if shutil.which("valgrind") is None:
        return {"failure": "valgrind is missing: install the Debian package valgrind"}
    found: Result = {}
    for kind in KINDS:
        # A trap leads Callgrind astray; into old pages there is one.
        if barrier == PAGES and kind != "young_into_young":
            continue
        count = _executed(barrier, kind)
        if count is None:
            return {"failure": f"callgrind did not count {kind}"}
        found[kind] = count / TURNS
    return found


def _executed(barrier: str, kind: str) -> int | None:
    """In the loop's function, and what it calls."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    words += ["--toggle-collect=fill", str(loop(barrier)), "1", kind]
    environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    counted = COLLECTED.search(done.stderr)
    return int(counted[1]) if done.returncode == 0 and counted else None


def vm() -> Result:
    """What a trap costs in a loop of nothing else, and how long an add takes."""
    answer = ask(PLACES.vm, *VM_GROUPS)
    if answer.status != 0:
        return {"failure": answer.message or f"allotrope-vm ended with status {answer.status}"}
    figures = json.loads(answer.output)["figures"]
    wanted = (
        ("add", None, None),
        ("first write", "mprotect", 1000),
        ("first write", "async", 1000),
    )
    return {
        " ".join(filter(None, (one["what"], one["by"]))): one["ns"]
        for one in figures
        if (one["what"], one["by"], one["count"]) in wanted
    }
