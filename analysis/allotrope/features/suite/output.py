# SPDX-License-Identifier: MIT
"""A suite's result as JSON (docs/suites.md), CSV, tables for the terminal, and in words."""

import datetime
import functools
from typing import Any, Mapping, Sequence

from ...output import files
from ...output.sentences import Sentence, counted, enumerate_names, too_few_rounds
from ...output.text import markdown_table
from ...output.units import format_percent, format_ratio
from ...statistics.intervals import (
    JUDGED_CONFIDENCE,
    JUDGED_ROUNDS,
    LEAST_JUDGED_ROUNDS,
    Estimate,
)
from ...statistics.replicates import pooled
from ...statistics.resampling import REPLICATES, SEED, Mean, geometric_mean, geometric_middle
from ...statistics.verdicts import THRESHOLD, Outcome, judge, tells_chance
from ...system import capabilities
from ...system.machine import machine_facts
from ..compare.findings import cpu_quantity, load_limits, memory_quantity, own_memory
from ..compare.output import as_document
from ..compare.recommendation import Ratio, by_the_clock, choose
from ..compare.servers import PER_REQUEST, shown_of, title_of
from ..reach.served import cell, notes, stranger
from ..server.metrics import Metric
from ..server.run import METRIC
from .measure import SuiteRun

SCHEMA = "allotrope.suite/1"
# The quantities of which means are taken. CPU of a server is that of a request, where the load says
# how many there were; memory is whichever peak matters in each program.
QUANTITIES = ("cpu_seconds", "wall_seconds", "memory_bytes", "minor_faults")
# Statuses that make an allocator none for every program.
BAD = {"failed", "different-output", "out-of-reach"}
Document = Mapping[str, Any]


def suite_document(run: SuiteRun) -> dict[str, Any]:
    """Of a suite that this machine has measured."""
    machine = machine_facts() | {"lacks": capabilities.lacking()}
    programs = [
        {
            "name": part.program.name,
            "host": None,
            "status": part.status,
            "reason": part.reason,
            "comparison": as_document(part.comparison, machine)
            if part.comparison is not None and part.status == "measured"
            else None,
        }
        for part in run.parts
    ]
    return assemble(run, machine, programs)


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


# Which figures make a mean


def key_of(comparison: Mapping[str, Any], quantity: str) -> str:
    """What one of QUANTITIES is called in a program's comparison."""
    if quantity == "cpu_seconds":
        return cpu_quantity(comparison)
    return memory_quantity(comparison) if quantity == "memory_bytes" else quantity


def figures(
    entries: Sequence[Mapping[str, Any]], quantity: str
) -> dict[str, dict[str, list[float | None]]]:
    """Each round's figures, by program and allocator. Left out: failed and different allocators,
    programs whose output varies, and programs that broke off before the others."""
    comparisons = {
        entry["name"]: entry["comparison"]
        for entry in entries
        if entry["comparison"] and entry["comparison"]["incomplete"] is None
    }
    found: dict[str, dict[str, list[float | None]]] = {}
    for name, comparison in comparisons.items():
        key = key_of(comparison, quantity)
        usable = {
            result["spec"]: result[key]["rounds"]
            for result in comparison["results"]
            if result["status"] == "ok" and result.get(key) is not None
        }
        if usable:
            found[name] = usable
    return found


Pairs = dict[str, tuple[list[float | None], list[float | None]]]


def mean_ratio(document: Document, one: str, other: str, quantity: str) -> Mean | None:
    """The geometric mean of `one` over `other`, over the programs that both went through and
    the rounds that all of these have. None over machines of several kinds."""
    if len(kinds(document)) > 1:
        return None
    if replicate(document) > 1:
        return _pooled_ratio(document, one, other, quantity, None)
    ratios = _whole_rounds(_pairs(document["programs"], one, other, quantity))
    return geometric_mean(ratios) if ratios else None


def replicate(document: Document) -> int:
    """On how many machines each program was to be measured. Documents of before do not say."""
    return int(document.get("replicate", 1))


def _pairs(entries: Sequence[Mapping[str, Any]], one: str, other: str, quantity: str) -> Pairs:
    """Each round's figures of both, by program."""
    return {
        name: (rounds[one], rounds[other])
        for name, rounds in figures(entries, quantity).items()
        if one in rounds and other in rounds
    }


