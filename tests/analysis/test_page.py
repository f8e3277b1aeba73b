# SPDX-License-Identifier: MIT
"""The page: what is on it, and that a browser draws it without a word to anyone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from allotrope.features.compare import heap_page
from allotrope.features.compare import page as compare_page
from allotrope.output import page
from allotrope.output.plots import decades_axis
from browser import DESKTOP, PHONE, Browser, browser  # noqa: F401
from conftest import Command


@pytest.fixture(scope="module")
def written(mock_build: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A comparison's page and JSON, with an allocator that fails and markup in the command."""
    folder = tmp_path_factory.mktemp("page")
    files = {kind: folder / f"result.{kind}" for kind in ("html", "json")}
    specs = ("-a", "glibc", "-a", "mock", "-a", "mock:arenas=2", "-a", "mock:crash")
    outputs = [word for kind, file in files.items() for word in (f"--{kind}", str(file))]
    done = Command(mock_build).run(
        "compare", "--rounds", "7", *specs, *outputs, "--", "echo", "</script><b>&x"
    )
    assert done.returncode == 1, done.stderr
    assert "Not for this program: mock:crash failed in warm-up" in done.stdout
    return files


def document(written: dict[str, Path]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written["json"].read_text())
    return found


class TestContents:
    def test_every_figure_is_on_the_page(self, written: dict[str, Path]) -> None:
        text = written["html"].read_text()
        for sentence in ("Not for this program", "mock:crash is missing here", "What it lacked"):
            assert sentence in text
        for result in document(written)["results"]:
            assert result["spec"] in text
            for value in (result["cpu_seconds"] or {"rounds": []})["rounds"]:
                assert f"<td>{value:.6g}</td>" in text

    def test_markup_of_the_command_is_text(self, written: dict[str, Path]) -> None:
        text = written["html"].read_text()
        assert "</script><b>" not in text and "&lt;/script&gt;&lt;b&gt;" in text

    def test_page_names_no_address(self, written: dict[str, Path]) -> None:
        shell = re.sub(r'id="plotly">[^<]*<', 'id="plotly"><', written["html"].read_text())
        assert not re.search(r"https?:|src=|@import|url\(", shell)
        assert len(shell) < 200_000

    def test_what_the_run_lacks_is_said(self, written: dict[str, Path]) -> None:
        whole = compare_page.compare_page(document(written))
        words = " ".join(line for section in whole.sections for line in section.paragraphs)
        assert "Peak memory of all processes: not measured" in words
        assert "No account of the heap exists for glibc, mock:crash" in words
        tables = {table.caption: table for section in whole.sections for table in section.tables}
        failed = [row for row in tables["Medians with their ranges"].rows if "crash" in row[1]]
        assert failed and all(row[2:] == ["–"] * 4 for row in failed)

    def test_nothing_measured_is_a_page_too(self, written: dict[str, Path]) -> None:
        empty = document(written)
        for result in empty["results"]:
            for quantity, _, _ in compare_page.QUANTITIES:
                result[quantity] = None
            result["heap"] = None
        assert "Nothing was measured" in page.render(compare_page.compare_page(empty))

    def test_waste_and_requests_add_up(self, written: dict[str, Path]) -> None:
        heap = document(written)["results"][1]["heap"]
        parts = [heap_page._part(heap, key) for key, _, _ in heap_page.PARTS]
        assert parts == [500, 1, 2, 3, 5, 4]

    def test_the_page_follows_from_the_json_alone(
        self, written: dict[str, Path], mock_build: Path, tmp_path: Path
    ) -> None:
        again = tmp_path / "again.html"
        words = ["compare", "--from", str(written["json"]), "--html", str(again)]
        done = Command(mock_build).run(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert again.read_bytes() == written["html"].read_bytes()

    def test_missing_module_is_named_before_measuring(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(page.UserError, match="python3-jinja2"):
            page.check_page_modules()


class TestFront:
    @pytest.mark.parametrize(
        "points, front",
        [
            ([(1, 1)], [(1, 1)]),
            ([(1, 2), (2, 1)], [(1, 2), (2, 1)]),
            ([(1, 1), (2, 1), (1, 2)], [(1, 1)]),
            ([(3, 1), (1, 3), (2, 2), (2, 4)], [(1, 3), (2, 2), (3, 1)]),
            ([(1, 1), (1, 1)], [(1, 1)]),
        ],
    )
    def test_pareto_front_is_what_nothing_beats_in_both(self, points: Any, front: Any) -> None:
        assert compare_page.pareto_front(points) == front


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
class TestInBrowser:
    def test_draws_without_errors_or_requests(
        self, browser: Browser, written: dict[str, Path], size: Any, scheme: str  # noqa: F811
    ) -> None:
        browser.open(written["html"], size, scheme)
        assert browser.run("return document.getElementById('trouble').hidden") is True
        drawn = browser.run(
            "return [...document.querySelectorAll('.plot')].map("
            "plot => plot.querySelectorAll('.trace path, .bars path').length)"
        )
        assert len(drawn) >= 4 and all(drawn)
        assert browser.errors() == []
        assert browser.requests() == [written["html"].resolve().as_uri()]

    def test_fits_the_screen_and_follows_the_scheme(
        self, browser: Browser, written: dict[str, Path], size: Any, scheme: str  # noqa: F811
    ) -> None:
        browser.open(written["html"], size, scheme)
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        paper = browser.run("return getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", paper)[:3])) > 384
        assert light == (scheme == "light")
        widest = browser.run(
            "return Math.max(...[...document.querySelectorAll('.main-svg')].map("
            "plot => plot.getBoundingClientRect().right))"
        )
        assert widest <= size[0]

    def test_hover_tells_the_figures(
        self, browser: Browser, written: dict[str, Path], size: Any, scheme: str  # noqa: F811
    ) -> None:
        browser.open(written["html"], size, scheme)
        x, y = browser.run(
            "const point = document.querySelector('#trade-off .scatterlayer .points path');"
            "point.scrollIntoView({block: 'center'});"
            "const box = point.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]"
        )
        browser.move_to(x + 1, y + 1)
        browser.move_to(x, y)
        text = browser.wait_for("#trade-off .hoverlayer .hovertext")
        assert "CPU" in text and "memory" in text


