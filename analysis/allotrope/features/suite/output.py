# SPDX-License-Identifier: MIT
"""The result of a suite or a scan as JSON (docs/suites.md), CSV and Markdown, and in words."""

import datetime
import functools
import math
from typing import Any, Mapping, Sequence

from ...output import files
from ...output.sentences import LITTLE, Sentence, counted, enumerate_names, too_few_rounds
from ...output.text import markdown_table
from ...output.units import format_percent
from ...statistics.intervals import JUDGED_CONFIDENCE, JUDGED_ROUNDS, LEAST_JUDGED_ROUNDS
from ...statistics.resampling import REPLICATES, SEED
from ...statistics.verdicts import THRESHOLD
from ...system import capabilities
from ...system.machine import machine_facts
from ..compare.findings import load_limits, own_memory
from ..compare.output import as_document
from ..compare.recommendation import Ratio, by_the_clock, choose, output_varies
from ..reach.served import notes, stranger
from .means import (
    MEMORY,
    has_interval,
    kinds,
    mean_ratio,
    means,
    memory_that_counts,
    of_little_memory,
    pooled_ratios,
    replicate,
)
from .measure import Part, SuiteRun
from .tables import is_scan, legend, name_of, part_word, tables
from .values import movement

SCHEMA = "allotrope.suite/1"
NOT_MEASURED = "not-measured"  # the status of a program before whose first round came an end
# Statuses that make an allocator none for every program.
BAD = {"failed", "different-output", "out-of-reach"}
Document = Mapping[str, Any]


def suite_document(run: SuiteRun) -> dict[str, Any]:
    """Of a suite that this machine has measured."""
    machine = machine_facts() | {"lacks": capabilities.lacking()}
    return assemble(run, machine, [_entry(part, machine) for part in run.parts])


def _entry(part: Part, machine: dict[str, Any]) -> dict[str, Any]:
    status, reason = part.status, part.reason
    comparison = part.comparison if status == "measured" and part.rounds() > 0 else None
    if status == "measured" and comparison is None:
        status, reason = NOT_MEASURED, "interrupted before its first round"
    return {
        "name": part.program.name,
        "host": None,
        "status": status,
        "reason": reason,
        "comparison": comparison and as_document(comparison, machine),
    }


