# SPDX-License-Identifier: MIT
"""How two comparisons of the same command differ, from what --json wrote of each. Of two suites
features/suite/difference.py compares each program so.

The two were measured at different times, perhaps on different machines, so nothing can be paired
between them. What is compared is each allocator's ratio to its own baseline, in which the machine
and the day cancel; of the baseline itself there is only its figure, and how that changed says how
far the machines are alike. The interval of a quotient of two ratios goes from the one's low over
the other's high to the one's high over the other's low: it covers at least what both cover
together (Bonferroni), and is wide rather than wrong.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping, Sequence

from ...output import files
from ...output.sentences import LITTLE, Sentence, counted, enumerate_names
from ...output.text import markdown_table
from ...output.units import format_bytes, format_percent, format_ratio, format_time
from ...statistics.intervals import JUDGED_CONFIDENCE, Estimate, least_rounds
from ...statistics.verdicts import THRESHOLD, Interval, Outcome, Weight, is_told, judge
from ...system.errors import UserError
from .findings import cpu_quantity, memory_quantity
from .gate import UNFIT, Condition, Figure, Judgement, summaries, unfit_result
from .gate import judge as judge_conditions
from .judged import few_rounds, verdict_in_words, weighed

Document = Mapping[str, Any]
Results = Mapping[str, Mapping[str, Any]]  # by spec
SCHEMA = "allotrope.difference/1"


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
    notes += _notes_of_work(before, after)
    for key in ("cpu", "kernel", "libc"):
        old, new = (document["machine"].get(key) for document in (before, after))
        if old != new:
            notes.append(f"The machine's {key} differs: {old}, then {new}.")
    notes += _notes_of_versions(before, after)
    only = names[0] ^ names[1]
    if only:
        notes.append(f"Only in one of them: {', '.join(sorted(only))}.")
    needed = max(map(_rounds_needed, (before, after)))
    if needed:
        notes.append(
            f"Below {needed} rounds there is no interval but a range, which decides nothing."
        )
    return notes + _notes_of_status(before, after)


def _notes_of_work(before: Document, after: Document) -> list[str]:
    """What makes the same command do other work, or be measured otherwise."""
    old, new = map(_work, (before, after))
    notes = [
        f"The {key} differs: {old[key] or 'none'}, then {new[key] or 'none'}."
        for key in old
        if old[key] != new[key]
    ]
    duets = [bool((one.get("settings") or {}).get("duet")) for one in (before, after)]
    if duets[0] != duets[1]:
        notes.append(f"Only the {'earlier' if duets[0] else 'later'} comparison is a duet.")
    return notes


def _work(document: Document) -> dict[str, str | None]:
    """Beside the command, which of a server is the server's."""
    settings, server = (document.get(part) or {} for part in ("settings", "server"))
    return {
        "input": settings.get("input"),
        "preparation": settings.get("prepare"),
        "setup": server.get("setup"),
        "load": server.get("load"),
    }


def _rounds_needed(document: Document) -> int:
    """How many an interval takes, where some quantity has a range instead; else 0."""
    few = (few_rounds(*summaries(result).values()) for result in document["results"])
    if all(count is None for count in few):
        return 0
    return least_rounds(float(document.get("confidence", JUDGED_CONFIDENCE)))


def interruption(when: str, what: str, has_figures: bool) -> str:
    """What the reader must know of a measurement that was interrupted. what: it is."""
    if not has_figures:
        return f"The {when} {what} was interrupted before its first round."
    return f"The {when} {what} was interrupted; its figures are of the rounds before that."


def _has_figures(document: Document) -> bool:
    return any(summaries(result) for result in document["results"])


def _notes_of_breaks(before: Document, after: Document) -> list[str]:
    """Of two comparisons of one command, whether they were measured to the end."""
    notes = []
    for when, document in (("earlier", before), ("later", after)):
        if document.get("interrupted"):
            notes.append(interruption(when, "comparison", _has_figures(document)))
        elif document.get("incomplete"):
            notes.append(f"The {when} comparison is incomplete: {document['incomplete']}.")
    return notes


def _by_spec(document: Document) -> dict[str, Mapping[str, Any]]:
    return {str(one["spec"]): one for one in document["results"]}


