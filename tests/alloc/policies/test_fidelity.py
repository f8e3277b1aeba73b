# SPDX-License-Identifier: MIT
"""Each policy heap places every block where its naive model places it, request by request."""

from __future__ import annotations

import functools
import lzma
import random
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from models.bsd import Bsd
from models.cartesian import Cartesian
from models.gnu import BinnedGnu, Gnu
from models.knuth import BinnedKnuth, Knuth
from models.model import Model
from under import BUILD

HERE = Path(__file__).resolve().parent
DRIVER = BUILD / "tests" / "alloc" / "policies" / "heap_driver"

# The heap's name and options, and its model.
HEAPS: dict[str, tuple[tuple[str, ...], Callable[[], Model]]] = {
    "bsd": (("bsd",), Bsd),
    "knuth": (("knuth",), Knuth),
    "knuth, search=short": (("knuth", "search=short"), Knuth),
    "knuth, search=binned": (("knuth", "search=binned"), BinnedKnuth),
    "knuth, cut=end": (("knuth", "cut=end", "counters=on"), lambda: Knuth("end")),
    "knuth, align=8": (("knuth", "align=8"), lambda: Knuth(align=8)),
    "knuth, cut=end,align=8": (("knuth", "cut=end", "align=8"), lambda: Knuth("end", 8)),
    "cartesian": (("cartesian",), Cartesian),
    "cartesian, least=32": (("cartesian", "least=32", "counters=on"), lambda: Cartesian(32)),
    "cartesian, align=8": (("cartesian", "align=8"), lambda: Cartesian(align=8)),
    "gnu": (("gnu",), Gnu),
    "gnu, least=32": (("gnu", "least_log=5", "counters=on"), lambda: Gnu(32)),
    "gnu, parts=on": (("gnu", "parts=on"), lambda: Gnu(parts=True)),
    "gnu, clusters=binned": (("gnu", "clusters=binned"), BinnedGnu),
    "gnu, clusters=binned,parts=on": (
        ("gnu", "clusters=binned", "parts=on", "least_log=5"),
        lambda: BinnedGnu(32, parts=True),
    ),
}

Operation = tuple[str, int, int]


