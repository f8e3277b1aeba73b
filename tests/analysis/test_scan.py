# SPDX-License-Identifier: MIT
"""`compare --vary` and `compare --shell`: parameter scans and shell strings."""

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from allotrope.features.server.plan import ServerPlan
from allotrope.features.suite.measure import Program, folder_of
from allotrope.features.suite.output import as_csv, as_markdown, recommend_suite
from allotrope.features.suite.scan import check_names, programs, read_varied
from allotrope.features.suite.tables import legend, tables, value_rows
from allotrope.system.errors import UserError
from conftest import Command
from made_up_suite import ROUNDS, made_up, measured
from under import HANG, PYTHON, await_that


def test_every_combination_is_a_program() -> None:
    varied = read_varied(["size=1,10", "kind=map,list"])
    texts = {"input": "{kind}.txt", "prepare": None, "check": "none"}
    found = programs(["./program", "--size={size}", "{other}"], varied, texts)
    assert [one.name for one in found] == [
        "size=1 kind=map",
        "size=1 kind=list",
        "size=10 kind=map",
        "size=10 kind=list",
    ]
    assert found[3].command == ["./program", "--size=10", "{other}"]
    assert found[3].input == "list.txt" and found[3].check == "none"


@pytest.mark.parametrize(
    "texts, said",
    [
        (["size"], "'size' is not of the form NAME=VALUE"),
        (["size="], "'size=' is not of the form NAME=VALUE"),
        (["1=2"], "'1=2' is not of the form NAME=VALUE"),
        (["a=1", "a=2"], "a is given twice"),
        (["a=1,1"], "'a=1,1' has 1 twice; leave one out"),
    ],
)
def test_what_cannot_be_meant_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_varied(texts)


def test_values_are_filled_in_once() -> None:
    """What a value has in braces is its own."""
    varied = {"a": ["{b}"], "b": ["1", "2"]}
    commands = [one.command for one in programs(["echo", "{a} {b} {c}"], varied, {})]
    assert commands == [["echo", "{b} 1 {c}"], ["echo", "{b} 2 {c}"]]


def test_a_parameter_that_stands_nowhere_is_refused() -> None:
    with pytest.raises(UserError, match="no {size} where size could stand"):
        programs(["true", "size"], {"size": ["1"]}, {})


def test_a_value_that_is_no_text_has_a_folder() -> None:
    names = {folder_of(Program(f"x={value}", ["true"])) for value in ("a", "\udcff", "\udcfe")}
    assert len(names) == 3 and {len(name) for name in names} == {8}


