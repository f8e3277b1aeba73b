# SPDX-License-Identifier: MIT
"""Conditions under which a comparison is a failure, for continuous integration:
`blocks.cpu > 1.05`, `jemalloc.memory > 100MiB`, `any.throughput < 0.95`.

A bare number or a percentage is about the ratio to the baseline, a number with a unit about the
figure itself. A condition is met when the whole interval meets it. When the interval lies on both
sides, or too few rounds were measured for one, it is not decided, which is said and fails nothing:
chance must not break a build. A bound is the user's own, so it also holds for a difference of
memory that is too little to count in a choice, or perhaps is; the line says so.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Callable, Container, Mapping, Sequence

from ...output.sentences import counted
from ...output.units import format_bytes, format_ratio
from ...statistics.intervals import (
    JUDGED_CONFIDENCE,
    LEAST_JUDGED_ROUNDS,
    Estimate,
    confidence_of_each,
    least_rounds,
    look_rounds,
)
from ...statistics.verdicts import Interval, Weight
from ...system.allocators import Allocator
from ...system.errors import UserError
from ..server.run import QUANTITIES as SERVER_QUANTITIES
from .comparison import QUANTITIES
from .findings import cpu_quantity, memory_quantity
from .judged import difference_of, few_rounds, remark

Document = Mapping[str, Any]
STATUS = 3  # of a comparison that meets a condition
ANY = "any"
CONDITION = re.compile(r"(.+?)\s*(>=|<=|>|<)\s*([+-]?\d+(?:\.\d+)?)\s*(%|[A-Za-zµ]*)")
TIME_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
BYTE_UNITS = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
UNITS = TIME_UNITS | BYTE_UNITS
# How a quantity's key ends, the units that fit it, and how many of its own make a second or a byte.
ENDINGS: dict[str, tuple[Mapping[str, float], float]] = {
    "_seconds": (TIME_UNITS, 1.0),
    "_ms": (TIME_UNITS, 1e3),
    "_us": (TIME_UNITS, 1e6),
    "_bytes": (BYTE_UNITS, 1.0),
}
SHORT_NAMES = {
    "wall": "wall_seconds",
    "user": "user_seconds",
    "system": "system_seconds",
    "rss": "peak_rss_bytes",
    "tree": "tree_peak_bytes",
    "faults": "minor_faults",
    "mean": "memory_mean_bytes",
    "end": "memory_end_bytes",
}
# Statuses whose figures carry no verdict, and what a condition on them says.
UNFIT = {
    "out-of-reach": "so nothing was measured",
    "reach-unknown": "so nobody knows what was measured",
    "different-output": "so nothing was measured",
    "nondeterministic": "so nobody can say that the runs did the same work (--check)",
}
EXAMPLE = "write it as 'blocks.cpu > 1.05'"


@dataclass(frozen=True)
class Condition:
    text: str
    subject: str  # ALLOCATOR.QUANTITY
    operator: str
    bound: float
    unit: str | None  # None: the bound is a ratio

    def about(self, key: str) -> "Condition":
        """With the bound in the quantity's own unit; raises UserError where the unit is another
        quantity's."""
        if self.unit is None:
            return self
        units, scale = next(
            (found for ending, found in ENDINGS.items() if key.endswith(ending)), ({}, 1.0)
        )
        if self.unit not in units:
            valid = f"%, {', '.join(units)}" if units else "a ratio or a percentage"
            raise UserError(
                f"--fail-if: '{self.text}': {key.removeprefix('metric:')} is not in {self.unit}; "
                f"valid are {valid}"
            )
        return replace(self, bound=self.bound * scale)

    def named(self, specs: Sequence[str]) -> tuple[str, str]:
        """The allocator, or "any", and what the quantity is called."""
        found = [spec for spec in specs if self.subject.startswith(f"{spec}.")]
        subject = max(found, key=len) if found else ANY
        return subject, self.subject.removeprefix(f"{subject}.")

    def meets(self, interval: Estimate) -> bool | None:
        """None: not decided."""
        if self.operator in ("<", "<="):
            low, high, bound = -interval.high, -interval.low, -self.bound
        else:
            low, high, bound = interval.low, interval.high, self.bound
        inclusive = self.operator.endswith("=")
        if low > bound or (inclusive and low == bound):
            return True
        return None if high > bound or (inclusive and high == bound) else False


def parse_condition(text: str) -> Condition:
    match = CONDITION.fullmatch(text.strip())
    if match is None or "." not in match[1]:
        raise UserError(f"--fail-if: '{text}' is no condition; {EXAMPLE}")
    subject, operator, number, unit = match.groups()
    if unit == "%":
        return Condition(text, subject, operator, 1 + float(number) / 100, None)
    if unit and unit not in UNITS:
        raise UserError(f"--fail-if: '{text}': no unit '{unit}'; valid are %, {', '.join(UNITS)}")
    bound = float(number) * (UNITS[unit] if unit else 1)
    return Condition(text, subject, operator, bound, unit or None)


