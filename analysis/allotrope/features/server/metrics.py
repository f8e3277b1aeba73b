# SPDX-License-Identifier: MIT
"""Figures that a load prints: those that the user's expressions find, else those of the tools that
are known here.

Two names mean something: `requests`, a count, gives CPU per request; `throughput` is what the
terminal's table shows. All others are shown as they are called.
"""

import json
import math
import re
import statistics
from dataclasses import dataclass
from typing import Sequence

from ...system.errors import UserError

REQUESTS, THROUGHPUT = "requests", "throughput"
LOAD_SCHEMA = "allotrope.load/1"
NAMED = re.compile(r"([A-Za-z_][\w.%/-]*)(:less|:more)?=(.*)", re.DOTALL)
NUMBER = r"([\d.,]+)"


@dataclass(frozen=True)
class Metric:
    name: str
    expression: str  # its first group is the number
    more_is_better: bool = True
    summed: bool = False  # over all matches; else the last one counts
    averaged: bool = False  # over all matches: the rate of them all, one after the other


def metric(text: str) -> Metric:
    """Of `[NAME[:less|:more]=]REGEX`."""
    match = NAMED.fullmatch(text)
    name, order, expression = "metric", "", text
    if match:
        name, order, expression = match[1], match[2] or "", match[3]
    try:
        compiled = re.compile(expression)
    except re.error as error:
        raise UserError(f"--metric: '{expression}' is no regular expression: {error}") from None
    if compiled.groups < 1:
        raise UserError(
            f"--metric: '{expression}' has no group; put the number into one: '([0-9.]+) req/s'"
        )
    return Metric(name, expression, order != ":less")


def metrics(texts: Sequence[str]) -> list[Metric]:
    found = [metric(text) for text in texts]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise UserError(
                f"--metric: two are called '{name}'; name them: --metric 'p99:less=REGEX'"
            )
    return found


# What identifies a tool's output, and its figures.
KNOWN: tuple[tuple[str, tuple[Metric, ...]], ...] = (
    (
        r"tps = [\d.]+ \(without initial connection time\)",  # pgbench
        (
            Metric(REQUESTS, rf"transactions actually processed: {NUMBER}"),
            Metric(THROUGHPUT, rf"tps = {NUMBER}"),
            Metric("latency_ms", rf"latency average = {NUMBER} ms", False),
        ),
    ),
    (
        r"Requests/sec: ",  # wrk
        (
            Metric(REQUESTS, rf"{NUMBER} requests in "),
            Metric(THROUGHPUT, rf"Requests/sec:\s+{NUMBER}"),
        ),
    ),
    (
        r"Time taken for tests:",  # ab
        (
            Metric(REQUESTS, rf"Complete requests:\s+{NUMBER}"),
            Metric(THROUGHPUT, rf"Requests per second:\s+{NUMBER}"),
            Metric("p99_ms", rf"\b99%\s+{NUMBER}", False),
        ),
    ),
    (
        r"requests completed in [\d.]+ seconds|requests per second",  # redis-benchmark
        (
            # Each of its tests tells its own.
            Metric(REQUESTS, rf"{NUMBER} requests completed in", summed=True),
            # So many requests of each, one test after the other.
            Metric(THROUGHPUT, rf"{NUMBER} requests per second", averaged=True),
        ),
    ),
)


def read_metrics(output: str, wanted: Sequence[Metric]) -> tuple[dict[str, float], list[Metric]]:
    """The figures in what a load printed, and what each of them is. Raises LookupError, with the
    expression, where one that was asked for is not there."""
    if wanted:
        return {one.name: _find(one, output) for one in wanted}, list(wanted)
    own = _own_load(output)
    if own is not None:
        return own
    for sign, tool in KNOWN:
        if re.search(sign, output):
            there = [one for one in tool if re.search(one.expression, output)]
            return {one.name: _find(one, output) for one in there}, there
    return {}, []


def _find(one: Metric, output: str) -> float:
    found = [match for match in re.finditer(one.expression, output) if match[1]]
    if not found:
        raise LookupError(f"'{one.expression}' matches nothing")
    figures = [_number(one, match[1]) for match in found]
    if one.averaged:
        return statistics.harmonic_mean(figures)
    return sum(figures) if one.summed else figures[-1]


def _number(one: Metric, text: str) -> float:
    text = text.replace(",", "").rstrip(".")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise LookupError(
            f"'{one.expression}' finds '{text}' in its first group, which is no number"
        )
    return number


def _own_load(output: str) -> tuple[dict[str, float], list[Metric]] | None:
    """The figures of `allotrope load`, which are JSON."""
    for line in reversed(output.splitlines()):
        if line.startswith("{") and LOAD_SCHEMA in line:
            report = json.loads(line)
            figures = {REQUESTS: report["requests"], THROUGHPUT: report["throughput"]}
            figures |= {f"{key}_us": value for key, value in report["latency_us"].items()}
            return (
                {name: float(value) for name, value in figures.items()},
                [Metric(name, LOAD_SCHEMA, not name.endswith("_us")) for name in figures],
            )
    return None
