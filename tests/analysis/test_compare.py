# SPDX-License-Identifier: MIT
"""The comparison: what is measured, judged, written, and kept when something goes wrong.

Allocators that go wrong are presets of `mock`, see misbehaving_heap.c."""

import csv
import dataclasses
import io
import itertools
import json
import os
import re
import signal
import statistics
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, Sequence

import jsonschema
import pytest
from allotrope.features.compare import comparison as comparison_module
from allotrope.features.compare import page as compare_page
from allotrope.features.compare.accounts import read_accounts
from allotrope.features.compare.collector import collected, collections_line, kinds, least_running
from allotrope.features.compare.comparison import LEAST_LOAD_SECONDS, Comparison, Load, Plan
from allotrope.features.compare.heap_page import collector_sections, timeline_sections
from allotrope.features.compare.measure import (
    MOST_PADDING,
    PADDING,
    Runner,
    order_of_round,
    padding_of_round,
    steps,
)
from allotrope.features.compare.output import (
    as_csv,
    as_document,
    as_markdown,
    legend,
    print_comparison,
)
from allotrope.features.latency.page import latency_sections, share_above
from allotrope.features.server.metrics import Metric
from allotrope.features.server.plan import ServerPlan
from allotrope.features.server.run import ServerRun
from allotrope.output import units
from allotrope.output.terminal import columns_that_fit, lay_out
from allotrope.statistics.intervals import JUDGED_CONFIDENCE, confidence_of_each
from allotrope.system.allocators import Allocator, choose, glibc
from allotrope.system.launch import Run
from allotrope.system.process_tree import image_of
from conftest import Command
from rich.console import Console
from under import HANG, SOURCE, await_that

# docs/compare-format.md, by hand.
NUMBER = {"type": "number"}
MAYBE_NUMBER = {"type": ["number", "null"]}
MAYBE_TEXT = {"type": ["string", "null"]}


def closed(properties: dict[str, Any], kind: str | Sequence[str] = "object") -> dict[str, Any]:
    """An object that has these keys and no others."""
    return {
        "type": kind,
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


def keys(names: str) -> dict[str, Any]:
    """Whatever they hold."""
    return {name: {} for name in names.split()}


MAYBE_OBJECT = ["object", "null"]
QUANTITY = closed(
    dict.fromkeys(("median", "low", "high"), NUMBER)
    | dict.fromkeys(("ratio", "ratio_low", "ratio_high"), MAYBE_NUMBER)
    | {
        "rounds": {"type": "array", "items": MAYBE_NUMBER},
        "interval": {"enum": ["order-statistic", "range"]},
        "coverage": {"type": "number", "minimum": 0, "maximum": 1},
        "verdict": {"enum": ["better", "worse", "same", "not decided", None]},
    },
    MAYBE_OBJECT,
)
HEAP = {
    "type": ["object", "null"],
    "required": [
        *"command processes mapped_peak_bytes requested_peak_bytes fragmentation waste".split(),
        "resident_peak_bytes",
        *"at_peak live timeline sizes metadata_bytes calls system_calls collector".split(),
    ],
    "properties": {
        "processes": {"type": "integer", "minimum": 1},
        "mapped_peak_bytes": MAYBE_NUMBER,
        "resident_peak_bytes": MAYBE_NUMBER,
        "requested_peak_bytes": MAYBE_NUMBER,
        "fragmentation": MAYBE_NUMBER,
        "waste": {
            "type": ["object", "null"],
            "required": ["header", "rounding", "alignment", "cached", "external"],
        },
        "at_peak": {
            "type": "object",
            "required": ["time_seconds", "requested_bytes", "mapped_bytes", "resident_bytes"],
        },
        "live": {"type": ["object", "null"], "required": ["blocks", "requested_bytes"]},
        "collector": {
            "type": ["object", "null"],
            "required": ["collections", "pause_ns", "causes", "pauses", "given_up"],
        },
    },
}
HISTOGRAM = closed(
    dict.fromkeys("calls p50_ns p90_ns p99_ns p99.9_ns longest_ns".split(), NUMBER)
    | {"calls_below_ns": {"type": "object"}}
)
LATENCY = closed(
    {
        "command": {"type": "string"},
        "processes": {"type": "integer", "minimum": 1},
        "own_cost_ns_subtracted": NUMBER,
        "cpu_seconds": NUMBER,
        "calls": {"type": "object", "additionalProperties": HISTOGRAM},
    },
    MAYBE_OBJECT,
)
FAILURE = closed(
    {
        "when": {"type": "string"},
        "exit_status": MAYBE_NUMBER,
        "signal": MAYBE_NUMBER,
        "timed_out": {"type": "boolean"},
        "ending": {"type": "string"},
        "message": MAYBE_TEXT,
    },
    MAYBE_OBJECT,
)
QUANTITIES = [
    *"cpu_seconds user_seconds system_seconds wall_seconds peak_rss_bytes tree_peak_bytes".split(),
    *"minor_faults major_faults".split(),
]
SERVED_ROW = closed(
    {
        "command": {"type": "string"},
        "allocator": {"type": "string"},
        "object": MAYBE_TEXT,
        "unseen": {"enum": ["killed", "outlives", None]},
        "in_reach": {"type": ["boolean", "null"]},
        "processes": {"type": "integer", "minimum": 1},
        "cpu_seconds": NUMBER,
        "allocations": MAYBE_NUMBER,
        "heap_bytes": MAYBE_NUMBER,
        "own_bytes": MAYBE_NUMBER,
        "malloc_share": MAYBE_NUMBER,
    }
)
SERVED = closed(
    {
        "in_reach": {"type": ["boolean", "null"]},
        "cpu_share": MAYBE_NUMBER,
        "allocations": MAYBE_NUMBER,
        "processes": {"type": "integer", "minimum": 1},
        "rows": {"type": "array", "minItems": 1, "items": SERVED_ROW},
    },
    MAYBE_OBJECT,
)
STATUSES = "ok failed not-measured different-output out-of-reach".split()
STATUSES += ["reach-unknown", "nondeterministic"]
RESULT = closed(
    {
        "allocator": {"type": "string"},
        "spec": {"type": "string"},
        "preset": MAYBE_TEXT,
        "build": MAYBE_TEXT,
        "options": {"type": "object"},
        "version": MAYBE_TEXT,
        "status": {"enum": STATUSES},
        "failure": FAILURE,
        **{quantity: QUANTITY for quantity in QUANTITIES},
        "tree_peak_method": {"enum": ["memory.peak", "pss-sampled", None]},
        "served": SERVED,
        "served_missing": MAYBE_TEXT,
        "heap": HEAP,
        "heap_missing": MAYBE_TEXT,
        "latency": LATENCY,
        "latency_missing": MAYBE_TEXT,
    }
)
MACHINE = keys(
    "cpu cpus usable_cpus memory_bytes kernel distribution libc transparent_huge_pages "
    "overcommit_memory randomize_va_space scaling_governor load_average lacks"
)
SETTINGS = keys("warmup prepare input timeout_seconds ignore_failure check latency duet")
SITES = keys("command samples peak_bytes peak_range_bytes exit_bytes peak exit")
WITNESS = {
    "hyperfine": {"type": ["array", "null"]},
    "hyperfine_missing": MAYBE_TEXT,
    "perf": {"type": ["array", "null"]},
    "perf_missing": MAYBE_TEXT,
}
SCHEMA = closed(
    {
        "schema": {"const": "allotrope.compare/1"},
        "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "date": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$"},
        "machine": closed(MACHINE),
        "baseline": {"type": "string"},
        "rounds": {"type": "integer", "minimum": 1},
        "confidence": {"type": "number", "minimum": 0.995, "maximum": 1},
        "threshold": NUMBER,
        "others_cpus": MAYBE_NUMBER,
        "until": closed(keys("half_width most_rounds looks reached"), MAYBE_OBJECT),
        "settings": closed(SETTINGS),
        "deterministic": {"type": ["boolean", "null"]},
        "interrupted": {"type": "boolean"},
        "incomplete": MAYBE_TEXT,
        "results": {"type": "array", "minItems": 1, "items": RESULT},
        "server": {"type": "null"},  # tests/analysis/test_server.py has those of servers
        "sites": closed(SITES, MAYBE_OBJECT),
        "witness": closed(WITNESS, MAYBE_OBJECT),
    }
)


def read_json(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text())
    jsonschema.validate(document, SCHEMA)
    return document


def measure(
    command: Command, tmp_path: Path, *arguments: str, status: int = 0, **settings: Any
) -> dict[str, Any]:
    """Compares, in few rounds unless told otherwise, and returns the JSON, checked."""
    file = tmp_path / "result.json"
    words = list(arguments)
    if "--rounds" not in words:
        words = ["--rounds", "2", *words]
    done = command.run("compare", "--json", str(file), *words, **settings)
    assert done.returncode == status, done.stderr + done.stdout
    return read_json(file)


