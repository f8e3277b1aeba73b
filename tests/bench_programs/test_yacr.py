# SPDX-License-Identifier: MIT
"""yacr: Deutsch's example is what the literature says it is, and routings are legal.

Legality is judged here from the printed cells alone, apart from the program's own check.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from under import BUILD, HANG, SOURCE

YACR = BUILD / "bench_programs" / "yacr" / "yacr"
DEUTSCH = SOURCE / "bench_programs" / "yacr" / "deutsch.channel"

Rows = tuple[list[int], list[int]]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    if not YACR.exists():
        pytest.skip(f"{YACR} is not built: run make")
    return subprocess.run([str(YACR), *arguments], capture_output=True, text=True, timeout=HANG)


def write_channel(path: Path, top: list[int], bottom: list[int]) -> str:
    path.write_text(f"top {' '.join(map(str, top))}\nbottom {' '.join(map(str, bottom))}\n")
    return str(path)


def read_channel(path: Path) -> Rows:
    text = re.sub(r"#.*", "", path.read_text())
    top, bottom = text.split("bottom")
    return [int(n) for n in top.split()[1:]], [int(n) for n in bottom.split()]


def layers(output: str) -> dict[str, list[list[int]]]:
    rows: dict[str, list[list[int]]] = {"h": [], "v": [], "x": []}
    for line in output.splitlines():
        if line[:2] in ("h ", "v ", "x "):
            rows[line[0]].append([int(word) for word in line[2:].split()])
    return rows


def is_legal(output: str, top: list[int], bottom: list[int]) -> bool:
    rows = layers(output)
    height, width = len(rows["v"]), len(top)
    if rows["v"][0] != top or rows["v"][-1] != bottom:
        return False
    pins: dict[int, set[tuple[int, int]]] = {}
    for row, nets in ((0, top), (height - 1, bottom)):
        for column, net in enumerate(nets):
            pins.setdefault(net, set()).add((row, column))
    for net, places in pins.items():
        if net == 0:
            continue
        seen: set[tuple[str, int, int]] = set()
        todo = [("v", *next(iter(places)))]
        while todo:
            layer, row, column = todo.pop()
            if not (0 <= row < height and 0 <= column < width):
                continue
            if (layer, row, column) in seen or rows[layer][row][column] != net:
                continue
            seen.add((layer, row, column))
            todo += [(layer, row + 1, column), (layer, row - 1, column)]
            todo += [(layer, row, column + 1), (layer, row, column - 1)]
            if rows["x"][row][column]:
                todo.append(("h" if layer == "v" else "v", row, column))
        if any(("v", row, column) not in seen for row, column in places):
            return False
    return True


def test_deutsch_is_the_published_channel() -> None:
    top, bottom = read_channel(DEUTSCH)
    assert len(top) == len(bottom) == 175  # 174 and the column in which net 20 enters
    spans: dict[int, list[int]] = {}
    for column, nets in enumerate(zip(top, bottom)):
        for net in filter(None, nets):
            spans.setdefault(net, []).append(column)
    assert sorted(spans) == list(range(1, 73))
    density = max(
        sum(min(span) <= column <= max(span) for span in spans.values())
        for column in range(len(top))
    )
    assert density == 19
    below: dict[int, set[int]] = {}
    for one, other in zip(top, bottom):
        if one and other and one != other:
            below.setdefault(one, set()).add(other)

    def chain(net: int) -> int:
        return 1 + max(map(chain, below.get(net, ())), default=0)

    assert max(map(chain, spans)) == 23


def test_deutsch_is_routed_within_one_track_of_its_density() -> None:
    result = run(str(DEUTSCH), "print=1")
    assert result.returncode == 0, result.stderr
    assert is_legal(result.stdout, *read_channel(DEUTSCH))
    assert "nets 72, density 19, tracks 20," in result.stdout


@pytest.mark.parametrize("seed", range(1, 13))
def test_generated_channels_are_routed_legally(seed: int) -> None:
    columns, density = (40, 6) if seed % 2 else (175, 19)
    result = run(
        "channels=1", f"seed={seed}", f"columns={columns}", f"density={density}", "print=1"
    )
    assert result.returncode == 0, result.stderr
    rows = layers(result.stdout)
    assert is_legal(result.stdout, rows["v"][0], rows["v"][-1])
    assert int(re.search(r"density (\d+)", result.stdout)[1]) <= density  # type: ignore[index]


@pytest.mark.parametrize(
    "top, bottom",
    [
        ([1, 0, 2, 0], [2, 0, 1, 0]),  # each net must lie above the other
        ([1], [1]),
        ([0, 1, 1, 0], [0, 0, 0, 0]),
        ([1, 2, 3, 0, 0], [2, 3, 1, 0, 0]),  # a cycle of three
    ],
)
def test_small_channels(top: list[int], bottom: list[int], tmp_path: Path) -> None:
    result = run(write_channel(tmp_path / "channel", top, bottom), "print=1")
    assert result.returncode == 0, result.stderr
    assert is_legal(result.stdout, top, bottom)


def test_the_judge_sees_a_cut_wire() -> None:
    top, bottom = read_channel(DEUTSCH)
    lines = run(str(DEUTSCH), "print=1").stdout.splitlines()
    vias = next(i for i, line in enumerate(lines) if line[0] == "x" and "1" in line)
    lines[vias] = lines[vias].replace("1", "0")
    assert not is_legal("\n".join(lines), top, bottom)


def test_a_channel_without_a_routing_is_said_to_be_so(tmp_path: Path) -> None:
    result = run(write_channel(tmp_path / "reversed", [1, 2, 3], [3, 2, 1]))
    assert result.returncode == 1
    assert "no routing with up to" in result.stderr


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("top 1 1\nbottom 0", "differ in length"),
        ("1 2", "'top' or 'bottom' must come before '1'"),
        ("top 1 -2 1\nbottom 0 0 0", "not a net number from 0 to 60000: '-2'"),
        ("top 1 0\nbottom 0 0", "only one pin has net '1'"),
        ("", "or are empty"),
    ],
)
def test_bad_file_is_named_in_one_line(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text(text)
    result = run(str(tmp_path / "bad"))
    assert result.returncode == 2
    assert complaint in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("/nonexistent",), ("channels=x",)])
def test_bad_arguments_are_refused_in_one_line(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