def random_operations(seed: int, count: int, largest: int) -> Iterator[Operation]:
    """Sizes of every magnitude; the number of live blocks rises and falls."""
    generator = random.Random(seed)
    live: list[int] = []
    blocks = 0
    for step in range(count):
        shrinking = (step // (count // 6 + 1)) % 2
        choice = generator.random()
        size = int(2 ** generator.uniform(0, largest.bit_length() - 1))
        if live and choice < (0.55 if shrinking else 0.3):
            at = generator.randrange(len(live))
            yield "f", live.pop(at), 0
        elif live and choice < 0.65:
            yield "r", generator.choice(live), size
        else:
            if choice > 0.97:
                yield "m", 16 << generator.randrange(10), size
            else:
                yield "a", size if generator.random() < 0.99 else 0, 0
            live.append(blocks)
            blocks += 1
    for block in live:
        yield "f", block, 0


def few_sizes(seed: int, count: int) -> Iterator[Operation]:
    """Few sizes make many ties."""
    generator = random.Random(seed)
    live: list[int] = []
    blocks = 0
    for _ in range(count):
        if live and generator.random() < 0.48:
            yield "f", live.pop(generator.randrange(len(live))), 0
        else:
            yield "a", generator.choice((8, 24, 24, 40, 100, 1000, 3000)), 0
            live.append(blocks)
            blocks += 1


def checkerboard(blocks: int) -> Iterator[Operation]:
    """Thousands of free blocks apart, filled again, then everything merged."""
    for block in range(blocks):
        yield "a", 40 + block % 7 * 48, 0
    for block in range(0, blocks, 2):
        yield "f", block, 0
    for block in range(blocks // 3):
        yield "a", 30 + block % 5 * 60, 0
    for block in [*range(1, blocks, 2), *range(blocks, blocks + blocks // 3)]:
        yield "f", block, 0
    yield "a", 100_000, 0


def crowded_sizes(blocks: int) -> Iterator[Operation]:
    """Free blocks that a request just misses, by the hundred, before one that serves it."""
    for block in range(blocks):
        yield "a", (1040, 1100, 5100, 5600)[block % 67 // 66 + block % 2 * 2], 0
        yield "a", 16, 0
    for block in range(0, 2 * blocks, 2):
        yield "f", block, 0
    for block in range(blocks):
        yield "a", (1090, 5500, 1030)[block % 3], 0


def crowded_runs(runs: int) -> Iterator[Operation]:
    """As crowded_sizes, of whole pages; and the table of gnu's heap doubles."""
    for block in range(runs):
        yield "a", (65 if block % 67 else 70) * 4096, 0
        yield "a", 4096, 0
    for block in range(0, 2 * runs, 2):
        yield "f", block, 0
    for block in range(runs):
        yield "a", (68, 3, 71, 64)[block % 4] * 4096, 0


@functools.cache
def recorded(path: Path) -> tuple[Operation, ...]:
    operations: list[Operation] = []
    with lzma.open(path, "rt") as lines:
        for line in lines:
            word, *numbers = line.split()
            first, second = (*map(int, numbers), 0)[:2]
            operations.append((word, first, second))
    return tuple(operations)


def lines_of(operations: Iterable[Operation]) -> str:
    return "".join(
        f"{word} {first} {second}\n" if word in "rm" else f"{word} {first}\n"
        for word, first, second in operations
    )


@functools.lru_cache(maxsize=2)
def expected_of(make_model: Callable[[], Model], operations: tuple[Operation, ...]) -> list[str]:
    """What a new model answers. The last answers are kept for the next heap with that model."""
    model = make_model()
    blocks: list[int] = []
    results = []
    for word, first, second in operations:
        result = "-"
        if word == "a":
            blocks.append(model.alloc(first))
            result = str(blocks[-1])
        elif word == "m":
            blocks.append(model.alloc_aligned(first, second))
            result = str(blocks[-1])
        elif word == "r":
            blocks[first] = model.realloc(blocks[first], second)
            result = str(blocks[first])
        else:
            model.free(blocks[first])
        results.append(f"{result} {model.end}")
    return results


def assert_same_addresses(name: str, operations: Iterable[Operation]) -> None:
    words, make_model = HEAPS[name]
    requests = tuple(operations)
    run = subprocess.run(
        [DRIVER, *words], input=lines_of(requests), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    results = run.stdout.splitlines()
    assert len(results) == len(requests)
    for number, expected in enumerate(expected_of(make_model, requests)):
        assert results[number] == expected, (
            f"request {number}, {requests[number]}: the heap says {results[number]}, "
            f"the model {expected} (block's address, end of memory)"
        )


@pytest.mark.parametrize("name", HEAPS)
@pytest.mark.parametrize("largest", [64, 4096, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_random_requests_lie_where_the_model_puts_them(name: str, seed: int, largest: int) -> None:
    assert_same_addresses(name, random_operations(seed, 2500, largest))


@pytest.mark.parametrize("name", HEAPS)
def test_requests_of_few_sizes_lie_where_the_model_puts_them(name: str) -> None:
    assert_same_addresses(name, few_sizes(7, 6000))


@pytest.mark.parametrize("name", HEAPS)
def test_thousands_of_free_blocks_lie_where_the_model_puts_them(name: str) -> None:
    assert_same_addresses(name, checkerboard(3000))


@pytest.mark.parametrize("name", HEAPS)
def test_requests_that_most_free_blocks_just_miss_lie_where_the_model_puts_them(name: str) -> None:
    assert_same_addresses(name, crowded_sizes(1500))
    assert_same_addresses(name, crowded_runs(200))


@pytest.mark.parametrize("name", HEAPS)
@pytest.mark.parametrize("program", ["gawk", "perl", "gcc"])
def test_recorded_requests_lie_where_the_model_puts_them(name: str, program: str) -> None:
    assert_same_addresses(name, recorded(HERE / "data" / f"{program}.ops.xz"))