def test_looking_for_sites_adds_nothing_to_the_account(real: Command) -> None:
    """It is done in the account's run of the first of our allocators."""
    heaps = []
    for specs in (("knuth", "bsd"), ("bsd", "knuth")):
        options = [word for spec in specs for word in ("-a", spec)]
        done = real.run(
            "compare", *options, "--rounds", "1", "--warmup", "0", "--json", "-", "--", "ls", "/"
        )
        heaps.append(by_spec(json.loads(done.stdout))["knuth"]["heap"])
    for key in ("calls", "mapped_peak_bytes", "requested_peak_bytes", "waste", "live"):
        assert heaps[0][key] == heaps[1][key], key


def by_spec(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {result["spec"]: result for result in document["results"]}


class TestOrder:
    @pytest.mark.parametrize("count", range(1, 10))
    def test_every_round_runs_everyone_once(self, count: int) -> None:
        for number in range(40):
            assert sorted(order_of_round(number, count)) == list(range(count))

    @pytest.mark.parametrize("count", range(2, 10))
    def test_places_and_neighbours_are_balanced_over_a_cycle(self, count: int) -> None:
        cycle = count if count % 2 == 0 else 2 * count
        orders = [order_of_round(number, count) for number in range(cycle)]
        places = Counter((who, place) for row in orders for place, who in enumerate(row))
        neighbours = Counter(pair for row in orders for pair in itertools.pairwise(row))
        assert len(places) == count * count and len(set(places.values())) == 1
        assert len(neighbours) == count * (count - 1) and len(set(neighbours.values())) == 1

    def test_consecutive_rounds_differ(self) -> None:
        for count in range(2, 10):
            orders = [order_of_round(number, count) for number in range(11)]
            assert all(one != next_one for one, next_one in itertools.pairwise(orders))


# Waits, in a timed round, for the other one of it; a round of one alone would time out.
RENDEZVOUS = """
if [ -n "${{ALLOTROPE_PADDING+x}}" ]; then
    nproc >{folder}/$$
    until [ "$(ls {folder} | wc -l)" -ge 2 ]; do sleep 0.01; done
fi
echo hello
"""


class TestDuet:
    """All of a round at the same time."""

    PAIR = ("--duet", "-a", "glibc", "-a", "mock", "--rounds", "1")

    def test_all_of_a_round_run_at_once_on_one_processor(
        self, mock: Command, tmp_path: Path
    ) -> None:
        folder = tmp_path / "met"
        folder.mkdir()
        command = ("--timeout", str(HANG), "--", "sh", "-c", RENDEZVOUS.format(folder=folder))
        document = measure(mock, tmp_path, *self.PAIR, *command)
        assert [file.read_text() for file in folder.iterdir()] == ["1\n", "1\n"]
        assert document["settings"]["duet"] is True
        for result in document["results"]:
            assert result["status"] == "ok" and result["wall_seconds"] is None
            assert len(result["cpu_seconds"]["rounds"]) == 1

    def test_output_of_each_is_judged_by_itself(self, mock: Command, tmp_path: Path) -> None:
        specs = ("--duet", "-a", "glibc", "-a", "mock", "-a", "mock:noise")
        results = by_spec(measure(mock, tmp_path, *specs, "--", "echo", "hello", status=1))
        statuses = {spec: result["status"] for spec, result in results.items()}
        assert statuses == {"glibc": "ok", "mock": "ok", "mock:noise": "different-output"}

    def test_failure_ends_the_part_of_one_only(
        self, mock: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MOCK_COUNTER", str(tmp_path / "runs"))
        specs = ("--duet", "-a", "glibc", "-a", "mock:late", "--rounds", "3")
        results = by_spec(measure(mock, tmp_path, *specs, "--", "echo", "hello", status=1))
        assert results["mock:late"]["failure"]["when"] == "round 1"
        assert results["mock:late"]["failure"]["message"] == "the heap is unwell"
        assert len(results["glibc"]["cpu_seconds"]["rounds"]) == 3

    def test_preparation_comes_once_a_round(self, mock: Command, tmp_path: Path) -> None:
        log = tmp_path / "log"
        prepare = ("--prepare", f"echo >>{log}", "--warmup", "0")
        measure(mock, tmp_path, *self.PAIR, *prepare, "--", "true")
        # Twice before the reference, once before each account, once before the round.
        assert len(log.read_text().splitlines()) == 5

    @pytest.mark.parametrize("option", ["--witness", "--hyperfine-json=x"])
    def test_what_needs_wall_times_is_refused(self, mock: Command, option: str) -> None:
        done = mock.run("compare", "--duet", option, "--", "true")
        assert done.returncode == 2
        assert "does not go with --duet" in done.stderr

    def test_table_says_so(self, mock: Command) -> None:
        done = mock.run("compare", *self.PAIR, "--", "true")
        assert "1 duet round." in done.stdout and "no wall time is measured" in done.stdout
        assert "wall s" not in done.stdout and "faults" in done.stdout


class TestUntil:
    def test_it_goes_on_in_steps_and_stops_when_narrow(self, real: Command, tmp_path: Path) -> None:
        words = "--rounds 9 -a glibc -a blocks --until 99% --most-rounds 20 -- true".split()
        document = measure(real, tmp_path, *words)
        assert document["rounds"] in (9, 14, 20)
        assert document["until"]["looks"] == [9, 14, 20].index(document["rounds"]) + 1
        assert document["confidence"] == confidence_of_each(3, JUDGED_CONFIDENCE)

    def test_the_limit_ends_it_and_is_said(self, real: Command, tmp_path: Path) -> None:
        file = tmp_path / "result.json"
        words = "--rounds 9 -a glibc -a blocks --until 0.0001% --most-rounds 10 -- true".split()
        done = real.run("compare", "--json", str(file), *words)
        assert done.returncode == 0
        document = read_json(file)
        assert document["rounds"] == 10 and document["until"]["reached"] is False
        assert "Still wide: after 10 rounds" in done.stdout

    def test_a_short_command_has_more_rounds_unless_they_are_asked_for(self) -> None:
        contenders = [glibc()]
        chosen = []
        for plan in (Plan(["true"], contenders), Plan(["true"], contenders, rounds=5)):
            comparison = Comparison(plan)
            comparison.choose_rounds(0.5)
            chosen.append(comparison.rounds())
        assert chosen == [40, 5]
        looking = Comparison(Plan(["true"], contenders, until=0.02))
        looking.choose_rounds(0.5)
        assert list(looking.look_rounds())[:2] == [16, 24]

    @pytest.mark.parametrize("words", ["--until 0%", "--until 100%", "--until x%"])
    def test_a_share_is_written_as_such(self, real: Command, words: str) -> None:
        done = real.run("compare", *words.split(), "--", "true")
        assert done.returncode == 2 and "is no share between 0% and 100%" in done.stderr

    @pytest.mark.parametrize("words", ["--until 2", "--threshold 0.02"])
    def test_a_number_needs_its_percent_sign(self, real: Command, words: str) -> None:
        done = real.run("compare", *words.split(), "--", "true")
        assert done.returncode == 2 and "write it with %, such as 2%" in done.stderr

    def test_more_rounds_than_the_limit_are_refused(self, real: Command) -> None:
        words = "--rounds 20 --until 2% --most-rounds 19 -- true".split()
        done = real.run("compare", *words)
        assert done.returncode == 2 and "--rounds 20 is more than --most-rounds 19" in done.stderr

    def test_a_limit_without_until_is_refused(self, real: Command) -> None:
        done = real.run("compare", "--most-rounds", "20", "--", "true")
        assert done.returncode == 2 and "--most-rounds needs --until" in done.stderr


class TestMeasuring:
    def test_every_run_is_in_the_result(self, mock: Command, tmp_path: Path) -> None:
        specs = ("-a", "glibc", "-a", "mock", "-a", "mock:arenas=2")
        document = measure(mock, tmp_path, *specs, "--rounds", "9", "--", "echo", "hello")
        assert document["command"] == ["echo", "hello"]
        assert document["rounds"] == 9 and document["baseline"] == "glibc"
        assert document["deterministic"] is True and document["interrupted"] is False
        results = by_spec(document)
        assert list(results) == ["glibc", "mock", "mock:arenas=2"]
        for result in results.values():
            assert result["status"] == "ok"
            for quantity in ("cpu_seconds", "wall_seconds", "peak_rss_bytes", "minor_faults"):
                assert len(result[quantity]["rounds"]) == 9
                assert None not in result[quantity]["rounds"]
                assert result[quantity]["interval"] == "order-statistic"
                assert result[quantity]["coverage"] == 0.99609375
        assert results["glibc"]["cpu_seconds"]["ratio"] == 1
        assert results["mock:arenas=2"]["options"] == {"arenas": 2}
        assert results["mock"]["version"] == "9.9"

    def test_few_rounds_give_a_range(self, mock: Command, tmp_path: Path) -> None:
        document = measure(mock, tmp_path, "-a", "mock", "--rounds", "5", "--", "true")
        wall = by_spec(document)["mock"]["wall_seconds"]
        assert wall["interval"] == "range"
        assert (wall["low"], wall["high"]) == (min(wall["rounds"]), max(wall["rounds"]))

    def test_summaries_follow_from_the_rounds(self, mock: Command, tmp_path: Path) -> None:
        document = measure(mock, tmp_path, "-a", "mock", "--rounds", "16", "--", "echo")
        glibc_wall, wall = (result["wall_seconds"] for result in document["results"])
        ratios = sorted(ours / theirs for ours, theirs in zip(wall["rounds"], glibc_wall["rounds"]))
        assert wall["median"] == statistics.median(wall["rounds"])
        assert (wall["ratio_low"], wall["ratio_high"]) == (ratios[2], ratios[13])
        assert wall["ratio"] == pytest.approx((ratios[7] * ratios[8]) ** 0.5)

    def test_baseline_may_be_another(self, mock: Command, tmp_path: Path) -> None:
        document = measure(
            mock, tmp_path, "-a", "glibc", "-a", "mock", "--baseline", "mock", "--", "true"
        )
        assert document["baseline"] == "mock"
        assert [result["spec"] for result in document["results"]] == ["glibc", "mock"]
        assert by_spec(document)["mock"]["wall_seconds"]["ratio"] == 1

    def test_baseline_takes_part_unnamed(self, mock: Command, tmp_path: Path) -> None:
        document = measure(mock, tmp_path, "-a", "mock", "--", "true")
        assert [result["spec"] for result in document["results"]] == ["glibc", "mock"]

    def test_heap_account_is_taken_of_ours_only(self, mock: Command, tmp_path: Path) -> None:
        results = by_spec(measure(mock, tmp_path, "-a", "glibc", "-a", "mock", "--", "echo"))
        assert results["glibc"]["heap"] is None and results["glibc"]["heap_missing"] is None
        heap = results["mock"]["heap"]
        assert (heap["mapped_peak_bytes"], heap["requested_peak_bytes"]) == (1000, 500)
        assert heap["fragmentation"] is None and heap["waste"]["external"] == 5

    def test_missing_account_is_told(self, mock: Command, tmp_path: Path) -> None:
        result = by_spec(measure(mock, tmp_path, "-a", "mock:silent", "--", "echo"))["mock:silent"]
        assert result["status"] == "ok" and result["heap"] is None
        assert "no process" in result["heap_missing"]

    def test_timed_rounds_keep_no_statistics(self, mock: Command, tmp_path: Path) -> None:
        """Neither ours nor those that the caller's environment asks for."""
        trace = tmp_path / "trace"
        script = f'echo "${{ALLOTROPE_STATS:+stats}} ${{ALLOTROPE-none}}" >>{trace}'
        environment = {"ALLOTROPE_STATS": str(tmp_path / "outer"), "ALLOTROPE": "outer"}
        words = ("-a", "glibc", "-a", "mock", "--rounds", "3", "--", "sh", "-c", script)
        measure(mock, tmp_path, *words, environment=environment)
        lines = Counter(trace.read_text().splitlines())
        # glibc: two as the reference, one to see who serves it, three timed; mock: one warm-up, one
        # account, three timed.
        assert lines == {" none": 5, "stats next": 1, " mock": 4, "stats mock": 1}
        assert not (tmp_path / "outer").exists()

    def test_rounds_differ_in_what_is_incidental_and_accounts_do_not(
        self, mock: Command, tmp_path: Path
    ) -> None:
        """Everyone in a round has the same environment's length, and no two rounds have."""
        trace = tmp_path / "trace"
        script = f'echo "${{ALLOTROPE_STATS:+stats}} ${{#ALLOTROPE_PADDING}}" >>{trace}'
        words = ("-a", "glibc", "-a", "mock", "--rounds", "5", "--", "sh", "-c", script)
        measure(mock, tmp_path, *words, environment={"ALLOTROPE_PADDING": "of the caller"})
        lines = Counter(trace.read_text().splitlines())
        assert lines.pop("stats 0") == 2
        assert lines.pop(" 0") == 3  # the references and the warm-up
        lengths = [int(line) for line in lines]
        assert list(lines.values()) == [2] * 5
        assert min(lengths) < 1024 and max(lengths) > 3072

    def test_padding_fills_its_range_evenly(self) -> None:
        lengths = sorted(len(padding_of_round(n)[PADDING]) for n in range(30))
        gaps = [b - a for a, b in zip(lengths, lengths[1:])]
        assert 0 < min(gaps) and max(gaps) < 3 * MOST_PADDING / 30

    def test_a_preloaded_library_of_the_users_is_kept(
        self, mock: Command, tmp_path: Path, mock_build: Path
    ) -> None:
        trace = tmp_path / "trace"
        script = f'echo "$LD_PRELOAD" >>{trace}'
        environment = {"LD_PRELOAD": "libm.so.6"}
        words = ("-a", "mock", "--rounds", "1", "--", "sh", "-c", script)
        measure(mock, tmp_path, *words, environment=environment)
        ours = f"{mock_build}/.libs/liballotrope.so:libm.so.6"
        plain, *accounted = sorted(set(trace.read_text().splitlines()) - {"libm.so.6"})
        assert plain == ours and len(accounted) == 1
        assert re.fullmatch(re.escape(ours) + r":/\S+/libgcc_s\.so\.1", accounted[0])

    def test_number_of_runs_is_known_beforehand(self, mock: Command, tmp_path: Path) -> None:
        trace = tmp_path / "trace"
        words = ("-a", "mock", "--rounds", "4", "--warmup", "3")
        measure(mock, tmp_path, *words, "--", "sh", "-c", f"echo >>{trace}")
        ours = glibc().__class__(spec="mock", name="mock", ours=True)
        plan = Plan(command=["x"], allocators=[glibc(), ours], rounds=4, warmup=3)
        assert steps(plan, 4) == len(trace.read_text().splitlines())

    def test_prepare_comes_before_every_run(self, mock: Command, tmp_path: Path) -> None:
        trace = tmp_path / "trace"
        words = ("-a", "mock", "--prepare", f"printf p >>{trace}", "--rounds", "1")
        measure(mock, tmp_path, *words, "--", "sh", "-c", f"printf r >>{trace}")
        assert trace.read_text() == "pr" * 7

    def test_prepare_that_fails_late_keeps_what_was_measured(
        self, mock: Command, tmp_path: Path
    ) -> None:
        """Five runs come before the rounds, so the eleventh is in the third round."""
        prepare = f"echo >>{tmp_path}/n; test $(wc -l <{tmp_path}/n) -lt 11"
        words = ("-a", "mock", "--prepare", prepare, "--rounds", "5", "--", "true")
        document = measure(mock, tmp_path, *words, status=1)
        assert "--prepare" in document["incomplete"] and not document["interrupted"]
        rounds = [result["wall_seconds"]["rounds"] for result in document["results"]]
        assert sum(value is not None for values in rounds for value in values) == 5

    def test_arguments_that_are_no_text_are_kept(self, mock: Command, tmp_path: Path) -> None:
        words = ("-a", "mock", "--markdown", str(tmp_path / "md"), "--", "echo", "\udcff[red]")
        assert measure(mock, tmp_path, *words)["command"] == ["echo", "\udcff[red]"]

    def test_what_a_preparation_starts_is_not_waited_for(
        self, mock: Command, tmp_path: Path
    ) -> None:
        started = tmp_path / "started"
        prepare = f"test -e {started} || {{ sleep {HANG} & echo $! >{started}; }}"
        try:
            measure(
                mock, tmp_path, "-a", "mock", "--prepare", prepare, "--", "true", timeout=HANG / 2
            )
        finally:
            os.kill(int(started.read_text()), signal.SIGKILL)

    def test_input_is_given_to_every_run(self, mock: Command, tmp_path: Path) -> None:
        (tmp_path / "in").write_text("given\n")
        words = ("-a", "mock", "--input", str(tmp_path / "in"))
        measure(mock, tmp_path, *words, "--", "grep", "given")

    def test_standard_input_is_empty_by_default(self, mock: Command, tmp_path: Path) -> None:
        measure(mock, tmp_path, "-a", "mock", "--", "sh", "-c", 'test -z "$(cat)"')

    def test_trees_have_a_peak(self, mock: Command, tmp_path: Path) -> None:
        words = ("-a", "mock", "--rounds", "1", "--", "sh", "-c", "sleep 2; true")
        for result in measure(mock, tmp_path, *words)["results"]:
            assert result["tree_peak_bytes"]["median"] > 0
            assert result["tree_peak_method"] is not None

    def test_single_processes_have_none(self, mock: Command, tmp_path: Path) -> None:
        words = ("-a", "mock", "--rounds", "1", "--", "true")
        for result in measure(mock, tmp_path, *words)["results"]:
            assert result["tree_peak_bytes"] is result["tree_peak_method"] is None


class TestJudging:
    def test_output_that_differs_from_glibcs_is_a_fault(
        self, mock: Command, tmp_path: Path
    ) -> None:
        words = ("-a", "mock", "-a", "mock:noise", "--", "echo", "hello")
        results = by_spec(measure(mock, tmp_path, *words, status=1))
        assert results["mock"]["status"] == "ok"
        assert results["mock:noise"]["status"] == "different-output"

    def test_output_that_varies_proves_nothing(self, mock: Command, tmp_path: Path) -> None:
        words = ("-a", "mock:noise", "--", "sh", "-c", "echo $$")
        document = measure(mock, tmp_path, *words)
        assert document["deterministic"] is False
        assert {result["status"] for result in document["results"]} == {"nondeterministic"}
        assert document["results"][1]["cpu_seconds"] is not None

    def test_output_that_varies_late_is_seen_too(self, mock: Command, tmp_path: Path) -> None:
        """The two reference runs agree; glibc's own fourth run does not."""
        script = f"echo >>{tmp_path}/n; test $(wc -l <{tmp_path}/n) -gt 5 && echo odd; true"
        words = ("-a", "mock", "--rounds", "4", "--", "sh", "-c", script)
        document = measure(mock, tmp_path, *words)
        assert document["deterministic"] is False

    def test_without_a_check_differing_output_is_no_fault(
        self, mock: Command, tmp_path: Path
    ) -> None:
        words = ("-a", "mock:noise", "--check", "none", "--", "echo")
        document = measure(mock, tmp_path, *words)
        assert document["deterministic"] is None
        assert {result["status"] for result in document["results"]} == {"ok"}

    def test_a_command_may_check_output_that_varies(self, mock: Command, tmp_path: Path) -> None:
        words = ("-a", "mock", "-a", "mock:noise", "--check", "! grep -q noise")
        results = by_spec(measure(mock, tmp_path, *words, "--", "sh", "-c", "echo $$", status=1))
        assert results["mock"]["status"] == "ok"
        assert results["mock:noise"]["status"] == "different-output"

    def test_check_that_rejects_glibc_is_an_error(self, mock: Command) -> None:
        done = mock.run("compare", "-a", "mock", "--check", "false", "--", "echo")
        assert done.returncode == 2
        assert "--check: 'false' ended with status 1 for the output under glibc" in done.stderr

    def test_check_that_is_no_command_is_named(self, mock: Command) -> None:
        done = mock.run("compare", "-a", "mock", "--check", "STDOUT", "--", "echo")
        assert done.returncode == 2 and "STDOUT: not found" in done.stderr
        assert "valid are none, stdout, or a shell command" in done.stderr

    @pytest.mark.parametrize(
        "preset, exit_status, number, message",
        [("crash", None, signal.SIGSEGV, None), ("fail", 7, None, "the heap is unwell")],
    )
    def test_failed_run_is_shown_and_not_timed(
        self,
        mock: Command,
        tmp_path: Path,
        preset: str,
        exit_status: int | None,
        number: int | None,
        message: str | None,
    ) -> None:
        words = ("-a", f"mock:{preset}", "-a", "mock", "--", "echo")
        results = by_spec(measure(mock, tmp_path, *words, status=1))
        failed = results[f"mock:{preset}"]
        assert failed["status"] == "failed"
        assert all(failed[quantity] is None for quantity in QUANTITIES)
        assert failed["failure"] == {
            "when": "warm-up",
            "exit_status": exit_status,
            "signal": number,
            "timed_out": False,
            "ending": "killed by SIGSEGV" if number else "exit status 7",
            "message": message,
        }
        assert results["mock"]["status"] == "ok"

    def test_failure_in_a_late_round(self, mock: Command, tmp_path: Path) -> None:
        words = ("-a", "mock:late", "--rounds", "3", "--", "echo")
        environment = {"MOCK_COUNTER": str(tmp_path / "counter")}
        document = measure(mock, tmp_path, *words, status=1, environment=environment)
        late = by_spec(document)["mock:late"]
        assert late["status"] == "failed" and late["failure"]["when"] == "round 1"
        assert late["cpu_seconds"] is None
        assert len(by_spec(document)["glibc"]["cpu_seconds"]["rounds"]) == 3

    def test_baseline_that_fails_late_ends_it(self, mock: Command, tmp_path: Path) -> None:
        words = ("-a", "glibc", "--baseline", "mock:late", "--rounds", "3", "--", "echo")
        environment = {"MOCK_COUNTER": str(tmp_path / "counter")}
        document = measure(mock, tmp_path, *words, status=1, environment=environment)
        assert "the baseline failed in round 1" in document["incomplete"]
        assert by_spec(document)["glibc"]["status"] == "not-measured"
        assert by_spec(document)["glibc"]["cpu_seconds"] is None

    def test_baseline_that_fails_in_its_account_did_not_fail_in_a_round(
        self, mock: Command, tmp_path: Path
    ) -> None:
        script = 'test -z "$ALLOTROPE_STATS"'
        words = ("-a", "glibc", "--baseline", "mock", "--", "sh", "-c", script)
        document = measure(mock, tmp_path, *words, status=1)
        assert document["incomplete"] == "the baseline failed in accounting: exit status 1"

    def test_what_was_measured_before_the_baseline_failed_is_kept(
        self, mock: Command, tmp_path: Path
    ) -> None:
        words = ("-a", "glibc", "--baseline", "mock:late", "--rounds", "3", "--warmup", "0")
        environment = {"MOCK_COUNTER": str(tmp_path / "counter")}
        document = measure(mock, tmp_path, *words, "--", "echo", status=1, environment=environment)
        assert "the baseline failed in round 2" in document["incomplete"]
        assert by_spec(document)["mock:late"]["cpu_seconds"] is None
        assert by_spec(document)["glibc"]["cpu_seconds"]["ratio"] is not None

    @pytest.mark.parametrize(
        "words, ending",
        [
            (["sh", "-c", "echo oh no >&2; exit 3"], "exit status 3 (oh no); mend it, or accept "),
            (["sh", "-c", "kill -ABRT $$"], "killed by SIGABRT; mend it, or accept that with "),
        ],
    )
    def test_command_that_fails_anyway_is_an_error(
        self, mock: Command, words: list[str], ending: str
    ) -> None:
        done = mock.run("compare", "-a", "mock", "--", *words)
        assert done.returncode == 2
        assert f"the command fails under glibc: {ending}" in done.stderr
        assert "--ignore-failure" in done.stderr and done.stderr.count("\n") == 1

    def test_failure_may_be_accepted_when_all_fail_alike(
        self, mock: Command, tmp_path: Path
    ) -> None:
        words = ("-a", "mock", "-a", "mock:crash", "--ignore-failure")
        document = measure(mock, tmp_path, *words, "--", "sh", "-c", "exit 3", status=1)
        results = by_spec(document)
        assert results["mock"]["status"] == "ok" and results["mock"]["cpu_seconds"] is not None
        assert results["mock:crash"]["status"] == "failed"

    def test_success_where_all_fail_is_not_alike(self, mock: Command, tmp_path: Path) -> None:
        script = 'test -z "$ALLOTROPE" && exit 3; exit 0'
        words = ("-a", "mock", "--ignore-failure", "--", "sh", "-c", script)
        assert by_spec(measure(mock, tmp_path, *words, status=1))["mock"]["status"] == "failed"

    @pytest.mark.parametrize("seconds", ["nan", "inf", "0", "soon"])
    def test_a_timeout_is_a_time(self, mock: Command, seconds: str) -> None:
        done = mock.run("compare", "-a", "mock", "--timeout", seconds, "--", "true")
        assert done.returncode == 2 and "--timeout: '" in done.stderr

    def test_an_empty_shell_command_is_refused(self, mock: Command) -> None:
        done = mock.run("compare", "-a", "mock", "--shell", " ")
        assert done.returncode == 2 and "--shell is empty" in done.stderr

    def test_timeout_is_a_failure(self, mock: Command, tmp_path: Path) -> None:
        script = 'test -z "$ALLOTROPE" || sleep 60'
        words = ("-a", "mock", "--timeout", "1", "--", "sh", "-c", script)
        result = by_spec(measure(mock, tmp_path, *words, status=1))["mock"]
        assert result["failure"]["timed_out"] and result["failure"]["ending"] == "timed out"

    def test_timeout_of_the_baseline_is_an_error(self, mock: Command) -> None:
        done = mock.run("compare", "-a", "mock", "--timeout", "0.2", "--", "sleep", "60")
        assert done.returncode == 2
        assert "timed out; raise --timeout" in done.stderr


class TestInterruption:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_what_was_measured_is_kept(self, mock: Command, tmp_path: Path, number: int) -> None:
        file, trace = tmp_path / "result.json", tmp_path / "trace"
        script = f"echo $$ >>{trace}; sleep 0.2"
        words = ("-a", "mock", "--rounds", "1000", "--json", str(file))
        started = mock.start("compare", *words, "--", "sh", "-c", script, stdout=subprocess.PIPE)
        # Two for reference, one warm-up, one account, then three rounds of two.
        while not trace.exists() or len(trace.read_text().splitlines()) < 4 + 6:
            assert started.poll() is None
            time.sleep(0.02)
        started.send_signal(number)
        shown, _ = started.communicate(timeout=HANG)
        assert started.returncode == 130
        assert re.search(
            r"Incomplete: interrupted in the round \d+ under (glibc|mock), which", shown
        )
        document = read_json(file)
        assert document["interrupted"] is True
        one, other = (result["cpu_seconds"]["rounds"] for result in document["results"])
        assert 2 <= sum(value is not None for value in one) < 1000
        # The round that was interrupted is dropped: all have the same ones.
        assert None not in one and None not in other and len(one) == len(other)
        assert not any(Path("/proc", pid).exists() for pid in trace.read_text().split())

    def test_term_ends_a_run_in_the_background(self, mock: Command, tmp_path: Path) -> None:
        """Where INT is ignored, by us and by the launcher."""
        pid = tmp_path / "pid"
        script = f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep {2 * HANG}"
        started = mock.start(
            *("compare", "-a", "mock", "--", "sh", "-c", script),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN) and None,
        )
        while not pid.exists():
            assert started.poll() is None
            time.sleep(0.02)
        started.terminate()
        assert started.wait(timeout=HANG) == 130
        assert image_of(int(pid.read_text())) is None

    def test_what_a_preparation_waits_for_ends_with_it(self, mock: Command, tmp_path: Path) -> None:
        """A signal that is sent to us alone reaches neither."""
        pid = tmp_path / "pid"
        prepare = f"sleep {2 * HANG} & echo $! >{pid}.new; mv {pid}.new {pid}; wait"
        started = mock.start("compare", "-a", "mock", "--prepare", prepare, "--", "true")
        while not pid.exists():
            assert started.poll() is None
            time.sleep(0.02)
        started.terminate()
        assert started.wait(timeout=HANG) == 130
        await_that(lambda: image_of(int(pid.read_text())) is None)
        assert image_of(int(pid.read_text())) is None

    def test_nothing_is_lost_with_a_witness(self, mock: Command, tmp_path: Path) -> None:
        """Who interrupts it is the witness here."""
        script = '#!/bin/sh\ntest "$1" = --version || kill -INT $PPID\n'
        (tmp_path / "hyperfine").write_text(script)
        (tmp_path / "hyperfine").chmod(0o755)
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        words = ("-a", "mock", "--witness", "--", "true")
        document = measure(mock, tmp_path, *words, status=130, environment=path)
        assert document["interrupted"] is True and document["witness"] is None
        assert document["incomplete"] == "interrupted while hyperfine and perf were asked"
        assert len(document["results"][1]["cpu_seconds"]["rounds"]) == 2

    def test_interrupted_before_any_round(self, mock: Command, tmp_path: Path) -> None:
        file, trace = tmp_path / "result.json", tmp_path / "trace"
        words = ("compare", "-a", "mock", "--json", str(file), "--")
        script = f"echo >{trace}; sleep {HANG}"
        started = mock.start(*words, "sh", "-c", script, stdout=subprocess.PIPE)
        while not trace.exists():
            time.sleep(0.02)
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=HANG)
        document = read_json(file)
        assert document["interrupted"] is True
        assert all(result["cpu_seconds"] is None for result in document["results"])
        assert {result["status"] for result in document["results"]} == {"not-measured"}


