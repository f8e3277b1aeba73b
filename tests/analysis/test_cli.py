# SPDX-License-Identifier: MIT
"""The words of the command: run, list, and how bad questions are answered."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import jsonschema
import click
import pytest
from allotrope.commands.cli import hang_up, replace_what_it_lacks
from allotrope.commands.compare import compare_with_progress
from allotrope.features.compare.comparison import Plan
from allotrope.output.terminal import print_table, print_wrapped, terminal
from allotrope.output.text import WIDTH_WITHOUT_TERMINAL, markdown_table, width_of
from allotrope.system import shell
from allotrope.system.allocators import PEERS, glibc, libc_version
from allotrope.system.children import interruptions_held
from allotrope.system.launch import run_to_its_end
from allotrope.system.process_tree import children_of
from allotrope.system.shell import run_shell
from conftest import Command
from under import BUILD, HANG, PYTHON, SOURCE, await_that, processes_that_name

INSTALLED_PEERS = [peer for peer in PEERS if peer.path() is not None]
# Prints what the loader has mapped into this very process.
SHOW_LIBRARIES = ["cat", "/proc/self/maps"]


class TestRun:
    @pytest.mark.parametrize("peer", INSTALLED_PEERS, ids=lambda peer: str(peer.name))
    def test_peers_are_preloaded(self, real: Command, peer: Any) -> None:
        done = real.run("run", "-a", peer.name, "--", *SHOW_LIBRARIES)
        assert str(peer.path().resolve()) in done.stdout

    def test_glibc_runs_plainly(self, real: Command) -> None:
        done = real.run("run", "-a", "glibc", "--", "env")
        assert not any(
            line.startswith(("LD_PRELOAD=", "ALLOTROPE")) for line in done.stdout.splitlines()
        )

    def test_ours_are_told_what_to_be(self, mock: Command) -> None:
        done = mock.run("run", "-a", "mock:arenas=2", "--", "env")
        variables = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        assert variables["ALLOTROPE"] == "mock:arenas=2"
        assert variables["LD_PRELOAD"] == f"{mock.build}/.libs/liballotrope.so"
        assert "ALLOTROPE_BUILD_DIR" not in variables and "PYTHONPATH" not in variables

    def test_a_library_that_is_preloaded_already_stays_behind_ours(self, mock: Command) -> None:
        environment = {"LD_PRELOAD": "libm.so.6"}
        done = mock.run("run", "-a", "mock", "--", "env", environment=environment)
        assert f"LD_PRELOAD={mock.build}/.libs/liballotrope.so:libm.so.6" in done.stdout

    @pytest.mark.parametrize(
        "script, status", [("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", -signal.SIGTERM)]
    )
    def test_status_is_the_commands(self, mock: Command, script: str, status: int) -> None:
        assert mock.run("run", "-a", "mock", "--", "sh", "-c", script).returncode == status

    def test_streams_are_the_commands(self, mock: Command) -> None:
        done = mock.run("run", "-a", "mock", "cat", input="through\n")
        assert (done.stdout, done.stderr) == ("through\n", "")

    def test_the_commands_options_are_its_own(self, mock: Command) -> None:
        assert mock.run("run", "-a", "mock", "echo", "-a", "--stats", "--help").stdout == (
            "-a --stats --help\n"
        )

    @pytest.mark.parametrize(
        "option, value", [("--stats", "-"), ("--stats=a b.json", "{}/a b.json")]
    )
    def test_statistics_go_where_the_option_says(
        self, mock: Command, option: str, value: str, tmp_path: Path
    ) -> None:
        words = ("run", "-a", "mock:silent", option, "--", "printenv", "ALLOTROPE_STATS")
        assert mock.run(*words, cwd=tmp_path).stdout == value.format(tmp_path) + "\n"

    @pytest.mark.parametrize("option", ["--stats", "--latency"])
    def test_reports_stay_here_where_the_command_goes_elsewhere(
        self, real: Command, option: str, tmp_path: Path
    ) -> None:
        words = (
            "run",
            "-a",
            "bsd",
            f"{option}=%p.json",
            "--",
            "sh",
            "-c",
            "mkdir sub; cd sub; ls; :",
        )
        assert real.run(*words, cwd=tmp_path).returncode == 0
        assert list(tmp_path.glob("*.json")) and not list(tmp_path.glob("sub/*"))

    def test_bare_statistics_take_no_word_of_the_command(self, mock: Command) -> None:
        done = mock.run("run", "-a", "mock:silent", "--stats", "printenv", "ALLOTROPE_STATS")
        assert done.stdout == "-\n"

    def test_a_file_behind_bare_statistics_is_told_its_place(self, mock: Command) -> None:
        for word in ("--stats", "--latency"):
            done = mock.run("run", "-a", "mock:silent", word, "/no/such/file.json", "--", "true")
            assert done.returncode == 127 and done.stderr == (
                "allotrope: /no/such/file.json: command not found; a file for "
                f"{word} is given as {word}=FILE\n"
            )
        done = mock.run("run", "-a", "mock:silent", "/no/such/file.json")
        assert done.stderr == "allotrope: /no/such/file.json: command not found\n"

    def test_a_command_may_be_ended_by_its_reader(self, mock: Command) -> None:
        line = shlex.join(mock.line("run", "-a", "mock", "yes"))
        script = f"{line} | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], env=mock.environment(), capture_output=True)
        assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")

    def test_an_interpreter_that_is_missing_is_named(self, mock: Command, tmp_path: Path) -> None:
        for line, shown in (
            ("#!/no/such/thing", "/no/such/thing"),
            ("#!/bin/sh\r", "'/bin/sh\\r'"),
        ):
            script = tmp_path / "script"
            script.write_bytes(f"{line}\necho\n".encode())
            script.chmod(0o755)
            for spec in ("mock", "glibc"):
                done = mock.run("run", "-a", spec, "--", str(script))
                assert done.returncode == 126
                assert f"its first line names {shown}, which is not there" in done.stderr

    @pytest.mark.parametrize(
        "words, status",
        [(["no-such-program"], 127), (["/etc/passwd"], 126), (["/etc"], 126)],
    )
    def test_what_cannot_run_has_a_shells_status(
        self, mock: Command, words: list[str], status: int
    ) -> None:
        done = mock.run("run", "-a", "mock", "--", *words)
        assert done.returncode == status
        assert words[0] in done.stderr and done.stderr.count("\n") == 1

    def test_static_program_is_refused_in_one_line(self, mock: Command, tmp_path: Path) -> None:
        (tmp_path / "main.c").write_text("int main(void) { return 3; }\n")
        program = str(tmp_path / "main")
        subprocess.run(["cc", "-static", tmp_path / "main.c", "-o", program], check=True)
        done = mock.run("run", "-a", "mock", "--", program)
        assert done.returncode == 126
        assert "statically linked" in done.stderr and done.stderr.count("\n") == 1
        assert mock.run("run", "-a", "glibc", "--", program).returncode == 3

    def test_text_without_an_interpreter_line_goes_to_the_shell(
        self, mock: Command, tmp_path: Path
    ) -> None:
        script = tmp_path / "script"
        script.write_text('exit "$1"\n')
        script.chmod(0o755)
        assert mock.run("run", "-a", "mock", "--", str(script), "4").returncode == 4


LIST_SCHEMA = {
    "type": "object",
    "required": ["schema", "version", "allocators", "peers"],
    "properties": {
        "schema": {"const": "allotrope.list/1"},
        "allocators": {
            "type": "array",
            "items": {"type": "object", "required": ["name", "title", "presets", "options"]},
        },
        "peers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "title", "package", "installed", "version", "path"],
                "properties": {"installed": {"type": "boolean"}},
            },
        },
    },
}


class TestList:
    def test_json_holds_the_schema_and_every_peer(self, mock: Command) -> None:
        listed = json.loads(mock.run("list", "--json").stdout)
        jsonschema.validate(listed, LIST_SCHEMA)
        assert [own["name"] for own in listed["allocators"]] == ["mock"]
        peers = {peer["name"]: peer for peer in listed["peers"]}
        assert list(peers) == ["glibc", "jemalloc", "mimalloc", "tcmalloc"]
        assert peers["glibc"]["version"] == libc_version()
        for peer in PEERS:
            assert peers[peer.name]["installed"] == (peer.path() is not None)

    def test_versions_are_those_of_the_packages(self, mock: Command) -> None:
        if shutil.which("dpkg-query") is None:
            pytest.skip("no dpkg here")
        for peer in json.loads(mock.run("list", "--json").stdout)["peers"]:
            if peer["installed"] and peer["name"] != "glibc":
                query = ["dpkg-query", "-W", "-f", "${Version}", peer["package"]]
                assert peer["version"] == subprocess.check_output(query, text=True)

    def test_text_names_presets_options_and_peers(self, mock: Command) -> None:
        shown = mock.run("list").stdout
        for word in ("mock", "mock:noise", "arenas=1..64", "glibc", "jemalloc", "tcmalloc"):
            assert word in shown

    def test_without_a_library_peers_are_still_listed(self, tmp_path: Path) -> None:
        bare = Command(tmp_path)
        shown = bare.run("list")
        assert shown.returncode == 0
        assert "not built" in shown.stdout and "glibc" in shown.stdout
        listed = json.loads(bare.run("list", "--json").stdout)
        assert listed["allocators"] == [] and listed["version"] is None


BAD_QUESTIONS = [
    # of every word
    (["bogus"], "there is no word 'bogus'"),
    (["profile", "1"], "there is no word 'profile'; sites -- CMD tells where the memory was"),
    (["list", "--bogus"], "there is no option --bogus; see allotrope list --help"),
    (["list", "--jso"], "there is no option --jso; did you mean --json?"),
    (["list", "more"], "'more' is one word too many; see allotrope list --help"),
    (["stats"], "PID is missing; see allotrope stats --help"),
    (["stats", "one"], "PID: 'one' is no whole number from 1 on"),
    (["stats", "--interval", "1", "--interval", "2", "1"], "--interval is given twice"),
    (["compare", "--rounds"], "--rounds needs a value; see allotrope"),
    # of -a
    (["run", "--", "true"], "-a is missing; see allotrope run --help"),
    (
        ["run", "-a", "nose", "--", "true"],
        "unknown allocator 'nose'; valid are: mock, glibc, jemalloc, mimalloc, tcmalloc",
    ),
    (["run", "-a", "", "--", "true"], "unknown allocator ''"),
    (["run", "-a", "mock:wrong", "--", "true"], "unknown option 'wrong'; valid are: arenas"),
    (
        ["run", "-a", "glibc:classic", "--", "true"],
        "'glibc:classic': 'classic' is not of the form key=value",
    ),
    (["run", "-a", "glibc:x=1", "--", "true"], "'glibc:x=1': glibc has no option 'x'"),
    (["run", "-a", "mock"], "no command given; usage: allotrope run -a ALLOCATOR -- CMD..."),
    (["run", "-a", "mock", "--"], "no command given"),
    (["run", "-a", "glibc", "--stats", "--", "true"], "--stats: glibc keeps no statistics"),
    (["run", "-a", "mock", "-a", "glibc", "--", "true"], "-a is given twice"),
    (["run", "-a", "mock", "--stats", "--stats=x", "--", "true"], "--stats is given twice"),
    (["run", "-a", "mock", "--latency", "--latency=x", "true"], "--latency is given twice"),
    # of compare
    (["compare"], "no command given; usage: allotrope compare [-a ALLOCATOR]... -- CMD..."),
    (["compare", "-a", "mock"], "no command given"),
    (["compare", "--json", "a", "--json", "b", "--", "true"], "--json is given twice"),
    (["compare", "--rounds", "0", "--", "true"], "--rounds: '0' is no whole number from 1 on"),
    (
        ["compare", "--rounds", "many", "--", "true"],
        "--rounds: 'many' is no whole number from 1 on",
    ),
    (["compare", "--warmup", "-1", "--", "true"], "--warmup: '-1' is no whole number from 0 on"),
    (["compare", "--timeout", "0", "--", "true"], "--timeout: '0.0' is no number above 0"),
    (
        ["compare", "-a", "mock", "-a", "mock", "--", "true"],
        "-a mock: the same allocator as -a mock",
    ),
    (
        ["compare", "-a", "mock", "-a", "mock:arenas=4", "--", "true"],
        "-a mock:arenas=4: the same allocator as -a mock",
    ),
    (["compare", "--baseline", "nose", "--", "true"], "unknown allocator 'nose'"),
    (
        ["compare", "--input", "/no/such/file", "--", "true"],
        "--input: cannot read /no/such/file: No such file or directory",
    ),
    (
        ["compare", "--json", "/no/such/place/file", "--", "true"],
        "--json: cannot write /no/such/place/file: there is no folder /no/such/place",
    ),
    (["compare", "--html", "", "--", "true"], "--html: the name is empty"),
    (["compare", "--csv", "/tmp", "--", "true"], "--csv: cannot write /tmp: it is a folder"),
    (
        ["compare", "--json", "/tmp/x", "--markdown", "/tmp/x", "--", "true"],
        "--markdown: /tmp/x is already written by --json",
    ),
    (
        ["compare", "--prepare", "exit 3", "-a", "mock", "--", "true"],
        "--prepare: 'exit 3' ended with status 3",
    ),
]


@pytest.mark.parametrize("words, answer", BAD_QUESTIONS, ids=lambda value: str(value)[:50])
def test_bad_questions_get_one_line(mock: Command, words: list[str], answer: str) -> None:
    done = mock.run(*words)
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith("allotrope: ")
    assert answer in done.stderr
    assert done.stderr.count("\n") == 1


def test_control_bytes_do_not_reach_the_terminal(mock: Command) -> None:
    for words in (
        ["run", "-a", "no\x1b[31mse\r", "--", "true"],
        ["run", "-a", "mock", "--", "/no\x1b[31m/such\r"],
        ["bo\x1b[31mgus\r"],
    ):
        done = mock.run(*words)
        assert done.returncode != 0
        assert "\\x1b[31m" in done.stderr
        assert done.stderr.rstrip("\n").isprintable()


def test_uninstalled_peer_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from allotrope.system import allocators
    from allotrope.system.errors import UserError

    monkeypatch.setattr(allocators.Peer, "path", lambda peer: None)
    with pytest.raises(UserError, match="install the Debian package libjemalloc2"):
        allocators.choose("jemalloc")
    assert all(one.name != "jemalloc" for one in allocators.default_choice())


def test_library_that_is_not_built_is_named(tmp_path: Path) -> None:
    done = Command(tmp_path).run("run", "-a", "bsd", "--", "true")
    assert done.returncode == 2
    assert "unknown allocator 'bsd'" in done.stderr and "run make" in done.stderr


def test_unwritable_output_is_found_before_measuring(mock: Command, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    file = tmp_path / "result"
    file.touch(mode=0o444)
    done = mock.run("compare", "--json", str(file), "--", "touch", str(tmp_path / "ran"))
    assert done.returncode == 2 and "permission denied" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_what_cannot_be_written_says_why(real: Command, tmp_path: Path) -> None:
    flags = os.statvfs("/sys").f_flag if os.path.isdir("/sys") else 0
    places = [
        (str(tmp_path / "none" / "x"), "there is no folder"),
        (str(tmp_path), "it is a folder"),
        ("", "the name is empty"),
    ]
    if flags & os.ST_RDONLY:
        places.append(("/sys/x", "its file system is read-only"))
    for word in ("record", "events"):
        for name, why in places:
            done = real.run(word, "-o", name, "--", "touch", str(tmp_path / "ran"))
            assert done.returncode == 2 and why in done.stderr, (word, done.stderr)
    assert not (tmp_path / "ran").exists()


def test_comparing_under_a_preloaded_allocator_is_refused(mock: Command) -> None:
    environment = {"LD_PRELOAD": "libjemalloc.so.2"}
    done = mock.run("compare", "-a", "mock", "--", "true", environment=environment)
    assert done.returncode == 2 and "LD_PRELOAD already loads libjemalloc.so.2" in done.stderr


def test_comparing_a_static_program_is_refused(mock: Command, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    program = str(tmp_path / "main")
    subprocess.run(["cc", "-static", tmp_path / "main.c", "-o", program], check=True)
    done = mock.run("compare", "-a", "mock", "--", program)
    assert done.returncode == 2 and "statically linked" in done.stderr
    done = mock.run("compare", "--", program)
    for name in ("mock", *(peer.name for peer in INSTALLED_PEERS)):
        assert re.search(rf"compare under .*\b{name}\b", done.stderr), "all that cannot be had"


def test_default_choice_is_glibc_ours_and_the_installed_peers(mock: Command) -> None:
    done = mock.run("compare", "--rounds", "1", "--json", "-", "--", "true")
    specs = [result["spec"] for result in json.loads(done.stdout)["results"]]
    assert specs == ["glibc", "mock", *(peer.name for peer in INSTALLED_PEERS)]


def test_version_is_that_of_the_library(mock: Command) -> None:
    assert mock.run("--version").stdout == "allotrope 9.9\n"


@pytest.mark.parametrize("word", ["run", "list", "compare", "doctor"])
def test_help_is_there_for_every_word(mock: Command, word: str) -> None:
    assert word in mock.run("--help").stdout
    assert mock.run(word, "--help").returncode == 0


WRITING = [
    ["list"],
    ["list", "--json"],
    ["doctor"],
    ["--version"],
    ["--help"],
    ["run", "--help"],
    ["compare", "--rounds", "1", "-a", "mock", "true"],
    ["compare", "--rounds", "1", "--json", "-", "-a", "mock", "true"],
]


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
class TestOutputThatCannotBeWritten:
    def shell(self, mock: Command, words: list[str], rest: str) -> tuple[int, str]:
        script = f"exec 3>&1; {shlex.join(mock.line(*words))} {rest}"
        done = subprocess.run(
            ["bash", "-c", script], env=mock.environment(), capture_output=True, text=True
        )
        return done.returncode, done.stderr

    def test_a_full_device_is_told_in_the_last_line(self, mock: Command, words: list[str]) -> None:
        status, error = self.shell(mock, words, ">/dev/full")
        last = "allotrope: cannot write to standard output: No space left on device\n"
        assert status == 2 and error.endswith(last) and "Traceback" not in error

    def test_a_closed_output_is_told(self, mock: Command, words: list[str]) -> None:
        status, error = self.shell(mock, words, ">&-")
        assert status == 2 and "cannot write to standard output" in error
        assert "Traceback" not in error and "Exception" not in error

    def test_a_reader_that_has_gone_ends_it_without_a_trace(
        self, mock: Command, words: list[str]
    ) -> None:
        status, error = self.shell(mock, words, "| true; exit ${PIPESTATUS[0]}")
        assert status in (0, 128 + signal.SIGPIPE)
        assert "Traceback" not in error and "Exception" not in error


def test_a_result_is_written_though_the_terminal_is_not(mock: Command, tmp_path: Path) -> None:
    file = tmp_path / "result"
    words = ["compare", "--rounds", "1", "--json", str(file), "-a", "mock", "--", "true"]
    subprocess.run(
        ["bash", "-c", f"{shlex.join(mock.line(*words))} >/dev/full"],
        env=mock.environment(),
        capture_output=True,
    )
    assert json.loads(file.read_text())["results"]


HEAVY_MODULES = ("numpy", "scipy", "pandas", "plotly", "jinja2", "elftools", "rich.console")


@pytest.mark.parametrize(
    "words",
    [["--version"], ["--help"], ["list"], ["run", "-a", "glibc", "true"], ["compare", "--help"]],
)
def test_nobody_waits_for_modules_of_others(mock: Command, words: list[str]) -> None:
    python, *rest = mock.line(*words)
    done = subprocess.run(
        [python, "-X", "importtime", *rest], env=mock.environment(), capture_output=True, text=True
    )
    read = {line.split("|")[2].strip() for line in done.stderr.splitlines() if line.count("|") == 2}
    assert "click" in read and not read & set(HEAVY_MODULES)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("words", [["list"], ["doctor"]], ids=" ".join)
def test_text_is_no_wider_than_the_terminal(real: Command, words: list[str], width: int) -> None:
    shown = real.run(*words, environment={"COLUMNS": str(width)}).stdout
    assert max(map(len, shown.splitlines())) <= width


def test_a_report_that_cannot_be_written_is_told_before_the_run(real: Command) -> None:
    for option in ("--stats", "--latency", "--log"):
        done = real.run("run", "-a", "bsd", f"{option}=/no/folder/x", "--", "echo", "ran")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{option}: cannot write /no/folder/x: there is no folder /no/folder" in done.stderr
    words = ("--stats=/dev/null", "--latency=/dev/null")
    assert real.run("run", "-a", "bsd", *words, "--", "echo", "ran").stdout == "ran\n"


def test_reports_may_share_standard_error(real: Command) -> None:
    for words in (("--stats", "--latency"), ("--stats=-", "--latency=-", "--log=-")):
        done = real.run("run", "-a", "bsd", *words, "--", "echo", "ran")
        assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
        assert done.stderr


def test_list_has_presets_options_and_defaults(real: Command) -> None:
    shown = real.run("list").stdout
    # Keywords of any length stand off what is said of them.
    keywords = re.compile(r"^ +[a-z-]+=[a-z|]+(  )?", re.MULTILINE)
    assert all(found[1] for found in keywords.finditer(shown))
    assert "[the default]" in shown.splitlines()[1]
    lines = [line.split() for line in shown.splitlines()]
    classic = lines.index(next(line for line in lines if line and line[0] == "knuth:classic"))
    below = [[line[0], line[-1]] for line in lines[classic + 1 : classic + 4] if line]
    assert ["counters=off|on", "[off]"] in below
    assert ["large=64K..1G", "[256K]"] in [[line[0], line[-1]] for line in lines if line]


def test_a_tiny_heap_has_a_peak(real: Command, tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    real.run("run", "-a", "bsd", f"--stats={file}", "--", "/bin/ls", "/")
    peak = json.loads(file.read_text())["peak"]
    most = peak["most_requested_bytes"]
    assert 0 < most < 1 << 20
    assert 0.96 * most <= peak["requested_bytes"] <= most
    assert peak["requested_bytes"] > 0 and peak["mapped_bytes"] >= peak["requested_bytes"]


def words_of(real: Command) -> list[list[str]]:
    """Every word of the command line, and the words of words."""
    from allotrope.commands.cli import cli

    found: list[list[str]] = []

    def visit(group: click.Group, path: list[str]) -> None:
        context = click.Context(group)
        for name in group.list_commands(context):
            below = group.get_command(context, name)
            found.append([*path, name])
            if isinstance(below, click.Group):
                visit(below, [*path, name])

    visit(cli, [])
    return found


def test_every_help_has_an_example_and_help_shows_it(real: Command) -> None:
    words = words_of(real)
    assert ["trace", "info"] in words and len(words) > 15
    for path in words:
        if path == ["load"]:
            continue  # it becomes allotrope-load, whose help it shows
        shown = real.run(*path, "--help").stdout
        assert f"\n  allotrope {' '.join(path)}" in shown or "| allotrope" in shown, path
    assert real.run("help", "trace", "info").stdout == real.run("trace", "info", "--help").stdout
    assert real.run("help").stdout == real.run("--help").stdout
    assert real.run("help", "sites", "diff").stdout == real.run("sites", "diff", "--help").stdout


def test_summaries_are_whole_sentences(real: Command) -> None:
    shown = real.run("--help").stdout
    assert "..." not in shown.replace("[ARGS]...", "")
    assert "Re-run B. Zorn's study of 1992 on today's programs, and judge its" in shown


@pytest.mark.parametrize(
    "words, said",
    [
        ("comapre", "there is no word 'comapre'; did you mean compare?"),
        ("xyzzy", "there is no word 'xyzzy'; see allotrope --help"),
        ("trace inof", "there is no word 'inof'; did you mean info?"),
        ("trace cat run.alt", "there is no word 'cat'; trace dump prints a trace as text"),
        ("help stat", "there is no word 'stat'; did you mean stats?"),
        ("help sites dif", "allotrope sites has no word 'dif'; it has diff"),
        ("help stats diff", "allotrope stats has no words of its own"),
        ("run -a jemaloc -- true", "; did you mean jemalloc?"),
        ("compare --round 3 -- true", "--rounds"),
    ],
)
def test_what_was_meant_is_told(real: Command, words: str, said: str) -> None:
    done = real.run(*words.split())
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "variables, ascii",
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_ALL": "C.UTF-8"}, False),
    ],
)
def test_the_locale_c_is_spoken_to_in_ascii(
    real: Command, variables: dict[str, str], ascii: bool
) -> None:
    words = ("compare", "--rounds", "1", "-a", "glibc", "-a", "blocks", "--", "true")
    done = real.run(*words, environment=variables)
    assert done.returncode == 0 and done.stdout.isascii() == ascii
    assert ("–" in done.stdout) != ascii


def test_a_document_on_standard_output_is_no_speech(real: Command, tmp_path: Path) -> None:
    words = ("compare", "--rounds", "1", "-a", "glibc", "--markdown", "-", "--", "true")
    assert "–" in real.run(*words, environment={"LC_ALL": "C"}).stdout


@pytest.mark.parametrize(
    "encoding, written",
    [("utf-8", b"2 \xc3\x97 \xe2\x80\x93 \xff"), ("latin-1", b"2 \xd7 - \xff")],
)
def test_what_the_locale_has_no_sign_for_is_written(encoding: str, written: bytes) -> None:
    """Most have no dash, and none has a sign for a byte of a name that is no text."""
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding)
    replace_what_it_lacks(stream)
    stream.write("2 × – \udcff")
    stream.flush()
    assert buffer.getvalue() == written


def heard_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)


def heard_while_held() -> None:
    with interruptions_held() as pending:
        signal.raise_signal(signal.SIGHUP)
    assert pending == [signal.SIGHUP]


def heard_of_a_program() -> None:
    hang_up_both = "trap 'exit 3' HUP; kill -HUP $PPID; while :; do sleep 0.01; done"
    assert run_to_its_end(["/bin/sh", "-c", hang_up_both], os.environ) == 3


@pytest.mark.parametrize("hear", [heard_once, heard_while_held, heard_of_a_program])
def test_a_terminal_closes_once(hear: Callable[[], None]) -> None:
    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, hang_up)
    try:
        hear()
        signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_caller_who_ignores_ended_children_gets_their_status(real: Command) -> None:
    """What `run` becomes is the caller's and ignores them as well."""

    def ignoring(*words: str) -> subprocess.CompletedProcess[str]:
        line = ["/usr/bin/env", "--ignore-signal=CHLD", *real.line(*words)]
        return subprocess.run(
            line, env=real.environment(), capture_output=True, text=True, timeout=HANG
        )

    assert ignoring("sites", "--", "false").returncode == 1
    told = ignoring("run", "-a", "glibc", "--", "grep", "SigIgn", "/proc/self/status").stdout
    assert int(told.split()[1], 16) >> signal.SIGCHLD - 1 & 1


