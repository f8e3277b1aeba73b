# SPDX-License-Identifier: MIT
"""What of the study of 1992 goes into its file of measurements (study/documents.py).

    DIR/measurements.json          "schema", "study" (the machine and the question), "missing"
                                   (programs that could not be measured), "programs", "steps"
                                   ({"kind", "program", "configuration", "result"}), "digest"

A program and a step stand in a line each. A step's result has what is shown of it: a heap's
timeline, curves by class, misses by function and caches that nothing asks for are left out, and a
point of a page curve is [frames, faults].
"""

from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping

from ..documents import as_lines, read_lines
from .programs import Form, Program
from .results import Result, Results

SCHEMA = "allotrope.zorn.measurements/1"
ACCOUNT_KEYS = ("calls", "cpu", "total", "peak", "gc")
CACHE_KEYS = ("block", "ways", "bytes", "misses", "cold", "capacity", "conflict")
CACHES_SHOWN = ((32, 1), (64, 8))  # bytes of a block, ways: the paper's, and today's
SHAPE_KEYS = ("shape", "misses_by_class", "misses_by_set")
BY_CONFIGURATION = ("accounts", "events", "locality", "samples", "factors")  # of Results


def as_text(results: Results) -> str:
    """The file, by which the same measurements are the same bytes."""
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "study": dict(results.study),
        "missing": results.missing,
    }
    programs, steps = [_program(one) for one in results.programs], list(_steps(results))
    return as_lines(head, {"programs": programs, "steps": steps})


def _program(one: Program) -> dict[str, Any]:
    commands = {name: list(form.command) for name, form in one.forms.items()}
    return {
        "name": one.name,
        "row": one.row,
        "about": one.about,
        "note": one.note,
        "pointers": one.pointers,
        "forms": commands,
    }


def _steps(results: Results) -> Iterator[dict[str, Any]]:
    for program, rounds in results.rounds.items():
        for result in rounds:
            yield {"kind": "rounds", "program": program, "result": result}
    for kind in BY_CONFIGURATION:
        for (program, configuration), result in getattr(results, kind).items():
            yield {
                "kind": kind,
                "program": program,
                "configuration": configuration,
                "result": _what_is_shown(kind, result),
            }


def _what_is_shown(kind: str, result: Result) -> Result:
    if "failure" in result:
        return result
    if kind == "accounts":
        heap = _only(("mapped_peak_bytes", "mapped_mean_bytes"), result["heap"])
        return {"heap": heap, **_only(ACCOUNT_KEYS, result)}
    if kind == "locality":
        return {"pages": _pages(result["pages"]), "caches": _caches(result["caches"])}
    return result


def _only(keys: Iterable[str], given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: given[key] for key in keys if key in given}


def _pages(found: Result) -> dict[str, Any]:
    """faults_with() asks a curve for its frames and faults."""
    classes = [_only(("class", "references"), one) for one in found["classes"]]
    sizes = []
    for one in found["pages"]:
        curve = [[point["frames"], point["faults"]] for point in one["curve"]]
        sizes.append({**_only(("page_size", "cold"), one), "curve": curve})
    return {"references": found["references"], "classes": classes, "pages": sizes}


def _caches(found: Result) -> dict[str, Any]:
    shown = [one for one in found["results"] if (one["block"], one["ways"]) in CACHES_SHOWN]
    return {
        "results": [_only(CACHE_KEYS, one) for one in shown],
        "shapes": [_only(SHAPE_KEYS, one) for one in found["shapes"]],
    }


def read_measurements(file: Path) -> Results:
    """What a study wrote. Raises UserError for any other file."""
    document = read_lines(file, SCHEMA, "zorn")
    programs = [_read_program(one) for one in document["programs"]]
    results = Results(programs, document["study"], document["missing"])
    for step in document["steps"]:
        kind, program, result = step["kind"], step["program"], step["result"]
        if kind == "rounds":
            results.rounds.setdefault(program, []).append(result)
            continue
        if kind == "locality" and "failure" not in result:
            for size in result["pages"]["pages"]:
                size["curve"] = [
                    {"frames": frames, "faults": faults} for frames, faults in size["curve"]
                ]
        getattr(results, kind)[program, step["configuration"]] = result
    return results


def _read_program(entry: dict[str, Any]) -> Program:
    """As it was run; how its traced load was run is not kept."""
    forms = {name: Form(command, traced=()) for name, command in entry.pop("forms").items()}
    return Program(**entry, forms=forms, missing=None)