class TestWriting:
    @pytest.fixture
    def files(self, mock: Command, tmp_path: Path) -> dict[str, Path]:
        """All outputs of one comparison."""
        files = {kind: tmp_path / kind for kind in ("json", "csv", "markdown", "hyperfine-json")}
        options = [word for kind, file in files.items() for word in (f"--{kind}", str(file))]
        specs = ("-a", "glibc", "-a", "mock", "-a", "mock:crash")
        words = ("compare", "--rounds", "3", *specs, *options, "--", "echo", "a b")
        done = mock.run(*words, environment={"COLUMNS": "100"})
        assert done.returncode == 1, done.stderr
        (tmp_path / "table").write_text(done.stdout)
        return files | {"table": tmp_path / "table"}

    def test_json_holds_the_schema(self, files: dict[str, Path]) -> None:
        read_json(files["json"])

    def test_csv_says_what_the_json_says(self, files: dict[str, Path]) -> None:
        document = by_spec(read_json(files["json"]))
        lines = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
        assert len(lines) == 3 * len(QUANTITIES)
        for line in lines:
            summary = document[line["allocator"]][line["quantity"]]
            if summary is None:
                assert line["median"] == line["rounds"] == ""
            else:
                assert float(line["median"]) == summary["median"]
                assert int(line["rounds"]) == 3

    def test_markdown_is_a_table(self, files: dict[str, Path]) -> None:
        lines = files["markdown"].read_text().splitlines()
        assert lines[0] == "`echo 'a b'`"
        table = [line for line in lines if line.startswith("|")]
        assert len(table) == 2 + 3
        assert len({line.count("|") for line in table}) == 1

    def test_hyperfine_json_leaves_failures_out(self, files: dict[str, Path]) -> None:
        results = json.loads(files["hyperfine-json"].read_text())["results"]
        assert [result["parameters"]["allocator"] for result in results] == ["glibc", "mock"]
        for result in results:
            spec = result["parameters"]["allocator"]
            assert result["command"] == f"{spec}: echo 'a b'"
            assert len(result["times"]) == len(result["exit_codes"]) == 3
            assert result["min"] <= result["median"] <= result["max"]
            assert min(result["mean"], result["stddev"], result["user"]) >= 0

    def test_hyperfine_json_has_hyperfines_keys(
        self, files: dict[str, Path], tmp_path: Path
    ) -> None:
        try:
            subprocess.run(
                ["hyperfine", "-N", "-r", "2", "true", "--export-json", str(tmp_path / "real")],
                check=True,
                capture_output=True,
            )
        except FileNotFoundError:
            pytest.skip("hyperfine is not installed")
        theirs = json.loads((tmp_path / "real").read_text())["results"][0]
        ours = json.loads(files["hyperfine-json"].read_text())["results"][0]
        assert set(theirs) <= set(ours)
        assert set(ours) - set(theirs) <= {"parameters"}

    @pytest.mark.parametrize("width", [40, 60, 80, 200])
    def test_no_figure_is_cut(self, mock: Command, tmp_path: Path, width: int) -> None:
        words = "compare -a glibc -a mock -a mock:fail --rounds 1 --json".split()
        columns = {"COLUMNS": str(width)}
        done = mock.run(*words, str(tmp_path / "json"), "--", "true", environment=columns)
        shown = done.stdout.splitlines()
        assert max(map(len, shown)) <= width
        ratio = by_spec(read_json(tmp_path / "json"))["mock"]["cpu_seconds"]
        assert f"{ratio['ratio']:.3f} [{ratio['ratio_low']:.3f}, {ratio['ratio_high']:.3f}]" in (
            done.stdout
        )
        assert "\u2026" not in done.stdout and "failed" in done.stdout
        assert ("Left out at" in done.stdout) == (width < 200)
        text = " ".join(done.stdout.split())
        assert ("in parentheses: memory's ratio" in text) == ("peak RSS" in shown[0])
        assert ("served by: whose malloc" in text) == ("served by" in shown[0])

    def test_table_fits_and_shows_the_failure(self, files: dict[str, Path]) -> None:
        lines = files["table"].read_text().splitlines()
        assert max(map(len, lines)) <= 100
        assert (
            lines[0].split()[:3] == ["allocator", "CPU", "s"] and lines[0].split()[-1] == "status"
        )
        assert lines[3].split()[0] == "mock:crash" and lines[3].split()[-1] == "failed"
        assert "mock:crash failed (warm-up): killed by SIGSEGV" in files["table"].read_text()

    @pytest.mark.parametrize("together, title", [(True, "tree peak"), (False, "peak RSS")])
    def test_memory_of_the_tree_is_shown_where_it_matters(
        self, mock: Command, tmp_path: Path, together: bool, title: str
    ) -> None:
        # Opening a FIFO waits for who opens its other end, on however busy a machine.
        meet = f"open('{tmp_path / 'meet'}', '%s'); " if together else ""
        hold = f"python3 -Ic \"import time; b = b'x' * 50000000; {meet}time.sleep(2)\""
        os.mkfifo(tmp_path / "meet")
        script = f"{hold % 'w'} & {hold % 'r'}; wait" if together else f"{hold}; {hold}"
        done = mock.run("compare", "-a", "mock", "--rounds", "1", "--", "sh", "-c", script)
        assert title in done.stdout.splitlines()[0]

    def test_json_on_standard_output_stands_alone(self, mock: Command) -> None:
        words = ("-a", "mock", "--rounds", "1", "--json", "-", "--", "echo")
        done = mock.run("compare", *words)
        jsonschema.validate(json.loads(done.stdout), SCHEMA)
        assert "allocator" in done.stderr

    def test_format_document_names_every_key(self) -> None:
        text = (SOURCE / "docs" / "compare-format.md").read_text()
        for part in (SCHEMA, RESULT, QUANTITY, FAILURE, HEAP, SERVED, SERVED_ROW, closed(MACHINE)):
            for key in part["required"]:
                assert f"`{key}`" in text, key


