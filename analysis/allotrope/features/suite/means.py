# SPDX-License-Identifier: MIT
"""The geometric means over the programs of a suite, from its document (docs/suites.md): which
figures make them, and what they decide.

Memory has two. `memory_bytes` is over all programs. `counted_memory_bytes` is over those that count
(statistics/verdicts.py): a choice goes by it, so that small programs whose percentages stand for
next to no memory do not decide it. There is none where no program counts. Where it is not settled
which programs count, its interval covers that of each case.
"""

import statistics
from dataclasses import replace
from typing import Any, Collection, Mapping, Sequence

from ...statistics.intervals import LEAST_JUDGED_ROUNDS, Estimate, summarize
from ...statistics.replicates import pooled
from ...statistics.resampling import Mean, geometric_mean, geometric_middle
from ...statistics.verdicts import (
    Outcome,
    Weight,
    judge,
    noticeable_share,
    tells_chance,
    that_count,
    weigh,
)
from ..compare.findings import cpu_quantity, memory_quantity

# The quantities of which means are taken. CPU of a server is that of a request, where the load says
# how many there were; memory is whichever peak matters in each program.
MEMORY, COUNTED_MEMORY = "memory_bytes", "counted_memory_bytes"
QUANTITIES = ("cpu_seconds", "wall_seconds", MEMORY, "minor_faults")
Document = Mapping[str, Any]


def key_of(comparison: Mapping[str, Any], quantity: str) -> str:
    """What one of QUANTITIES is called in a program's comparison."""
    if quantity == "cpu_seconds":
        return cpu_quantity(comparison)
    return memory_quantity(comparison) if quantity == MEMORY else quantity


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


def mean_ratio(
    document: Document, one: str, other: str, quantity: str, only: Collection[str] | None = None
) -> Mean | None:
    """The geometric mean of `one` over `other`, over the programs that both went through (`only`:
    of these alone) and the rounds that all of these have. None over machines of several kinds."""
    if len(kinds(document)) > 1:
        return None
    if replicate(document) > 1:
        return _pooled_ratio(document, one, other, quantity, only)
    ratios = _whole_rounds(_pairs(document["programs"], one, other, quantity, only))
    return geometric_mean(ratios) if ratios else None


def memory_that_counts(document: Document, one: str, other: str) -> Mean | None:
    """The mean of memory over the programs that count; None where none does. Where programs are in
    doubt, its interval covers the means with them and without, and 1 where perhaps none counts."""
    lists = that_count(_differences(document, one, other))
    found = [mean_ratio(document, one, other, MEMORY, names) for names in lists if names]
    known = [mean for mean in found if mean is not None]
    if not known:
        return None
    ends = [end for mean in known for end in (mean.low, mean.high)] + [1.0] * ([] in lists)
    return replace(known[0], low=min(ends), high=max(ends))


def of_little_memory(document: Document, one: str, other: str) -> tuple[list[str], list[str]]:
    """The programs that do not count in the mean of memory where others do, and those of which that
    is not settled."""
    differences = _differences(document, one, other)
    possible, *others = that_count(differences)
    out = [name for name in differences if name not in possible] if possible else []
    return out, [name for name in possible if not all(name in names for names in others)]


def _differences(
    document: Document, one: str, other: str, only: Collection[str] | None = None
) -> dict[str, tuple[Estimate, float]]:
    """Of memory by program, as `weigh` takes them; of all machines together."""
    found = {}
    for name, base in _bases(document, one, other, only).items():
        ratio = _ratio_of_program(document, one, other, name)
        if ratio is not None:
            found[name] = (ratio, noticeable_share(base))
    return found


def _bases(
    document: Document, one: str, other: str, only: Collection[str] | None
) -> dict[str, float]:
    """The medians of the other's memory, by program; over the rounds of all machines."""
    found: dict[str, list[float]] = {}
    for entry in document["programs"]:
        for name, (mine, others) in _pairs([entry], one, other, MEMORY, only).items():
            found.setdefault(name, []).extend(b for a, b in zip(mine, others) if a and b)
    return {name: statistics.median(values) for name, values in found.items() if values}


