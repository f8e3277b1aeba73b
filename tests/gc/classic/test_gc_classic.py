# SPDX-License-Identifier: MIT
"""gc:classic in whole programs: collections lose nothing, and the heap grows by the 1992 rules."""

import functools
import signal
import subprocess
from pathlib import Path

import pytest
from under import BUILD, HANG, LIBRARY, Under

PROGRAMS = BUILD / "bench_programs"

# Small runs of programs that hold the starts of their blocks, as those of 1992 did.
RUNS = [
    "cfrac/cfrac_uncounted 2113789228706899940455958753",
    "cfrac/cfrac_malloc 2113789228706899940455958753",
    "yacr/yacr channels=2 columns=80 density=9",
    "bignum first=100 count=2000",
    "object_graph nodes=3000 changes=20000",
    "phases phases=20 megabytes=1",
    "realloc_growth buffers=8 finished=300",
    "pareto allocations=200000 longest=5000",
    "producer_consumer pairs=2 messages=40000",
    # libc knows a thread's vector of thread-local storage by its inside only.
    "bleeding_server slots=100 operations=2000 threadlife=6 lanes=4 threads=2",
    "dying_threads lives=60 blocks=400",
]
CASES = [(command, options) for command in RUNS for options in ("", ",growth=increment")]
CASES += [(command, ",pointers=interior,initial=65536") for command in RUNS]


def run(under: Under, command: str, tmp_path: Path) -> tuple[str, dict[str, int]]:
    """What a program prints, and what the collector says of itself."""
    name, *arguments = command.split()
    result, counted = under.run_counted([str(PROGRAMS / name), *arguments], tmp_path)
    assert "allotrope:" not in result.stderr
    return result.stdout, counted["gc"]


def classic(options: str = "") -> Under:
    return Under("gc:classic", LIBRARY, "gc:classic" + options)


@functools.cache
def printed_elsewhere(command: str) -> str:
    name, *arguments = command.split()
    line = [str(PROGRAMS / name), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command, options", CASES)
def test_programs_print_what_they_print_elsewhere(
    command: str, options: str, tmp_path: Path
) -> None:
    output, collector = run(classic(options), command, tmp_path)
    assert output == printed_elsewhere(command)
    # A collection is given up when a thread does not come to its stop for want of a processor.
    assert collector["collections"] > collector["given_up"]


def grown(rule: str, steps: int) -> list[int]:
    """The sizes that a heap may have had, from 256 KiB on."""
    sizes, increment = [256 << 10], 256 << 10
    for _ in range(steps):
        step = sizes[-1] // 2 if rule == "heap" else increment
        sizes.append(sizes[-1] + (step + 4095) // 4096 * 4096)
        increment = min(increment + increment // 2, 2 << 20)
    return sizes


@pytest.mark.parametrize("rule", ["heap", "increment"])
def test_heap_grows_by_half_or_its_increment_does(rule: str, tmp_path: Path) -> None:
    command = "object_graph nodes=20000 changes=1000"
    _, collector = run(classic(f",growth={rule}"), command, tmp_path)
    assert collector["growths"] >= 8
    assert collector["heap_bytes"] == grown(rule, collector["growths"] - 1)[-1]


def test_a_heap_of_dead_blocks_does_not_grow(tmp_path: Path) -> None:
    _, collector = run(classic(), "bignum first=100 count=20000", tmp_path)
    assert collector["heap_bytes"] == 256 << 10
    assert collector["collections"] > 100


@pytest.mark.parametrize("fault", ["interior", "unaligned"])
@pytest.mark.parametrize("size", [40, 5000, 200000])
def test_a_pointer_that_is_no_start_is_named(fault: str, size: int) -> None:
    program = BUILD / "tests" / "contract" / "bad_pointers"
    if not program.exists():
        pytest.skip(f"{program} is not built: run make check")
    result = classic().run([str(program), fault, str(size)], timeout=HANG)
    assert result.returncode == -signal.SIGABRT
    lines = [line for line in result.stderr.splitlines() if line.startswith("allotrope:")]
    assert len(lines) == 1 and "not the start of a block" in lines[0]


def test_a_forked_child_reads_its_own_memory() -> None:
    """Not its parent's, through what the parent had open: what the child alone holds is kept."""
    traps = BUILD / "tests" / "gc" / "traps" / "world"
    result = classic(",pointers=interior").run([str(traps), "mapped-after-fork"], timeout=HANG)
    assert result.returncode == 0, result.stderr


def test_a_sandbox_that_kills_ends_collections() -> None:
    program = BUILD / "tests" / "contract" / "seccomp"
    result = classic(",pointers=interior").run([str(program)], timeout=HANG)
    assert (result.returncode, result.stderr) == (0, "")