def _notes_of_versions(before: Document, after: Document) -> list[str]:
    versions = [
        {spec: result.get("version") for spec, result in _by_spec(document).items()}
        for document in (before, after)
    ]
    return [
        f"The version of {spec} differs: {versions[0][spec]}, then {new}."
        for spec, new in versions[1].items()
        if spec in versions[0] and versions[0][spec] != new
    ]


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
    """After over before; kind: "ratio" for ratios to the baseline, "" for the figures. None where
    it is undefined: over something that is not above zero, or of something negative."""
    if before is None or after is None:
        return None
    keys = ("ratio", "ratio_low", "ratio_high") if kind else ("median", "low", "high")
    old, new = ([one[key] for key in keys] for one in (before, after))
    if None in old or None in new or min(old) <= 0 or min(new) < 0:
        return None
    return Estimate(new[0] / old[0], new[1] / old[2], new[2] / old[1])


def _quantities(document: Document) -> list[tuple[str, str, Callable[[float], str]]]:
    """Name, key, how it is written."""
    cpu = cpu_quantity(document)
    found: list[tuple[str, str, Callable[[float], str]]] = [
        ("CPU", cpu, format_time),
        ("wall time", "wall_seconds", format_time),
        ("memory", memory_quantity(document), format_bytes),
    ]
    metrics = (document.get("server") or {}).get("metrics", ())
    return found + [
        (one["name"], f"metric:{one['name']}", lambda value: f"{value:.4g}") for one in metrics
    ]


@dataclass(frozen=True)
class Change:
    """Of one allocator in one quantity, which both comparisons have."""

    spec: str
    quantity: str  # its key
    name: str  # of the quantity, for people
    of: str  # what is compared: "ratio" to the baseline; of the baseline its "figure"; or "mean"
    before: float  # the medians; the means of the ratios
    after: float
    change: Estimate | None  # after over before; None: there are no ratios
    verdict: Outcome | None  # None: nothing can be judged
    write: Callable[[float], str]  # a figure of the quantity, for people
    part: str | None = None  # the program or value that it is of; None: the command, or a mean
    weight: Weight = Weight.MUCH  # of the difference, if it is of memory
    ends: Interval | None = None  # the interval of that difference, bytes
    alone: bool = False  # of memory: the ratio changed so, but not the allocator's own figure

    def is_little(self) -> bool:
        """Whether it is better or worse by so little memory that it does not count, or perhaps."""
        return is_told(self.verdict) and self.weight is not Weight.MUCH


@dataclass(frozen=True)
class Difference:
    """before, after: each the file's name and what it holds."""

    before: tuple[str, Document]
    after: tuple[str, Document]
    found: Sequence[Change]
    notes: Sequence[str]
    part: str | None = None  # what its parts are called, "program" or "value"; None: one command


def changes(before: Document, after: Document) -> list[Change]:
    """Allocator by allocator, in the later comparison's order."""
    base = after["baseline"]
    old, new = _by_spec(before), _by_spec(after)
    threshold = threshold_of(after)
    metrics = (after.get("server") or {}).get("metrics", ())
    rising = {f"metric:{one['name']}" for one in metrics if one["more_is_better"]}
    found = []
    for result in after["results"]:
        spec = result["spec"]
        unfit = any(unfit_result(results, (spec, base)) for results in (old, new))
        for name, key, write in _quantities(after):
            pair = (old.get(spec, {}).get(key), result.get(key))
            if pair[0] is None or pair[1] is None:
                continue
            figure = _changed(old, new, base, spec, key)
            verdict = None if figure is None or unfit else _judge(figure, threshold, key in rising)
            medians = pair[0]["median"], pair[1]["median"]
            of = "figure" if spec == base else "ratio"
            change = Change(spec, key, name, of, *medians, None, verdict, write)
            if figure is not None:
                own = quotient(*pair, "")
                is_own = own is not None and judge(own, threshold) == verdict
                change = replace(
                    change,
                    change=figure.interval,
                    weight=figure.weight,
                    ends=figure.ends,
                    alone=name == "memory" and is_told(verdict) and not is_own,
                )
            found.append(change)
    return found


def _judge(figure: Figure, threshold: float, more_is_better: bool) -> Outcome:
    if figure.few:
        return Outcome.NOT_DECIDED
    return judge(figure.interval, threshold, more_is_better)


