# SPDX-License-Identifier: MIT
"""Independent witnesses of a comparison: hyperfine's wall times and perf's samples.

Both run the same command lines after our rounds are done, each allocator set by `env`. hyperfine
takes all runs of one allocator before the next, so its ratios carry whatever drifted in between;
their interval is a bootstrap of the ratio of medians (fixed seed). It agrees with ours when the
two intervals overlap.

perf samples the CPU clock of one run. Samples times period is CPU time that nobody at our side
has counted; it agrees when it lies within our rounds, give or take a twentieth. The samples that
hit the allocator's own code are its share of the time: for a preloaded library all of the
library, for glibc the functions of malloc.c, which takes libc6-dbg to be told from their
neighbours. What the kernel does for an allocator's pages is in neither.
"""

import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Any, Sequence

from ...output.units import format_ratio
from ...statistics.verdicts import leaves_out, overlap
from ...system.allocators import OWN_VARIABLES, Allocator, package_version
from ...system.launch import run_group
from ...system.scratch import scratch_folder
from ...system.shell import run_shell
from .comparison import Comparison, Contender, Plan

SEED = 1992
REPLICATES = 4000
SAMPLES_PER_SECOND = 997  # no multiple of the timer's frequency
CPU_TOLERANCE = 0.05
# The functions of glibc 2.36's malloc.c that a program's time is spent in.
GLIBC_FUNCTIONS = re.compile(
    r"^(__libc_|__GI___libc_|__)?(malloc|free|calloc|realloc|memalign|posix_memalign|"
    r"aligned_alloc|valloc|cfree)(@.*)?$"
    r"|^_int_(malloc|free|realloc|memalign)"
    r"|^(malloc_consolidate|unlink_chunk|sysmalloc|systrim|tcache_|arena_get|alloc_perturb|"
    r"new_heap|grow_heap|heap_trim|munmap_chunk|mremap_chunk|ptmalloc_)"
)
SAMPLE = re.compile(r"^\s*(\d+)\s+[0-9a-f]+\s+(.*?)\s+\((.*?)\)\s*$")


def call_witnesses(comparison: Comparison) -> dict[str, Any]:
    """The "witness" of a comparison's JSON; an absent tool is told, not passed over."""
    found: dict[str, Any] = {}
    with scratch_folder() as folder:
        for tool, package, ask in (
            ("hyperfine", "hyperfine", _ask_hyperfine),
            ("perf", "linux-perf", _ask_perf),
        ):
            if shutil.which(tool) is not None:
                found[tool], found[f"{tool}_missing"] = ask(comparison, folder)
            else:
                found[tool] = None
                found[f"{tool}_missing"] = f"{tool} is not installed: Debian package {package}"
    return found


def _still_in(comparison: Comparison) -> list[Contender]:
    return [one for one in comparison.contenders if one.failure is None and any(one.runs)]


def command_line(plan: Plan, allocator: Allocator) -> list[str]:
    """The command under an allocator, for tools that know of no allocators."""
    unset = [word for name in OWN_VARIABLES for word in ("-u", name)]
    settings = [f"{name}={value}" for name, value in allocator.environment().items()]
    return ["env", *unset, *settings, *plan.command_of(allocator)]


