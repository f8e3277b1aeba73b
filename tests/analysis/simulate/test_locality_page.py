# SPDX-License-Identifier: MIT
"""The page of `allotrope locality`: its axes, and that a browser cuts none of its labels."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, browser  # noqa: F401
from conftest import Command
from under import BUILD


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "locality.html"
    words = ["locality", "-a", "bsd", "-a", "glibc", "--causes", "--tlb", "4K:4,2M:1"]
    words += ["--shape", "zen5-l1d", "--shape", "skylake-dtlb", "--html", str(path)]
    done = Command(BUILD).run(*words, "--", "seq", "1", "500")
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def figures(page: Path) -> dict[str, dict[str, Any]]:
    found = re.search(r'id="figures">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return {figure["name"]: figure for figure in json.loads(found[1])}


def test_sizes_are_ticked_at_powers_of_two(figures: dict[str, dict[str, Any]]) -> None:
    for name in ("faults-4096", "misses-32-1", "misses-64-8", "tlb-4096-fully", "tlb-4096-4"):
        axis = figures[name]["layout"]["xaxis"]
        ticks = [math.log2(tick) for tick in axis["tickvals"]]
        assert 2 <= len(ticks) <= 7 and all(tick == int(tick) for tick in ticks)
        low, high = (10**end for end in axis["range"])
        values = [x for line in figures[name]["data"] for x in line["x"]]
        assert low < min(values) and max(values) < high
    assert "64K" in figures["misses-32-1"]["layout"]["xaxis"]["ticktext"]


def test_ratios_are_to_glibc(figures: dict[str, dict[str, Any]]) -> None:
    bsd, glibc, below_bsd, below_glibc = figures["misses-64-8"]["data"]
    assert (bsd["name"], glibc["name"]) == ("bsd", "glibc")
    assert below_bsd["yaxis"] == below_glibc["yaxis"] == "y2"
    assert set(below_glibc["y"]) == {1}
    assert below_bsd["y"] == [one / other for one, other in zip(bsd["y"], glibc["y"], strict=True)]
    assert figures["misses-64-8"]["layout"]["yaxis2"]["title"]["text"] == "times glibc"


def test_misses_over_time_are_drawn(figures: dict[str, dict[str, Any]]) -> None:
    for name in ("shape-0-windows", "shape-1-windows"):
        for line in figures[name]["data"]:
            assert len(line["x"]) == len(line["y"]) > 10
            assert max(rate for rate in line["y"] if rate is not None) > 0


CUT = """return [...document.querySelectorAll('.plot')].flatMap(plot => {
    const room = plot.getBoundingClientRect();
    return [...plot.querySelectorAll('text')].filter(text => text.textContent.trim())
        .map(text => [text.getBoundingClientRect(), text.textContent])
        .filter(([box]) => box.width > 0 && (box.left < room.left - 1 || box.right > room.right + 1
                           || box.top < room.top - 1 || box.bottom > room.bottom + 1))
        .map(([, text]) => plot.id + ': ' + text)})"""

TOUCHING = """return [...document.querySelectorAll('.plot')].flatMap(plot =>
    ['.xtick text', '.ytick text', '.y2tick text'].flatMap(kind => {
        const boxes = [...plot.querySelectorAll(kind)]
            .map(text => [text.getBoundingClientRect(), text.textContent]);
        return boxes.flatMap(([a, one], i) => boxes.slice(i + 1)
            .filter(([b]) => a.left < b.right && b.left < a.right && a.top < b.bottom
                             && b.top < a.bottom)
            .map(([, other]) => plot.id + ': ' + one + ' / ' + other))}))"""


@pytest.mark.parametrize("width", [400, 1600])
def test_no_label_is_cut_or_touches_another(
    browser: Browser, page: Path, width: int  # noqa: F811
) -> None:
    browser.open(page, (width, 900))
    assert browser.run(CUT) == []
    assert browser.run(TOUCHING) == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.errors() == []
