# SPDX-License-Identifier: MIT
"""What the policy heaps count of themselves reaches the statistics."""

from pathlib import Path
from typing import Any

import pytest
from under import LIBRARY, Under

# Fills, empties in another order and fills again: searches, splits and merges for everybody.
SCRIPT = """BEGIN { for (r = 0; r < 3; r++) {
    for (i = 0; i < 9000; i++) a[i] = sprintf("%*d", 10 + i * 7919 % 900, i)
    for (i = 0; i < 9000; i++) delete a[i * 7919 % 9000] } }"""


def heap_of(spec: str, directory: Path) -> dict[str, Any]:
    _, counted = Under(spec, LIBRARY, spec).run_counted(["gawk", SCRIPT], directory)
    heap: dict[str, Any] = counted["heap"]
    return heap


@pytest.mark.parametrize("preset", ["", "classic,"])
@pytest.mark.parametrize("allocator", ["knuth", "cartesian", "gnu"])
def test_counters_are_in_the_statistics(allocator: str, preset: str, tmp_path: Path) -> None:
    heap = heap_of(f"{allocator}:{preset}counters=on", tmp_path)
    for key in ("free_blocks", "free_bytes", "splits", "merges", "searches"):
        assert heap[key] > 0, key
    assert sum(heap["search_lengths"].values()) == heap["searches"]
    assert (heap["tree_depth"] > 0) == (allocator == "cartesian")


@pytest.mark.parametrize("allocator", ["knuth", "cartesian", "gnu"])
def test_classic_counts_nothing_unless_asked(allocator: str, tmp_path: Path) -> None:
    heap = heap_of(f"{allocator}:classic", tmp_path)
    assert (heap["splits"], heap["merges"], heap["searches"]) == (0, 0, 0)
    assert heap["free_blocks"] > 0