def _ratio_of_program(document: Document, one: str, other: str, name: str) -> Estimate | None:
    """Of memory."""
    if replicate(document) > 1:
        mean = _pooled_ratio(document, one, other, MEMORY, {name})
        return Estimate(mean.ratio, mean.low, mean.high) if mean else None
    mine, others = _pairs(document["programs"], one, other, MEMORY, {name})[name]
    known = summarize([value or None for value in mine], [value or None for value in others])
    return known.ratio_interval() if known else None


def replicate(document: Document) -> int:
    """On how many machines each program was to be measured. Documents of before do not say."""
    return int(document.get("replicate", 1))


def _pairs(
    entries: Sequence[Mapping[str, Any]],
    one: str,
    other: str,
    quantity: str,
    only: Collection[str] | None = None,
) -> Pairs:
    """Each round's figures of both, by program."""
    return {
        name: (rounds[one], rounds[other])
        for name, rounds in figures(entries, quantity).items()
        if one in rounds and other in rounds and (only is None or name in only)
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
    document: Document, one: str, other: str, quantity: str, only: Collection[str] | None
) -> Mean | None:
    """The machines' ratios pooled: of the means over the programs (all, or `only` these) that both
    went through on every machine. None where a machine has no figure."""
    by_machine: dict[str, list[Mapping[str, Any]]] = {}
    for entry in document["programs"]:
        if entry["comparison"] and (only is None or entry["name"] in only):
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
        found = _pooled_ratio(document, spec, document["baseline"], quantity, {name})
        return None if unlike else _as_entry(found, spec == document["baseline"])

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
    """By allocator and quantity, against the baseline. Those over a scan's values have no verdict:
    nobody runs its values side by side."""
    found: dict[str, dict[str, Any]] = {}
    base, is_scan = document["baseline"], bool(document.get("varied"))
    for allocator in document["allocators"]:
        spec = allocator["spec"]
        of_spec = {one: mean_ratio(document, spec, base, one) for one in QUANTITIES}
        of_spec[COUNTED_MEMORY] = memory_that_counts(document, spec, base)
        unjudged = is_scan or spec == base
        found[spec] = {one: _as_entry(mean, unjudged) for one, mean in of_spec.items()}
    return found


def _as_entry(mean: Mean | None, unjudged: bool) -> dict[str, Any] | None:
    if mean is None:
        return None
    entry = dict(vars(mean))
    return entry | {"verdict": None if unjudged else verdict_of_mean(entry)}


# What they decide


def has_interval(mean: Mapping[str, Any]) -> bool:
    """Whether its ends are an interval, not a range."""
    return mean.get("machines", 1) > 1 or tells_chance(mean["rounds"], LEAST_JUDGED_ROUNDS)


def verdict_of_mean(mean: Mapping[str, Any]) -> Outcome:
    if not has_interval(mean):
        return Outcome.NOT_DECIDED
    return judge(Estimate(mean["ratio"], mean["low"], mean["high"]))


def shown_mean(found: Mapping[str, Any], quantity: str) -> tuple[Mapping[str, Any] | None, Weight]:
    """The mean of an allocator that is shown, and whether it is of too little memory to count. Of
    memory it is the one that counts, where there is one. Documents of before have none."""
    if quantity != MEMORY or COUNTED_MEMORY not in found:
        return found[quantity], Weight.MUCH
    counted = found[COUNTED_MEMORY]
    return (counted, Weight.MUCH) if counted else (found[MEMORY], Weight.LITTLE)


def pooled_weight(document: Document, name: str, spec: str) -> Weight:
    """Of a program's difference of memory, of all machines together."""
    difference = _differences(document, spec, document["baseline"], {name}).get(name)
    return weigh(*difference) if difference else Weight.MUCH
