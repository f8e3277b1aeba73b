# SPDX-License-Identifier: MIT
"""How two suites, or two scans, differ: program by program as two comparisons of one command do,
and in their geometric means.

A mean is over the programs through which an allocator went in both, so that the same programs stand
on either side. Its change is the quotient of the two means, whose interval goes as far as both
intervals allow.
"""

import dataclasses
from typing import Any, Mapping, Sequence

from ...output.sentences import enumerate_names
from ...statistics.resampling import Mean
from ...statistics.verdicts import Outcome, Weight, is_told, judge
from ...system.errors import UserError
from ..compare.difference import (
    MEAN,
    Change,
    Difference,
    changes,
    check_pair,
    interruption,
    quotient,
)
from .gate import entries_by_name
from .means import MEMORY, figures, has_interval, key_of, kinds, mean_ratio, replicate
from .tables import is_scan, mark_of, part_word

Document = Mapping[str, Any]
Entry = Mapping[str, Any]
NAMES = {"cpu_seconds": "CPU", "wall_seconds": "wall time", MEMORY: "memory"}


def compare_suites(before: tuple[str, Document], after: tuple[str, Document]) -> Difference:
    """before, after: each the file's name and what it holds, both suites or both scans. Raises
    UserError where they have nothing in common."""
    old, new = before[1], after[1]
    pairs = _pairs(old, new)
    notes = [*_check(old, new, pairs), *_lone(old, new)]
    found: list[Change] = []
    memory: dict[str, list[Change]] = {}
    for name, (earlier, later) in pairs.items():
        of_one = changes(earlier["comparison"], later["comparison"])
        found += [dataclasses.replace(one, part=name) for one in of_one]
        of_memory = [one for one in of_one if one.name == NAMES[MEMORY]]
        memory.setdefault(later["name"], []).extend(of_memory)
    if not is_scan(new):
        found += _mean_changes(old, new, memory)
    return Difference(before, after, found, notes, part_word(new))


def _pairs(before: Document, after: Document) -> dict[str, tuple[Entry, Entry]]:
    """The programs that both have measured."""
    if replicate(before) != replicate(after):
        counts = f"{replicate(before)} and {replicate(after)}"
        raise UserError(
            f"the two suites were measured on {counts} machines a program; measure one again with "
            f"--replicate {replicate(before)}"
        )
    old, new = entries_by_name(before), entries_by_name(after)
    pairs = {
        name: (old[name], new[name])
        for name in new
        if name in old and old[name]["comparison"] and new[name]["comparison"]
    }
    if not pairs:
        raise UserError(
            f"there is no {part_word(after)} that both have measured: {enumerate_names([*old])}; "
            f"then {enumerate_names([*new])}"
        )
    return pairs


def _check(
    before: Document, after: Document, pairs: Mapping[str, tuple[Entry, Entry]]
) -> list[str]:
    """What the reader of each pair must know; once, where it is so of all."""
    said: dict[str, list[str]] = {}
    for name, (old, new) in pairs.items():
        for note in check_pair(old["comparison"], new["comparison"]):
            said.setdefault(note, []).append(name)
    notes = [
        note if len(names) == len(pairs) else f"{enumerate_names(names)}: {note}"
        for note, names in said.items()
    ]
    for when, document in (("earlier", before), ("later", after)):
        if document["interrupted"]:
            # Of what both have measured there are figures.
            notes.append(interruption(when, "scan" if is_scan(document) else "suite", True))
        if len(kinds(document)) > 1 and not is_scan(document):
            several = "ran on machines of several kinds, so there is no mean."
            notes.append(f"The {when} suite {several}")
    return notes


def _lone(before: Document, after: Document) -> list[str]:
    """What only one of them has measured."""
    entries = {"earlier": entries_by_name(before), "later": entries_by_name(after)}
    notes = []
    for when, other in (("earlier", "later"), ("later", "earlier")):
        lone = [name for name in entries[when] if name not in entries[other]]
        if lone:
            notes.append(f"Only in the {when}: {enumerate_names(lone)}.")
        notes += [
            f"{name} was {one['status']} in the {when}: {one['reason']}."
            for name, one in entries[when].items()
            if name in entries[other] and one["comparison"] is None
        ]
    return notes