def _whole_rounds(pairs: Pairs) -> list[list[float]]:
    """The ratios of the rounds that all programs have."""
    count = min((len(values) for values, _ in pairs.values()), default=0)
    whole = [
        number
        for number in range(count)
        if all(values[number] and others[number] for values, others in pairs.values())
    ]
    return [
        [(values[number] or 0) / (others[number] or 1) for number in whole]
        for values, others in pairs.values()
    ]


def _pooled_ratio(
    document: Document, one: str, other: str, quantity: str, program: str | None
) -> Mean | None:
    """The machines' ratios pooled: of a program, or for None of the means over all programs that
    both went through on every machine. None where a machine has no figure."""
    by_machine: dict[str, list[Mapping[str, Any]]] = {}
    for entry in document["programs"]:
        if entry["comparison"] and program in (None, entry["name"]):
            by_machine.setdefault(entry["host"], []).append(entry)
    pairs = [_pairs(entries, one, other, quantity) for entries in by_machine.values()]
    if len(pairs) < replicate(document):
        return None
    common = set.intersection(*(set(of_one) for of_one in pairs))
    kept = [{name: both for name, both in of_one.items() if name in common} for of_one in pairs]
    found = [_whole_rounds(of_one) for of_one in kept]
    if not common or not all(ratios[0] for ratios in found):
        return None
    estimate = pooled([geometric_middle(ratios) for ratios in found])
    rounds = min(len(ratios[0]) for ratios in found)
    if estimate is None:
        return None
    ends = (estimate.low, estimate.high)
    return Mean(estimate.median, *ends, len(common), rounds, len(pairs))


def pooled_ratios(document: Document) -> dict[str, dict[str, dict[str, Any]]] | None:
    """By program, allocator and quantity, against the baseline; None without --replicate."""
    if replicate(document) == 1:
        return None
    unlike = len(kinds(document)) > 1

    def ratio(spec: str, quantity: str, name: str) -> Any:
        found = _pooled_ratio(document, spec, document["baseline"], quantity, name)
        return None if unlike or found is None else vars(found)

    specs = [allocator["spec"] for allocator in document["allocators"]]
    names = dict.fromkeys(entry["name"] for entry in document["programs"])
    return {
        name: {
            spec: {quantity: ratio(spec, quantity, name) for quantity in QUANTITIES}
            for spec in specs
        }
        for name in names
    }