def check_conditions(conditions: Sequence[Condition], specs: Sequence[str], rounds: int) -> None:
    """Before anything is measured: raises UserError for a condition that can never be judged."""
    if conditions and rounds < LEAST_JUDGED_ROUNDS:
        raise UserError(
            f"--fail-if needs an interval, and so at least --rounds {LEAST_JUDGED_ROUNDS}; "
            f"{rounds} would decide nothing"
        )
    for condition in conditions:
        if not any(condition.subject.startswith(f"{spec}.") for spec in (*specs, ANY)):
            valid = ", ".join((*specs, ANY))
            raise UserError(
                f"--fail-if: '{condition.text}' is about no allocator that is compared: {valid}"
            )


def check_looks(conditions: Sequence[Condition], first: int, most: int) -> int:
    """How many rounds the last look of --until has. Raises UserError where these would decide
    nothing."""
    looks = look_rounds(first, most)
    least = least_rounds(confidence_of_each(len(looks), JUDGED_CONFIDENCE))
    if conditions and looks[-1] < least:
        raise UserError(
            f"--fail-if needs an interval, and so, with --until, at least --most-rounds {least}; "
            f"{most} would decide nothing"
        )
    return looks[-1]


def check_quantities(
    conditions: Sequence[Condition],
    specs: Sequence[str],
    baseline: str,
    server: bool,
    duet: bool = False,
) -> None:
    """Before anything is measured, as far as it is known then: what a server's load prints is
    not."""
    keys = (*QUANTITIES, *(SERVER_QUANTITIES if server else ()))
    known = _names(keys) | {"cpu": "cpu_seconds", "memory": "peak_rss_bytes"}
    for condition in conditions:
        subject, name = condition.named(specs)
        if name in known:
            condition.about(known[name])
        elif not server:
            raise _no_quantity(condition, name, known)
        if duet and known.get(name) == "wall_seconds":
            raise UserError(
                f"--fail-if: '{condition.text}': --duet measures no wall times; leave one out"
            )
        _refuse_ratio_to_itself(condition, subject, baseline)
        _about(condition, subject, specs, baseline)


def check_gate(
    gate: Sequence[Condition],
    contenders: Sequence[Allocator],
    baseline: int,
    rounds: int,
    server: bool = False,
    duet: bool = False,
) -> None:
    """check_conditions and check_quantities, of what is to be measured. baseline: its place among
    the contenders."""
    chosen = [one.spec for one in contenders]
    check_conditions(gate, chosen, rounds)
    check_quantities(gate, chosen, chosen[baseline], server, duet)


def _about(
    condition: Condition, subject: str, specs: Sequence[str], baseline: str
) -> Sequence[str]:
    """The allocators that a condition is about. Raises UserError where `any` is nobody: such a gate
    would pass whatever is measured."""
    if subject in specs:
        return [subject]
    others = [spec for spec in specs if spec != baseline]
    if not others:
        raise UserError(
            f"--fail-if: '{condition.text}': any is every allocator but the baseline {baseline}, "
            f"and no other is compared; add one with -a, or name {baseline} and give a number "
            "with a unit"
        )
    return others


def _no_quantity(condition: Condition, name: str, known: Mapping[str, str]) -> UserError:
    return UserError(
        f"--fail-if: '{condition.text}': there is no quantity '{name}'; valid are: "
        f"{', '.join(sorted(known))}"
    )


def _refuse_ratio_to_itself(condition: Condition, subject: str, baseline: str) -> None:
    if condition.unit is None and subject == baseline:
        raise UserError(
            f"--fail-if: '{condition.text}': {baseline} is the baseline, whose ratio to itself is "
            "1; give a number with a unit, or name another allocator"
        )


def _names(keys: Sequence[str]) -> dict[str, str]:
    metrics = {key.removeprefix("metric:"): key for key in keys if key.startswith("metric:")}
    short = {name: key for name, key in SHORT_NAMES.items() if key in keys}
    return {key: key for key in keys} | metrics | short


def quantities(document: Document) -> dict[str, str]:
    """What a condition may call each quantity, and its key. What this document has no figures of is
    among them: a single process has no tree's peak."""
    keys = [*QUANTITIES]
    if (server := document.get("server")) is not None:
        keys += [*SERVER_QUANTITIES, *(f"metric:{one['name']}" for one in server["metrics"])]
    keys += [key for result in document["results"] for key in summaries(result)]
    meant = {"cpu": cpu_quantity(document), "memory": memory_quantity(document)}
    return _names(keys) | meant


