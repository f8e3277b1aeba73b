# SPDX-License-Identifier: MIT
"""The benchmark programs: same results everywhere, and they notice a broken allocator."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from under import BUILD, HANG

PROGRAMS = BUILD / "bench_programs"

# Small runs and their checksums, the same on every machine and under every allocator.
SMALL_RUNS = [
    ("bignum first=100 count=200", "c6ed50ed298bed41"),
    ("bleeding_server slots=50 operations=200 threadlife=4 lanes=3", "ec79d1d164896915"),
    ("dying_threads lives=40 blocks=60", "1be071a8dec4cea5"),
    ("false_sharing rounds=2000 writes=20", "ff9ed129af4b2802"),
    ("large_blocks operations=60 blocks=4", "bd173fcf2cfa2501"),
    ("large_set operations=20 least=1 most=3", "bc4fcc2ef5a2fbf5"),
    ("latency operations=20000 blocks=1000 rare=500", "75d8a6f4dbc5cc60"),
    ("object_graph nodes=300 changes=2000", "97ac3e6b2890a665"),
    ("pareto allocations=20000 longest=5000", "577809e640dbcf0b"),
    ("phases phases=18 megabytes=1", "d32b8f3fee6478e8"),
    ("producer_consumer messages=5000", "f125e2f4d2c1e781"),
    ("realloc_growth buffers=8 finished=60", "90388650ddb1916a"),
    ("waves waves=3 scale=5", "0000000000000006"),
]
COMMANDS = dict((command.split()[0], command) for command, _ in SMALL_RUNS)


def run(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    name, *arguments = command.split()
    program = PROGRAMS / name
    if not program.exists():
        pytest.skip(f"{program} is not built: run make")
    return subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("command, checksum", SMALL_RUNS)
def test_small_run_gives_its_checksum(command: str, checksum: str) -> None:
    result = run(command)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"checksum {checksum}\n"


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("bleeding_server", "threads=3"),
        ("dying_threads", "threads=1"),
        ("dying_threads", "threads=9"),
        ("false_sharing", "threads=3"),
        ("false_sharing", "threads=2 passive=1"),
        ("producer_consumer", "pairs=3"),
    ],
)
def test_result_does_not_depend_on_threads(name: str, arguments: str) -> None:
    result = run(f"{COMMANDS[name]} {arguments}")
    assert result.stdout == f"checksum {dict(SMALL_RUNS)[COMMANDS[name]]}\n", result.stderr


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("argument", ["speed=1", "lives", "count=", "nodes=-1", "pairs=1e6", "x"])
def test_bad_argument_is_named_in_one_line(name: str, argument: str) -> None:
    result = run(f"{name} {argument}")
    assert result.returncode == 2
    assert f"bad argument '{argument}'; give " in result.stderr
    assert result.stderr.count("\n") == 1 and not result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_every_option_with_its_default(name: str) -> None:
    result = run(f"{name} --help")
    assert result.returncode == 0
    assert f"usage: {name} " in result.stdout


# Hands out every 97th block a second time, as a heap would whose lists are corrupt.
OVERLAPPING_MALLOC = """
#include <stddef.h>
#include <string.h>
static _Alignas(16) char memory[1 << 30];
static size_t used, calls, last_at, last_size;
void *malloc(size_t size)
{
    size = (size + 15) / 16 * 16 + 16;
    size_t at = __atomic_fetch_add(&used, size, __ATOMIC_RELAXED);
    if (++calls % 97 == 0 && size <= last_size)
        return memory + last_at;
    last_at = at, last_size = size;
    return memory + at;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }
void *realloc(void *block, size_t size)
{
    void *moved = malloc(size);
    return block ? memmove(moved, block, size) : moved;
}
"""


@pytest.fixture(scope="module")
def overlapping_malloc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("overlapping")
    (folder / "malloc.c").write_text(OVERLAPPING_MALLOC)
    library = folder / "malloc.so"
    subprocess.run(
        ["gcc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, folder / "malloc.c"],
        check=True,
    )
    return library


@pytest.mark.parametrize(
    "command",
    [
        "bleeding_server slots=50 operations=2000 lanes=3",
        "pareto allocations=20000 longest=5000",
        "phases phases=18 megabytes=1",
        "producer_consumer messages=50000",
        "realloc_growth buffers=8 finished=60",
    ],
)
def test_overlapping_blocks_are_noticed(command: str, overlapping_malloc: Path) -> None:
    result = run(command, LD_PRELOAD=str(overlapping_malloc))
    assert result.returncode == 3, result.stderr
    assert "contents" in result.stderr