# The means


def _mean_changes(
    before: Document, after: Document, memory: Mapping[str, Sequence[Change]]
) -> list[Change]:
    """Over all programs that both went through; with --replicate also of each, over its machines.
    memory: the programs' changes of memory."""
    groups: dict[str | None, set[str] | None] = {}
    if replicate(after) > 1:
        names = dict.fromkeys(str(entry["name"]) for entry in after["programs"])
        groups = {f"{name} ({replicate(after)} machines)": {name} for name in names}
    groups[None] = None
    found = [
        _mean_change(before, after, allocator["spec"], quantity, part, only, memory)
        for part, only in groups.items()
        for allocator in after["allocators"]
        for quantity in NAMES
        if allocator["spec"] != after["baseline"]
    ]
    return [one for one in found if one is not None]


def _mean_change(
    before: Document,
    after: Document,
    spec: str,
    quantity: str,
    part: str | None,
    only: set[str] | None,
    memory: Mapping[str, Sequence[Change]],
) -> Change | None:
    """None where one of them has no mean, or none over the same programs. only: of these."""
    both = _went_through(before, spec, quantity) & _went_through(after, spec, quantity)
    names = {name for name, _ in both if only is None or name in only}
    if not names:
        return None
    base = after["baseline"]
    old, new = (mean_ratio(one, spec, base, quantity, names) for one in (before, after))
    if old is None or new is None or old.programs != new.programs:
        return None
    change = quotient(_as_ratio(old), _as_ratio(new), "ratio")
    verdict = None
    if change is not None:
        told = has_interval(vars(old)) and has_interval(vars(new))
        verdict = judge(change) if told else Outcome.NOT_DECIDED
    figures_of = (old.ratio, new.ratio)
    mean = Change(
        spec, quantity, NAMES[quantity], "mean", *figures_of, change, verdict, "{:.3f}".format, part
    )
    if quantity != MEMORY:
        return mean
    return _as_of(mean, [one for name in names for one in memory[name] if one.spec == spec])


def _as_of(mean: Change, of_each: Sequence[Change]) -> Change:
    """A mean of memory with the weight that its programs give it: it is much where one of theirs
    is. It is of the ratios alone where no program's own memory changed so."""
    weights = {one.weight for one in of_each}
    order = (Weight.MUCH, Weight.OPEN, Weight.LITTLE)
    weight = next((one for one in order if one in weights), Weight.MUCH)
    is_own = any(one.verdict == mean.verdict and not one.alone for one in of_each)
    return dataclasses.replace(mean, weight=weight, alone=is_told(mean.verdict) and not is_own)


def _went_through(document: Document, spec: str, quantity: str) -> set[tuple[str, str]]:
    """The programs through which it and the baseline went, each with the quantity's key there: two
    peaks of memory, of all processes and of the largest, are not compared."""
    keys = {
        entry["name"]: key_of(entry["comparison"], quantity)
        for entry in document["programs"]
        if entry["comparison"]
    }
    return {
        (name, keys[name])
        for name, of_each in figures(document["programs"], quantity).items()
        if spec in of_each and document["baseline"] in of_each
    }


def _as_ratio(mean: Mean) -> dict[str, float]:
    return {"ratio": mean.ratio, "ratio_low": mean.low, "ratio_high": mean.high}


# On a terminal


def change_tables(difference: Difference) -> list[tuple[str, list[list[str]]]]:
    """Of two suites: for each quantity a row for each program, a column for each allocator, header
    first. Each has a title."""
    found = []
    specs = list(dict.fromkeys(one.spec for one in difference.found))
    for name in dict.fromkeys(one.name for one in difference.found):
        cells = {(one.part, one.spec): _cell(one) for one in difference.found if one.name == name}
        rows = [["program", *specs]]
        for part in dict.fromkeys(part for part, _ in cells):
            rows.append([part or MEAN, *(cells.get((part, spec), "–") for spec in specs)])
        found.append((f"{name}, after over before", rows))
    return found


def _cell(one: Change) -> str:
    if one.change is None:
        return "–"
    return f"{one.change.median:.2f}{mark_of(one.verdict, one.weight) if one.verdict else ''}"