def _complaint(text: str) -> str:
    """The line of a tool's standard error that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines[-1:] or ["it said nothing"])[0]


# hyperfine


def _ask_hyperfine(
    comparison: Comparison, folder: Path
) -> tuple[list[dict[str, Any]] | None, str | None]:
    plan, contenders = comparison.plan, _still_in(comparison)
    report = folder / "hyperfine.json"
    options = ["--shell=none", "--style=none"]
    options += [f"--warmup={plan.warmup}", f"--runs={max(comparison.rounds(), 2)}"]
    options += ["--output", os.devnull if plan.check == "none" else str(folder / "stdout")]
    options += ["--export-json", str(report)]
    if plan.prepare is not None:
        options += ["--prepare", shlex.join(["/bin/sh", "-c", plan.prepare])]
    if plan.ignore_failure:
        options.append("--ignore-failure")
    lines = [shlex.join(_with_input(plan, one.allocator)) for one in contenders]
    words = ["hyperfine", *options, "--", *lines]
    status, errors = run_group(words, subprocess.DEVNULL, subprocess.DEVNULL)
    if status != 0 or not report.exists():
        return None, f"hyperfine failed: {_complaint(errors)}"
    times = [result["times"] for result in json.loads(report.read_text())["results"]]
    base = times[contenders.index(comparison.baseline)]
    return [_wall_result(comparison, *pair, base) for pair in zip(contenders, times)], None


def _with_input(plan: Plan, allocator: Allocator) -> list[str]:
    """hyperfine 1.15 gives every command an empty standard input; a shell gives it ours."""
    line = command_line(plan, allocator)
    if plan.input is None:
        return line
    return ["/bin/sh", "-c", 'exec "$@" <"$0"', plan.input, *line]


def _wall_result(
    comparison: Comparison, contender: Contender, times: Sequence[float], base: Sequence[float]
) -> dict[str, Any]:
    ratio, low, high = ratio_of_medians(times, base)
    if contender is comparison.baseline:
        ratio = low = high = 1.0
    summary = comparison.summary(contender, "wall_seconds")
    ours = summary and summary.ratio_interval()
    return {
        "spec": contender.allocator.spec,
        "wall_seconds": statistics.median(times),
        "ratio": ratio,
        "ratio_low": low,
        "ratio_high": high,
        "our_ratio": ours and ours.median,
        "agrees": overlap((low, high), ours.interval) if ours else None,
    }


def ratio_of_medians(values: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of two samples' medians with a bootstrap interval of 95%; nothing is paired."""
    import numpy  # here, for it takes longer to start than all else

    generator = numpy.random.default_rng(SEED)
    medians = [
        numpy.median(generator.choice(numpy.asarray(sample), (REPLICATES, len(sample))), axis=1)
        for sample in (values, base)
    ]
    low, high = numpy.quantile(medians[0] / medians[1], (0.025, 0.975))
    return float(numpy.median(values) / numpy.median(base)), float(low), float(high)


# perf


def _ask_perf(
    comparison: Comparison, folder: Path
) -> tuple[list[dict[str, Any]] | None, str | None]:
    results = []
    for contender in _still_in(comparison):
        samples = _sample(comparison.plan, contender.allocator, folder)
        if isinstance(samples, str):
            return None, samples
        results.append(share_result(comparison, contender, samples))
    return results, None


def _sample(plan: Plan, allocator: Allocator, folder: Path) -> list[tuple[int, str, str]] | str:
    """Each sample's period in ns, symbol and library; or why there are none."""
    data = folder / "perf.data"
    if plan.prepare is not None:
        run_shell(plan.prepare)
    record = record_line(data, SAMPLES_PER_SECOND, command_line(plan, allocator))
    output = Path(os.devnull) if plan.check == "none" else folder / "stdout"
    with open(plan.input or os.devnull, "rb") as given, output.open("wb") as taken:
        status, errors = run_group(record, given, taken)
    if not data.exists() or (status != 0 and not plan.ignore_failure):
        return f"perf failed: {_complaint(errors)}"
    return take_samples(data)


def record_line(data: Path, samples_per_second: int, command: Sequence[str]) -> list[str]:
    """perf's command line that samples the CPU clock of a command."""
    clock = ["-e", "cpu-clock", "-F", str(samples_per_second)]
    return ["perf", "record", "-q", *clock, "-o", str(data), "--", *command]


def take_samples(data: Path) -> list[tuple[int, str, str]]:
    """What perf recorded: each sample's period in ns, symbol and library. The file is removed."""
    script = ["perf", "script", "-i", str(data), "-F", "period,ip,sym,dso"]
    told = subprocess.run(script, capture_output=True, text=True, errors="replace")
    data.unlink()
    return read_samples(told.stdout)


