# SPDX-License-Identifier: MIT
"""Conditions of --fail-if over a suite: each is judged for each program. What was judged of
one command is printed here as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

from ...output.sentences import counted, enumerate_names
from ...output.terminal import print_wrapped
from ..compare.difference import judge_changes
from ..compare.gate import (
    Condition,
    Judgement,
    gate_lines,
    gate_status,
    judge,
    without_figures,
)

if TYPE_CHECKING:
    from rich.console import Console

Document = Mapping[str, Any]
SKIPPED = "skipped"  # the status of a program that was left out


def entries_by_name(document: Document) -> dict[str, Mapping[str, Any]]:
    """Each program; each of its machines where there are several."""
    several = document.get("replicate", 1) > 1
    return {
        f"{one['name']} on {one['host']}" if several and one["host"] else str(one["name"]): one
        for one in document["programs"]
    }


def judge_programs(
    conditions: Sequence[Condition], document: Document, earlier: Document | None = None
) -> dict[str, list[Judgement]]:
    """The judgements of each program, or of each of its machines where there are several. A program
    without figures is a failure; one that was skipped has no judgements. Without conditions
    nothing is judged. earlier: the suite whose changes since then are judged; what only one of them
    has has no judgements either."""
    if not conditions:
        return {}
    of_each = [entries_by_name(one) for one in (earlier, document) if one is not None]
    names = dict.fromkeys(name for entries in of_each for name in entries)
    return {
        name: _judge_program(conditions, [entries.get(name) for entries in of_each])
        for name in names
    }


def _judge_program(
    conditions: Sequence[Condition], entries: Sequence[Mapping[str, Any] | None]
) -> list[Judgement]:
    """entries: the program in the earlier suite, if there is one, and in the later."""
    there = [one for one in entries if one is not None and one["status"] != SKIPPED]
    if len(there) < len(entries):
        return []
    for one in there:
        if one["comparison"] is None:
            why = f" ({one['reason'] or one['status']})"
            return [without_figures(each, each.subject, why=why) for each in conditions]
    *before, after = (one["comparison"] for one in there)
    return judge_changes(conditions, before[0], after) if before else judge(conditions, after)


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


def print_judged(console: Console, judged: Mapping[str, Sequence[Judgement]]) -> None:
    """By program; all under "" where there is one command."""
    lines = gate_lines(judged[""]) if "" in judged else suite_gate_lines(judged)
    for line in lines:
        print_wrapped(console, line)


def status_of_all(judged: Mapping[str, Sequence[Judgement]]) -> int:
    return gate_status([one for judgements in judged.values() for one in judgements])