class TestVerdictOnMemory:
    """9 rounds in which glibc takes 8 MiB."""

    RULE = "Memory: a difference below 1.0 MiB does not count in the choice."

    def compare(self, *more: float) -> Comparison:
        """more: MiB, of the other contender, in turn."""
        contenders = [
            dataclasses.replace(glibc(), spec=spec, build=spec) for spec in ("glibc", "mine")
        ]
        comparison = Comparison(Plan(["true"], contenders, rounds=9, check="none"))
        for number in range(9):
            for contender, size in zip(comparison.contenders, (8.0, 8 + more[number % len(more)])):
                contender.runs.append(run_of(int(size * (1 << 20))))
        return comparison

    @pytest.mark.parametrize(
        "more, words",
        [
            ((0.5,), "same, worse by 512 KiB"),
            ((0.5, 0.625), "same, worse by 512 to 640 KiB"),
            ((-0.5, -0.75), "same, better by 512 to 768 KiB"),
            ((0.5, 2.0), "same, worse by 512 KiB to 2.0 MiB"),
            ((0.99, 1.375), "same, worse by 1013 KiB to 1.4 MiB"),
            ((0.5, 0.999), "same, worse by 512 to 1022 KiB"),
            ((1.0, 2.0), "same, worse"),
            ((-0.5, 2.0), "same, not decided"),
            ((0.0,), "same, same"),
        ],
    )
    def test_says_how_much_that_is_where_it_may_be_little(
        self, more: Sequence[float], words: str
    ) -> None:
        comparison = self.compare(*more)
        text = io.StringIO()
        print_comparison(Console(file=text, width=80, force_terminal=True), comparison)
        markdown = as_markdown(comparison)
        assert f"| {words} |" in markdown and re.search(f" {words}(  |\n)", text.getvalue())
        assert (self.RULE in text.getvalue(), self.RULE in markdown) == (" by " in words,) * 2
        document = as_document(comparison, machine={})
        rows = compare_page.summary_table(document).rows
        memory = next(row for row in rows[1:] if row[1] == "mine" and row[2].endswith("MiB"))
        assert memory[-1] == words.removeprefix("same, ")


