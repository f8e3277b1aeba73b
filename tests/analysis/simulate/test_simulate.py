# SPDX-License-Identifier: MIT
"""`allotrope simulate` on whole streams: against plain models, and against cachegrind."""

import csv
import functools
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from allotrope.commands.simulate import say_closing_line
from allotrope.features.cluster.simulate import join_documents
from allotrope.features.locality.page import simulation_page
from conftest import Command
from rich.console import Console
from under import BUILD, HANG

# Address, size, whether it stores.
Reference = tuple[int, int, bool]

# The same for both of Valgrind's tools, so that the program's stack is the same too.
PLAIN_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
TRACED = ["seq", "1", "500"]


@pytest.fixture
def command() -> Command:
    return Command(BUILD)


def lackey_text(references: list[Reference]) -> str:
    lines = [
        f" {'S' if store else 'L'} {address:08x},{size}" for address, size, store in references
    ]
    return "\n".join(["==1== Lackey", "I  04001090,3", *lines]) + "\n"


@functools.cache
def read_lackey(path: Path) -> list[Reference]:
    """Of a file that no test changes."""
    references = []
    text = path.read_text()
    for kind, address, size in re.findall(r"^ ([LSM]) ([0-9a-f]+),(\d+)$", text, re.MULTILINE):
        place = (int(address, 16), int(size))
        references += [(*place, False)] if kind in "LM" else []
        references += [(*place, True)] if kind in "SM" else []
    return references


