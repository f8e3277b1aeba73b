# SPDX-License-Identifier: MIT
"""What of the study of 1993 goes into its file of measurements (study/documents.py).

    "schema", "study" (the machine and the question), "barriers", "steps" ({"kind", "name",
    "result"}: rounds of a workload, loops, instructions of a barrier, vm), "digest"
"""

from pathlib import Path
from typing import Any, Iterator

from ..documents import as_lines, read_lines
from .results import Results

SCHEMA = "allotrope.barriers.measurements/1"


def as_text(results: Results) -> str:
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "study": dict(results.study),
        "barriers": list(results.barriers),
    }
    return as_lines(head, {"steps": list(_steps(results))})


def _steps(results: Results) -> Iterator[dict[str, Any]]:
    for name, found in results.instructions.items():
        yield {"kind": "instructions", "name": name, "result": found}
    for found in results.loops:
        yield {"kind": "loop", "name": "", "result": found}
    for found in results.vm:
        yield {"kind": "vm", "name": "", "result": found}
    for name, rounds in results.rounds.items():
        for found in rounds:
            yield {"kind": "round", "name": name, "result": found}


def read_measurements(file: Path) -> Results:
    """What a study wrote. Raises UserError for any other file."""
    document = read_lines(file, SCHEMA, "study barriers")
    results = Results(document["study"], document["barriers"])
    for step in document["steps"]:
        enter(results, step["kind"], step["name"], step["result"])
    return results


def enter(results: Results, kind: str, name: str, found: Any) -> None:
    """A step's result in its place. `name`: of a round the workload, of instructions the
    barrier."""
    if kind == "round":
        results.rounds.setdefault(name, []).append(found)
    elif kind == "instructions":
        results.instructions[name] = found
    elif kind == "loop":
        results.loops.append(found)
    else:
        results.vm.append(found)