def test_a_load_takes_time_to_be_known() -> None:
    """The kernel's ticks are as long as a short round."""
    load = Load()
    load.elapsed, load.others = LEAST_LOAD_SECONDS / 2, LEAST_LOAD_SECONDS
    assert load.processors() is None
    load.elapsed = 2 * LEAST_LOAD_SECONDS
    assert load.processors() == 0.5


def test_a_program_that_calls_nothing_has_no_picture_of_its_calls() -> None:
    latency = {"calls": {}, "own_cost_ns_subtracted": 20, "cpu_seconds": 0.001}
    summary = {"median": 0.001}
    one = {"spec": "glibc", "cpu_seconds": summary, "latency": latency, "latency_missing": None}
    (section,) = latency_sections({"results": [one]}, "")
    assert not section.figures and not section.tables


def test_names_are_no_markup_in_a_picture() -> None:
    """plotly takes some of HTML for its own. A build may be called anything."""
    contenders = [
        dataclasses.replace(glibc(), spec=spec, build=spec) for spec in ("<i>old", "<i>new")
    ]
    comparison = Comparison(Plan(["true"], contenders, rounds=9, check="none"))
    for contender in comparison.contenders:
        contender.runs += [run_of(1 << 23)] * 9
    document = as_document(comparison, machine={})
    points = {"seconds": [0.0], "requested_bytes": [1], "mapped_bytes": [1], "resident_bytes": [1]}
    pauses = {"from_2^01_us": 1}
    gc = {"collections": 1, "causes": {}, "given_up": {}, "pause_ns": 1, "longest_pause_ns": 1}
    gc["pauses"] = pauses
    histogram = {"calls": 1, "longest_ns": 9, "calls_below_ns": {}}
    quantiles = dict.fromkeys(("p50_ns", "p99_ns", "p99.9_ns"), 1)
    for result in document["results"]:
        heap = {"timeline": points, "collector": gc, "waste": None, "sizes": None}
        latency = {"calls": {"malloc": histogram | quantiles}, "own_cost_ns_subtracted": 1}
        result |= {"heap": heap, "latency": latency | {"cpu_seconds": 1.0}}
    figures = [one for part in compare_page.sections(document) for one in part.figures]
    drawn = {figure.name: json.dumps([figure.data, figure.layout]) for figure in figures}
    assert {"trade-off", "heap-over-time", "pauses", "latency-malloc"} <= drawn.keys()
    for name, text in drawn.items():
        assert "<i>" not in text and "&lt;i>" in text, name