def summaries(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The quantities of a result, by key."""
    return {
        key: value
        for key, value in result.items()
        if isinstance(value, dict) and "ratio_low" in value
    }


def _in_both(
    condition: Condition, specs: Sequence[str], earlier: Container[str], baseline: str
) -> list[str]:
    """Raises UserError where `any` is nobody."""
    found = [spec for spec in specs if spec in earlier]
    if found in ([], [baseline]):
        raise UserError(
            f"--fail-if: '{condition.text}': no allocator but the baseline {baseline} is in both "
            "comparisons; measure one of them again with an allocator that the other has"
        )
    return found


def _subjects(
    condition: Condition, document: Document, earlier: Container[str] | None
) -> list[tuple[str, str]]:
    """The allocators and the quantity's key that a condition is about. earlier: as of judge()."""
    known = quantities(document)
    specs = [str(result["spec"]) for result in document["results"]]
    subject, name = condition.named(specs)
    if subject == ANY and earlier is not None:
        specs = _in_both(condition, specs, earlier, str(document["baseline"]))
    about = _about(condition, subject, specs, document["baseline"])
    if name not in known:
        raise _no_quantity(condition, name, known)
    return [(spec, known[name]) for spec in about]


@dataclass(frozen=True)
class Figure:
    """What a condition is held against."""

    interval: Estimate
    few: int | None = None  # so many rounds are too few for an interval: it is a range
    weight: Weight = Weight.MUCH  # of the difference of memory that it is
    ends: Interval | None = None  # the interval of that difference, bytes


def _figure_of(
    condition: Condition, result: Mapping[str, Any], base: Mapping[str, Any] | None, key: str
) -> Figure | None:
    """The document's own. base: the baseline's result."""
    summary = result.get(key)
    if summary is None:
        return None
    few = few_rounds(summary)
    if condition.unit is not None:
        return Figure(Estimate(summary["median"], summary["low"], summary["high"]), few)
    if summary["ratio"] is None:
        return None
    ratio = Estimate(summary["ratio"], summary["ratio_low"], summary["ratio_high"])
    return Figure(ratio, few, *difference_of(key, result, base))


@dataclass(frozen=True)
class Judgement:
    condition: str  # as it was given
    spec: str  # the allocator that it was judged for
    met: bool | None  # None: not decided
    line: str


def judge(
    conditions: Sequence[Condition],
    document: Document,
    figure_of: Callable[[Condition, str, str], Figure | None] | None = None,
    earlier: Container[str] | None = None,
) -> list[Judgement]:
    """Each condition, for each allocator that it is about. figure_of: of a condition, a spec and
    a quantity's key, where it is not the document's own. earlier: the specs of an earlier
    comparison, if changes since then are judged; `any` is whoever is in both."""
    results = {result["spec"]: result for result in document["results"]}
    judgements = []
    for given in conditions:
        for spec, key in _subjects(given, document, earlier):
            condition = given.about(key)
            if figure_of is None:
                _refuse_ratio_to_itself(condition, spec, document["baseline"])
            unfit = unfit_result(results, (spec, document["baseline"]))
            if unfit is not None:
                line = f"{given.text}: {unfit}, which is a failure"
                judgements.append(Judgement(given.text, spec, True, line))
                continue
            figure = (
                figure_of(condition, spec, key)
                if figure_of
                else _figure_of(condition, results[spec], results.get(document["baseline"]), key)
            )
            judgements.append(_judgement(condition, spec, key, figure))
    return judgements


def unfit_result(results: Mapping[str, Any], specs: Sequence[str]) -> str | None:
    """Which of the allocators has figures that carry no verdict, and why: it did not serve the
    program, nobody knows whether it did, or the program printed something else. None: neither."""
    for spec in specs:
        if spec not in results or results[spec]["status"] not in UNFIT:
            continue
        result = results[spec]
        status, why = result["status"], UNFIT[result["status"]]
        if status == "reach-unknown" and result.get("served_missing"):
            status = f"{status} ({result['served_missing']})"
        return f"{spec} is {status}, {why}"
    return None


def _judgement(condition: Condition, spec: str, key: str, figure: Figure | None) -> Judgement:
    who = f" ({spec})" if condition.subject.startswith(f"{ANY}.") else ""
    if figure is None:
        return without_figures(condition, spec, who)
    met = None if figure.few else condition.meets(figure.interval)
    words = {True: "yes, failed", False: "no", None: "not decided; more --rounds would tell"}[met]
    if figure.few:
        words += f" ({counted(figure.few, 'round')}, too few for an interval)"
    less = remark(figure.weight) if met else ""
    line = f"{condition.text}{who}: {words}: {_in_words(condition, key, figure.interval)}{less}"
    return Judgement(condition.text, spec, met, line)


def without_figures(condition: Condition, spec: str, who: str = "", why: str = "") -> Judgement:
    """Nobody can say that the condition is not met."""
    line = f"{condition.text}{who}: there are no figures{why}, which is a failure"
    return Judgement(condition.text, spec, True, line)


def _in_words(condition: Condition, key: str, interval: Estimate) -> str:
    if condition.unit is None:
        return format_ratio(interval.median, interval.low, interval.high)
    low, middle, high = (
        format_bytes(value) if key.endswith("_bytes") else f"{value:.4g}"
        for value in (interval.low, interval.median, interval.high)
    )
    return f"{middle} [{low}, {high}]"


def gate_status(judgements: Sequence[Judgement]) -> int:
    return STATUS if any(judgement.met for judgement in judgements) else 0


def gate_lines(judgements: Sequence[Judgement]) -> list[str]:
    return [f"Fail if {judgement.line}." for judgement in judgements]
