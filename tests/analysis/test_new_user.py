# SPDX-License-Identifier: MIT
"""An hour of a new user: every example of every --help works as it is printed, and a terminal shows
what it should (tmux, as a person sees it). Pages are test_every_page.py's."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest
from conftest import Command
from under import BUILD, HANG

from allotrope.system.allocators import PEERS

# Words whose examples have words of their own below them.
BELOW = {"trace": ("info", "dump"), "simulate": ("pages", "caches", "tlb")}
# A study takes minutes even when it is quick: test_zorn.py, test_barriers.py. A server's
# example needs the server; test_server.py has more.
ELSEWHERE = {"zorn": "test_zorn.py", "vm": "test_vm.py", "study": "test_barriers.py"}
PROGRAM = """
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int sum;
static void *hash_words(void *unused)
{
    for (int i = 0; i < 120000; i++)
        sum += i;
    return unused;
}
int main(int argc, char **argv)
{
    static void *volatile blocks[2000];
    pthread_t other;
    pthread_create(&other, NULL, hash_words, NULL);
    pthread_join(other, NULL);
    hash_words(NULL);
#ifdef SERVER
    sleep(6);
#endif
    (void)argv;
    for (int i = 0; i < 2000; i++)
        blocks[i] = malloc(i % 90 + 1);
    for (int i = 0; i < 2000; i++)
        *(volatile char *)blocks[i] = 1;
    for (int i = 0; i < 2000; i += 2)
        free(blocks[i]);
    return argc > 40;
}
"""
SUITE = """
[[program]]
name = "one"
command = ["{folder}/program"]
"""
FOLLOWED_SECONDS = 20  # what is looked at until it ends; on a busy machine a look takes five
GATES = re.compile("verify-gc|--fail-if")


@pytest.fixture(scope="module")
def folder(real: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples find what they name."""
    place = tmp_path_factory.mktemp("hour")
    (place / "program.c").write_text(PROGRAM)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-o", place / "program", place / "program.c"], check=True)
    server = ["-DSERVER", "-o", str(place / "server")]
    subprocess.run([*compiler, *server, place / "program.c"], check=True)
    for name in ("prog", "old/prog"):
        (place / name).parent.mkdir(exist_ok=True)
        shutil.copy(place / "program", place / name)
    for name in ("input", "data", "words"):
        (place / name).write_text("some words\n" * 20)
    (place / "fill.awk").write_text("{ kept[NR] = $0 }\n")
    (place / "known").write_text("some_function\n")
    (place / "Makefile").write_text("all:\n\t./program\n")
    (place / "programs.toml").write_text(SUITE.format(folder=place))
    (place / "bin").mkdir()
    own = place / "bin" / "allotrope"
    own.write_text(f'#!/bin/sh\nexec {shlex.join(real.line())} "$@"\n')
    own.chmod(0o755)
    (place / "bin" / "allotrope-load").symlink_to(BUILD / "allotrope-load")
    for line in (
        ["record", "-o", "run.alt", "--", "./program"],
        ["events", "-o", "run.ale", "--", "./program"],
        # A suite, as the example before `--from` writes it.
        [
            "compare",
            "--suite",
            "programs.toml",
            "--rounds",
            "9",
            "-a",
            "glibc",
            "-a",
            "blocks",
            "--json",
            "new.json",
        ],
        ["sites", "--json", "before.json", "--", "./program"],
        ["sites", "--json", "after.json", "--", "./program"],
        ["leaks", "--json", "leaks.json", "--", "./program"],
    ):
        done = real.run(*line, cwd=place)
        assert done.returncode == 0, done.stderr
    shutil.copy(place / "new.json", place / "old.json")
    return place


def helps(real: Command) -> Iterator[tuple[str, str]]:
    words = re.findall(r"^  ([a-z][a-z-]+)  ", real.run("--help").stdout, re.MULTILINE)
    for word in words:
        yield word, real.run(word, "--help").stdout
        for below in BELOW.get(word, ()):
            yield word, real.run(word, below, "--help").stdout


def examples() -> list[tuple[str, str]]:
    """Each with its word. Lines that end in a backslash go on."""
    found = []
    for word, text in helps(Command(BUILD)):
        for line in re.sub(r"\\\n\s*", " ", text).splitlines():
            line = line.strip()
            if line.startswith(("allotrope ", "allotrope-load ")):
                found.append((word, re.sub(r"   +.*", "", line)))
    return found


def shortened(line: str) -> str:
    """The same with few rounds, and without what waits for a person."""
    line = line.split(" && ")[0]
    if "compare" in line and "--until" not in line and "--from" not in line:
        # What is judged, here or by another example, needs an interval.
        rounds = 9 if "--fail-if" in line or "--json new.json" in line else 2
        line = line.replace("compare ", f"compare --rounds {rounds} ", 1)
    if "--until" in line:
        line = line.replace("--until", "--most-rounds 16 --until", 1)
    return line.replace("--rounds 11", "--rounds 2")


EXAMPLES = examples()


def test_every_word_has_an_example() -> None:
    words = {word for word, _ in helps(Command(BUILD))}
    assert words - {word for word, _ in EXAMPLES} == set()
    assert len(EXAMPLES) > 50