def test_a_ratio_of_nought_is_shown() -> None:
    summary = {"median": 0.0, "low": 0.0, "high": 1.0} | {"ratio": 0.0}
    summary |= {"ratio_low": 0.0, "ratio_high": 1.0}
    assert compare_page._cells(summary, str)[-1] == "0.000 [0.000, 1.000]"


@pytest.mark.parametrize("server", [None, ServerPlan("server", "true", "load")])
@pytest.mark.parametrize("until", [None, 0.02])
def test_coverage_is_not_said_to_be_more_than_it_is(
    server: ServerPlan | None, until: float | None
) -> None:
    """Of 16 rounds it is 99.58%. That of a look is more, but who may look nine times, and stops
    when he likes, has 99.5% in all."""
    comparison = Comparison(Plan(["true"], [glibc()], rounds=16, server=server, until=until))
    comparison.baseline.runs += [ServerRun(**vars(run_of(1)))] * 16
    assert "median [99.5% interval]" in legend(comparison, [])[0]
    if server is None:
        document = as_document(comparison, machine={})
        figures = compare_page.quantities_section(document, "").figures
        assert any("Bar: 99.5% interval of the median ratio" in one.caption for one in figures)


@pytest.mark.parametrize("written", ["{build} -p {port}", "'{build}' -p {port}"])
def test_a_build_whose_name_has_spaces_is_one_word_of_a_server(written: str) -> None:
    build = dataclasses.replace(glibc(), build="/my programs/server")
    plan = Plan(["{build}"], [build], server=ServerPlan(written, None, "true"))
    server = plan.server_of(build)
    assert server is not None
    assert server.command() == ["/my programs/server", "-p", "{port}"]


def test_glibc_is_preloaded_into_each_build_as_that_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Into a program that is linked with another malloc. Builds alone are compared as they are."""

    def preloaded(chosen: Allocator, name: str) -> Allocator:
        return dataclasses.replace(chosen, library=Path(name))

    monkeypatch.setattr(comparison_module, "for_program", preloaded)
    builds = [dataclasses.replace(glibc(), build=name) for name in ("old", "new")]
    others = [dataclasses.replace(choose("bsd"), build=name) for name in ("old", "new")]
    several = Comparison(Plan(["./{build}"], [*builds, *others], baseline=1))
    contenders = [several.reference, *several.contenders]
    names = [str(one.allocator.library) for one in contenders]
    assert names == ["new", "old", "new", "old", "new"]
    alone = Comparison(Plan(["./{build}"], builds))
    assert [one.allocator.library for one in (alone.reference, *alone.contenders)] == [None] * 3


def test_a_page_does_not_say_that_rounds_were_asked_for() -> None:
    """With --until they are those that it took, and of a short command they were chosen."""
    comparison = Comparison(Plan(["true"], [glibc()], until=0.02))
    comparison.baseline.runs += [run_of(1)] * 32
    document = as_document(comparison, machine={})
    assert ", 32 rounds, ratios to glibc" in (compare_page.compare_page(document).subtitle or "")
    assert compare_page.settings(document)[0] == ["rounds", "32"]


@pytest.mark.parametrize(
    "script, line",
    [
        ("a b", "`sh -c 'a b'`"),
        ("a `b`", "`` sh -c 'a `b`' ``"),
        ("a ``b` c", "``` sh -c 'a ``b` c' ```"),
        ("a\n\nb", "`sh -c 'a  b'`"),
    ],
)
def test_a_command_is_one_span_of_code_in_markdown(script: str, line: str) -> None:
    comparison = Comparison(Plan(["sh", "-c", script], [glibc()]))
    assert as_markdown(comparison).splitlines()[:2] == [line, ""]


def test_an_account_that_failed_twice_is_left_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Presets of one allocator have a folder together."""
    comparison = Comparison(Plan(["true"], [choose("blocks")]))
    runner = Runner(comparison, tmp_path, lambda step, runs: None)

    def fail(*_: Any, settings: dict[str, str], **how: Any) -> Run:
        for file in settings.values():
            if file.startswith(str(tmp_path)):
                Path(file).write_text("{}")
        return dataclasses.replace(run_of(1), exit_status=1)

    monkeypatch.setattr(runner, "_run", fail)
    runner.take_accounts()
    assert comparison.baseline.failure is not None
    folders = sorted(one.name for one in tmp_path.iterdir())
    assert folders == ["account-blocks", "sites-blocks"]
    assert not [*tmp_path.glob("*/*")]