def _changed(old: Results, new: Results, base: str, spec: str, key: str) -> Figure | None:
    """How an allocator's ratio to the baseline changed, or the baseline's figure. None without a
    ratio. The difference of memory is from what the later ratio's allocator would take at the
    earlier ratio: that ratio times the later baseline."""
    pair = old.get(spec, {}).get(key), new[spec].get(key)
    change = quotient(*pair, "" if spec == base else "ratio")
    if change is None:
        return None
    weight, ends = Weight.MUCH, None
    if key.endswith("_bytes"):
        unchanged = old[spec][key]["median"]
        if spec != base:
            unchanged = old[spec][key]["ratio"] * new[base][key]["median"]
        weight, ends = weighed(change, unchanged)
    return Figure(change, few_rounds(*pair), weight, ends)


def threshold_of(after: Document) -> float:
    """The later comparison's counts."""
    return float(after.get("threshold") or THRESHOLD)


def compare_pair(before: tuple[str, Document], after: tuple[str, Document]) -> Difference:
    """Of two comparisons of one command."""
    pair = before[1], after[1]
    notes = [*check_pair(*pair), *_notes_of_breaks(*pair)]
    return Difference(before, after, changes(*pair), notes)


# For people

MEAN = "geometric mean"


def difference_rows(difference: Difference) -> list[list[str]]:
    """A table, header first: a row for each change."""
    rows = [["allocator", "quantity", "before", "after", "change", "verdict"]]
    for one in difference.found:
        ratio = one.change
        change = format_ratio(ratio.median, ratio.low, ratio.high) if ratio else "–"
        figures = (one.write(one.before), one.write(one.after))
        verdict = verdict_in_words(one.verdict or "", one.weight, one.ends)
        rows.append([one.spec, one.name, *figures, change, verdict])
    if difference.part is None:
        return rows
    parts = [difference.part, *(one.part or MEAN for one in difference.found)]
    return [[part, *row] for part, row in zip(parts, rows)]


def text_columns(difference: Difference) -> tuple[int, ...]:
    """Of its table, those that are set left."""
    return (0, 1, 5) if difference.part is None else (0, 1, 2, 6)


def difference_lines(difference: Difference) -> list[str]:
    """What the reader of the table must know."""
    _, after = difference.after
    base = after["baseline"]
    if not difference.found:
        return list(difference.notes)
    lines = [
        f"change: of the ratio to {base}, after over before, so that machine and day cancel; of "
        f"{base} itself: of its figure. The interval is from the lowest to the highest that both "
        f"intervals allow; better or worse is what it shows to be so by more than "
        f"{format_percent(threshold_of(after))}.",
    ]
    if any(one.of == "mean" for one in difference.found):
        lines.append(
            f"{MEAN}: of the ratios, over the programs through which the allocator went in both; "
            "programs of little memory count too."
        )
    if any(one.is_little() for one in difference.found):
        lines.append(
            f"Memory: a difference below {LITTLE} is not told on top. Of a ratio it is the "
            f"difference from what the earlier ratio would make of {base}'s later memory."
        )
    if any(one.alone and is_told(one.verdict) and not one.is_little() for one in difference.found):
        lines.append(
            f"against {base} alone: the ratio changed so, but not the allocator's own memory, or "
            "that is not decided."
        )
    return [*lines, *difference.notes]


def difference_sentences(difference: Difference) -> list[Sentence]:
    """How many changes there are of each kind, and which are told."""
    if not difference.found:
        return [Sentence("undecided", "Nothing to compare", f"{_why_nothing(difference)}.")]
    threshold = threshold_of(difference.after[1])
    found = [one for one in difference.found if not one.is_little()]
    little = len(difference.found) - len(found)
    words = {one: str(one) for one in (Outcome.WORSE, Outcome.BETTER)}
    words[Outcome.SAME] = f"the same within {format_percent(threshold)}"
    words[Outcome.NOT_DECIDED] = "not decided"
    count = Counter(one.verdict for one in found)
    counts = [f"{count[outcome]} {said}" for outcome, said in words.items()]
    counts += [f"{count[None]} without a verdict"] if count[None] else []
    counts += [f"{little} of memory below {LITTLE}, or perhaps so"] if little else []
    title = f"Of {counted(len(difference.found), 'change')}"
    sentences = [Sentence("finding", title, f"{', '.join(counts)}.")]
    baseline = difference.after[1]["baseline"]
    for alone, whose in ((False, ""), (True, f" against {baseline} alone")):
        for outcome in (Outcome.WORSE, Outcome.BETTER):
            of_kind = [one for one in found if (one.verdict, one.alone) == (outcome, alone)]
            if of_kind:
                text = f"{_where(of_kind, difference.part is not None)}."
                sentences.append(Sentence("finding", f"{outcome.capitalize()}{whose}", text))
    return sentences


