# SPDX-License-Identifier: MIT
"""How two comparisons of the same command differ, from what --json wrote of each.

The two were measured at different times, perhaps on different machines, so nothing can be paired
between them. What is compared is each allocator's ratio to its own baseline, in which the machine
and the day cancel; of the baseline itself there is only its figure, and how that changed says how
far the machines are alike. The interval of a quotient of two ratios goes from the one's low over
the other's high to the one's high over the other's low: it covers at least what both cover
together (Bonferroni), and is wide rather than wrong.
"""

from typing import Any, Callable, Mapping, Sequence

from ...output.units import format_bytes, format_ratio, format_seconds
from ...statistics.intervals import LEAST_JUDGED_ROUNDS, Estimate
from ...statistics.verdicts import THRESHOLD, Outcome, judge
from ...system.errors import UserError
from .gate import UNFIT, Condition, unfit_result
from .recommendation import cpu_quantity, memory_quantity

Document = Mapping[str, Any]


def check_pair(before: Document, after: Document) -> list[str]:
    """Raises UserError where there is nothing in common; else what the reader must know."""
    names = [{one["spec"] for one in document["results"]} for document in (before, after)]
    if not names[0] & names[1]:
        raise UserError(
            "the two comparisons have no allocator in common: "
            f"{', '.join(sorted(names[0]))} and {', '.join(sorted(names[1]))}"
        )
    if before["baseline"] != after["baseline"]:
        raise UserError(
            f"the two comparisons have different baselines, {before['baseline']} and "
            f"{after['baseline']}; measure one again with --baseline {before['baseline']}"
        )
    notes = []
    if before["command"] != after["command"]:
        notes.append("The commands differ.")
    for key in ("cpu", "kernel", "libc"):
        old, new = (document["machine"].get(key) for document in (before, after))
        if old != new:
            notes.append(f"The machine's {key} differs: {old}, then {new}.")
    only = names[0] ^ names[1]
    if only:
        notes.append(f"Only in one of them: {', '.join(sorted(only))}.")
    if _are_few(before, after):
        notes.append(
            f"Below {LEAST_JUDGED_ROUNDS} rounds there is no interval but a range, which decides "
            "nothing."
        )
    return notes + _notes_of_status(before, after)


def _are_few(before: Document, after: Document) -> bool:
    return bool(min(before["rounds"], after["rounds"]) < LEAST_JUDGED_ROUNDS)


def _by_spec(document: Document) -> dict[str, Mapping[str, Any]]:
    return {str(one["spec"]): one for one in document["results"]}


def _notes_of_status(before: Document, after: Document) -> list[str]:
    return [
        f"{spec} is {result['status']} in the {when} comparison"
        + (", so its figures carry no verdict." if result["status"] in UNFIT else ".")
        for when, document in (("earlier", before), ("later", after))
        for spec, result in _by_spec(document).items()
        if result["status"] != "ok"
    ]


def quotient(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, kind: str
) -> Estimate | None:
    """After over before; kind: "ratio" for ratios to the baseline, "" for the figures."""
    if before is None or after is None:
        return None
    keys = ("ratio", "ratio_low", "ratio_high") if kind else ("median", "low", "high")
    old, new = ([one[key] for key in keys] for one in (before, after))
    if None in old or None in new or 0 in old:
        return None
    return Estimate(new[0] / old[0], new[1] / old[2], new[2] / old[1])


def _quantities(document: Document) -> list[tuple[str, str, Callable[[float], str]]]:
    """Name, key, how it is written."""
    cpu = cpu_quantity(document)
    found: list[tuple[str, str, Callable[[float], str]]] = [
        ("CPU", cpu, _seconds),
        ("wall time", "wall_seconds", _seconds),
        ("memory", memory_quantity(document), format_bytes),
    ]
    metrics = (document.get("server") or {}).get("metrics", ())
    return found + [
        (one["name"], f"metric:{one['name']}", lambda value: f"{value:.4g}") for one in metrics
    ]


def _seconds(value: float) -> str:
    return f"{format_seconds(value)} s" if value >= 1e-3 else f"{1e6 * value:.4g} µs"


def difference_rows(before: Document, after: Document) -> list[list[str]]:
    """A table, header first: a row for each allocator and quantity that both have."""
    base = after["baseline"]
    old, new = _by_spec(before), _by_spec(after)
    few, threshold = _are_few(before, after), after.get("threshold") or THRESHOLD
    metrics = (after.get("server") or {}).get("metrics", ())
    rising = {f"metric:{one['name']}" for one in metrics if one["more_is_better"]}
    rows = [["allocator", "quantity", "before", "after", "change", "verdict"]]
    for result in after["results"]:
        spec = result["spec"]
        for name, key, write in _quantities(after):
            pair = (old.get(spec, {}).get(key), result.get(key))
            if pair[0] is None or pair[1] is None:
                continue
            ratio = quotient(*pair, "" if spec == base else "ratio")
            cells = [write(one["median"]) for one in pair]
            change = format_ratio(ratio.median, ratio.low, ratio.high) if ratio else "–"
            verdict = "" if ratio is None else judge(ratio, threshold, key in rising)
            if verdict and few:
                verdict = Outcome.NOT_DECIDED
            if any(unfit_result(results, (spec, base)) for results in (old, new)):
                verdict = ""
            rows.append([spec, name, *cells, change, verdict])
    return rows


def difference_lines(after: Document, notes: Sequence[str]) -> list[str]:
    base = after["baseline"]
    return [
        f"change: of the ratio to {base}, after over before, so that machine and day cancel; of "
        f"{base} itself: of its figure. The interval is from the lowest to the highest that both "
        f"intervals allow; better or worse is what it shows to be so by more than "
        f"{100 * (after.get('threshold') or THRESHOLD):.2g}%.",
        *notes,
    ]


def change_of(
    before: Document, after: Document
) -> Callable[[Condition, str, str], Estimate | None]:
    """What a condition judges when two comparisons are held against each other."""
    old = {one["spec"]: one for one in before["results"]}
    new = {one["spec"]: one for one in after["results"]}

    def interval(condition: Condition, spec: str, key: str) -> Estimate | None:
        if condition.unit is not None:
            raise UserError(
                f"--fail-if: '{condition.text}': with --against it is changes that are judged; "
                "give a ratio or a percentage"
            )
        if unfit_result(old, (spec, after["baseline"])) is not None:
            return None
        kind = "" if spec == after["baseline"] else "ratio"
        return quotient(old.get(spec, {}).get(key), new[spec].get(key), kind)

    return interval