def test_a_cell_of_markdown_is_a_line() -> None:
    assert markdown_table([["who"], ["a\nb|c"]])[-1] == r"| a b\|c |"


def test_a_width_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, width in (("70", 70), ("²", WIDTH_WITHOUT_TERMINAL), ("", WIDTH_WITHOUT_TERMINAL)):
        monkeypatch.setenv("COLUMNS", columns)
        assert width_of(os.open(os.devnull, os.O_RDONLY)) == width


def test_progress_shows_a_name_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """rich takes some of it for its markup."""
    plan = Plan(["true"], [glibc()])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(
        "allotrope.commands.compare.compare", lambda _, show: show("under ./a[/b].so", 2)
    )
    compare_with_progress(plan)
    assert "./a[/b].so" in capsys.readouterr().err


def test_a_line_on_the_terminal_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a program calls itself, or says last."""
    console = terminal()
    print_table(console, [["who"], ["a\nb\x1b[31m"]], styles=[""])
    print_wrapped(console, "said \x1b[31m")
    assert capsys.readouterr().out == "who\na\\x0ab\\x1b[31m\nsaid \\x1b[31m\n"


def test_without_a_terminal_rows_are_whole_lines(real: Command) -> None:
    words = ("compare", "--rounds", "1", "-a", "glibc", "-a", "blocks", "--", "true")
    environment = {"COLUMNS": ""}
    lines = real.run(*words, environment=environment).stdout.splitlines()
    assert lines[0].split()[-1] == "status" and "Left out" not in "\n".join(lines)
    assert lines[2].startswith("blocks ") and lines[2].endswith(" ok")


def test_errors_are_in_ascii_too(real: Command) -> None:
    done = real.run("verify-gc", "--", "/µ–", environment={"LC_ALL": "C"})
    assert done.stderr == "allotrope: /u-: command not found\n"


@pytest.mark.parametrize(
    "words, part",
    [
        ("simulate pages a.alt", "allotrope-simulate"),
        ("trace info a.alt", "trace/allotrope-trace"),
        ("lifetimes a.ale", "trace/allotrope-events"),
        ("vm --rounds 1", "allotrope-vm"),
    ],
)
def test_the_signal_that_killed_a_part_of_ours_is_named(
    tmp_path: Path, words: str, part: str
) -> None:
    program = tmp_path / part
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\nprintf '{\"a'\nkill -KILL $$\n")
    program.chmod(0o755)
    (tmp_path / "a.alt").write_bytes(b"")
    (tmp_path / "a.ale").write_bytes(b"\x89ALEVENT")
    done = Command(tmp_path).run(*words.split(), cwd=tmp_path)
    assert done.returncode == 137, done.stderr
    assert f"allotrope: {program.name} was killed by SIGKILL\n" in done.stderr


def test_the_signal_that_killed_a_simulator_at_work_is_the_status(tmp_path: Path) -> None:
    for name in (".libs", "allotrope-describe", "trace"):
        (tmp_path / name).symlink_to(BUILD / name)
    simulator = tmp_path / "allotrope-simulate"
    simulator.write_text("#!/bin/sh\nkill -KILL $$\n")
    simulator.chmod(0o755)
    done = Command(tmp_path).run("locality", "--", "true")
    assert done.returncode == 137, done.stderr
    assert "allotrope: allotrope-simulate was killed by SIGKILL\n" in done.stderr


LOSES = """
import os, signal, sys, threading, time
from allotrope.system.children import repeat_lost_interruptions

