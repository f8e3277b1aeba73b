# SPDX-License-Identifier: MIT
"""The page of `allotrope locality`: its axes, and that a browser cuts none of its labels."""

import copy
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from allotrope.features.locality.page import locality_page
from browser import Browser, browser  # noqa: F401
from conftest import Command
from under import BUILD


@dataclass(frozen=True)
class Measured:
    page: Path
    document: dict[str, Any]
    terminal: str


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("page")
    page, result = folder / "locality.html", folder / "locality.json"
    words = ["locality", "-a", "bsd", "-a", "glibc", "--causes", "--tlb", "4K:4,2M:1"]
    words += ["--shape", "zen5-l1d", "--shape", "skylake-dtlb", "--window", "2000"]
    words += ["--html", str(page), "--json", str(result)]
    done = Command(BUILD).run(*words, "--", "seq", "1", "500")
    assert done.returncode == 0, done.stderr
    return Measured(page, json.loads(result.read_text()), done.stdout)


@pytest.fixture(scope="module")
def page(measured: Measured) -> Path:
    return measured.page


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


def test_misses_over_time_end_at_all_misses(
    measured: Measured, figures: dict[str, dict[str, Any]]
) -> None:
    for number, name in enumerate(("shape-0-windows", "shape-1-windows")):
        for run, line in zip(measured.document["runs"], figures[name]["data"], strict=True):
            assert len(line["x"]) == len(line["y"]) > 10
            assert line["y"] == sorted(line["y"])
            assert line["y"][-1] == run["caches"]["shapes"][number]["misses"] > 0


def with_a_chatterer(measured: Measured) -> dict[str, Any]:
    """glibc's run, and beside it that of an allocator which misses and faults more, but makes so
    many references which hit that a smaller share of them does."""
    quiet = next(run for run in measured.document["runs"] if run["allocator"] == "glibc")
    chatty = copy.deepcopy(quiet) | {"allocator": "chatty"}
    for one in chatty["recordings"]:
        one["counts"] = [one["counts"][0], *(2 * count for count in one["counts"][1:])]
    for kind in ("pages", "caches", "tlb"):
        chatty[kind]["references"] *= 4
        for part in chatty[kind]["classes"]:
            part["references"] *= 4
    for kind in ("caches", "tlb"):
        for part in chatty[kind]["blocks"]:
            part["touches"] *= 4
        for one in (*chatty[kind]["results"], *chatty[kind].get("shapes", [])):
            one["misses"] *= 2
        for shape in chatty[kind].get("shapes", []):
            for key in ("misses_by_window", "misses_by_set"):
                shape[key] = [2 * count for count in shape[key]]
    for whole in chatty["tlb"]["fully_associative"]:
        for point in whole["curve"]:
            point["misses"] *= 2
    for part in chatty["pages"]["pages"]:
        for point in part["curve"]:
            point["faults"] = part["cold"] + 2 * (point["faults"] - part["cold"])
    return measured.document | {"runs": [quiet, chatty]}


def test_allocators_are_compared_by_counts(measured: Measured) -> None:
    """The program's work is the same; a rate would praise the one with more references."""
    drawn = locality_page(with_a_chatterer(measured))
    verdicts = [one.text for one in drawn.advice if one.title.startswith("Misses of ")]
    assert len(verdicts) == 2
    for verdict in verdicts:
        assert " under glibc; more under chatty (" in verdict and ", 2.000 times)." in verdict
    compared = [one for section in drawn.sections for one in section.figures if len(one.data) == 4]
    assert {one.name.split("-")[0] for one in compared} == {"faults", "misses", "tlb"}
    for figure in compared:
        ratios = [ratio for ratio in figure.data[3]["y"] if ratio is not None]
        assert ratios and set(ratios) == {2}, figure.name
    for name in ("shape-0-windows", "shape-0-sets"):
        [figure] = [one for part in drawn.sections for one in part.figures if one.name == name]
        quiet, chatty = (line["y"] for line in figure.data)
        assert chatty == [2 * count for count in quiet]
    tables = {table.caption: table for section in drawn.sections for table in section.tables}
    of_tlbs = "Misses of TLBs, fully associative, pages of 4 KiB"
    for title in ("Misses, 8 ways, blocks of 64 bytes", of_tlbs):
        assert list(tables[title].header)[1:] == ["glibc", "chatty"]
        for _, *cells in tables[title].rows:
            quiet, chatty = (int(cell.replace(",", "")) for cell in cells)
            assert chatty == 2 * quiet
    words = " ".join(json.dumps(one.layout) + one.caption + one.title for one in compared)
    assert "per million" not in words and "rate" not in words