def test_one_round_is_no_rounds(real: Command, tmp_path: Path) -> None:
    words = ["--rounds", "1", "--warmup", "0", "-a", "glibc", "-a", "bsd", "--html", "page"]
    done = real.run("compare", *words, "--vary", "n=1", "--", "true", "{n}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 value × 2 allocators × 1 round: 4 runs, " in done.stderr
    said = done.stdout + done.stderr + (tmp_path / "page").read_text()
    assert "1 value, 1 round asked for, " in said
    assert re.findall(r"\b1 (?:rounds|values|allocators|runs)\b", said) == []


def test_a_scan_runs_here_and_is_written_as_a_suite(real: Command, tmp_path: Path) -> None:
    words = ["--rounds", "2", "-a", "glibc", "--json", "json", "--markdown", "md"]
    script = "echo {n} $HERE >>trace"
    environment = {"HERE": "mine"}
    done = real.run(
        *["compare", *words, "--vary", "n=1,2", "--shell", script],
        environment=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "n=1" in done.stdout and "n=2" in done.stdout
    assert "Not judged" not in done.stdout  # nothing was asked
    # References, the look at who serves, and two rounds.
    lines = (tmp_path / "trace").read_text().splitlines()
    assert sorted(lines) == ["1 mine"] * 5 + ["2 mine"] * 5
    document = json.loads((tmp_path / "json").read_text())
    assert document["title"] == "n=1,2"
    assert [one["name"] for one in document["programs"]] == ["n=1", "n=2"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["json", "md", "trace"]
    table = (tmp_path / "md").read_text()
    row = re.compile(r"^\| (n=\d) \| glibc \| [\d.]+ \S+ \| baseline \| – \|$", re.MULTILINE)
    assert row.findall(table) == ["n=1", "n=2"] * 2  # CPU and memory
    assert "Geometric means" not in table
    assert "**Not decided:** " in table
    assert document["varied"] == {"n": ["1", "2"]}


VARIED = {"varied": {"n": ["1", "2", "3"]}}
WIDE = [0.9, 1.1] * (ROUNDS // 2)


class TestWords:
    """A scan asks how ratios move with the value."""

    def said(self, *of_values: dict[str, object]) -> str:
        headline, *others = recommend_suite(made_up(of_values, **VARIED))
        assert headline.title == "mock against glibc" and others == []
        self.kind = headline.kind
        return headline.text

    def test_the_extremes_and_what_is_decided_where(self) -> None:
        text = self.said(
            measured("n=1", (1.5, 2.0), cpu=1.0),
            measured("n=2", (1.5, 2.0), cpu=0.9),
            measured("n=3", (2.0, 2.4), cpu=0.8),
        )
        assert text == (
            "CPU from 0.800 [0.800, 0.800] at n=3 to 1.000 [1.000, 1.000] at n=1: the same within "
            "2% at n=1, better at n=2 and n=3; memory from 1.200 [1.200, 1.200] at n=3 to 1.333 "
            "[1.333, 1.333] at n=1: worse by less than 1.0 MiB at all 3 values."
        )
        assert self.kind == "choice"

    def test_a_change_is_shown_by_any_two_values(self) -> None:
        """Not by the extremes alone: the greatest median has the most noise here."""
        text = self.said(
            measured("n=1", (9.0, 9.0), cpu=0.8),
            measured("n=2", (9.0, 9.0), cpu=0.95),
            measured("n=3", (9.0, 9.0), cpu=[0.7, 1.7] * (ROUNDS // 2)),
        )
        assert "0.800] at n=1 to 1.091 [0.700, 1.700] at n=3" in text and "overlap" not in text

    def test_a_change_that_chance_may_have_made_is_not_called_one(self) -> None:
        text = self.said(
            measured("n=1", (9.0, 9.0), cpu=WIDE),
            measured("n=2", (9.0, 9.0), cpu=[0.85, *WIDE[1:]]),
        )
        assert "not decided at both values (the intervals overlap: that it changes" in text
        assert text.endswith(
            "; memory from 1.000 [1.000, 1.000] at n=1 to 1.000 [1.000, 1.000] at "
            "n=1: the same within 2% at both values."
        )
        assert self.kind == "undecided"

    def test_little_memory_is_no_choice(self) -> None:
        self.said(measured("n=1", (1.5, 2.0)), measured("n=2", (1.5, 2.0)))
        assert self.kind == "undecided"
        self.said(measured("n=1", (1.5, 2.0)), measured("n=2", (15.0, 20.0)))
        assert self.kind == "choice"

    def test_memory_that_is_perhaps_little_is_no_choice(self) -> None:
        """0.5 to 2 MiB more at n=1."""
        roughly = (2.0, [2.5, 4.0] * (ROUNDS // 2))
        text = self.said(measured("n=1", roughly), measured("n=2", (1.5, 2.0)))
        assert self.kind == "undecided" and (
            ": worse (perhaps below 1.0 MiB) at n=1, worse by less than 1.0 MiB at n=2" in text
        )

    def test_one_value_has_no_extremes(self) -> None:
        text = self.said(measured("n=1", (15.0, 20.0), cpu=0.8))
        assert text == (
            "CPU 0.800 [0.800, 0.800] at n=1: better; memory 1.333 [1.333, 1.333] at n=1: worse."
        )

    def test_many_values_are_counted(self) -> None:
        text = self.said(*(measured(f"n={n}", (9.0, 9.0), cpu=0.9 if n else 1.1) for n in range(9)))
        assert "worse at n=0, better at 8 values of 9" in text


class TestTables:
    def test_a_row_is_a_contender_at_a_value(self) -> None:
        document = made_up(
            [measured("n=1", (1.5, 2.0), cpu=0.8), measured("n=2", (9.0, 9.0), cpu=WIDE)], **VARIED
        )
        assert value_rows(document, "memory_bytes") == [
            ["value", "allocator", "median", "ratio to glibc", "verdict"],
            ["n=1", "glibc", "1.5 MiB", "baseline", "–"],
            ["n=1", "mock", "2.0 MiB", "1.333 [1.333, 1.333]", "worse by 512 KiB"],
            ["n=2", "glibc", "9.0 MiB", "baseline", "–"],
            ["n=2", "mock", "9.0 MiB", "1.000 [1.000, 1.000]", "same"],
        ]
        verdicts = [row[4] for row in value_rows(document, "cpu_seconds")[1:]]
        assert verdicts == ["–", "better", "–", "not decided"]
        text = as_markdown(document)
        assert "| n=1 | mock | 0.800 s | 0.800 [0.800, 0.800] | better |" in text
        assert "**mock against glibc:** CPU from 0.800" in text
        assert "Geometric" not in text and "mean" not in text
        widest = max(
            sum(max(map(len, column)) for column in zip(*one.rows)) + 2 * (len(one.rows[0]) - 1)
            for one in tables(document)
        )
        assert widest <= 100

    def test_a_value_without_figures_has_its_status(self) -> None:
        failed = measured("n=2", (9.0, 9.0))
        failed["comparison"]["results"][1] |= {"status": "failed", "cpu_seconds": None}
        absent = measured("n=3", (9.0, 9.0)) | {"status": "failed", "comparison": None}
        document = made_up([measured("n=1", (9.0, 9.0)), failed, absent], **VARIED)
        assert value_rows(document, "cpu_seconds")[4:] == [
            ["n=2", "mock", "–", "–", "failed"],
            ["n=3", "–", "–", "–", "failed"],
        ]

    def test_too_few_rounds_have_a_range(self) -> None:
        document = made_up([measured("n=1", (9.0, 9.0), rounds=3)], **VARIED)
        assert "[99.5% interval]" in legend(made_up([measured("n=1", (9.0, 9.0))], **VARIED))[0]
        assert "[range; an interval needs 9 rounds]" in legend(document)[0]

    def test_each_value_has_a_verdict_and_the_mean_has_none(self) -> None:
        """It is over values that nobody runs side by side."""
        document = made_up(
            [measured("n=1", (9.0, 9.0), 0.8), measured("n=2", (9.0, 9.0))], **VARIED
        )
        assert document["means"]["mock"]["cpu_seconds"]["verdict"] is None
        lines = [line.split(",") for line in as_csv(document).splitlines()[1:]]
        assert {line[0] for line in lines} == {"n=1", "n=2"}
        cpu = [line[-1] for line in lines if line[2] == "mock" and line[4] == "cpu_seconds"]
        assert cpu == ["better", "same"]


def test_an_interrupted_scan_speaks_by_the_values_that_have_rounds_enough() -> None:
    """The range of the others is no interval: neither a verdict nor a change follows from it."""
    parts = measured("n=1", (9.0, 9.0), 0.8, rounds=9), measured("n=2", (9.0, 9.0), 0.5, rounds=8)
    document = made_up(parts, interrupted=True, **VARIED)
    headline, note = recommend_suite(document)
    assert headline.text == (
        "CPU 0.800 [0.800, 0.800] at n=1: better; memory 1.000 [1.000, 1.000] at n=1: the same "
        "within 2%."
    )
    assert note.text == "the scan was interrupted; the figures are of the rounds before that."
    assert "medians [99.5% interval; of n=2 a range; an interval needs 9 rounds]" in (
        legend(document)[0]
    )
    assert [row[4] for row in value_rows(document, "cpu_seconds")[1:]] == (
        ["–", "better", "–", "not decided"]
    )


def test_a_value_before_whose_first_round_it_was_interrupted_has_none() -> None:
    late = measured("n=2", (9.0, 9.0)) | {"status": "not-measured", "comparison": None}
    document = made_up([measured("n=1", (9.0, 9.0)), late], interrupted=True, **VARIED)
    assert recommend_suite(document)[-1].text == (
        "the scan was interrupted; the figures are of the rounds before that, of which n=2 had "
        "none."
    )
    assert value_rows(document, "cpu_seconds")[-1] == ["n=2", "–", "–", "–", "not measured"]


def test_an_interruption_before_any_round(real: Command, tmp_path: Path) -> None:
    """There is nothing that the figures could be of, and nothing to draw."""
    line = ["compare", "-a", "glibc", "-a", "bsd", "--vary", "n=1,2", "--json", "json", "--html"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    shell = f"echo {{n}} >>trace; sleep {HANG}"
    command = real.start(*line, "page", "--shell", shell, cwd=tmp_path, **pipes)
    await_that(lambda: (tmp_path / "trace").exists() and _lines(tmp_path / "trace") > 0)
    command.send_signal(signal.SIGINT)
    shown, _ = command.communicate(timeout=HANG)
    assert command.returncode == 130
    assert "Not decided: no value was measured." in shown
    assert "Incomplete: the scan was interrupted before any value was measured." in shown
    assert re.search("n=2 .* not measured", shown) and "measured" not in shown.replace(
        "not measured", ""
    ).replace("was measured", "")
    entries = json.loads((tmp_path / "json").read_text())["programs"]
    assert [(one["status"], one["comparison"]) for one in entries] == [("not-measured", None)] * 2
    assert "programs-cpu" not in (tmp_path / "page").read_text()


@pytest.mark.parametrize(
    "others, said",
    [
        ((None, None), "while the rounds ran is not known"),
        ((None, 0.9), "used 0.9 of 1 processors while the rounds of n=2 ran, which"),
        ((0.9, 0.5), "while the rounds of n=1 ran, more than for any other value, which"),
    ],
)
def test_the_greatest_load_is_of_a_value(others: tuple[float | None, ...], said: str) -> None:
    parts = [measured(f"n={place}", (9.0, 9.0)) for place in (1, 2)]
    for part, load in zip(parts, others):
        part["comparison"]["others_cpus"] = load
    assert said in recommend_suite(made_up(parts, **VARIED))[-1].text


def test_two_scans_differ_value_by_value(real: Command, tmp_path: Path) -> None:
    """And have no mean."""
    parts = [measured("n=1", (9.0, 9.0)), measured("n=2", (9.0, 9.0))]
    (tmp_path / "old.json").write_text(json.dumps(made_up(parts, **VARIED)))
    parts = [measured("n=2", (9.0, 9.0), 0.5), measured("n=3", (9.0, 9.0))]
    (tmp_path / "new.json").write_text(json.dumps(made_up(parts, **VARIED)))
    line = ["compare", "--from", "new.json", "--against", "old.json"]
    done = real.run(*line, "--fail-if", "any.cpu < 1", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    shown = [line.split() for line in done.stdout.splitlines()]
    assert shown[0] == ["value", "allocator", "quantity", "before", "after", "change", "verdict"]
    row = ["n=2", "mock", "CPU", "1.000", "s", "0.500", "s", "0.500", "[0.500,", "0.500]", "better"]
    assert row in shown
    assert "Only in the earlier: n=1." in done.stdout
    assert "Better: mock in CPU (n=2); mock in wall time (n=2)." in done.stdout
    assert "mean" not in done.stdout and "program" not in done.stdout


def test_output_that_varies_names_the_remedy(real: Command, tmp_path: Path) -> None:
    words = ["--rounds", "2", "--warmup", "0", "-a", "glibc", "-a", "bsd", "--vary", "n=1,2"]
    done = real.run("compare", *words, "--shell", "echo $$ {n}", "--markdown", "-", cwd=tmp_path)
    said = "**Not decided:** glibc counts in no value: the command's output differs from run to"
    assert said in done.stdout
    assert "say so with --check none or give --check a command that judges" in done.stdout
    done = real.run("compare", *words, "--shell", "test {n} = 1 || echo $$", cwd=tmp_path)
    assert "Left out: n=2: its output differs from run to run under glibc itself; --check none" in (
        " ".join(done.stdout.split())
    )


def test_a_servers_commands_are_filled_too() -> None:
    server = ServerPlan("server {port} {size}", None, "load {port} {rate}", cleanup="rm {size}")
    found = programs(server.command(), {"size": ["1"], "rate": ["2", "3"]}, {}, server)
    assert [one.name for one in found] == ["size=1 rate=2", "size=1 rate=3"]
    assert found[1].command == ["server", "{port}", "1"]
    filled = ServerPlan("server {port} 1", None, "load {port} 3", cleanup="rm 1")
    assert found[1].server == filled
    with pytest.raises(UserError, match="{dir} is the server's folder; choose another name"):
        check_names({"size": ["1"], "dir": ["2"]}, {"dir": "the server's folder"})


# Answers each line after so many seconds of CPU.
SERVER = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    lines = listener.accept()[0].makefile("rwb", buffering=0)
    for line in lines:
        end = time.process_time() + float(sys.argv[2])
        while time.process_time() < end:
            pass
        lines.write(line)
"""
LOAD = """
import socket, sys
count = int(sys.argv[2])
lines = socket.create_connection(("127.0.0.1", int(sys.argv[1]))).makefile("rwb", buffering=0)
for _ in range(count):
    lines.write(b"x\\n")
    lines.readline()
print(count, "requests,", count, "answered")
"""
METRICS = ("--metric", "requests=([0-9]+) requests", "--metric", "answered=([0-9]+) answered")


class TestBuilds:
    def test_each_value_times_each_build(self, real: Command, tmp_path: Path) -> None:
        """Under one allocator the builds differ, so they have a verdict whoever serves them."""
        for name in ("old", "new"):
            shutil.copy(shutil.which("echo") or "/bin/echo", tmp_path / name)
        words = ["--rounds", "2", "--warmup", "0", "--json", "json", "--markdown", "md"]
        builds = ["--build", "old=./old", "--build", "new=./new", "--vary", "n=1,2"]
        done = real.run("compare", *words, *builds, "--", "{build}", "{n}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "2 values × 2 allocators × 2 rounds" in done.stderr
        document = json.loads((tmp_path / "json").read_text())
        assert document["baseline"] == "old"
        named = [(one["spec"], one["build"]) for one in document["allocators"]]
        assert named == [("old", "./old"), ("new", "./new")]
        for entry, number in zip(document["programs"], "12"):
            assert entry["comparison"]["command"] == ["{build}", number]
            assert [one["spec"] for one in entry["comparison"]["results"]] == ["old", "new"]
            assert [one["status"] for one in entry["comparison"]["results"]] == ["ok", "ok"]
        text = (tmp_path / "md").read_text()
        assert "| value | allocator | median | ratio to old | verdict |" in text
        assert text.count("| n=2 | new | ") == 2
        for number in "12":
            assert re.search(rf"n={number} +new +\d.* \d\.\d+ \[.*\] +not decided", done.stdout)

    def test_under_several_allocators(self, real: Command, tmp_path: Path) -> None:
        words = ["--rounds", "1", "--warmup", "0", "--json", "-", "-a", "glibc", "-a", "bsd"]
        builds = ["--build", "old=echo", "--build", "new=printf", "--vary", "n=1"]
        done = real.run("compare", *words, *builds, "--", "{build}", "{n}", cwd=tmp_path)
        document = json.loads(done.stdout)
        specs = ["old/glibc", "old/bsd", "new/glibc", "new/bsd"]
        assert [one["spec"] for one in document["allocators"]] == specs


class TestServers:
    def test_a_server_is_measured_at_each_value(self, real: Command, tmp_path: Path) -> None:
        """Twice as many bytes cost it twice the time; its metric has a table, too."""
        (tmp_path / "server.py").write_text(SERVER)
        (tmp_path / "load.py").write_text(LOAD)
        done = real.run(
            *("compare", "--rounds", "2", "--warmup", "0", "-a", "glibc", "-a", "bsd"),
            *("--server", f"{PYTHON} -I server.py {{port}} {{burn}}"),
            *("--load", f"{PYTHON} -I load.py {{port}} {{count}}"),
            *("--vary", "burn=0.05,0.4", "--vary", "count=2"),
            *METRICS,
            *("--json", "json", "--markdown", "md", "--html", "page.html"),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        document = json.loads((tmp_path / "json").read_text())
        assert document["title"] == "burn=0.05,0.4 × count=2"
        costs = []
        for entry in document["programs"]:
            comparison = entry["comparison"]
            assert comparison["server"]["cpu_quantity"] == "cpu_per_request_seconds"
            assert "{count}" not in comparison["server"]["load"]
            for result in comparison["results"]:
                costs.append(result["cpu_per_request_seconds"]["median"])
                assert result["metric:answered"]["median"] == 2
        assert max(costs[:2]) < 0.2 < 0.39 < min(costs[2:])
        assert document["means"]["glibc"]["cpu_seconds"]["ratio"] == 1
        assert document["means"]["bsd"]["cpu_seconds"]["programs"] == 2
        text = (tmp_path / "md").read_text()
        assert "CPU a request by value:" in text
        assert "answered of the load, by value (more is better):" in text
        assert re.search(r"\| burn=0.4 count=2 \| bsd \| 2 \| 1.000 \[", text)
        assert "CPU time a request" in (tmp_path / "page.html").read_text()

    def test_a_server_that_fails_at_one_value_leaves_the_others(
        self, real: Command, tmp_path: Path
    ) -> None:
        (tmp_path / "server.py").write_text(SERVER)
        (tmp_path / "load.py").write_text(LOAD)
        done = real.run(
            *("compare", "--rounds", "1", "--warmup", "0", "-a", "glibc"),
            *("--server", f"{PYTHON} -I server.py {{port}} 0"),
            *("--load", f"{PYTHON} -I load.py {{port}} {{count}}"),
            *("--vary", "count=1,none", "--json", "json"),
            *METRICS,
            cwd=tmp_path,
        )
        assert done.returncode == 1, done.stderr
        good, bad = json.loads((tmp_path / "json").read_text())["programs"]
        assert (good["status"], bad["status"]) == ("measured", "failed")
        assert "under glibc itself: --load: " in bad["reason"]

    def test_a_gate_may_be_about_a_servers_quantity(self, real: Command) -> None:
        words = ["--server", "x {port} {n}", "--load", "true", "--vary", "n=1", "-a", "glibc"]
        done = real.run("compare", *words, "--fail-if", "glibc.end > 1s")
        assert done.returncode == 2 and "memory_end_bytes is not in s" in done.stderr


def test_an_interrupted_scan_is_not_resumed(real: Command, tmp_path: Path) -> None:
    """Its state goes with its scratch folder."""
    line = ["compare", "-a", "glibc", "--rounds", "300", "--vary", "n=1", "--json", "json"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    command = real.start(*line, "--shell", "echo {n} >>trace", cwd=tmp_path, **pipes)
    await_that(lambda: (tmp_path / "trace").exists() and _lines(tmp_path / "trace") > 8)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=HANG)
    assert command.returncode == 130
    assert "interrupted\n" in said and "--resume" not in said
    assert json.loads((tmp_path / "json").read_text())["interrupted"]


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def test_an_input_for_each_value(real: Command, tmp_path: Path) -> None:
    for number in "12":
        (tmp_path / f"in{number}").write_text(number)
    words = ["--rounds", "1", "--warmup", "0", "-a", "glibc", "--vary", "n=1,2"]
    check = ["--check", "grep -q {n}", "--input", "in{n}", "--json", "json"]
    done = real.run("compare", *words, *check, "--", "cat", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    programs_of = json.loads((tmp_path / "json").read_text())["programs"]
    assert [one["comparison"]["settings"]["input"] for one in programs_of] == ["in1", "in2"]


@pytest.mark.parametrize(
    "words, said",
    [
        ("--shell true -- true", "--shell brings its own command"),
        (
            "--vary n=1 --latency -- echo {n}",
            "--latency does not go with --vary; it is of one command; compare that alone",
        ),
        ("--vary n=1 --until 2% -- echo {n}", "have as many rounds; give --rounds"),
        ("--vary n=1 --duet -- echo {n}", "--duet does not go with --vary; it shares a"),
        ("--vary n=1 --witness -- echo {n}", "hyperfine and perf are asked about one command"),
        ("--vary n=1 --threshold 5% -- echo {n}", "several are judged by 2%"),
        (
            "--vary build=1,2 --build a=ls --build b=ls -- {build}",
            "{build} is the build's program; choose another name",
        ),
        (
            "--vary port=1,2 --server s{port} --load true",
            "{port} is the server's port; choose another name",
        ),
        ("--vary n=1 --server s{port} --load true", "no {n} where n could stand"),
        ("--suite x.toml --build a=ls", "give the command, with --vary"),
        ("--vary n=1 --input no{n} -- cat", "--input: cannot read no1: No such file"),
        ("--suite x.toml --shell true", "--shell does not go with --suite"),
        ("--suite x.toml --vary n=1", "--vary does not go with --suite"),
    ],
)
def test_options_that_do_not_fit_are_refused(real: Command, words: str, said: str) -> None:
    done = real.run("compare", *words.split())
    assert done.returncode == 2 and said in done.stderr