@pytest.mark.parametrize(
    "values, ticks",
    [
        ([14.774, 99.9997], [20, 50, 100]),  # the margin round the values reaches 100
        ([10.0001, 60.0], [10, 20, 50]),
        ([14.0, 90.0], [20, 50]),
    ],
)
def test_a_tick_stands_wherever_a_short_logarithmic_axis_reaches_it(
    values: list[float], ticks: list[float]
) -> None:
    axis = decades_axis("survive, %", values)
    assert axis["type"] == "log" and axis["tickvals"] == ticks


def test_words_in_tables_are_not_squeezed_on_a_phone(
    browser: Browser, written: dict[str, Path]  # noqa: F811
) -> None:
    """Some three words a line, and a table of at most three columns fits."""
    browser.open(written["html"], PHONE)
    widths = browser.run(
        "return [...document.querySelectorAll('.words td:last-child')]"
        ".map(cell => cell.offsetWidth)"
    )
    assert len(widths) > 5 and min(widths) >= 170
    reach = browser.run(
        "return [...document.querySelectorAll('.words')]"
        ".filter(table => table.rows[0].cells.length <= 3)"
        ".map(table => table.getBoundingClientRect().right)"
    )
    assert max(reach) <= PHONE[0]


def test_colours_change_with_the_scheme(
    browser: Browser, written: dict[str, Path]  # noqa: F811
) -> None:
    browser.open(written["html"])
    ask = "return document.querySelector('#trade-off .points path').style.fill"
    light = browser.run(ask)
    browser.scheme("dark")
    browser.wait_until(lambda: browser.run(ask) != light)


def test_prints_on_white_and_returns(
    browser: Browser, written: dict[str, Path]  # noqa: F811
) -> None:
    browser.open(written["html"], DESKTOP, "dark")
    assert browser.print_pdf().startswith(b"%PDF")
    assert browser.run("return document.documentElement.classList.contains('print')") is False
    assert browser.errors() == []


def test_broken_drawing_is_told(
    browser: Browser, written: dict[str, Path], tmp_path: Path  # noqa: F811
) -> None:
    text = re.sub(r'id="plotly">[^<]{99}', 'id="plotly">', written["html"].read_text())
    (tmp_path / "broken.html").write_text(text)
    browser.open(tmp_path / "broken.html")
    trouble = browser.run("return document.getElementById('trouble').textContent")
    assert "cannot draw the pictures" in trouble
