# SPDX-License-Identifier: MIT
"""Conditions of --fail-if over a suite: each is judged for each program."""

from typing import Any, Mapping, Sequence

from ...output.sentences import counted, enumerate_names
from ..compare.gate import Condition, Judgement, judge, without_figures

Document = Mapping[str, Any]
SKIPPED = "skipped"  # the status of a program that was left out


def judge_programs(
    conditions: Sequence[Condition], document: Document
) -> dict[str, list[Judgement]]:
    """The judgements of each program, or of each of its machines where there are several. A program
    without figures is a failure; one that was skipped has no judgements. Without conditions
    nothing is judged."""
    found: dict[str, list[Judgement]] = {}
    for entry in document["programs"] if conditions else ():
        name = entry["name"]
        if document.get("replicate", 1) > 1 and entry["host"]:
            name = f"{name} on {entry['host']}"
        if entry["comparison"] is not None:
            found[name] = judge(conditions, entry["comparison"])
        elif entry["status"] == SKIPPED:
            found[name] = []
        else:
            why = f" ({entry['reason'] or entry['status']})"
            found[name] = [without_figures(one, one.subject, why=why) for one in conditions]
    return found


def suite_gate_lines(judged: Mapping[str, Sequence[Judgement]]) -> list[str]:
    """What is met or not decided, a line each, and how many are not met."""
    lines = [
        f"{name}: fail if {one.line}."
        for name, judgements in judged.items()
        for one in judgements
        if one.met is not False
    ]
    every = [one.met for judgements in judged.values() for one in judgements]
    unjudged = [name for name, judgements in judged.items() if not judgements]
    if every:
        words = f"{counted(every.count(True), 'failure')}, {every.count(None)} not decided"
        lines.append(f"Of {counted(len(every), 'judgement')}: {words}.")
    if unjudged:
        lines.append(f"Not judged, since left out: {enumerate_names(unjudged)}.")
    return lines