class Dropped:
    def __del__(self):
        raise KeyboardInterrupt

class Hasty(threading.Timer):
    def start(self):
        threading.Timer = Slow
        os.kill(*self.args)

Slow = threading.Timer
if sys.argv[1] == "hasty":
    threading.Timer = Hasty
signal.signal(signal.SIGINT, signal.default_int_handler)
repeat_lost_interruptions()
try:
    Dropped()
    time.sleep(60)
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.parametrize("timer", ["slow", "hasty"])
def test_an_interruption_that_python_drops_comes_again(timer: str) -> None:
    """Around a fork it dropped that of a study, which went on to its end; later the one that
    came again, while the hook still ran."""
    path = {"PYTHONPATH": str(SOURCE / "analysis")}
    words = [PYTHON, "-c", LOSES, timer]
    result = subprocess.run(
        words, env=os.environ | path, capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr, result.returncode) == ("ended\n", "", 0)


def test_a_shell_that_is_being_started_ends_with_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A preparation was left behind when the signal came before subprocess had returned."""
    started = []

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            started.append(self.pid)
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_shell("sleep 1200")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not Path(f"/proc/{started[0]}").exists()


def test_a_shell_that_was_just_started_ends_with_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the moment in which signals are heeded again."""
    started, before = [], children_of(os.getpid())

    @contextlib.contextmanager
    def held() -> Iterator[list[int]]:
        yield []
        if not started:
            started.extend(set(children_of(os.getpid())) - set(before))
            raise KeyboardInterrupt

    monkeypatch.setattr(shell, "interruptions_held", held)
    with pytest.raises(KeyboardInterrupt):
        run_shell("sleep 1200")
    assert started and not any(Path(f"/proc/{pid}").exists() for pid in started)