def units(reference: Reference, unit: int) -> range:
    address, size, _ = reference
    return range(address // unit, (address + size - 1) // unit + 1)


def naive_faults(references: list[Reference], page: int, frames: int) -> int:
    memory: OrderedDict[int, None] = OrderedDict()
    faults = 0
    for reference in references:
        for number in units(reference, page):
            if number not in memory:
                faults += 1
                if len(memory) == frames:
                    memory.popitem(last=False)
            memory[number] = None
            memory.move_to_end(number)
    return faults


def naive_cache(references: list[Reference], block: int, sets: int, ways: int) -> tuple[int, int]:
    """Misses and write-backs."""
    cache: list[OrderedDict[int, bool]] = [OrderedDict() for _ in range(sets)]
    misses = write_backs = 0
    for reference in references:
        for number in units(reference, block):
            blocks = cache[number % sets]
            if number not in blocks:
                misses += 1
                if len(blocks) == ways:
                    write_backs += blocks.popitem(last=False)[1]
            blocks[number] = blocks.get(number, False) or reference[2]
            blocks.move_to_end(number)
    return misses, write_backs


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lackey's text of a real program."""
    path = tmp_path_factory.mktemp("lackey") / "seq.lackey"
    with path.open("wb") as log:
        tool = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-fd={log.fileno()}"]
        subprocess.run(
            [*tool, *TRACED],
            env=PLAIN_ENVIRONMENT,
            pass_fds=[log.fileno()],
            stdout=subprocess.DEVNULL,
            check=True,
        )
    return path


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random references, many of which straddle."""
    generator = random.Random(1992)
    references = [
        (
            0x10000 + generator.randrange(1 << generator.randrange(4, 20)),
            generator.choice([1, 4, 8, 16, 32, 200]),
            generator.random() < 0.3,
        )
        for _ in range(5000)
    ]
    path = tmp_path_factory.mktemp("invented") / "random.lackey"
    path.write_text(lackey_text(references))
    return path


@pytest.fixture(params=["recorded", "invented"])
def stream(request: pytest.FixtureRequest) -> Path:
    path = request.getfixturevalue(request.param)
    assert isinstance(path, Path)
    return path


def simulate(command: Command, *arguments: str) -> Any:
    done = command.run("simulate", *arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def faults_with(curve: list[dict[str, int]], frames: int) -> int:
    """Of the last point up to there. Frames ascend."""
    return curve[bisect_right(curve, frames, key=itemgetter("frames")) - 1]["faults"]


def test_page_curves_equal_a_plain_lru_memory(command: Command, stream: Path) -> None:
    references = read_lackey(stream)
    document = simulate(command, "pages", "--page-size", "64,4096,8192", str(stream))
    assert document["schema"] == "allotrope.simulate.pages/1"
    assert document["references"] == len(references)
    assert document["stores"] == sum(store for _, _, store in references)
    for page in document["pages"]:
        size = page["page_size"]
        touched = [number for reference in references for number in units(reference, size)]
        assert page["touches"] == len(touched)
        assert page["cold"] == len(set(touched))
        for frames in (1, 2, 3, 7, 16, 17, 40, 200, 5000):
            assert faults_with(page["curve"], frames) == naive_faults(references, size, frames)


def test_curves_hold_a_point_for_every_change(command: Command, invented: Path) -> None:
    for page in simulate(command, "pages", str(invented))["pages"]:
        faults = [point["faults"] for point in page["curve"]]
        assert faults == sorted(set(faults), reverse=True)
        assert page["curve"][0]["frames"] == 1
        assert faults[-1] == page["cold"]
        assert {point["cold"] for point in page["curve"]} == {page["cold"]}


def test_caches_equal_plain_ones(command: Command, stream: Path) -> None:
    references = read_lackey(stream)
    document = simulate(command, "caches", str(stream))
    assert document["schema"] == "allotrope.simulate.caches/1"
    assert len(document["results"]) == 2 * 13 * 16
    results = {(r["block"], r["sets"], r["ways"]): r for r in document["results"]}
    for shape in [(32, 32, 1), (32, 64, 3), (64, 128, 16), (64, 32, 8), (32, 4096, 1)]:
        result = results[shape]
        assert (result["misses"], result["write_backs"]) == naive_cache(references, *shape)
        assert result["bytes"] == shape[0] * shape[1] * shape[2]
        assert sum(result["misses_by_class"].values()) == result["misses"]


def test_lines_of_16_bytes_equal_plain_ones(command: Command, stream: Path) -> None:
    references = read_lackey(stream)
    document = simulate(command, "caches", "--block", "16:4", "--shape", "16:48:3", str(stream))
    results = {(r["block"], r["sets"], r["ways"]): r for r in document["results"]}
    for result in (results[16, 32, 1], results[16, 64, 4], document["shapes"][0]):
        shape = (result["block"], result["sets"], result["ways"])
        assert (result["misses"], result["write_backs"]) == naive_cache(references, *shape)


def misses_with(curve: list[dict[str, int]], blocks: int) -> int:
    return curve[bisect_right(curve, blocks, key=itemgetter("blocks")) - 1]["misses"]


def test_tlbs_equal_plain_caches_of_pages(command: Command, stream: Path) -> None:
    references = read_lackey(stream)
    document = simulate(command, "tlb", "--tlb", "4K,2M:4", "--shape", "zen4-dtlb", str(stream))
    assert document["schema"] == "allotrope.simulate.tlb/1"
    assert len(document["results"]) == 13 * 16 + 13 * 4
    results = {(r["block"], r["sets"], r["ways"]): r for r in document["results"]}
    for shape in [(4096, 4, 1), (4096, 16, 4), (4096, 128, 12), (2 << 20, 4, 1), (2 << 20, 8, 4)]:
        result = results[shape]
        assert (result["misses"], result["write_backs"]) == naive_cache(references, *shape)
        assert result["misses"] == result["cold"] + result["capacity"] + result["conflict"]
    for whole in document["fully_associative"]:
        for entries in (1, 2, 3, 5, 16, 72, 5000):
            faults = naive_faults(references, whole["block"], entries)
            assert misses_with(whole["curve"], entries) == faults
    [named] = document["shapes"]
    assert (named["block"], named["sets"], named["ways"]) == (4096, 1, 72)
    assert named["misses"] == misses_with(document["fully_associative"][0]["curve"], 72)


def test_a_tlb_curve_is_the_page_faults_of_such_a_memory(command: Command, recorded: Path) -> None:
    [page] = simulate(command, "pages", "--page-size", "4K", str(recorded))["pages"]
    [tlb] = simulate(command, "tlb", "--tlb", "4K:1", str(recorded))["fully_associative"]
    points = [(point["frames"], point["faults"]) for point in page["curve"]]
    assert points == [(point["blocks"], point["misses"]) for point in tlb["curve"]]


def test_causes_add_up_to_the_misses(command: Command, stream: Path) -> None:
    references = read_lackey(stream)
    document = simulate(command, "caches", "--block", "64", str(stream))
    for result in document["results"]:
        assert result["misses"] == result["cold"] + result["capacity"] + result["conflict"]
    result = document["results"][16 + 3]
    assert (result["sets"], result["ways"]) == (64, 4)
    whole, _ = naive_cache(references, 64, 1, 256)
    assert result["cold"] + result["capacity"] == whole


def test_shapes_of_any_size_equal_plain_ones(command: Command, stream: Path) -> None:
    references = read_lackey(stream)
    shapes = [(64, 48, 12), (64, 16, 20), (32, 3, 5)]
    options = [word for shape in shapes for word in ("--shape", "%d:%d:%d" % shape)]
    document = simulate(command, "caches", "--shape", "zen5-l1d", *options, str(stream))
    named, *others = document["shapes"]
    assert (named["shape"], named["bytes"]) == ("zen5-l1d", 48 * 1024)
    for shape, result in zip(shapes, others, strict=True):
        assert (result["misses"], result["write_backs"]) == naive_cache(references, *shape)
        assert sum(result["misses_by_set"]) == result["misses"]
        assert sum(part["misses"] for part in result["misses_by_function"]) == result["misses"]


def cachegrind_misses(shape: tuple[int, int, int]) -> int:
    block, sets, ways = shape
    tool = "valgrind --tool=cachegrind --cache-sim=yes --cachegrind-out-file=/dev/null".split()
    tool += [f"--D1={block * sets * ways},{ways},{block}", "--LL=8388608,16,64"]
    # Standard output as in the recorded run: the program's buffering depends on what it is.
    done = subprocess.run(
        [*tool, *TRACED],
        env=PLAIN_ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = re.search(r"D1  misses:\s+([\d,]+)", done.stderr)
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("shape", [(32, 1024, 1), (64, 64, 8), (64, 64, 12), (32, 128, 2)])
def test_misses_equal_cachegrinds(
    command: Command, recorded: Path, shape: tuple[int, int, int]
) -> None:
    arguments = ["--straddles-once", "--shape", "%d:%d:%d" % shape]
    arguments += ["--block", "32:1", "--no-causes"]
    document = simulate(command, "caches", *arguments, str(recorded))
    assert document["shapes"][0]["misses"] == cachegrind_misses(shape)


def test_the_number_of_threads_changes_nothing(command: Command, recorded: Path) -> None:
    for word in ("pages", "caches"):
        one, three = (simulate(command, word, "--threads", n, str(recorded)) for n in ("1", "3"))
        assert one == three


def test_count_takes_the_first_references(command: Command, recorded: Path) -> None:
    references = read_lackey(recorded)[:50000]
    document = simulate(command, "pages", "--count", "50000", str(recorded))
    assert document["references"] == 50000
    assert faults_with(document["pages"][0]["curve"], 8) == naive_faults(references, 4096, 8)


def far_apart(count: int) -> Iterator[Reference]:
    generator = random.Random(7)
    for _ in range(count):
        yield generator.randrange(40000) * 4096, 8, False


def test_a_page_sample_states_its_error(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "far.lackey"
    path.write_text(lackey_text(list(far_apart(200000))))
    wholes = [
        simulate(command, "pages", *words, "--page-size", "4096", str(path))
        for words in ((), ("--sample",))
    ]
    exact, sampled = (whole["pages"][0] for whole in wholes)
    assert exact["sample"] is None
    sample = sampled["sample"]
    assert sample["of"] > 1 and 8192 <= sample["pages"] <= 17536
    assert sample["error"]["references"] == 200000
    differences = [
        abs(point["faults"] - faults_with(sampled["curve"], point["frames"])) / exact["touches"]
        for point in exact["curve"]
    ]
    assert sample["error"]["largest"] == pytest.approx(max(differences), abs=1e-4)
    assert max(differences) < 0.03
    (said,) = notes("pages", wholes[1], "Sample")
    assert said.startswith(f"pages of 4 KiB: one page in {sample['of']} was followed; error ")
    assert notes("pages", wholes[0], "Sample") == []


def notes(kind: str, document: dict[str, Any], title: str) -> list[str]:
    """What the page says under this title."""
    drawn = simulation_page("a trace", kind, document)
    return [one.text for one in drawn.advice if one.title == title]


def test_a_cache_sample_states_its_error(command: Command, recorded: Path) -> None:
    arguments = ["caches", "--block", "32:2", "--no-causes"]
    exact = simulate(command, *arguments, str(recorded))
    sampled = simulate(command, *arguments, "--sample", "16", str(recorded))
    touches = exact["blocks"][0]["touches"]
    differences = [
        abs(one["misses"] - other["misses"]) / touches
        for one, other in zip(exact["results"], sampled["results"], strict=True)
    ]
    error = sampled["blocks"][0]["sample"]["error"]
    assert error["largest"] == pytest.approx(max(differences), abs=1e-6)
    assert error["mean"] == pytest.approx(sum(differences) / len(differences), abs=1e-6)
    (said,) = notes("caches", sampled, "Sample")
    assert said.startswith("blocks of 32 bytes: 16 of 32 slices were simulated; error ")
    assert notes("caches", exact, "Sample") == []


def test_tables_and_csv_hold_the_same_figures(command: Command, invented: Path) -> None:
    table = command.run("simulate", "caches", "--shape", "zen5-l3", str(invented))
    assert table.returncode == 0
    assert "direct-mapped" in table.stdout and "zen5-l3" in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 100
    done = command.run("simulate", "pages", "--csv", "-", str(invented))
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    document = simulate(command, "pages", str(invented))
    points = [
        (page["page_size"], point["frames"], point["faults"])
        for page in document["pages"]
        for point in page["curve"]
    ]
    assert points == [
        (int(row["page_size"]), int(row["frames"]), int(row["faults"]))
        for row in rows
        if row["class"] == "all"
    ]


SHAPE = ["--shape", "64:64:8"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pages", "missing.alt"], ["missing.alt", "No such file"]),
        (["pages", "--page-size", "5000", "FILE"], ["--page-size", "5000", "power of two"]),
        (["pages", "--page-size", "4096,", "FILE"], ["--page-size", '""']),
        (["caches", "--block", "32:17", "FILE"], ["--block", '"17"', "1 to 16"]),
        (["caches", "--window", "1", *SHAPE, "FILE"], ["--window", '"1"', "from 256"]),
        (["caches", "--window-bytes", "x", *SHAPE, "FILE"], ["--window-bytes", '"x"', "from 256"]),
        (["caches", "--window-bytes", "1K", *SHAPE, "FILE"], ["--window-bytes", "lackey"]),
        (["caches", "--block", "8", "FILE"], ["--block", '"8"', "from 16 to 4096"]),
        (["caches", "--block", "4Q", "FILE"], ["--block", '"4Q"', "from 16 to 4096"]),
        (["caches", "--block", "99999999999G", "FILE"], ["--block", "99999999999G"]),
        (["tlb", "--tlb", "2K", "FILE"], ["--tlb", '"2K"', "from 4096 to 1073741824"]),
        (["tlb", "--tlb", "4K,4096", "FILE"], ["--tlb", "4096 is given twice"]),
        (["tlb", "--tlb", "12K", "FILE"], ["--tlb", "12288 is no power of two"]),
        (["tlb", "--shape", "2G:1:1", "FILE"], ["2G:1:1", "zen4-dtlb"]),
        (["caches", "--sample", "32", "FILE"], ["--sample", '"32"', "1 to 31"]),
        (["caches", "--shape", "64:0:8", "FILE"], ["64:0:8", "zen5-l1d"]),
        (["caches", "--shape", "64:64:4294967297", "FILE"], ["64:64:4294967297", "1 to 1024"]),
        (["caches", "--shape", "64: 64:+8", "FILE"], ['"64: 64:+8"', "BLOCK:SETS:WAYS"]),
        (["caches", "--shape", "64:64:8:", "FILE"], ['"64:64:8:"', "BLOCK:SETS:WAYS"]),
        (["caches", "--block", "32,32", "FILE"], ["32 is given twice"]),
        (["caches", "--json", "-", "--csv", "-", "FILE"], ["--json", "--csv"]),
        (["pages", "--json", "/nowhere/out.json", "FILE"], ["/nowhere/out.json"]),
        (["pages", "/"], ["/", "directory"]),
        (["pages", "/dev/null"], ["/dev/null", "no references"]),
        (["pages", "--count", "0", "FILE"], ["--count", '"0"']),
        (["pages", "--threads", "0", "FILE"], ["--threads", '"0"']),
        (["pages", "--jobs", "0", "FILE"], ["--jobs", '"0"', "1 to 256"]),
        (["pages", "--jobs", "2", "FILE"], ["--jobs", "lackey's text"]),
        (["pages", "--jobs", "2", "--threads", "2", "FILE"], ["--jobs", "--threads"]),
        (["pages", "--jobs", "2", "--sample", "FILE"], ["--jobs", "--sample"]),
        (["caches", "--jobs", "2", "--sample", "8", "FILE"], ["--jobs", "--sample"]),
        (["pages", "--jobs", "2", "--region", "heap", "FILE"], ["--jobs", "--region"]),
        (
            ["pages", "--jobs", "2", "--count", "9", "--references", "5:", "FILE"],
            ["--jobs", "--count"],
        ),
        (["caches", "--sample", "0", "FILE"], ["--sample", '"0"']),
        (["pages", __file__], ["line 1 ", "SPDX"]),
    ],
)
def test_bad_input_gets_one_line(
    command: Command, invented: Path, arguments: list[str], words: list[str]
) -> None:
    named = [str(invented) if word == "FILE" else word for word in arguments]
    done = command.run("simulate", *named)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("words", [("--page-size", "5000"), ("--json", "{}"), ("--csv", "{}")])
def test_a_mistake_costs_no_earlier_result(
    command: Command, invented: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    result = tmp_path / "result.json"
    result.write_text("earlier")
    named = [word.format(result) for word in words]
    done = command.run("simulate", "pages", "--json", str(result), *named, str(invented))
    assert done.returncode == 2, done.stderr
    assert result.read_text() == "earlier"


@pytest.mark.parametrize("words", [("simulate", "pages"), ("lifetimes",), ("replay",)])
def test_an_input_is_no_output(command: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
    trace, name = tmp_path / "trace", tmp_path / "name"
    trace.write_text(lackey_text([(4096, 8, False)]))
    name.symlink_to(trace)
    done = command.run(*words, "--json", str(name), str(trace))
    assert done.returncode == 2 and "already read" in done.stderr
    assert trace.stat().st_size > 0


def test_a_narrow_terminal_cuts_no_figure(command: Command, invented: Path) -> None:
    for line in (["pages"], ["caches", "--shape", "64:64:8"]):
        words = ("simulate", *line, str(invented))
        shown = [
            command.run(*words, environment={"COLUMNS": width}).stdout for width in ("40", "200")
        ]
        figures = [set(re.findall(r"[\d.,]+%?", text)) for text in shown]
        assert figures[0] == figures[1] and "…" not in shown[0]


def test_a_pattern_is_no_markup() -> None:
    """The line below the tables says which references were simulated."""
    shown = io.StringIO()
    filtered = {"function": ["[/x]", "luaV_[ab]*"]}
    document = {"references": 7, "filter": filtered, "threaded": True}
    say_closing_line(document, Console(file=shown, width=200), "a rate.")
    assert shown.getvalue().startswith("7 references (function [/x], luaV_[ab]*); a rate.\n")


def test_a_file_that_takes_no_more_is_named(command: Command, invented: Path) -> None:
    for option in ("--json", "--csv", "--html"):
        done = command.run("simulate", "pages", option, "/dev/full", str(invented))
        assert done.returncode == 2
        assert "cannot write /dev/full: No space left" in done.stderr


def test_a_killed_simulator_leaves_the_earlier_result(invented: Path, tmp_path: Path) -> None:
    program, result = BUILD / "allotrope-simulate", tmp_path / "result.json"
    result.write_text("earlier")
    words = [str(program), "pages", f"--output={result}", "-"]
    # It reads until its input ends, which it does not: what has been written to it beyond what the
    # pipe holds has been read, so it is at work.
    simulator = subprocess.Popen(words, stdin=subprocess.PIPE)
    assert simulator.stdin is not None
    simulator.stdin.write(2 * invented.read_bytes())
    simulator.stdin.flush()
    simulator.kill()
    simulator.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert result.read_text() == "earlier"


def test_a_result_replaces_the_file_that_a_link_names(invented: Path, tmp_path: Path) -> None:
    program, result, link = BUILD / "allotrope-simulate", tmp_path / "result", tmp_path / "link"
    result.write_text("earlier")
    result.chmod(0o600)
    link.symlink_to(result)
    subprocess.run([program, "pages", f"--output={link}", invented], check=True)
    assert link.is_symlink() and result.stat().st_mode & 0o777 == 0o600
    assert json.loads(result.read_text())["references"] == 5000
    assert len(list(tmp_path.iterdir())) == 2


def test_a_result_that_cannot_be_written_is_told(invented: Path) -> None:
    program = BUILD / "allotrope-simulate"
    for place, status in (("/dev/full", 1), ("/nowhere/result", 2), ("/", 2)):
        done = subprocess.run(
            [program, "pages", f"--output={place}", invented], capture_output=True, text=True
        )
        assert done.returncode == status and len(done.stderr.splitlines()) == 1


def test_text_that_is_no_trace_is_named_and_what_precedes_it_kept(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.lackey"
    path.write_text(" L 1000,8\n S 2000,8\n L zzz\n L 3000,8\n")
    done = command.run("simulate", "pages", "--json", "-", str(path))
    assert done.returncode == 1
    assert "line 3" in done.stderr and "zzz" in done.stderr
    document = json.loads(done.stdout)
    assert document["references"] == 2 and not document["whole"]


@pytest.mark.parametrize("pages", [1, 2, 63, 64, 65, 128, 256])
def test_a_curve_ends_where_all_pages_fit(command: Command, tmp_path: Path, pages: int) -> None:
    """The farthest distance may be the last that the histogram has a place for."""
    path = tmp_path / "round.lackey"
    path.write_text("".join(f" L {0x1000 * (page + 1):x},8\n" for page in range(pages)) * 2)
    document = simulate(command, "pages", str(path))
    last = document["pages"][0]["curve"][-1]
    assert (last["frames"], last["faults"], last["cold"]) == (pages, pages, pages)
    [tlb] = simulate(command, "tlb", "--tlb", "4K:1", str(path))["fully_associative"]
    assert tlb["curve"][-1] == {"blocks": pages, "misses": pages}


def test_one_reference_is_a_count(command: Command, invented: Path) -> None:
    document = simulate(command, "pages", "--count", "1", str(invented))
    assert document["references"] == 1 and document["whole"]


def test_standard_input_is_read(invented: Path) -> None:
    program = BUILD / "allotrope-simulate"
    done = subprocess.run([program, "pages", "-"], stdin=invented.open("rb"), capture_output=True)
    assert json.loads(done.stdout)["references"] == 5000


RECORDER = [str(BUILD / "trace/allotrope-trace-record"), "-t", str(BUILD / "trace/recorder")]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "seq.alt"
    subprocess.run(
        [*RECORDER, "-o", str(path), "--", *TRACED],
        env=PLAIN_ENVIRONMENT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return path


def test_a_trace_and_its_dump_give_the_same_result(
    command: Command, trace: Path, tmp_path: Path
) -> None:
    text = tmp_path / "seq.lackey"
    dump = [str(BUILD / "trace/allotrope-trace"), "dump", "lackey", str(trace)]
    text.write_bytes(subprocess.run(dump, capture_output=True, check=True).stdout)
    of_trace, of_text = (simulate(command, "pages", str(path)) for path in (trace, text))
    assert of_trace["references"] > 10000
    assert (of_trace.pop("threaded"), of_text.pop("threaded")) == (False, None)
    assert of_trace == of_text
    assert (
        simulate(command, "caches", "--no-causes", str(trace))["results"]
        == simulate(command, "caches", "--no-causes", str(text))["results"]
    )


def test_a_trace_comes_through_a_pipe(trace: Path) -> None:
    program = [str(BUILD / "allotrope-simulate"), "pages"]
    piped = subprocess.run([*program, "-"], input=trace.read_bytes(), capture_output=True)
    named = subprocess.run([*program, str(trace)], capture_output=True)
    assert piped.returncode == named.returncode == 0
    assert piped.stdout == named.stdout


def test_a_cut_off_trace_is_named_and_what_precedes_it_kept(
    command: Command, trace: Path, tmp_path: Path
) -> None:
    short = tmp_path / "short.alt"
    short.write_bytes(trace.read_bytes()[:-200])
    done = command.run("simulate", "pages", "--json", "-", str(short))
    assert len(done.stderr.splitlines()) == 1 and "short.alt" in done.stderr
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["references"] > 0
    cut = ["the file is damaged or cut short; the figures are of what came before."]
    assert notes("pages", document, "Incomplete") == cut
    assert notes("pages", simulate(command, "pages", str(trace)), "Incomplete") == []


class Row(NamedTuple):
    """A line of `trace dump`."""

    thread: str
    reference: Reference
    owner: str
    function: str


@functools.cache
def dumped(trace: Path) -> list[Row]:
    """Of a trace that no test changes."""
    dump = [str(BUILD / "trace/allotrope-trace"), "dump", "csv", str(trace)]
    text = subprocess.run(dump, capture_output=True, check=True, text=True).stdout
    lines = csv.reader(io.StringIO(text))
    assert next(lines)[:6] == ["thread", "kind", "address", "size", "class", "function"]
    return [
        Row(thread, (int(address, 16), int(size), kind == "store"), owner, function)
        for thread, kind, address, size, owner, function, *_ in lines
    ]


SEVERAL_JOBS = ["1", "2", "3", "7"]


PAGES = [str(BUILD / "allotrope-simulate"), "pages", "--page-size", "64,4096"]


def outcome(trace: Path, *options: str) -> tuple[int, bytes, bytes]:
    """Of pages small and large: status, result and messages, to the byte."""
    done = subprocess.run([*PAGES, *options, str(trace)], capture_output=True, timeout=HANG)
    return done.returncode, done.stdout, done.stderr


def joined(trace: Path, jobs: str, *options: str) -> tuple[int, bytes, bytes]:
    """The same from parts, each of a process of its own, and a process that joins them."""
    words = [*PAGES, *options, "--jobs", jobs, str(trace)]
    plan = subprocess.run([*words, "--plan"], capture_output=True, check=True)
    with tempfile.NamedTemporaryFile() as file:
        for part in range(int(plan.stdout)):
            asked = [*words[:-2], plan.stdout.decode().strip(), words[-1], "--part", str(part)]
            subprocess.run(asked, stdout=file, check=True, timeout=HANG)
        whole = ["--jobs", plan.stdout.decode().strip(), "--join", file.name]
        return outcome(trace, *options, *whole)


@pytest.mark.parametrize("jobs", SEVERAL_JOBS)
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--count", "1"],
        ["--count", "123457"],
        ["--references", "1001:190003"],
        ["--references", "5:6"],
        ["--references", "99999999:"],
        ["--thread", "2,3"],
        ["--thread", "77"],
        ["--class", "allocator"],
        ["--class", "mark"],
        ["--function", "mem*", "--function", "malloc"],
        ["--function", "nowhere*"],
        ["--references", "190000:", "--class", "program,allocator", "--thread", "1"],
    ],
)
def test_jobs_change_no_byte(threaded_trace: Path, jobs: str, options: list[str]) -> None:
    serial = outcome(threaded_trace, *options)
    assert outcome(threaded_trace, "--jobs", jobs, *options) == serial
    assert joined(threaded_trace, jobs, *options) == serial


def test_parts_that_are_not_whole_give_no_result(threaded_trace: Path, tmp_path: Path) -> None:
    words, file = [*PAGES, "--jobs", "2", str(threaded_trace)], tmp_path / "parts"
    parts = [
        subprocess.run([*words, "--part", part], capture_output=True, check=True).stdout
        for part in ("0", "1")
    ]
    for harmed in (parts[:1], parts[::-1], [parts[0], parts[0]], [parts[0], parts[1][:-8]], []):
        file.write_bytes(b"".join(harmed))
        done = subprocess.run([*words, "--join", str(file)], capture_output=True)
        assert (done.returncode, done.stdout) == (1, b"")
        assert re.fullmatch(rb"allotrope-simulate: .*a part is (missing|cut)[^\n]*\n", done.stderr)


@pytest.mark.parametrize("words", [["--part", "0"], ["--jobs", "2", "--part", "2"], ["--plan"]])
def test_parts_are_those_of_jobs(threaded_trace: Path, words: list[str]) -> None:
    done = subprocess.run([*PAGES, *words, str(threaded_trace)], capture_output=True)
    assert done.returncode == 2 and b"need --jobs=N, and K is less than N" in done.stderr


CACHE_WORDS = [
    ["caches"],
    ["caches", "--block", "16:1,64:8", "--no-causes", "--count", "123457"],
    ["caches", "--block", "4096:4", "--region", "heap", "--shape", "zen5-l1d"],
    ["tlb", "--tlb", "4K:4,2M", "--class", "allocator"],
]


@pytest.mark.parametrize("jobs", [*SEVERAL_JOBS, "256"])
@pytest.mark.parametrize("words", CACHE_WORDS)
def test_jobs_change_no_byte_of_caches(threaded_trace: Path, jobs: str, words: list[str]) -> None:
    program = [str(BUILD / "allotrope-simulate"), *words, str(threaded_trace)]
    serial = subprocess.run(program, capture_output=True, check=True)
    shared = subprocess.run([*program, "--jobs", jobs], capture_output=True, check=True)
    assert (shared.stdout, shared.stderr) == (serial.stdout, serial.stderr)


@pytest.mark.parametrize("jobs", ["1", "3", "256"])
@pytest.mark.parametrize(
    "words",
    [
        *CACHE_WORDS,
        ["caches", "--block", "32,64:4,4096:1", "--shape", "64:9:3", "--shape", "128:3:2"]
        + ["--instructions", "--window-bytes", "4K"],
        ["tlb", "--shape", "4K:16:4"],
    ],
)
def test_parts_of_caches_change_no_byte(threaded_trace: Path, jobs: str, words: list[str]) -> None:
    """Each is of a process of its own: the last of 256 has LRU stacks alone."""
    program = [str(BUILD / "allotrope-simulate"), *words, str(threaded_trace)]

    def said(*more: str) -> bytes:
        return subprocess.run([*program, *more], capture_output=True, check=True).stdout

    count = said("--jobs", jobs, "--plan").decode().strip()
    assert jobs != "256" or int(count) >= (8 if words[0] == "caches" else 4)
    parts = (said("--jobs", count, "--part", str(part)) for part in range(int(count)))
    joined = join_documents([json.loads(part) for part in parts])
    same = json.dumps(joined) == json.dumps(json.loads(said()))
    assert same  # pytest takes minutes to tell long texts apart


def test_threads_are_seen_that_meet_between_parts(threaded_trace: Path) -> None:
    """The last part begins where another thread does, which is the only one in it."""
    jobs = 256
    threads = [row.thread for row in dumped(threaded_trace)]
    begins = next(i for i, thread in enumerate(threads) if thread != threads[0])
    count = -(-begins * jobs // (jobs - 1))
    assert len(set(threads[begins:count])) == 1
    serial = outcome(threaded_trace, "--count", str(count))
    assert json.loads(serial[1])["threaded"] is True
    assert outcome(threaded_trace, "--jobs", str(jobs), "--count", str(count)) == serial


def test_the_command_takes_jobs(command: Command, threaded_trace: Path) -> None:
    trace = str(threaded_trace)
    assert simulate(command, "pages", "--jobs", "2", trace) == simulate(command, "pages", trace)


def test_jobs_need_a_file_that_can_be_sought(trace: Path) -> None:
    program = [str(BUILD / "allotrope-simulate"), "pages", "--jobs", "2"]
    for path in ("-", "/dev/stdin"):
        piped = subprocess.run([*program, path], input=trace.read_bytes(), capture_output=True)
        assert piped.returncode == 2 and piped.stdout == b""
        assert piped.stderr.count(b"\n") == 1 and b"standard input and pipes" in piped.stderr


@pytest.fixture(scope="module")
def long_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of several chunks."""
    path = tmp_path_factory.mktemp("long") / "churning.alt"
    program = [str(BUILD / "tests/trace/churning"), "150000"]
    subprocess.run([*RECORDER, "-o", str(path), "--", *program], env=PLAIN_ENVIRONMENT, check=True)
    assert len(chunks(path.read_bytes())) > 4
    return path


def chunks(trace: bytes) -> list[slice]:
    """Where a trace's chunks are: its description, some of data, the end."""
    head = int.from_bytes(trace[12:16], "little")
    found, start = [], 16
    while start + head <= len(trace):
        end = start + head + int.from_bytes(trace[start + 16 : start + 24], "little")
        found.append(slice(start, end))
        start = end
    return found


def cut_in_a_chunk(trace: bytes) -> bytes:
    return trace[: chunks(trace)[2].start + 1000]


def cut_between_chunks(trace: bytes) -> bytes:
    return trace[: chunks(trace)[3].start]


def cut_at_the_end(trace: bytes) -> bytes:
    return trace[:-200]


def with_more_behind(trace: bytes) -> bytes:
    return trace + b"more"


def without_a_chunk(trace: bytes) -> bytes:
    lost = chunks(trace)[2]
    return trace[: lost.start] + trace[lost.stop :]


def with_a_damaged_head(trace: bytes) -> bytes:
    return damaged(trace, chunks(trace)[2].start + 40)


def with_a_damaged_chunk(trace: bytes) -> bytes:
    return damaged(trace, chunks(trace)[2].stop - 100)


def with_a_damaged_first_chunk(trace: bytes) -> bytes:
    return damaged(trace, chunks(trace)[1].stop - 100)


def damaged(trace: bytes, place: int) -> bytes:
    return trace[:place] + bytes([trace[place] ^ 1]) + trace[place + 1 :]


@pytest.mark.parametrize(
    "harm",
    [
        bytes,
        cut_in_a_chunk,
        cut_between_chunks,
        cut_at_the_end,
        with_more_behind,
        without_a_chunk,
        with_a_damaged_head,
        with_a_damaged_chunk,
        with_a_damaged_first_chunk,
    ],
)
def test_jobs_change_no_byte_of_a_long_or_damaged_trace(
    long_trace: Path, harm: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path, whole = tmp_path / "trace.alt", long_trace.read_bytes()
    path.write_bytes(harm(whole))
    head = chunks(whole)[1].start
    first_chunk = int.from_bytes(whole[head + 136 : head + 144], "little")
    in_two_chunks = ["--count", str(2 * first_chunk)]
    for more in ([], ["--count", "5000001"], ["--references", "100:8000000"], in_two_chunks):
        options = ["--page-size", "4096", *more]
        serial = outcome(path, *options)
        for jobs in ("2", "7"):
            assert outcome(path, "--jobs", jobs, *options) == serial
        if not more:
            assert joined(path, "3", *options) == serial


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        (["--thread", "2,3"], lambda i, row: row.thread in ("2", "3")),
        (["--class", "allocator"], lambda i, row: row.owner == "allocator"),
        (["--function", "mem*", "--function", "malloc"], lambda i, row: named(row.function)),
        (["--references", "5000:190000"], lambda i, row: 5000 <= i < 190000),
        (["--references", ":70000"], lambda i, row: i < 70000),
        (
            ["--references", "190000:", "--class", "program,allocator", "--thread", "1"],
            lambda i, row: i >= 190000 and row.thread == "1",
        ),
    ],
)
def test_a_filter_leaves_what_it_says(
    command: Command, threaded_trace: Path, options: list[str], passes: Any
) -> None:
    """Held against the dump, and a plain model over what of it should pass."""
    rows = dumped(threaded_trace)
    left = [row for i, row in enumerate(rows) if passes(i, row)]
    assert 0 < len(left) < len(rows)
    document = simulate(command, "tlb", "--tlb", "4K:2", *options, str(threaded_trace))
    assert document["references"] == len(left)
    faults = naive_faults([row.reference for row in left], 4096, 5)
    assert misses_with(document["fully_associative"][0]["curve"], 5) == faults
    assert set(document["filter"]) == {option[2:] for option in options[::2]}