def test_a_tuned_glibc_is_not_the_reference() -> None:
    """What it makes of the output is its own fault, and it is warmed up as others are."""
    contenders = [glibc(), choose("glibc:perturb=5")]
    plan = Plan(["true"], contenders, rounds=1, warmup=2)
    assert steps(plan, 1) == 2 + 2 + 2 * 2
    comparison = Comparison(plan)
    for contender, wrote in zip((comparison.reference, *comparison.contenders), "aab"):
        contender.outputs.add(wrote)
        contender.runs.append(run_of(1))
        contender.served = {"in_reach": True}
    assert comparison.deterministic()
    assert comparison.status(comparison.contenders[1]) == "different-output"


def test_csv_has_the_verdicts_of_the_json_where_more_is_better() -> None:
    """Of twice the throughput, and of twice the wait."""
    known = [Metric("throughput", ""), Metric("p99_us", "", more_is_better=False)]
    comparison = served_comparison(known)
    for contender, figure in zip(comparison.contenders, (1.0, 2.0)):
        found = {one.name: figure for one in known}
        contender.runs += [server_run_of(known, metrics=found) for _ in range(9)]
    result = by_spec(as_document(comparison, machine={}))["mine"]
    lines = csv.DictReader(io.StringIO(as_csv(comparison)))
    said = {one["quantity"]: one["verdict"] for one in lines if one["allocator"] == "mine"}
    for name, verdict in (("throughput", "better"), ("p99_us", "worse")):
        assert said[f"metric:{name}"] == result[f"metric:{name}"]["verdict"] == verdict


@pytest.mark.parametrize("even", [True, False])
def test_until_looks_at_what_is_judged_of_a_server(even: bool) -> None:
    """CPU per request: a load of a given time makes as many requests as it can, and CPU time of
    that varies otherwise."""
    known = [Metric("requests", "")]
    comparison = served_comparison(known, until=0.02)
    for number in range(16):
        more = 1 + number % 2
        for contender, factor in zip(comparison.contenders, (1, more)):
            requests = 1000.0 * (factor if even else 1 / factor)
            run = server_run_of(known, metrics={"requests": requests})
            cpu = float(factor) if even else 1.0
            contender.runs.append(dataclasses.replace(run, user_seconds=cpu))
    assert comparison.is_narrow() is even


def served_comparison(known: Sequence[Metric], **asked: Any) -> Comparison:
    """Of two builds of a server, whose load prints these."""
    contenders = [dataclasses.replace(glibc(), spec=spec, build=spec) for spec in ("old", "mine")]
    plan = Plan(["true"], contenders, server=ServerPlan("true", "true", "true"), **asked)
    comparison = Comparison(dataclasses.replace(plan, check="none"))
    comparison.reference_run = server_run_of(known)
    return comparison


def server_run_of(known: Sequence[Metric], **figures: Any) -> ServerRun:
    return ServerRun(**vars(run_of(1)), known=known, **figures)


def run_of(memory: int) -> Run:
    """One that takes a second."""
    return Run(
        pid=1,
        exit_status=0,
        signal=None,
        error=None,
        timed_out=False,
        leftovers=False,
        wall_seconds=1.0,
        user_seconds=1.0,
        system_seconds=0.0,
        peak_rss_bytes=memory,
        minor_faults=100,
        major_faults=0,
        tree_peak_bytes=None,
        tree_peak_method=None,
    )


@pytest.mark.parametrize("missed, median", [(0, 20), (2, 20), (3, None), (5, None)])
def test_a_round_without_a_look_at_memory_costs_that_round(
    missed: int, median: float | None
) -> None:
    """Where most rounds had none, the others were seen by chance. A round that was not measured at
    all is none."""
    comparison = Comparison(Plan(["true"], [choose("glibc"), choose("blocks")], rounds=6))
    for contender in comparison.contenders:
        seen = [dataclasses.replace(run_of(1), tree_peak_bytes=20) for _ in range(5)]
        contender.runs = [*seen, None]
    for number in range(missed):
        comparison.contenders[1].runs[number] = run_of(1)
    summary = comparison.summary(comparison.contenders[1], "tree_peak_bytes")
    assert (summary and summary.median) == median


@pytest.mark.parametrize("processes, proven", [(1, True), (2, False), (None, False)])
def test_a_report_proves_who_served_a_process_that_was_seen_alone(
    tmp_path: Path, processes: int | None, proven: bool
) -> None:
    """Two of which one may not be read have no tree's peak, as one has none."""
    comparison = Comparison(Plan(["true"], [choose("blocks")]))
    report = {"pid": 1, "command": "true", "allocator": "blocks", "preset": "default"}
    report |= {"total": {"blocks": 5}}
    runner = Runner(comparison, tmp_path, lambda step, runs: None)
    run = dataclasses.replace(run_of(1), processes=processes)
    runner._prove_served(comparison.baseline, run, [report], None)
    assert (comparison.baseline.served is not None) is proven


class TestFormatting:
    @pytest.mark.parametrize(
        "size, text",
        [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (99 * 1024, "99.0 KiB"),
            (100 * 1024, "100 KiB"),
            (999 << 10, "999 KiB"),
            (1000 << 10, "1.0 MiB"),
            (47.4 * 2**20, "47.4 MiB"),
            (5 << 30, "5.0 GiB"),
            (2000 << 30, "2000 GiB"),
        ],
    )
    def test_bytes_are_shown_in_binary_units(self, size: float, text: str) -> None:
        assert units.format_bytes(size) == text

    @pytest.mark.parametrize(
        "low, high, text",
        [
            (512 << 10, 640 << 10, "512 to 640 KiB"),
            (640 << 10, 2 << 20, "640 KiB to 2.0 MiB"),
            (2 << 20, 640 << 20, "2.0 to 640 MiB"),
            (512 << 10, (512 << 10) + 1, "512 KiB"),
        ],
    )
    def test_a_range_says_each_unit_once(self, low: float, high: float, text: str) -> None:
        assert units.format_byte_range(low, high) == text

    @pytest.mark.parametrize(
        "count, text",
        [(0, "0"), (9999, "9999"), (10_000, "10k"), (9_999_400, "9999k"), (12_000_000, "12M")],
    )
    def test_counts_are_shortened_by_thousands(self, count: float, text: str) -> None:
        assert units.format_count(count) == text


def test_heap_is_that_of_the_largest_process(tmp_path: Path) -> None:
    for name, mapped in (("sh", 10 << 10), ("gawk", 300 << 10), ("cat", None)):
        account = {
            "command": name,
            "mapped_peak_bytes": mapped,
            "peak": {"requested_bytes": 100 << 10, "waste": None},
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(account))
    heap = read_accounts(tmp_path)
    assert heap is not None
    assert (heap["command"], heap["processes"], heap["fragmentation"]) == ("gawk", 3, 3)


def test_resident_memory_is_the_most_that_was_seen(tmp_path: Path) -> None:
    """Also in points of the timeline that are not kept."""
    points = [{"seconds": at, "resident_bytes": at * (1000 - at)} for at in range(1000)]
    peak = {"requested_bytes": 100, "waste": None, "resident_bytes": 7}
    account = {"command": "x", "mapped_peak_bytes": 1000, "timeline": points, "peak": peak}
    for most in (500 * 500, 7, None):
        (tmp_path / "x.json").write_text(json.dumps(account))
        heap = read_accounts(tmp_path)
        assert heap is not None and heap["resident_peak_bytes"] == most
        for point in points:
            point.update(resident_bytes=None)
        peak["resident_bytes"] = 7 if most != 7 else None


def test_a_collector_need_not_count_causes(tmp_path: Path) -> None:
    counted = {"collections": 3, "pause_ns": 9, "longest_pause_ns": 5}
    account = {
        "command": "x",
        "mapped_peak_bytes": 1000,
        "gc": counted,
        "peak": {"requested_bytes": 100, "waste": None},
    }
    (tmp_path / "x.json").write_text(json.dumps(account))
    heap = read_accounts(tmp_path)
    assert heap is not None
    assert heap["collector"] == counted | {
        "causes": {},
        "pauses": {},
        "given_up": {},
        "stopped": {},
        **dict.fromkeys(("minor", "full", "first_stop", "generations", "cycles"), {}),
    }
    document = {"results": [{"spec": "gc:classic", "heap": heap}]}
    [section] = collector_sections(document, "x")
    assert section.tables[0].rows[0][:7] == ["gc:classic", "3", "–", "–", "9 ns", "5 ns", "–"]


def test_the_least_that_a_program_ran_is_told_by_window() -> None:
    stopped = {"longest_in_1_ms_ns": 1_000_000, "longest_in_10_ms_ns": 2_500_000}
    assert least_running({"stopped": stopped}) == ""
    stopped["longest_in_100_ms_ns"] = 4_000_000
    assert least_running({"stopped": stopped}) == "0%, 75%, 96%"
    assert least_running({}) == ""


