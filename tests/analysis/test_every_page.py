# SPDX-License-Identifier: MIT
"""Every page that a command makes, on a telephone and on a large screen: no label is cut or
covered, nothing is wider than the screen, and the file can be mailed."""

import shlex
from pathlib import Path

import pytest
from browser import Browser, browser  # noqa: F401
from conftest import Command
from under import BUILD, PYTHON

SCREENS = {"telephone": (400, 850), "screen": (1600, 1000)}
MOST_BYTES = 1_100_000
# The boxes of a flame graph that have room for their function's name.
NAMES_IN_FLAMES = """
return [...document.querySelectorAll('#flames-peak text')]
  .filter(label => label.getBoundingClientRect().width > 0).length;
"""
SIMULATED = ("pages", "caches", "tlb", "locality")
ALLOCATORS = ("-a", "glibc", "-a", "blocks", "-a", "bsd", "-a", "knuth", "-a", "gc")
# Blocks of many sizes, some kept, from a deep stack; long enough for a timeline.
PROGRAM = """
import time
kept = []
def keep(depth):
    if depth:
        list(map(keep, [depth - 1]))
    else:
        kept.append([bytes(1 << power) for power in range(5, 18)])
for turn in range(30):
    keep(20)
    time.sleep(0.02)
    del kept[: len(kept) // 3]
"""


@pytest.fixture(scope="module")
def recordings(real: Command, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    trace = folder / "a-trace-whose-name-is-longer-than-a-telephone-is-wide.alt"
    files = {"program": program, "events": folder / "run.ale", "trace": trace}
    short = ["-I", "-S", "-c", "kept = [str(n) for n in range(3000)]"]
    for word, kind, command in (
        ("events", "events", ["-I", "-S", str(program)]),
        ("record", "trace", short),
    ):
        done = real.run(word, "-o", str(files[kind]), "--", PYTHON, *command)
        assert done.returncode == 0, done.stderr
    return files


def lines(files: dict[str, Path], page: Path) -> dict[str, list[str]]:
    html = ["--html", str(page)]
    python = ["--", PYTHON, "-I", "-S"]
    program = [*python, str(files["program"])]
    short = [*python, "-c", "kept = [str(n) for n in range(3000)]"]
    load = shlex.join(
        [str(BUILD / "allotrope-load"), "--port", "{port}", "--rate", "10", "--seconds", "1"]
        + ["--protocol", "http", "GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"]
    )
    serve = f"{PYTHON} -m http.server {{port}} --bind 127.0.0.1 --directory {{dir}}"
    server = ["--server", serve, "--load", load]
    suite = ["compare", *html, "--rounds", "2", "--vary", "n=10,2000", *ALLOCATORS[:6]]
    return {
        "compare": ["compare", *html, "--rounds", "9", "--latency", *ALLOCATORS, *short],
        "server": ["compare", *html, "--rounds", "2", *ALLOCATORS[:4], *server],
        "suite": [*suite, *python, "-c", "kept = [str(n) for n in range({n})]"],
        "sites": ["sites", *html, "-a", "blocks", *program],
        "lifetimes": ["lifetimes", *html, str(files["events"])],
        "replay": ["replay", *html, "--rounds", "2", *ALLOCATORS, str(files["events"])],
        "pages": ["simulate", "pages", *html, str(files["trace"])],
        "caches": ["simulate", "caches", *html, str(files["trace"])],
        "tlb": ["simulate", "tlb", *html, str(files["trace"])],
        # A recorded Python takes seconds to start.
        "locality": ["locality", *html, "-a", "blocks", "-a", "bsd", "-a", "knuth"]
        + ["--", "ls", "/usr/bin"],
        "vm": ["vm", *html, "--rounds", "1", "table", "stops"],
    }


@pytest.mark.parametrize(
    "kind", ["compare", "server", "suite", "sites", "lifetimes", "replay", *SIMULATED, "vm"]
)
def test_page_is_readable(
    real: Command,
    recordings: dict[str, Path],
    tmp_path: Path,
    browser: Browser,  # noqa: F811
    kind: str,
) -> None:
    page = tmp_path / "page.html"
    done = real.run(*lines(recordings, page)[kind])
    assert page.exists(), done.stderr
    assert page.stat().st_size < MOST_BYTES
    for screen, size in SCREENS.items():
        browser.open(page, size)
        assert browser.errors() == []
        assert browser.labels_in_trouble() == [], screen
        assert browser.run("return document.documentElement.scrollWidth") <= size[0], screen
        if kind == "sites":
            assert browser.run(NAMES_IN_FLAMES) > 5, screen