def kinds(document: Document) -> dict[tuple[str, str], list[str]]:
    """The programs by the kind of machine that measured them."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in document["programs"]:
        if entry["comparison"]:
            machine = entry["comparison"]["machine"]
            kind = (str(machine["cpu"]), str(machine["kernel"]))
            found.setdefault(kind, []).append(entry["name"])
    return found


def means(document: Document) -> dict[str, dict[str, Any]]:
    """By allocator and quantity, against the baseline."""
    found: dict[str, dict[str, Any]] = {}
    for allocator in document["allocators"]:
        spec = allocator["spec"]
        found[spec] = {}
        for quantity in QUANTITIES:
            mean = mean_ratio(document, spec, document["baseline"], quantity)
            found[spec][quantity] = mean and vars(mean)
    return found


# In words


class SuiteEvidence:
    """The geometric means of a suite, for recommendation.choose."""

    keys = {"CPU": "cpu_seconds", "memory": "memory_bytes", "wall time": "wall_seconds"}

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
        mean = mean_ratio(self.document, one, other, self.keys[quantity])
        return None if mean is None else Ratio(mean.ratio, mean.low, mean.high)

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
    note = (
        f"geometric means over {counted(baseline['programs'], 'program')}; no program need behave "
        "like the mean, so look at yours."
    )
    return [*choose(evidence), *by_the_clock(evidence), Sentence("note", "What this is", note)]


def _why_no_mean(document: Document, spec: str) -> str:
    """Of an allocator without a mean."""
    results = [
        result
        for entry in document["programs"]
        for result in (entry["comparison"] or {"results": ()})["results"]
        if result["spec"] == spec
    ]
    statuses = {str(result["status"]) for result in results}
    if not results:
        return "no program was measured."
    if statuses == {"out-of-reach"}:
        strangers = dict.fromkeys(stranger(result) for result in results)
        return f"{spec} did not serve {enumerate_names(list(strangers))}."
    if "ok" not in statuses:
        words = enumerate_names(sorted(status.replace("-", " ") for status in statuses))
        return f"{spec} counts in no program ({words})."
    if len(kinds(document)) > 1:
        return "the machines differ, so there is no mean over them."
    if replicate(document) > 1:
        return f"{spec} went through no program on all of {replicate(document)} machines."
    return "there are not two rounds of any program."


def _refused(document: Document) -> list[Sentence]:
    bad: dict[str, list[str]] = {}
    for entry in document["programs"]:
        for result in (entry["comparison"] or {"results": ()})["results"]:
            if result["status"] in BAD:
                words = f"{entry['name']} ({result['status'].replace('-', ' ')})"
                bad.setdefault(result["spec"], []).append(words)
    return [
        Sentence("refused", "Not for every program", f"{spec}: {enumerate_names(names)}.")
        for spec, names in bad.items()
    ]


def _left_out(document: Document) -> list[Sentence]:
    sentences = []
    for entry in document["programs"]:
        comparison = entry["comparison"]
        why = entry["reason"]
        if comparison is not None and comparison["incomplete"]:
            why = comparison["incomplete"]
        elif comparison is not None and comparison["deterministic"] is False:
            why = "its output differs from run to run under glibc itself"
        if why:
            sentences.append(Sentence("note", "Left out of the means", f"{entry['name']}: {why}."))
    if document["interrupted"]:
        text = "the suite was interrupted; the figures are of the rounds before that."
        sentences.append(Sentence("note", "Incomplete", text))
    return sentences


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
    """Of the program that was measured under the greatest load."""
    known = [entry for entry in document["programs"] if entry["comparison"]]
    if not known:
        return []
    worst = max(known, key=lambda one: one["comparison"].get("others_cpus") or 0)
    others = ", more than for any other program" if len(known) > 1 else ""
    comparison = worst["comparison"] | {"of_suite": True}
    return load_limits(comparison, f"the rounds of {name_of(worst)} ran{others}")


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


# Tables


def has_interval(mean: Mapping[str, Any]) -> bool:
    """Whether its ends are an interval, not a range."""
    return mean.get("machines", 1) > 1 or tells_chance(mean["rounds"], LEAST_JUDGED_ROUNDS)


def format_mean(mean: Mapping[str, Any] | None) -> str:
    if mean is None:
        return "–"
    return format_ratio(mean["ratio"], mean["low"], mean["high"])


def means_rows(document: Document) -> list[list[str]]:
    wall = "load time" if servers_of(document) else "wall"
    rows = [["allocator", cpu_title(document), wall, "peak memory", "faults", "programs"]]
    for spec, found in document["means"].items():
        cpu = found["cpu_seconds"]
        cells = [format_mean(found[quantity]) for quantity in QUANTITIES]
        if spec == document["baseline"]:
            cells = ["baseline" if found[quantity] else "–" for quantity in QUANTITIES]
        rows.append([spec, *cells, str(cpu["programs"]) if cpu else "0"])
    return rows


def mark_legend() -> str:
    return f"* better or worse: the interval lies beyond {format_percent(THRESHOLD)}"


def name_of(entry: Mapping[str, Any]) -> str:
    """A program's name, with the machine that measured it on a cluster. Documents of before have
    no host."""
    host = entry.get("host")
    return f"{entry['name']} ({host})" if host else str(entry["name"])


def program_rows(document: Document, quantity: str) -> list[list[str]]:
    """The ratio of each program and allocator, header first."""
    specs = [allocator["spec"] for allocator in document["allocators"]]
    rows = [["program", *specs]]
    for entry in document["programs"]:
        comparison = entry["comparison"]
        if comparison is None:
            rows.append([name_of(entry), entry["status"], *[""] * (len(specs) - 1)])
            continue
        key = key_of(comparison, quantity)
        rows.append([name_of(entry), *(_cell(one, key) for one in comparison["results"])])
    for name, of_program in (document.get("pooled") or {}).items():
        cells = [_pooled_cell(of_program[spec].get(quantity)) for spec in specs]
        rows.append([f"{name} ({replicate(document)} machines)", *cells])
    return rows


def served_rows(document: Document) -> list[list[str]]:
    """Whose malloc the command with most CPU used, header first; no more where nobody knows."""
    rows = [["program", *(allocator["spec"] for allocator in document["allocators"])]]
    for entry in document["programs"]:
        comparison = entry["comparison"]
        if comparison is not None and any(one.get("served") for one in comparison["results"]):
            cells = [cell(one.get("served")) for one in comparison["results"]]
            rows.append([name_of(entry), *cells])
    return rows


def _pooled_cell(mean: Mapping[str, Any] | None) -> str:
    if mean is None:
        return "–"
    outcome = judge(Estimate(mean["ratio"], mean["low"], mean["high"]))
    return f"{mean['ratio']:.2f}{'*' if outcome in (Outcome.BETTER, Outcome.WORSE) else ''}"


def _cell(result: Mapping[str, Any], key: str) -> str:
    """A ratio, marked where it is better or worse (mark_legend)."""
    summary = result.get(key)
    if summary is None or summary["ratio"] is None:
        return "–" if result["status"] == "ok" else str(result["status"])
    told = summary.get("verdict") in (Outcome.BETTER, Outcome.WORSE)
    return f"{summary['ratio']:.2f}{'*' if told else ''}"


def servers_of(document: Document) -> list[Mapping[str, Any]]:
    """What the programs' comparisons say of their servers; of commands nothing."""
    entries = [entry["comparison"] for entry in document["programs"] if entry["comparison"]]
    return [one["server"] for one in entries if one.get("server")]