@pytest.mark.parametrize("wait", [0, 0.001, 0.002, 0.004])
def test_what_a_shell_is_about_to_start_ends_with_an_interruption(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wait: float
) -> None:
    """It started one between our look at its children and its end."""
    never = tmp_path / "never"
    os.mkfifo(never)

    held = []

    @contextlib.contextmanager
    def hold() -> Iterator[list[int]]:
        yield []
        held.append(1)
        if len(held) % 2 == 1:  # else it is ended
            time.sleep(wait)
            raise KeyboardInterrupt

    monkeypatch.setattr(shell, "interruptions_held", hold)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            run_shell(f"for i in 1 2 3 4 5 6 7 8 9; do read line <{never} & done; wait")
    left = processes_that_name(tmp_path)
    for pid in left:
        os.kill(int(pid), signal.SIGKILL)
    assert not left


DEAF = "trap '' TERM; echo $$ >{file}; while :; do sleep 0.1; done"
HEADLESS = """
import ctypes, os, signal, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def write():
    while os.path.exists("/proc/self/exe"):  # gone with the first thread
        pass
    open({file!r}, "w").write(f"{{os.getpid()}}\\n")
    signal.sigwait({{signal.SIGUSR1}})
threading.Thread(target=write).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("kind", ["deaf", "headless"])
def test_a_preparation_that_heeds_no_term_ends_with_an_interruption(
    tmp_path: Path, kind: str, times: int
) -> None:
    """Its shell, which does, is no sign of its end, nor is that of its first thread. A second
    interruption costs the wait alone."""
    file = tmp_path / "pid"
    deaf = ["sh", "-c", DEAF.format(file=file)]
    headless = [PYTHON, "-c", HEADLESS.format(file=str(file))]

    def interrupt() -> None:
        await_that(lambda: file.exists() and file.read_text().endswith("\n"))
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)  # Popen.wait() takes 0.25 s to raise the first

    thread = threading.Thread(target=interrupt)
    thread.start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_shell(f"{shlex.join(deaf if kind == 'deaf' else headless)}; true")
        thread.join()
        time.sleep(0.01)  # for a second one that comes late
    except KeyboardInterrupt:
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    await_that(lambda: not processes_that_name(tmp_path))
    for pid in processes_that_name(tmp_path):
        os.kill(int(pid), signal.SIGKILL)
        raise AssertionError(pid)
