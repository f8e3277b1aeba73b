# SPDX-License-Identifier: MIT
"""A whole study whose figures are made up: all programs, allocators and steps. For the page's
length and looks, which a study of two programs does not show."""

from __future__ import annotations

import random
from typing import Any

import pytest
from allotrope.study.sheets import Sheet
from allotrope.study.zorn.plan import FACTORS, Configuration, Extent
from allotrope.study.zorn.programs import Program, read_programs
from allotrope.study.zorn.results import Results

EXTENT = Extent(quick=False, rounds=7)
MACHINE = {
    "cpu": "Intel(R) Xeon(R) Processor @ 2.10GHz",
    "cpus": 2,
    "memory_bytes": 8 << 30,
    "kernel": "Linux 6.1.0",
    "distribution": "Debian GNU/Linux 12 (bookworm)",
    "libc": "glibc 2.36",
    "transparent_huge_pages": "madvise",
}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reads a report's words alone does not wait for its pictures."""
    chart = Sheet("claims", "", "", [], svg="")
    monkeypatch.setattr("allotrope.study.zorn.report.claims_chart", lambda *_: chart)
    for draw in ("_dots", "_panels"):
        monkeypatch.setattr(f"allotrope.study.zorn.figures.{draw}", lambda *_, **__: "")


def whole_study(seed: int = 1992) -> Results:
    generator = random.Random(seed)
    study = {
        "begun": "2026-11-22T12:00:00+00:00",
        "quick": False,
        "rounds": EXTENT.rounds,
        "only": [],
        "programs": None,
        "given": [],
        "machine": MACHINE,
        "versions": {"glibc": "2.36-9+deb12u13", "libgc": "1:8.2.2-3", "valgrind": "1:3.19.0-1"},
    }
    results = Results(read_programs(None), study)
    for program in results.programs:
        _fill(results, program, generator)
    return results


def _fill(results: Results, program: Program, generator: random.Random) -> None:
    name, live = program.name, generator.randrange(700_000, 14_000_000)
    timed = [str(one) for one in EXTENT.timed(program)]
    level = {one: generator.uniform(0.8, 2.0) for one in timed}
    results.rounds[name] = [
        {one: _run(level[one] * generator.uniform(0.97, 1.03), live) for one in timed}
        for _ in range(EXTENT.rounds if program.row != "large" else 3)
    ]
    for one in EXTENT.accounted(program):
        if not one.spec.startswith(("glibc", "jemalloc", "mimalloc", "tcmalloc")):
            results.accounts[name, str(one)] = _account(one, live, generator)
    for one in EXTENT.sampled(program):
        inside = generator.randrange(200, 500)
        results.samples[name, str(one)] = {"samples": 1000, "in_allocator": inside}
    for one in EXTENT.followed(program):
        results.events[name, str(one)] = _events()
    for one in EXTENT.traced(program):
        results.locality[name, str(one)] = _locality(generator)
    for one in EXTENT.factored(program):
        heaps = [
            {
                "factor": factor,
                "heap_bytes": int(factor * live),
                "cpu": 1 + 1 / factor,
                "gc_cpu": 1 / factor,
                "collections": int(500 / factor),
                "longest_pause_ns": 1_000_000,
            }
            for factor in FACTORS
        ]
        results.factors[name, str(one)] = {"live_bytes": live, "heaps": heaps}


def _run(seconds: float, live: int) -> dict[str, float]:
    return {"cpu": seconds, "user": seconds, "system": 0.0, "rss": 3e6 + live, "load": 1.5}


def _account(one: Configuration, live: int, generator: random.Random) -> dict[str, Any]:
    peak = int(live * generator.uniform(1.0, 2.5))
    waste = {"header": live // 50, "rounding": live // 10, "alignment": 0, "external": live // 9}
    gc = {
        "collections": 321,
        "pause_ns": 10**9,
        "cpu_ns": 9 * 10**8,
        "longest_pause_ns": 10**7,
        "root_bytes": 321 * 200_000,
    }
    return {
        "heap": {"mapped_peak_bytes": peak, "mapped_mean_bytes": 0.6 * peak},
        "cpu": 2.5,
        "total": {"blocks": 3_810_000, "requested_bytes": 65_000_000},
        "peak": {
            "most_requested_bytes": live,
            "requested_bytes": live,
            "mapped_bytes": peak,
            "waste": waste,
        },
        "gc": gc if one.form == "collected" else None,
    }


def _events() -> dict[str, Any]:
    curve = [[10.0 ** (power / 8), max(0.0, 1 - power / 60)] for power in range(8, 70)]
    return {
        "instructions": {"all": 1000, "malloc": 100, "realloc": 10, "free": 140, "other": 0},
        "survival": {"instructions": curve, "bytes": curve},
    }


def _locality(generator: random.Random) -> dict[str, Any]:
    worse = generator.uniform(1, 20)
    pages = []
    for size in (4096, 8192):
        curve = [
            {"frames": 1 << power, "faults": 200 + int(worse * 2e6 / 8**power)}
            for power in range(12)
        ]
        pages.append({"page_size": size, "cold": 200, "curve": curve})
    results = [
        {
            "block": block,
            "ways": ways,
            "bytes": 1 << power,
            "misses": int(worse * 4e10 / 2**power),
            "cold": 1000,
            "capacity": int(worse * 2e10 / 2**power),
            "conflict": int(worse * 2e10 / 2**power),
        }
        for block, ways in ((32, 1), (64, 8))
        for power in range(13, 26)
    ]
    shape = {
        "misses_by_class": {"program": 60, "allocator": 20, "mark": 20},
        "misses_by_set": [1000 // (1 + place % 128) for place in range(4096)],
    }
    classes = [
        {"class": one, "references": share}
        for one, share in (
            ("program", 120_000_000),
            ("allocator", 20_000_000),
            ("mark", 10_000_000),
        )
    ]
    return {
        "pages": {"references": 150_000_000, "classes": classes, "pages": pages},
        "caches": {"results": results, "shapes": [shape]},
    }