def cpu_title(document: Document) -> str:
    """What the column and the table of CPU are of."""
    quantities = {server["cpu_quantity"] for server in servers_of(document)}
    return "CPU a request" if quantities == {PER_REQUEST} else "CPU"


def load_tables(document: Document) -> list[tuple[str, list[list[str]]]]:
    """What the loads said, of the metrics that a single server's table has room for."""
    known = {one["name"]: Metric(**one) for of in servers_of(document) for one in of["metrics"]}
    found = []
    for one in filter(None, shown_of(list(known.values()))):
        order = "more" if one.more_is_better else "less"
        title = f"{title_of(one.name)} of the load, by program ({order} is better)"
        found.append((title, program_rows(document, METRIC + one.name)))
    return found


def tables(document: Document) -> list[tuple[str, list[list[str]]]]:
    """Each with its title; the last only where it is known who served."""
    found = [
        ("Geometric means of the ratios to the baseline", means_rows(document)),
        (f"{cpu_title(document)} by program", program_rows(document, "cpu_seconds")),
        ("Peak memory by program", program_rows(document, "memory_bytes")),
        *load_tables(document),
    ]
    who = served_rows(document)
    if who[1:]:
        found.append(("Served by (allocations of the command with most CPU)", who))
    return found


def as_markdown(document: Document) -> str:
    lines = [f"**{document['title']}**", ""]
    for title, rows in tables(document):
        lines += [f"{title}:", "", *markdown_table(rows), ""]
    lines += [f"{mark_legend()}.", ""]
    for sentence in recommend_suite(document):
        lines += [f"**{sentence.title}:** {sentence.text}", ""]
    return "\n".join(lines)


def as_csv(document: Document) -> str:
    """One line per program, machine, allocator and quantity. Without a host: pooled over machines,
    or on one machine; without a program: the means."""
    header = ["program", "host", "allocator", "status", "quantity", "median"]
    lines: list[list[Any]] = [[*header, "ratio", "ratio_low", "ratio_high"]]
    for name, means_of in {"": document["means"], **(document.get("pooled") or {})}.items():
        for spec, found in means_of.items():
            for quantity, mean in found.items():
                values = [mean["ratio"], mean["low"], mean["high"]] if mean else [""] * 3
                lines.append([name, "", spec, "", quantity, "", *values])
    for entry in document["programs"]:
        for result in (entry["comparison"] or {"results": ()})["results"]:
            for quantity, value in result.items():
                if isinstance(value, dict) and "ratio_low" in value:
                    known = [value[key] for key in ("median", "ratio", "ratio_low", "ratio_high")]
                    whose = [entry["name"], entry.get("host") or "", result["spec"]]
                    lines.append([*whose, result["status"], quantity, *known])
    return files.as_csv(lines)