@pytest.mark.parametrize("word, line", EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_an_example_works_as_it_is_printed(folder: Path, word: str, line: str) -> None:
    if word in ELSEWHERE:
        pytest.skip(f"{ELSEWHERE[word]} has it")
    for program in ("jq", "dineroIV", "memcached", "gawk", "valgrind"):
        if re.search(rf"\b{program}\b", line) and shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    if "memcached -p" in line and os.geteuid() == 0:
        pytest.skip("memcached does not run as root")
    if "--cluster head:" in line:
        pytest.skip("test_cluster.py and test_study_cluster.py have schedulers")
    if line.startswith("allotrope-load"):
        pytest.skip("test_server.py loads servers")
    for peer in PEERS:
        if f"-a {peer.name}" in line and peer.path() is None:
            pytest.skip(f"{peer.package} is not installed")
    environment = Command(BUILD).environment()
    environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
    text = shortened(line)
    running, watched_pid = None, 0
    is_followed = re.search("--every|--watch", line) is not None
    if re.search("4711|1234", line):
        watched = ["leaks"] if word == "leaks" else ["sites", "-a", "blocks"]
        words = [*watched, "--", "sleep", str(FOLLOWED_SECONDS if is_followed else HANG)]
        running = Command(BUILD).start(*words, stderr=subprocess.DEVNULL, cwd=folder)
        watched_pid = the_child(running.pid)
        text = re.sub("4711|1234", str(watched_pid), text)
    try:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", text],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    finally:
        if running is not None:
            if not is_followed and watched_pid:
                os.kill(watched_pid, signal.SIGTERM)
            running.wait()
    # `head` ends its pipe early; nothing is found, or not judged, by verify-gc in so short a run.
    # A gate may be met by chance.
    accepted = {0, 141} if "| head" in line else {0, 3} if GATES.search(line) else {0}
    assert done.returncode in accepted, text + "\n" + done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not re.search("[\u2500-\u257f]", done.stdout + done.stderr), "boxes are for terminals"


def the_child(launcher: int) -> int:
    """The `sleep` below a command, once the library in it has told where its table is."""
    deadline = time.monotonic() + HANG
    while time.monotonic() < deadline:
        done = subprocess.run(
            ["pgrep", "-P", str(launcher), "-x", "sleep"], capture_output=True, text=True
        )
        for word in done.stdout.split():
            if "liballotrope" in Path(f"/proc/{word}/maps").read_text():
                time.sleep(0.2)
                return int(word)
        time.sleep(0.02)
    raise AssertionError("no process was started")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
class TestTerminal:
    """A terminal of 50 lines, narrow and wide, read from the screen."""

    @pytest.fixture(params=[80, 200])
    def screen(
        self, request: pytest.FixtureRequest, folder: Path, tmp_path: Path
    ) -> Iterator["Screen"]:
        opened = Screen(tmp_path / "socket", folder, request.param)
        yield opened
        opened.close()

    def test_a_table_fits_and_progress_leaves_nothing_behind(self, screen: "Screen") -> None:
        screen.type("allotrope compare --rounds 3 -a glibc -a blocks -- ./program")
        shown = screen.wait_for("Not decided")
        assert re.search(r"^allocator .*ratio", shown, re.MULTILINE), shown
        assert re.search(r"^glibc .*baseline", shown, re.MULTILINE), shown
        assert "round 3 of 3" not in shown and "�" not in shown
        # What there is no room for is named; where there is room, nothing is left out.
        assert ("Left out at 80 columns" in shown) == (screen.columns == 80)

    def test_a_wrong_word_is_met_with_the_right_one(self, screen: "Screen") -> None:
        screen.type("allotrope comprae -- ./program")
        assert "did you mean compare?" in screen.wait_for("did you mean")

    def test_an_interruption_leaves_the_prompt_and_what_was_measured(
        self, screen: "Screen"
    ) -> None:
        screen.type("allotrope compare --rounds 200 -a glibc -a blocks -- sleep 0.05")
        screen.wait_for("round ([3-9]|[0-9]{2,}) ")
        screen.keys("C-c")
        shown = screen.wait_for("glibc ")
        screen.type("echo still here: $?")
        assert "still here: 130" in screen.wait_for("still here: 1")
        assert "Traceback" not in shown


class Screen:
    def __init__(self, socket: Path, folder: Path, columns: int) -> None:
        self.socket = socket
        self.columns = columns
        environment = Command(BUILD).environment()
        path = f"PATH={folder / 'bin'}:{environment['PATH']}"
        shell = ["env", path, "PS1=$ ", "bash", "--norc", "--noprofile"]
        size = ["-x", str(columns), "-y", "50"]
        self.tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), *shell)

    def tmux(self, *words: str) -> str:
        environment = Command(BUILD).environment() | {"TERM": "xterm-256color"}
        line = ["tmux", "-u", "-S", str(self.socket), *words]
        done = subprocess.run(
            line, env=environment, capture_output=True, text=True, timeout=HANG, check=True
        )
        return done.stdout

    def type(self, line: str) -> None:
        self.keys("-l", line)
        self.keys("Enter")

    def keys(self, *words: str) -> None:
        self.tmux("send-keys", *words)

    def wait_for(self, pattern: str) -> str:
        """What is shown once this is; the line that was typed does not count."""
        deadline = time.monotonic() + HANG
        while time.monotonic() < deadline:
            shown = self.tmux("capture-pane", "-p")
            answer = "\n".join(line for line in shown.splitlines() if not line.startswith("$ "))
            if re.search(pattern, answer):
                time.sleep(0.3)
                return self.tmux("capture-pane", "-p")
            time.sleep(0.1)
        raise AssertionError(shown)

    def close(self) -> None:
        self.tmux("kill-server")