def _why_nothing(difference: Difference) -> str:
    """Why there is no change at all."""
    pair = () if difference.part else (difference.before, difference.after)
    without = [file for file, document in pair if not _has_figures(document)]
    if not without:
        return "no allocator has figures in both"
    return f"{enumerate_names(without)} {'has' if len(without) == 1 else 'have'} no figures"


def _where(found: Sequence[Change], has_parts: bool) -> str:
    """Of which allocators, in which quantities, and of which parts."""
    where: dict[str, list[str]] = {}
    for one in found:
        where.setdefault(f"{one.spec} in {one.name}", []).append(one.part or MEAN)
    return "; ".join(
        f"{what} ({enumerate_names(parts)})" if has_parts else what for what, parts in where.items()
    )


# Other forms


def difference_document(
    difference: Difference, judged: Mapping[str, Sequence[Judgement]]
) -> dict[str, Any]:
    """docs/compare-format.md. judged: by part; all under "" where there is one command."""
    _, after = difference.after
    return {
        "schema": SCHEMA,
        "before": _source(*difference.before),
        "after": _source(*difference.after),
        "baseline": after["baseline"],
        "threshold": threshold_of(after),
        "part": difference.part,
        "notes": list(difference.notes),
        "changes": [_as_entry(one) for one in difference.found],
        "conditions": [
            {
                "condition": one.condition,
                "part": part or None,
                "spec": one.spec,
                "met": one.met,
                "said": one.line,
            }
            for part, judgements in judged.items()
            for one in judgements
        ],
    }


def _source(file: str, document: Document) -> dict[str, Any]:
    keys = ("date", "command", "title", "rounds")
    return {"file": file, **{key: document.get(key) for key in keys}}


def _as_entry(one: Change) -> dict[str, Any]:
    low, high = (one.change.low, one.change.high) if one.change else (None, None)
    return {
        "part": one.part,
        "spec": one.spec,
        "quantity": one.quantity,
        "of": one.of,
        "before": one.before,
        "after": one.after,
        "change": one.change and one.change.median,
        "change_low": low,
        "change_high": high,
        "verdict": one.verdict,
    }


def difference_csv(difference: Difference) -> str:
    """A line for each change."""
    header = ["part", "allocator", "quantity", "of", "before", "after"]
    header += ["change", "change_low", "change_high", "verdict"]
    return files.as_csv([header, *(list(_as_entry(one).values()) for one in difference.found)])


def difference_markdown(difference: Difference) -> str:
    table = markdown_table(difference_rows(difference), text_columns(difference))
    lines = [f"**{difference_title(difference)}**", "", *table]
    for sentence in difference_sentences(difference):
        lines += ["", f"**{sentence.title}:** {sentence.text}"]
    for line in difference_lines(difference):
        lines += ["", line]
    return "\n".join(lines) + "\n"


def difference_title(difference: Difference) -> str:
    (old, _), (new, _) = difference.before, difference.after
    return f"{new} against {old}"


# Conditions


def change_of(before: Document, after: Document) -> Callable[[Condition, str, str], Figure | None]:
    """What a condition judges when two comparisons are held against each other."""
    old, new = _by_spec(before), _by_spec(after)

    def change(condition: Condition, spec: str, key: str) -> Figure | None:
        if condition.unit is not None:
            raise UserError(
                f"--fail-if: '{condition.text}': with --against it is changes that are judged; "
                "give a ratio or a percentage"
            )
        if unfit_result(old, (spec, after["baseline"])) is not None:
            return None
        return _changed(old, new, after["baseline"], spec, key)

    return change


def judge_changes(
    conditions: Sequence[Condition], before: Document, after: Document
) -> list[Judgement]:
    return judge_conditions(conditions, after, change_of(before, after), _by_spec(before))