def kind_of(collections: int, pause_ns: int, longest_ns: int) -> dict[str, int]:
    times = {"pause_ns": pause_ns, "longest_pause_ns": longest_ns}
    phases = {"stop_ns": 1000, "root_ns": 2000, "mark_ns": 3000, "sweep_ns": 4000}
    return {"collections": collections} | times | phases


def test_pauses_are_told_by_kind() -> None:
    collector = {
        "collections": 26,
        "pause_ns": 51_000_000,
        "longest_pause_ns": 8_000_000,
        "causes": {},
        "given_up": {},
        "pauses": {},
        "minor": kind_of(24, 24_000_000, 2_000_000),
        "full": kind_of(2, 10_000_000, 8_000_000),
        "first_stop": kind_of(1, 900_000, 900_000),
        "cycles": dict(slices=40, slice_ns=20_000_000, longest_slice_ns=3_000_000)
        | dict(begun=2, given_up=0, last_pages=77),
        "generations": dict(dirty_pages=5000, rescanned_bytes=1 << 20, promoted_bytes=3 << 20)
        | dict(protected_pages=6000),
        "stopped": {f"longest_in_{n}_ms_ns": 500_000 for n in (1, 10, 100)},
    }
    assert collections_line(collector).endswith(
        "8 ms at most; 24 minor, 2 ms at most; 2 full, 8 ms at most; "
        "1 first stop of a cycle, 900 µs at most; 40 slices of cycles, 3 ms at most; "
        "of any 1, 10, 100 ms it ran at least 50%, 95%, 100%"
    )
    document = {"results": [{"spec": "gc:x", "heap": {"collector": collector}}]}
    [section] = collector_sections(document, "x")
    _, by_kind, generations = section.tables
    phases = ["1 µs", "2 µs", "3 µs", "4 µs"]
    assert [*map(list, by_kind.rows)] == [
        ["gc:x", "minor", "24", "24 ms", "2 ms", "1 ms", *phases],
        ["gc:x", "full", "2", "10 ms", "8 ms", "5 ms", *phases],
        ["gc:x", "first stop of a cycle", "1", "900 µs", "900 µs", "900 µs", *phases],
        ["gc:x", "slice of a cycle", "40", "20 ms", "3 ms", "500 µs", *["–"] * 4],
    ]
    assert [*map(list, generations.rows)] == [
        ["gc:x", "5,000", "1.0 MiB", "3.0 MiB", "6,000", "2", "0", "77"]
    ]


def test_without_generations_there_are_no_kinds() -> None:
    assert kinds({"collections": 3, "minor": {}, "full": {}, "cycles": {}}) == kinds({}) == []


def test_collections_stand_where_they_were() -> None:
    """What ended between two points is told at the second. A first stop alone is no collection."""
    timeline = {
        "seconds": [0.0, 1.0, 2.0, 3.0, 4.0],
        "requested_bytes": [1] * 5,
        "mapped_bytes": [1 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20],
        "resident_bytes": [1] * 5,
        "collections": [0, 2, 2, 2, 5],
        "minor_collections": [0, 2, 2, 2, 4],
        "pause_ns": [0, 1000, 1000, 1500, 9000],
    }
    found = collected(timeline)
    assert [(one.place, one.in_words()) for one in found] == [
        (1, "2 minor collections, stopped for 1 µs"),
        (4, "1 full, 2 minor collections, stopped for 8 µs"),
    ]
    assert collected({"seconds": [0.0]}) == []
    document = {"results": [{"spec": "gc:x", "heap": {"timeline": timeline}}]}
    [section] = timeline_sections(document, "")
    heap = section.figures[0]
    marks = heap.data[-1]
    assert (marks["x"], marks["y"]) == ([1.0, 4.0], [2.0, 5.0])
    assert marks["marker"]["symbol"] == ["circle-open", "diamond"]
    rows = {row[1]: row[2:] for row in section.tables[0].rows}
    assert rows["collections"][-1] == "5" and rows["minor collections"][-1] == "4"


def test_no_account_is_none(tmp_path: Path) -> None:
    assert read_accounts(tmp_path) is None


def test_latencies_are_taken_of_everyone(real: Command, tmp_path: Path) -> None:
    specs = ("-a", "glibc", "-a", "bsd", "-a", "gc:free=ignore")
    page = tmp_path / "page.html"
    words = ("--rounds", "1", "--latency", "--html", str(page), *specs)
    script = "for (i = 0; i < 300000; i++) a[i % 500] = a[i % 500] i % 10"
    document = measure(real, tmp_path, *words, "--", "gawk", "BEGIN { %s }" % script)
    assert document["settings"]["latency"] is True
    for result in document["results"]:
        found = result["latency"]
        assert found["command"] == "gawk" and found["cpu_seconds"] > 0
        for histogram in found["calls"].values():
            assert sum(histogram["calls_below_ns"].values()) == histogram["calls"]
        assert sum(one["calls"] for one in found["calls"].values()) > 1000
    collector = by_spec(document)["gc:free=ignore"]["heap"]["collector"]
    assert sum(collector["pauses"].values()) == collector["collections"]
    assert sum(collector["causes"].values()) == collector["collections"] > 0
    assert by_spec(document)["bsd"]["heap"]["collector"] is None
    times = by_spec(document)["gc:free=ignore"]["heap"]["timeline"]
    assert times["collections"][-1] == collector["collections"]
    assert times["pause_ns"][-1] == collector["pause_ns"]
    assert times["minor_collections"][-1] == 0 and sorted(times["pause_ns"]) == times["pause_ns"]
    assert "collections" not in by_spec(document)["bsd"]["heap"]["timeline"]
    text = page.read_text()
    shown = ("How long calls take", "latency-malloc", "Collections", "heap full", "longest to stop")
    shown += ("gc:free=ignore, collections",)
    for words_shown in shown:
        assert words_shown in text


def test_what_a_collector_did_stands_below_the_table(real: Command) -> None:
    allocators = ("glibc", "gc", "gc:free=ignore,every=1000")
    specs = [word for spec in allocators for word in ("-a", spec)]
    words = ("compare", "--rounds", "1", *specs, "--", "gawk", "BEGIN { while (i++ < 9999) a[i] }")
    said = " ".join(real.run(*words).stdout.split())
    assert " gc: no collection came due. " in said, said
    collections = r"\d+ collections \(.*?every.*?\), paused [\d.]+ .?s in all, [\d.]+ .?s at most"
    collections += r"; of any 1, 10, 100 ms it ran at least \d+%, \d+%, \d+%\."
    assert re.search(rf" gc:free=ignore,every=1000: {collections} ", said), said


def test_who_counts_no_causes_gives_none() -> None:
    collector = {
        "collections": 3,
        "pause_ns": 1_500_000,
        "longest_pause_ns": 800_000,
        "causes": {},
        "given_up": {},
    }
    assert collections_line(collector) == "3 collections, paused 1.5 ms in all, 800 µs at most"


def test_collections_that_were_given_up_are_told() -> None:
    collector = {
        "collections": 1,
        "pause_ns": 2500,
        "longest_pause_ns": 2500,
        "causes": {"heap_full": 1},
        "given_up": {"no_signal": 2, "thread_does_not_stop": 3},
        "given_up_ns": 300_000_000,
    }
    assert collections_line(collector) == (
        "1 collection (heap full), paused 2.5 µs in all, 2.5 µs at most; "
        "given up: thread does not stop 3, no signal 2 (300 ms)"
    )


def test_who_wrote_no_latencies_is_told(mock: Command, tmp_path: Path) -> None:
    words = ("compare", "--rounds", "1", "--latency", "-a", "glibc", "-a", "mock", "--", "true")
    done = mock.run(*words)
    assert "mock: no process of the command wrote latencies" in done.stdout, done.stderr


def test_latencies_are_not_taken_unasked(mock: Command, tmp_path: Path) -> None:
    document = measure(mock, tmp_path, "-a", "mock", "--", "true")
    assert {one["latency"] for one in document["results"]} == {None}


def test_share_above_counts_down_to_the_longest() -> None:
    below = {"1": 10, "11": 80, "100": 9, "4096": 1}
    curve = share_above({"calls": 100, "longest_ns": 4000, "calls_below_ns": below})
    assert curve == [(1, 1), (11, 0.1), (100, 0.01), (4000, 0.01)]


def test_demo_compares_gawk(real: Command) -> None:
    if not os.access("/usr/share/dict/words", os.R_OK):
        pytest.skip("wamerican is not installed")
    if real.build != SOURCE:
        pytest.skip("the demo runs in a source tree that was built in place")
    words = ("--rounds", "1", "--warmup", "0", "-a", "glibc")
    done = subprocess.run(
        [SOURCE / "tests" / "demo.sh", *words], capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0, done.stderr
    assert "CPU to glibc's in the same round" in done.stdout


def test_rows_that_fit_nowhere_become_paragraphs() -> None:
    rows = [["allocator", "ratio"], ["a" * 30, "1.000 [0.900, 1.100]"]]
    assert columns_that_fit(rows, 40, []) == [0, 1]
    assert lay_out(rows, 40) == [[], ["a" * 30, "  ratio  1.000 [0.900, 1.100]"]]