def test_a_tlb_table_reaches_as_far_as_the_largest_run(measured: Measured) -> None:
    """One whose pages all fit early does not cut the rows of one that goes on missing."""
    document = with_a_chatterer(measured)
    quiet, chatty = (run["tlb"] for run in document["runs"])
    for whole in chatty["fully_associative"]:
        whole["curve"][-1]["blocks"] *= 8
    for runs in (document["runs"], document["runs"][::-1]):
        drawn = locality_page(document | {"runs": runs})
        tables = {table.caption: table for part in drawn.sections for table in part.tables}
        for name in ("fully associative", "4 ways"):
            rows = tables[f"Misses of TLBs, {name}, pages of 4 KiB"].rows
            last = int(rows[-1][0].replace(",", ""))
            assert last >= 4 * quiet["fully_associative"][0]["curve"][-1]["blocks"], name


def test_a_rate_is_told_of_one_run_alone(measured: Measured) -> None:
    only = measured.document | {"runs": measured.document["runs"][:1]}
    drawn = locality_page(only)
    figures = {one.name: one for section in drawn.sections for one in section.figures}
    assert figures["misses-64-8"].title.startswith("Miss rate")
    [result] = [
        one
        for one in only["runs"][0]["caches"]["results"]
        if (one["block"], one["ways"], one["bytes"]) == (64, 8, 32 << 10)
    ]
    [touches] = [
        one["touches"] for one in only["runs"][0]["caches"]["blocks"] if one["block"] == 64
    ]
    [line] = figures["misses-64-8"].data
    shown = dict(zip(line["x"], line["y"]))[32 << 10]
    assert shown == pytest.approx(100 * result["misses"] / touches)
    tables = {table.caption: table for section in drawn.sections for table in section.tables}
    [row] = [
        row
        for row in tables["Misses, 8 ways, blocks of 64 bytes"].rows
        if row[0] in ("32 KiB", "32.0 KiB")
    ]
    assert list(row[1:]) == [f"{result['misses']:,}", f"{result['misses'] / touches:.4%}"]


@pytest.mark.parametrize("why", ["range", "status"])
def test_work_that_is_not_the_same_gets_no_verdict(measured: Measured, why: str) -> None:
    document = with_a_chatterer(measured)
    if why == "range":
        for run in document["runs"]:
            for kind in ("pages", "caches", "tlb"):
                run[kind]["filter"] = {"references": [0, 1000]}
    else:
        document["runs"][1]["status"] = 7
    said = [str(one) for one in locality_page(document).advice]
    assert any(one.startswith("No verdict") for one in said)
    assert not any("more under" in one or "fewer under" in one for one in said)


def test_the_terminal_tells_of_shapes_and_windows(measured: Measured) -> None:
    lines = measured.terminal.splitlines()
    shapes = lines[lines.index("Shapes") :]
    over_time = shapes[next(i for i, line in enumerate(shapes) if "over time" in line) :]
    for run in measured.document["runs"]:
        width = run["caches"]["windows"]["width"]
        for shape in run["caches"]["shapes"]:
            name = f"{shape['shape']}, {run['allocator']}"
            row = next(line for line in shapes if line.startswith(name))
            assert f" {shape['misses']:,} " in row
            row = next(line for line in over_time if line.startswith(name))
            assert f" {width:,} references " in row
            assert f" {max(shape['misses_by_window']):,} " in row
    assert any("every window" in line and "--html" in line for line in lines)


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
