# SPDX-License-Identifier: MIT
"""The witnesses: what hyperfine and perf are asked, how they are read, and their absence."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from allotrope.features.compare import witness
from allotrope.system.allocators import Allocator, glibc
from conftest import Command
from test_cluster import command_of, wait_until
from under import HANG


def ask(mock: Command, tmp_path: Path, *words: str, path: str | None = None) -> dict[str, Any]:
    file = tmp_path / "json"
    environment = {} if path is None else {"PATH": path}
    line = "compare --witness --rounds 6 -a glibc -a mock --json".split()
    done = mock.run(*line, str(file), *words, environment=environment)
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    return {"said": done.stdout, **document["witness"]}


def test_absent_tools_are_said_to_be_absent(mock: Command, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for program in ("echo", "sh", "env"):
        (tmp_path / "bin" / program).symlink_to(str(shutil.which(program)))
    found = ask(mock, tmp_path, "--", "echo", "x", path=str(tmp_path / "bin"))
    assert found["hyperfine"] is None and found["perf"] is None
    assert "hyperfine is not installed: Debian package hyperfine." in found["said"]
    assert "perf is not installed: Debian package linux-perf." in found["said"]


@pytest.mark.skipif(shutil.which("hyperfine") is None, reason="hyperfine is not installed")
class TestHyperfine:
    def test_it_is_asked_the_same(self, mock: Command, tmp_path: Path) -> None:
        """The same command, input and environment as in our rounds."""
        trace = tmp_path / "trace"
        (tmp_path / "in put").write_text("given\n")
        script = f'read word; echo "$word ${{ALLOTROPE-none}} ${{LD_PRELOAD##*/}}" >>{trace}; echo'
        options = ["--input", str(tmp_path / "in put"), "--warmup", "0"]
        found = ask(mock, tmp_path, *options, "--", "sh", "-c", script)
        assert found["hyperfine_missing"] is None
        lines = trace.read_text().splitlines()
        # The account's run has the unwinder too, behind ours.
        accounted = "given mock libgcc_s.so.1"
        # ... and glibc's calls are counted in front of it.
        counted = "given next liballotrope.so"
        assert set(lines) == {"given none ", "given mock liballotrope.so", accounted, counted}
        # glibc: two references, six rounds, six by hyperfine, one by perf.
        perf = found["perf"] is not None
        assert lines.count("given none ") == 2 + 6 + 6 + perf
        assert lines.count("given mock liballotrope.so") == 6 + 6 + perf
        assert lines.count(accounted) == lines.count(counted) == 1

    def test_its_figures_stand_beside_ours(self, mock: Command, tmp_path: Path) -> None:
        found = ask(mock, tmp_path, "--", "sleep", "0.05")
        baseline, ours = found["hyperfine"]
        assert baseline["ratio"] == baseline["ratio_low"] == 1
        assert ours["ratio_low"] <= ours["ratio"] <= ours["ratio_high"]
        assert ours["wall_seconds"] >= 0.05 and ours["our_ratio"] > 0
        assert isinstance(ours["agrees"], bool)

    def test_its_refusal_is_told(self, mock: Command, tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        false = tmp_path / "bin" / "hyperfine"
        false.write_text("#!/bin/sh\necho 'error: out of order' >&2; echo usage >&2; exit 1\n")
        false.chmod(0o755)
        path = f"{tmp_path}/bin:{os.environ['PATH']}"
        found = ask(mock, tmp_path, "--", "true", path=path)
        assert found["hyperfine"] is None
        assert found["hyperfine_missing"] == "hyperfine failed: error: out of order"


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_perf_counts_the_cpu_time(mock: Command, tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"
    found = ask(mock, tmp_path, "--", "sh", "-c", script)
    if found["perf"] is None:
        pytest.skip(found["perf_missing"])
    for one in found["perf"]:
        assert one["samples"] > 20
        period = one["cpu_seconds"] / one["samples"]
        assert period == pytest.approx(1 / witness.SAMPLES_PER_SECOND, rel=0.01)
        # Two runs on a busy machine, whose processor may be twice as slow in one: the same unit.
        assert 0.05 < one["cpu_seconds"] / one["our_cpu_seconds"] < 20
    mock_share = found["perf"][1]
    assert 0 <= mock_share["share_low"] <= mock_share["share"] <= mock_share["share_high"] <= 1


@pytest.mark.parametrize("tool", ["hyperfine", "perf"])
def test_what_a_witness_runs_ends_with_an_interruption(
    mock: Command, tmp_path: Path, tool: str
) -> None:
    """A signal that is sent to the command alone."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    file = tmp_path / "pid"
    script = f'read name </proc/$PPID/comm; [ "$name" = {tool} ] || exit 0; echo $$ >{file}; '
    line = "compare --witness --rounds 1 -a glibc -- sh -c".split()
    started = mock.start(*line, script + "exec sleep 3600", stdout=subprocess.DEVNULL)
    with started:
        try:
            wait_until(lambda: file.exists() and file.read_text().endswith("\n"), started)
            pid = int(file.read_text())
            started.terminate()
            assert started.wait(timeout=HANG) == 130
        finally:
            started.kill()
    deadline = time.monotonic() + 20  # far below the hour that it would take
    while "sleep" in command_of(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_samples_are_read() -> None:
    text = """
   1003009      7f4ed2 _int_malloc (/usr/lib/x86_64-linux-gnu/libc.so.6)
   1003009  ffffffff81 unmap_page_range ([kernel.kallsyms])
    500000        442a [unknown] (/usr/bin/a program (odd))
not a sample
"""
    assert witness.read_samples(text) == [
        (1003009, "_int_malloc", "/usr/lib/x86_64-linux-gnu/libc.so.6"),
        (1003009, "unmap_page_range", "[kernel.kallsyms]"),
        (500000, "[unknown]", "/usr/bin/a program (odd)"),
    ]


@pytest.mark.parametrize(
    "symbol, expected",
    [
        ("malloc", True),
        ("__libc_free", True),
        ("_int_malloc", True),
        ("unlink_chunk.isra.0", True),
        ("malloc_consolidate", True),
        ("tcache_thread_shutdown", True),
        ("realloc@@GLIBC", True),
        ("memcpy", False),
        ("malloc_printer", False),
        ("[unknown]", False),
        ("free_mem", False),
    ],
)
def test_of_glibc_only_the_allocators_functions_are_the_allocator(
    symbol: str, expected: bool
) -> None:
    library = "/usr/lib/x86_64-linux-gnu/libc.so.6"
    assert witness.is_allocator(glibc(), symbol, library) is expected
    assert not witness.is_allocator(glibc(), symbol, "/usr/bin/program")


def test_all_of_a_preloaded_library_is_the_allocator(tmp_path: Path) -> None:
    (tmp_path / "lib.so.2").touch()
    (tmp_path / "lib.so").symlink_to("lib.so.2")
    peer = Allocator(spec="peer", name="peer", library=tmp_path / "lib.so")
    assert witness.is_allocator(peer, "anything", str(tmp_path / "lib.so.2"))
    assert not witness.is_allocator(peer, "malloc", "/usr/lib/libc.so.6")


def test_ratio_of_medians_lies_in_an_interval_that_is_the_same_again() -> None:
    ratio, low, high = witness.ratio_of_medians([2.0, 2.1, 1.9, 2.0], [1.0, 1.1, 0.9, 1.0])
    assert ratio == 2 and low < 2 < high
    assert witness.ratio_of_medians([2.0, 2.1], [1.0]) == witness.ratio_of_medians(
        [2.0, 2.1], [1.0]
    )


def test_disagreement_is_said() -> None:
    found: dict[str, Any] = {
        "hyperfine": [
            {
                "spec": "a",
                "wall_seconds": 1,
                "ratio": 2.0,
                "ratio_low": 1.9,
                "ratio_high": 2.1,
                "our_ratio": 1.0,
                "agrees": False,
            }
        ],
        "perf": None,
        "hyperfine_missing": None,
        "perf_missing": "perf is away",
    }
    rows = witness.witness_rows(found)
    assert rows[1][:4] == ["a", "2.000 [1.900, 2.100]", "1.000", "differs"]
    assert "perf is away." in witness.witness_lines(found)