def assemble(
    run: SuiteRun,
    machine: Mapping[str, Any],
    programs: Sequence[Mapping[str, Any]],
    machines: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The document of a suite of whose programs each is known, wherever it was measured. machines:
    those of a cluster, as its machines.py tells them."""
    started = datetime.datetime.fromtimestamp(run.started, datetime.timezone.utc)
    allocators = run.settings.allocators
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "suite": run.suite.file.name,
        "title": run.suite.title,
        "varied": run.suite.varied,
        "date": started.isoformat(timespec="seconds"),
        "machine": machine,
        "machines": machines,
        "replicate": run.settings.replicate,
        "baseline": allocators[run.settings.baseline].spec,
        "rounds": run.settings.rounds,
        "confidence": JUDGED_CONFIDENCE,
        "resampling": {"replicates": REPLICATES, "seed": SEED},
        "interrupted": run.interrupted,
        "allocators": [
            {
                "spec": one.spec,
                "allocator": one.name,
                "preset": one.preset,
                "options": one.options,
                "version": one.version,
                "build": one.build,
            }
            for one in allocators
        ],
        "programs": programs,
    }
    document["means"] = means(document)
    document["pooled"] = pooled_ratios(document)
    return document


def as_json(document: Document) -> str:
    return files.as_json(document, indent=1)


# In words


class SuiteEvidence:
    """The geometric means of a suite, for recommendation.choose."""

    keys = {"CPU": "cpu_seconds", "memory": MEMORY, "wall time": "wall_seconds"}

    def __init__(self, document: Document) -> None:
        self.document = document
        self.baseline = str(document["baseline"])
        self.threshold = THRESHOLD
        self.remedy = f"More {'machines' if replicate(document) > 1 else 'rounds'} may tell."
        self.candidates: Sequence[str] = [
            spec for spec, found in document["means"].items() if found["cpu_seconds"]
        ]
        self._ratio = functools.cache(self._measure)

    def _measure(self, one: str, other: str, quantity: str) -> Ratio | None:
        if one == other:
            return Ratio(1, 1, 1)
        of_memory = quantity == "memory"
        counts = memory_that_counts(self.document, one, other) if of_memory else None
        mean = counts or mean_ratio(self.document, one, other, self.keys[quantity])
        noticeable = math.inf if of_memory and counts is None else 0.0
        return None if mean is None else Ratio(mean.ratio, mean.low, mean.high, noticeable)

    def ratio(self, one: str, other: str, quantity: str) -> Ratio | None:
        return self._ratio(one, other, quantity)

    def amount(self, allocator: str, quantity: str) -> str:
        return ""


def recommend_suite(document: Document) -> list[Sentence]:
    """What the suite's figures say, over all programs; the first sentence is the headline."""
    evidence = SuiteEvidence(document)
    return [
        *_choice(document, evidence),
        *_refused(document),
        *_left_out(document),
        *_served(document),
        *_loaded(document),
        *_machines(document),
    ]


def _choice(document: Document, evidence: SuiteEvidence) -> list[Sentence]:
    baseline = document["means"].get(evidence.baseline, {}).get("cpu_seconds")
    if is_scan(document) and (said := _movements(document)):
        return said
    if baseline is None:
        return [Sentence("undecided", "Not decided", _why_no_mean(document, evidence.baseline))]
    if not has_interval(baseline):
        text = (
            f"{too_few_rounds(baseline['rounds'])}; it takes "
            f"{LEAST_JUDGED_ROUNDS}, better {JUDGED_ROUNDS}."
        )
        return [Sentence("undecided", "Not decided", text)]
    if len(evidence.candidates) < 2:
        others = [spec for spec in document["means"] if spec != evidence.baseline]
        whys = dict.fromkeys(_why_no_mean(document, spec) for spec in others)
        text = " ".join(whys) or f"only {evidence.baseline} was measured."
        return [Sentence("undecided", "Not decided", text)]
    if is_scan(document):
        text = "no ratio has a verdict at any value."
        return [Sentence("undecided", "Not decided", text)]
    note = (
        f"geometric means over {counted(baseline['programs'], 'program')}; no program need behave "
        "like the mean, so look at yours."
    )
    return [
        *choose(evidence),
        *by_the_clock(evidence),
        *_little_memory(document, evidence),
        Sentence("note", "What this is", note),
    ]


def _movements(document: Document) -> list[Sentence]:
    """Of a scan: each contender in its turn; none where no value has rounds enough."""
    specs = [one["spec"] for one in document["allocators"] if one["spec"] != document["baseline"]]
    found = [movement(document, spec) for spec in specs]
    return [sentence for sentence in found if sentence is not None]


def _little_memory(document: Document, evidence: SuiteEvidence) -> list[Sentence]:
    """Which programs the means of memory leave out, and why; and which are in doubt, where memory
    is not decided."""
    left_out: dict[tuple[str, ...], list[str]] = {}
    in_doubt: dict[tuple[str, ...], list[str]] = {}
    for spec in evidence.candidates:
        out, doubtful = of_little_memory(document, spec, evidence.baseline)
        ratio = evidence.ratio(spec, evidence.baseline, "memory")
        if out:
            left_out.setdefault(tuple(out), []).append(spec)
        if doubtful and ratio and ratio.is_open():
            in_doubt.setdefault(tuple(doubtful), []).append(spec)
    of_mean = "in the mean of memory under"
    said = [
        f"{enumerate_names(names)} {_do(names)} not count {of_mean} {enumerate_names(specs)}: more "
        f"than {format_percent(THRESHOLD)} from {evidence.baseline}, but below {LITTLE}."
        for names, specs in left_out.items()
    ]
    said += [
        f"that {enumerate_names(names)} {_do(names)} count {of_mean} {enumerate_names(specs)} is "
        "not decided, so the interval is that of both cases."
        for names, specs in in_doubt.items()
    ]
    return [Sentence("note", "Little memory", text) for text in said]


def _do(names: Sequence[str]) -> str:
    return "does" if len(names) == 1 else "do"


def _why_no_mean(document: Document, spec: str) -> str:
    """Of an allocator without a mean."""
    each = part_word(document)
    results = [
        result
        for entry in document["programs"]
        for result in (entry["comparison"] or {"results": ()})["results"]
        if result["spec"] == spec
    ]
    statuses = {str(result["status"]) for result in results}
    if not results:
        return f"no {each} was measured."
    if statuses == {"out-of-reach"}:
        strangers = dict.fromkeys(stranger(result) for result in results)
        return f"{spec} did not serve {enumerate_names(list(strangers))}."
    if statuses == {"nondeterministic"}:
        return f"{spec} counts in no {each}: {_output_varies(document)}"
    if "ok" not in statuses:
        words = enumerate_names(sorted(status.replace("-", " ") for status in statuses))
        return f"{spec} counts in no {each} ({words})."
    if len(kinds(document)) > 1:
        return "the machines differ, so there is no mean over them."
    if replicate(document) > 1:
        return f"{spec} went through no {each} on all of {replicate(document)} machines."
    return f"there are not two rounds of any {each}."


def _output_varies(document: Document) -> str:
    """With the remedy; a suite's file says how output is judged."""
    if is_scan(document):
        return output_varies("the command's")
    return output_varies("their", "check", 'check = "none"')


def _refused(document: Document) -> list[Sentence]:
    bad: dict[str, list[str]] = {}
    for entry in document["programs"]:
        for result in (entry["comparison"] or {"results": ()})["results"]:
            if result["status"] in BAD:
                words = f"{entry['name']} ({result['status'].replace('-', ' ')})"
                bad.setdefault(result["spec"], []).append(words)
    return [
        Sentence(
            "refused", f"Not for every {part_word(document)}", f"{spec}: {enumerate_names(names)}."
        )
        for spec, names in bad.items()
    ]


def _left_out(document: Document) -> list[Sentence]:
    sentences = []
    remedy = "--check none" if is_scan(document) else 'check = "none" in the file'
    title = "Left out" if is_scan(document) else "Left out of the means"
    for entry in document["programs"]:
        comparison = entry["comparison"]
        why = entry["reason"] if entry["status"] != NOT_MEASURED else None
        if comparison is not None and comparison["incomplete"]:
            why = comparison["incomplete"]
        elif comparison is not None and comparison["deterministic"] is False:
            why = (
                f"its output differs from run to run under glibc itself; {remedy} if the runs do "
                "the same work all the same"
            )
        if why:
            sentences.append(Sentence("note", title, f"{entry['name']}: {why}."))
    if document["interrupted"]:
        sentences.append(Sentence("note", "Incomplete", _interrupted(document)))
    return sentences


def _interrupted(document: Document) -> str:
    what = f"the {'scan' if is_scan(document) else 'suite'} was interrupted"
    entries = document["programs"]
    if not any(entry["comparison"] for entry in entries):
        return f"{what} before any {part_word(document)} was measured."
    without = [name_of(entry) for entry in entries if entry["status"] == NOT_MEASURED]
    none = f", of which {enumerate_names(without)} had none" if without else ""
    return f"{what}; the figures are of the rounds before that{none}."


def _served(document: Document) -> list[Sentence]:
    """Whose malloc the programs used, where it is not the allocator's in every process, and who
    they were."""
    sentences = []
    for entry in document["programs"]:
        comparison = entry["comparison"]
        known = [one for one in comparison["results"] if "served" in one] if comparison else []
        said = notes(known)
        said += [one.text for one in own_memory(comparison)] if known else []
        if said:
            text = f"{name_of(entry)}: {' '.join(said)}"
            sentences.append(Sentence("note", "Who served", text))
    return sentences


def _loaded(document: Document) -> list[Sentence]:
    """Of the program that was measured under the greatest load; of any where nobody knows."""
    measured = [entry for entry in document["programs"] if entry["comparison"]]
    known = [one for one in measured if one["comparison"].get("others_cpus") is not None]
    if not measured:
        return []
    worst = max(known or measured[:1], key=lambda one: one["comparison"].get("others_cpus") or 0)
    when = "the rounds"
    if known:
        when += f" of {name_of(worst)}"
    when += " ran"
    if len(known) > 1:
        when += f", more than for any other {part_word(document)}"
    return load_limits(worst["comparison"] | {"of_suite": True}, when)


def _machines(document: Document) -> list[Sentence]:
    """A ratio is of one machine; a mean over unlike machines would be of no machine."""
    found = kinds(document)
    if len(found) < 2:
        return []
    groups = "; ".join(f"{cpu}, {kernel}: {', '.join(of)}" for (cpu, kernel), of in found.items())
    text = f"machines differ, so there are no means; look at the programs: {groups}."
    return [Sentence("note", "Unlike machines", text)]


def went_wrong(document: Document) -> bool:
    """Whether a program or an allocator failed or wrote something else."""
    statuses = {
        result["status"]
        for entry in document["programs"]
        for result in (entry["comparison"] or {"results": ()})["results"]
    }
    broken = any(
        entry["status"] == "failed" or (entry["comparison"] and entry["comparison"]["incomplete"])
        for entry in document["programs"]
    )
    return broken or bool(statuses & BAD)


def as_markdown(document: Document) -> str:
    lines = [f"**{document['title']}**", ""]
    for title, rows, left, _ in tables(document, full=True):
        lines += [f"{title}:", "", *markdown_table(rows, left), ""]
    for line in legend(document, full=True):
        lines += [line, ""]
    for sentence in recommend_suite(document):
        lines += [f"**{sentence.title}:** {sentence.text}", ""]
    return "\n".join(lines)


def as_csv(document: Document) -> str:
    """One line per program, machine, allocator and quantity. Without a host: pooled over machines,
    or on one machine; without a program: the means, which a scan has not."""
    header = ["program", "host", "allocator", "status", "quantity", "median"]
    lines: list[list[Any]] = [[*header, "ratio", "ratio_low", "ratio_high", "verdict"]]
    of_all = {} if is_scan(document) else {"": document["means"]}
    for name, means_of in (of_all | (document.get("pooled") or {})).items():
        for spec, found in means_of.items():
            for quantity, mean in found.items():
                values = [(mean or {}).get(key) for key in ("ratio", "low", "high", "verdict")]
                lines.append([name, "", spec, "", quantity, "", *values])
    for entry in document["programs"]:
        for result in (entry["comparison"] or {"results": ()})["results"]:
            for quantity, value in result.items():
                if isinstance(value, dict) and "ratio_low" in value:
                    keys = ("median", "ratio", "ratio_low", "ratio_high", "verdict")
                    known = [value.get(key) for key in keys]  # no verdict in documents of before
                    whose = [entry["name"], entry.get("host") or "", result["spec"]]
                    lines.append([*whose, result["status"], quantity, *known])
    return files.as_csv(lines)