def read_samples(text: str) -> list[tuple[int, str, str]]:
    matches = (SAMPLE.match(line) for line in text.splitlines())
    return [(int(one[1]), one[2], one[3]) for one in matches if one]


def is_allocator(allocator: Allocator, symbol: str, library: str) -> bool:
    if allocator.library is not None:
        return os.path.realpath(library) == os.path.realpath(allocator.library)
    return Path(library).name.startswith("libc.so") and bool(GLIBC_FUNCTIONS.match(symbol))


def share_result(
    comparison: Comparison, contender: Contender, samples: Sequence[tuple[int, str, str]]
) -> dict[str, Any]:
    allocator = contender.allocator
    seconds = sum(period for period, _, _ in samples) / 1e9
    inside = sum(is_allocator(allocator, symbol, library) for _, symbol, library in samples)
    known = samples and (allocator.library is not None or package_version("libc6-dbg"))
    ours = comparison.summary(contender, "cpu_seconds")
    rounds = [value for value in ours.rounds if value is not None] if ours else []
    agrees = None
    if rounds:
        slack = min(rounds) * (1 - CPU_TOLERANCE), max(rounds) * (1 + CPU_TOLERANCE)
        agrees = not leaves_out(slack, seconds)
    result = {
        "spec": allocator.spec,
        "samples": len(samples),
        "cpu_seconds": seconds,
        "our_cpu_seconds": ours and ours.median,
        "agrees": agrees,
        "share": None,
        "share_low": None,
        "share_high": None,
    }
    if known:
        from scipy import stats

        interval = stats.binomtest(inside, len(samples)).proportion_ci(method="wilson")
        result |= {
            "share": inside / len(samples),
            "share_low": float(interval.low),
            "share_high": float(interval.high),
        }
    return result


# For people


def witness_rows(found: dict[str, Any]) -> list[list[str]]:
    """A table of what the witnesses say, header first."""
    header = ["allocator", "wall by hyperfine", "by us", ""]
    header += ["CPU by perf", "by us", "", "in the allocator"]
    walls = {one["spec"]: one for one in found["hyperfine"] or ()}
    shares = {one["spec"]: one for one in found["perf"] or ()}
    rows = [header]
    for spec in dict.fromkeys([*walls, *shares]):
        rows.append([spec, *_wall_cells(walls.get(spec)), *_share_cells(shares.get(spec))])
    return rows


def _verdict(agrees: bool | None) -> str:
    return {True: "agrees", False: "differs", None: ""}[agrees]


def _wall_cells(one: dict[str, Any] | None) -> list[str]:
    if one is None:
        return ["–", "–", ""]
    ours = "–" if one["our_ratio"] is None else f"{one['our_ratio']:.3f}"
    theirs = format_ratio(one["ratio"], one["ratio_low"], one["ratio_high"])
    return [theirs, ours, _verdict(one["agrees"])]


def _share_cells(one: dict[str, Any] | None) -> list[str]:
    if one is None:
        return ["–", "–", "", "–"]
    ours = "–" if one["our_cpu_seconds"] is None else f"{one['our_cpu_seconds']:.3f} s"
    share = "needs libc6-dbg"
    if one["share"] is not None:
        low, high = 100 * one["share_low"], 100 * one["share_high"]
        share = f"{100 * one['share']:.1f}% [{low:.1f}, {high:.1f}]"
    return [f"{one['cpu_seconds']:.3f} s", ours, _verdict(one["agrees"]), share]


def witness_lines(found: dict[str, Any]) -> list[str]:
    """What a reader of that table must know, and who is absent."""
    lines = [found[key] + "." for key in ("hyperfine_missing", "perf_missing") if found[key]]
    if found["hyperfine"]:
        lines.append(
            "wall: ratio to the baseline; hyperfine's runs of one allocator come one after the "
            "other, ours take turns. Agreeing is overlapping intervals."
        )
    if found["perf"]:
        lines.append(
            "perf: one run each, sampled; CPU agrees when it is within our rounds, give or take "
            "5%. In the allocator: share of samples in its code, without the kernel's work for "
            "its pages."
        )
    return lines