def named(function: str) -> bool:
    return function.startswith("mem") or function == "malloc"


def test_regions_share_out_the_references(command: Command, threaded_trace: Path) -> None:
    shape = ["--shape", "64:64:2", "--block", "32:1", "--no-causes"]
    whole = simulate(command, "caches", *shape, str(threaded_trace))
    found = {}
    for region in ("stack", "heap", "static", "other"):
        part = simulate(command, "caches", *shape, "--region", region, str(threaded_trace))
        assert {one["region"] for one in part["shapes"][0]["misses_by_region"]} == {region}
        found[region] = part["references"]
    assert sum(found.values()) == whole["references"]
    both = simulate(command, "caches", *shape, "--region", "stack,heap", str(threaded_trace))
    assert both["references"] == found["stack"] + found["heap"]


def misses_by_window(rows: list[Row], width: int) -> list[int]:
    """Of a plain cache of 64 sets, 2 ways and blocks of 64 bytes."""
    cache: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(64)]
    misses = [0] * -(-len(rows) // width)
    for i, row in enumerate(rows):
        for number in units(row.reference, 64):
            blocks = cache[number % 64]
            misses[i // width] += number not in blocks
            blocks[number] = None
            blocks.move_to_end(number)
            if len(blocks) > 2:
                blocks.popitem(last=False)
    return misses


def test_misses_over_time_equal_plain_ones(command: Command, threaded_trace: Path) -> None:
    rows = dumped(threaded_trace)
    for options, width in (((), 4096), (("--window", "1000"), 1000), (("--window", "256"), 512)):
        words = ["--shape", "64:64:2", "--block", "64:1", "--no-causes", *options]
        document = simulate(command, "caches", *words, str(threaded_trace))
        windows, [shape] = document["windows"], document["shapes"]
        assert (windows["clock"], windows["width"]) == ("references", width)
        assert shape["misses_by_window"] == misses_by_window(rows, width)
        assert sum(windows["references"]) == len(rows)
        assert set(windows["references"][:-1]) == {width}


def test_misses_over_allocated_bytes_follow_the_events(
    command: Command, threaded_trace: Path
) -> None:
    """The references of each window lie between the events at which the clock reaches it."""
    dump = [str(BUILD / "trace/allotrope-trace"), "events", str(threaded_trace)]
    text = subprocess.run(dump, capture_output=True, check=True, text=True).stdout
    events = list(csv.DictReader(io.StringIO(text)))
    total = len(dumped(threaded_trace))
    want: dict[int, int] = {}
    allocated = position = 0
    for event in [*events, {"event": "end", "reference": str(total)}]:
        want[allocated // 512] = want.get(allocated // 512, 0) + int(event["reference"]) - position
        position = int(event["reference"])
        if event["event"] in ("malloc", "realloc"):
            allocated += int(event["value2"], 16)
    words = ["--tlb", "4K:1", "--shape", "4K:4:2", "--window-bytes", "512"]
    windows = simulate(command, "tlb", *words, str(threaded_trace))["windows"]
    assert (windows["clock"], windows["width"]) == ("allocated bytes", 512)
    assert {i: n for i, n in enumerate(windows["references"]) if n} == {
        i: n for i, n in want.items() if n
    }
    assert len(want) > 10


def test_left_out_references_take_time(command: Command, threaded_trace: Path) -> None:
    words = ["--shape", "64:64:2", "--block", "64:1", "--no-causes", "--window", "1000"]
    words += ["--references", "5000:7000"]
    windows = simulate(command, "caches", *words, str(threaded_trace))["windows"]
    assert windows["references"] == [0] * 5 + [1000] * 2


def test_a_filter_of_a_running_program_equals_that_of_its_trace(
    command: Command, trace: Path, tmp_path: Path
) -> None:
    options = ["--function", "_dl_*", "--references", "1000:60000", "--region", "stack,static"]
    result = tmp_path / "locality.json"
    words = [str(BUILD / "allotrope-simulate"), "locality", f"--output={result}", *options]
    words += [f"--tools={BUILD / 'trace/recorder'}", "--", *TRACED]
    subprocess.run(words, env=PLAIN_ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    document = json.loads(result.read_text())
    assert 0 < document["pages"]["references"] < 59000
    of_trace = simulate(command, "pages", "--page-size", "4096", *options, str(trace))
    assert document["pages"] == of_trace


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--thread", "99999"], ["--thread", "there are 1, 2, 3, 4"]),
        (["--thread", "x"], ["--thread", '"x"', "from 1"]),
        (["--class", "malloc"], ["--class", '"malloc"', "program allocator"]),
        (["--class", "sweep"], ["--class", "there are program, allocator"]),
        (["--region", "stak"], ["--region", '"stak"', "heap static stack"]),
        (["--function", "nowhere*"], ["--function", "nowhere*"]),
        (["--references", "7"], ["--references", '"7"', "FROM:TO"]),
        (["--references", "7:x"], ["--references", '"x"']),
        (["--references", "7:7"], ["--references", "from 7"]),
        (["--references", "99999999999:"], ["--references", "there are only"]),
        (["--thread", "2", "--references", ":5"], ["there are 1, among the --references"]),
        (["--class", "allocator", "--function", "_dl_relocate_object"], ["all of the filters"]),
    ],
)
def test_a_filter_that_leaves_nothing_says_why(
    command: Command, threaded_trace: Path, options: list[str], words: list[str]
) -> None:
    done = command.run("simulate", "pages", *options, str(threaded_trace))
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr


def test_text_can_be_cut_by_number_alone(command: Command, recorded: Path) -> None:
    references = read_lackey(recorded)[1000:50000]
    document = simulate(command, "pages", "--references", "1000:50000", str(recorded))
    assert document["references"] == 49000
    assert faults_with(document["pages"][0]["curve"], 8) == naive_faults(references, 4096, 8)
    done = command.run("simulate", "pages", "--thread", "1", str(recorded))
    assert done.returncode == 2 and "lackey" in done.stderr


def test_misses_are_told_by_function(command: Command, trace: Path) -> None:
    document = simulate(command, "caches", "--no-causes", "--shape", "64:64:1", str(trace))
    functions = document["shapes"][0]["misses_by_function"]
    assert sum(part["misses"] for part in functions) == document["shapes"][0]["misses"]
    assert "_dl_relocate_object" in {part["name"] for part in functions}


MISSING = """
enum { BYTES = 1 << 20, LINE = 64 };
static volatile char bytes[BYTES], warm;
__attribute__((noinline)) static void walk(void)
{
    for (int i = 0; i < BYTES; i += LINE)
        bytes[i]; /* line 7: misses each time */
    for (int i = 0; i < BYTES; i++)
        warm; /* never after the first */
}
int main(void)
{
    walk();
    return 0;
}
"""
MISSING_LINE, MISSING_MISSES = 7, 1 << 14


@pytest.fixture
def missing(tmp_path: Path) -> Path:
    """A program of which one line misses."""
    source, program = tmp_path / "missing.c", tmp_path / "missing"
    source.write_text(MISSING)
    subprocess.run(["cc", "-g", "-O1", "-o", program, source], check=True)
    return program


def check_missing_line(document: Any) -> None:
    shape = document["shapes"][0]
    by_function = {one["function"]: one["misses"] for one in shape["misses_by_function"]}
    of_functions: dict[int, int] = {}
    for one in shape["misses_by_instruction"]:
        of_functions[one["function"]] = of_functions.get(one["function"], 0) + one["misses"]
    assert of_functions == by_function
    assert sum(one["misses"] for one in shape["misses_by_line"]) == shape["misses"]
    worst = shape["misses_by_line"][0]
    assert abs(worst["misses"] - MISSING_MISSES) <= 1
    assert worst["function"] == "walk"
    if shutil.which("eu-addr2line"):
        assert (Path(worst["file"]).name, worst["line"]) == ("missing.c", MISSING_LINE)


def test_misses_are_told_by_line(command: Command, missing: Path, tmp_path: Path) -> None:
    trace, result = tmp_path / "missing.alt", tmp_path / "live.json"
    assert command.run("record", "-o", str(trace), "--", str(missing)).returncode == 0
    options = ["--shape", "64:64:8", "--lines"]
    check_missing_line(simulate(command, "caches", "--no-causes", *options, str(trace)))
    done = command.run("simulate", "caches", "--no-causes", *options, str(trace))
    assert f"missing.c:{MISSING_LINE}" in done.stdout or not shutil.which("eu-addr2line")
    words = ["locality", *options, "--json", str(result), "--", str(missing)]
    assert command.run(*words).returncode == 0
    check_missing_line(json.loads(result.read_text())["runs"][0]["caches"])


def test_lines_are_of_a_shape_and_of_a_recording(command: Command, recorded: Path) -> None:
    done = command.run("simulate", "caches", "--lines", str(recorded))
    assert done.returncode == 2 and "--shape" in done.stderr
    done = command.run("simulate", "caches", "--lines", "--shape", "64:64:8", str(recorded))
    assert done.returncode == 2 and "lackey" in done.stderr


@pytest.mark.parametrize("option", ["--window", "--window-bytes"])
def test_windows_are_of_a_shape(command: Command, recorded: Path, option: str) -> None:
    for words in (
        ["simulate", "caches", option, "4096", str(recorded)],
        ["locality", option, "4096", "--", "true"],
    ):
        done = command.run(*words)
        assert done.returncode == 2 and option in done.stderr and "--shape" in done.stderr


def test_the_terminal_tells_of_windows_of_a_trace(command: Command, recorded: Path) -> None:
    words = ["simulate", "caches", "--block", "64:1", "--no-causes", "--shape", "64:64:2"]
    done = command.run(*words, "--window", "1000", str(recorded))
    assert "over time" in done.stdout and " 1,000 references " in done.stdout
    assert "over time" not in command.run(*words, str(recorded)).stdout


def test_results_while_it_records_equal_those_of_the_trace(
    command: Command, trace: Path, tmp_path: Path
) -> None:
    result = tmp_path / "locality.json"
    words = [str(BUILD / "allotrope-simulate"), "locality", f"--output={result}"]
    words += [f"--tools={BUILD / 'trace/recorder'}", "--", *TRACED]
    subprocess.run(words, env=PLAIN_ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    document = json.loads(result.read_text())
    assert document["schema"] == "allotrope.simulate.locality/1"
    assert document["status"] == 0
    assert document["pages"] == simulate(command, "pages", "--page-size", "4096", str(trace))
    arguments = ["caches", "--block", "32:1,64:8", "--no-causes", str(trace)]
    assert document["caches"] == simulate(command, *arguments)


def test_locality_tells_of_tlbs(command: Command, tmp_path: Path) -> None:
    path, page = tmp_path / "locality.json", tmp_path / "page.html"
    words = ["locality", "-a", "bsd", "-a", "glibc", "--tlb", "4K:4,2M:1", "--json", str(path)]
    done = command.run(*words, "--html", str(page), "--", *TRACED)
    assert done.returncode == 0, done.stderr
    assert "Misses of TLBs, fully associative, pages of 4 KiB" in done.stdout
    assert "Misses of TLBs, direct-mapped, pages of 2 MiB" in done.stdout
    for run in json.loads(path.read_text())["runs"]:
        whole = run["tlb"]["fully_associative"][0]
        faults = run["pages"]["pages"][0]["curve"]
        assert misses_with(whole["curve"], 8) == faults_with(faults, 8)
    assert "TLB misses, 4 ways, pages of 4 KiB" in page.read_text()


def test_locality_shows_allocators_side_by_side(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "locality.json"
    words = ["locality", "-a", "bsd", "-a", "glibc", "--json", str(path)]
    done = command.run(*words, "--", "sh", "-c", "echo out; exit 3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("out\nout\n")
    assert "Replacement faults" in done.stdout and "direct-mapped" in done.stdout
    document = json.loads(path.read_text())
    assert document["schema"] == "allotrope.locality/1" and not document["interrupted"]
    assert [run["allocator"] for run in document["runs"]] == ["bsd", "glibc"]
    assert [run["status"] for run in document["runs"]] == [3, 3]
    to_stdout = command.run("locality", "--json", "-", "--", "echo", "out")
    assert json.loads(to_stdout.stdout)["command"] == ["echo", "out"]
    assert to_stdout.stderr == "out\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no command"]),
        (["--", "no-such-program"], ["no-such-program"]),
        (["-a", "glibc", "-a", "glibc", "--", "true"], ["glibc", "the same allocator"]),
        (["-a", "nothing", "--", "true"], ["nothing"]),
        (["--page-size", "3", "--", "true"], ["--page-size", '"3"']),
        (["--", "env", "true"], ["env: became another program (exec)", "run that program itself"]),
    ],
)
def test_locality_refuses_bad_input_in_one_line(
    command: Command, arguments: list[str], words: list[str]
) -> None:
    done = command.run("locality", *arguments)
    assert done.returncode != 0 and done.stdout == ""
    assert done.returncode == 2 or "--page-size" not in arguments
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr


def test_a_killed_simulator_leaves_no_program_behind(tmp_path: Path) -> None:
    mark = str(tmp_path / "this-very-run")
    words = [
        str(BUILD / "allotrope-simulate"),
        "locality",
        f"--output={tmp_path / 'out'}",
        f"--tools={BUILD / 'trace/recorder'}",
        "--",
        "sh",
        "-c",
        f"echo up; read x <{mark}",
    ]
    os.mkfifo(mark)
    simulator = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert simulator.stdout is not None and simulator.stdout.readline() == b"up\n"
    simulator.kill()
    simulator.wait()
    # The pipe is shared with the program: it ends when the last that holds it has gone.
    assert simulator.stdout.read() == b""


WAITS_THE_SECOND_TIME = 'echo up; if [ -e "$0" ]; then read x <"$1"; fi; : >"$0"; exit 0'


def second_run(command: Command, folder: Path) -> "subprocess.Popen[str]":
    """`locality`, whose first allocator has been measured and whose second waits for ever."""
    os.mkfifo(folder / "never")
    words = ["locality", "-a", "glibc", "-a", "bsd", "--json", str(folder / "out.json"), "--"]
    program = ["sh", "-c", WAITS_THE_SECOND_TIME, str(folder / "mark"), str(folder / "never")]
    process = command.start(*words, *program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["up\n", "up\n"]
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_locality_keeps_what_was_measured(
    command: Command, tmp_path: Path, number: int
) -> None:
    process = second_run(command, tmp_path)
    process.send_signal(number)
    _, said = process.communicate(timeout=HANG)
    assert process.returncode == 128 + signal.SIGINT
    assert said == "allotrope: interrupted; allocators measured: glibc\n"
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["interrupted"]
    assert [run["allocator"] for run in document["runs"]] == ["glibc"]


def test_a_killed_locality_leaves_no_program_behind(command: Command, tmp_path: Path) -> None:
    process = second_run(command, tmp_path)
    process.kill()
    # The pipe is shared with the program: it ends when the last that holds it has gone.
    assert process.communicate(timeout=HANG)[0] == ""


def test_locality_tells_of_a_status_that_is_not_the_same(command: Command) -> None:
    script = 'case "$ALLOTROPE" in bsd*) exit 3; esac; exit 0'
    done = command.run("locality", "-a", "glibc", "-a", "bsd", "--", "sh", "-c", script)
    assert done.returncode == 1
    assert done.stderr == "allotrope: the exit status is not the same: 0 under glibc, 3 under bsd\n"


def test_valgrind_is_there() -> None:
    """The comparison with cachegrind must not be skipped unnoticed."""
    assert shutil.which("valgrind") is not None


def test_misses_of_a_shape_add_up_by_class_and_region(command: Command, tmp_path: Path) -> None:
    trace = tmp_path / "t.alt"
    done = command.run("record", "-o", str(trace), "-a", "bsd", "--", "ls", "/usr/bin")
    assert done.returncode == 0, done.stderr
    shape = simulate(command, "caches", "--shape", "64:64:2", str(trace))["shapes"][0]
    of_class: dict[str, int] = {}
    for row in shape["misses_by_region"]:
        of_class[row["class"]] = of_class.get(row["class"], 0) + row["misses"]
    assert of_class == shape["misses_by_class"]
    assert {row["region"] for row in shape["misses_by_region"]} >= {"heap", "static", "stack"}
    assert sum(shape["misses_by_set"]) == shape["misses"]


def test_pages_of_results_are_written(command: Command, recorded: Path, tmp_path: Path) -> None:
    for kind in ("pages", "caches", "tlb"):
        page = tmp_path / f"{kind}.html"
        done = command.run("simulate", kind, "--html", str(page), str(recorded))
        assert done.returncode == 0, done.stderr
        assert "allotrope simulate" in page.read_text()
