# SPDX-License-Identifier: MIT
"""Who really serves a process: what is said must be what a debugger says, of every process of a
run, and an allocator that did not serve has no verdict."""

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, Sequence

import pytest
from allotrope.features.reach import served
from allotrope.system import command_tree, serving
from allotrope.system.allocators import PEERS, Allocator, choose, glibc
from allotrope.system.command_tree import CommandTree
from allotrope.system.following import BURST, Allowance, Follower
from allotrope.system.launch import Launch, launch
from allotrope.system.process_tree import TICKS, TreeUsage, Window, descendants, image_of
from allotrope.system.serving import (
    NOT_KNOWN,
    OUTLIVES,
    PRIVATE,
    Onlooker,
    Process,
    Serving,
    Watcher,
    among,
    first_link,
    look,
)
from conftest import Command
from under import BUILD, HANG, OWN_MALLOC, await_that

LIBRARY = BUILD / ".libs" / "liballotrope.so"
# Holds on to 1000 blocks for a moment.
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    static void *volatile blocks[1000];
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc(100);
    return blocks[999] == NULL;
}
"""
# Ends when its standard input does.
WAITER = """
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    char byte;
    void *volatile block = malloc(100);
    while (read(0, &byte, 1) > 0)
        ;
    return !block;
}
"""
# Has 256 MiB of data. They are not touched: who reads them from outside reads zeroes.
LARGE = WAITER.replace("int main", "volatile char table[256 << 20];\nint main")
# Has allocated 2000 blocks when it waits.
MANY = WAITER.replace(
    "block = malloc(100);", "block; for (int i = 0; i < 2000; i++) block = malloc(9);"
)
# Frees 32 MB in small blocks. Then it touches three times as many bytes that it maps itself as it
# has from malloc.
MAPPER = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
enum { SIZE = 8 << 20 };
int main(void)
{
    static void *blocks[1 << 15];
    for (size_t i = 0; i < 1 << 15; i++)
        blocks[i] = memset(malloc(1000), 1, 1000);
    for (size_t i = 0; i < 1 << 15; i++)
        free(blocks[i]);
    char *mine = mmap(NULL, 3 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *block = malloc(SIZE);
    memset(mine, 1, 3 * SIZE);
    memset(block, 1, SIZE);
    return ((volatile char *)mine)[SIZE] == ((volatile char *)block)[9] ? 0 : 1;
}
"""
# As tcmalloc: its malloc_usable_size makes an object of C++ at the first call, by whichever
# operator new comes first, and answers 0 until its own constructor has run. The program's blocks
# are from that time.
LAZY = """
extern void *_Znwm(size_t size);
static int is_up;
static void *object;
size_t malloc_usable_size(void *block)
{
    (void)block;
    if (!object)
        object = _Znwm(4);
    return is_up ? 1000 : 0;
}
void allocator_is_up(void) { is_up = 1; }
"""
# Aligns small blocks to 8 bytes, and takes no memory for large ones before they are written.
EIGHTS = """
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
static char room[1 << 22];
static size_t used;
void *malloc(size_t size)
{
    size_t at = used;
    if (size >> 30 > 0)
        return mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    used += size / 8 * 8 + 8;
    return used < sizeof room ? room + at : NULL;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size)
{
    void *to = malloc(size);
    return block && to ? memmove(to, block, size) : to;
}
"""

EIGHTS_PROGRAM = """
#include <stdlib.h>
int main(void)
{
    static void *volatile blocks[1000];
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc(i % 2 ? 8 : 1);
    for (int i = 0; i < 1000; i++)
        free(blocks[i]);
    void *volatile large = malloc((size_t)5 << 30);
    free(large);
    return 0;
}
"""

# Tunes glibc so that its heap is seen to be larger, and asks for that.
TUNES = """
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    char *text = NULL;
    size_t length;
    int tuned = mallopt(M_TOP_PAD, 1 << 24);
    void *volatile block = malloc(1000);
    struct mallinfo2 info = mallinfo2();
    free(block);
    FILE *file = open_memstream(&text, &length);
    int told = malloc_info(0, file);
    fclose(file);
    int trimmed = malloc_trim(1 << 23);
    int kept = mallinfo2().arena >= 1 << 23;
    malloc_stats();
    return !tuned || info.arena < 1 << 24 || info.uordblks < 1000 || told || !trimmed || !kept ||
           !strstr(text, "<heap nr=");
}
"""

LAZY_PROGRAM = """
#include <stdlib.h>
extern void allocator_is_up(void);
int main(void)
{
    static void *volatile blocks[1000];
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc(i % 2 * 100);
    allocator_is_up();
    for (int i = 0; i < 1000; i++)
        free(blocks[i]);
    return 0;
}
"""
# Works as a Go program does, in a thread that has ended when the program does, and for less than
# one of the kernel's ticks.
THREADED = """
#include <pthread.h>
#include <time.h>
static void *work(void *unused)
{
    struct timespec used = {0};
    while (used.tv_nsec < 5000000)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return unused;
}
int main(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL);
}
"""
# Uses CPU enough to be the main process of a shell command.
BURN = """
#include <time.h>
__attribute__((constructor)) static void burn(void)
{
    while (clock() < CLOCKS_PER_SEC / 10)
        ;
}
"""


def build(folder: Path, name: str, source: str, *options: str) -> str:
    file = folder / f"{name}.c"
    file.write_text(source)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, str(file), "-o", str(folder / name), *options], check=True)
    return str(folder / name)


def watch(command: Sequence[str], weighs: bool = False, **environment: str) -> list[Process]:
    with Watcher(weighs) as watcher:
        run = launch(Launch(command, environment=environment, watcher=watcher, timeout=HANG))
    assert run.exit_status == 0 and not watcher.forbidden
    return watcher.processes


def preloaded(choice: str) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(LIBRARY),
        "ALLOTROPE": choice,
        "ALLOTROPE_STATS": os.devnull,
    }


class TestWho:
    def test_nothing_preloaded_is_glibc(self, tmp_path: Path) -> None:
        (process,) = watch([build(tmp_path, "plain", PROGRAM)])
        assert process.command == "plain" and process.serving.allocator == "glibc"
        assert process.serving.allocations is None

    def test_ours_with_its_count(self, tmp_path: Path) -> None:
        (process,) = watch([build(tmp_path, "plain", PROGRAM)], **preloaded("bsd:classic"))
        assert process.serving.allocator == "bsd:classic"
        assert 1000 <= (process.serving.allocations or 0) < 1100

    def test_calls_that_are_passed_on_are_counted(self, tmp_path: Path) -> None:
        (process,) = watch([build(tmp_path, "plain", PROGRAM)], **preloaded("next"))
        assert process.serving.allocator == "glibc"
        assert 1000 <= (process.serving.allocations or 0) < 1100

    def test_a_static_program_serves_itself(self, tmp_path: Path) -> None:
        static = build(tmp_path, "static", PROGRAM, "-static")
        (process,) = watch([static], **preloaded("blocks"))
        assert process.serving == Serving("static", static, None)

    def test_a_malloc_of_the_programs_own(self, tmp_path: Path) -> None:
        own = build(tmp_path, "own", PROGRAM + OWN_MALLOC)
        for choice in ("blocks", "next"):
            (process,) = watch([own], **preloaded(choice))
            assert process.serving == Serving("own", own, None), choice

    def test_who_is_passed_to_is_asked_and_tuned_itself(self, tmp_path: Path) -> None:
        program = build(tmp_path, "tunes", TUNES)
        for added in ({}, preloaded("next")):
            environment = os.environ | added
            done = subprocess.run([program], env=environment, capture_output=True, text=True)
            assert done.returncode == 0 and done.stderr.startswith("Arena 0:"), done.stderr

    def test_a_malloc_of_the_programs_own_that_asks_ours(self, tmp_path: Path) -> None:
        own = build(tmp_path, "own", PROGRAM + OVER_GLIBCS)
        for choice, name in (("blocks", "blocks"), ("next", "glibc")):
            (process,) = watch([own], **preloaded(choice))
            assert process.serving.allocator == name
            assert (process.serving.allocations or 0) >= 1000

    def test_a_library_over_glibcs_functions_behind_ours(self, tmp_path: Path) -> None:
        """What it asks of glibc by name must not come back to it through us."""
        library = build(tmp_path, "libover.so", OVER_GLIBCS, "-shared", "-fPIC")
        both = preloaded("next")
        both["LD_PRELOAD"] += f":{library}"
        (process,) = watch([build(tmp_path, "plain", PROGRAM)], **both)
        assert process.serving.allocator == "libover.so"
        assert (process.serving.allocations or 0) >= 1000

    def test_a_library_that_the_program_is_linked_with(self, tmp_path: Path) -> None:
        library = build(tmp_path, "libheap.so", OWN_MALLOC, "-shared", "-fPIC")
        linked = build(tmp_path, "linked", PROGRAM, library)
        (process,) = watch([linked])
        assert process.serving == Serving("libheap.so", library, None)
        (process,) = watch([linked], **preloaded("blocks"))
        assert process.serving.allocator == "blocks"

    @pytest.mark.skipif(PEERS[0].path() is None, reason="libjemalloc2 is not installed")
    def test_a_peer_is_called_by_its_name(self, tmp_path: Path) -> None:
        (process,) = watch([build(tmp_path, "plain", PROGRAM)], LD_PRELOAD=str(PEERS[0].path()))
        assert process.serving.allocator == "jemalloc"

    def test_an_allocator_that_allocates_when_it_is_asked_for_a_size(self, tmp_path: Path) -> None:
        """tcmalloc did so until the stack was used up."""
        options = ("-shared", "-fPIC", "-lstdc++")
        library = build(tmp_path, "liblazy.so", OWN_MALLOC + LAZY, *options)
        program = build(tmp_path, "lazy", LAZY_PROGRAM, library)
        report = tmp_path / "report.json"
        (process,) = watch([program], **preloaded("next") | {"ALLOTROPE_STATS": str(report)})
        assert process.serving.allocator == "liblazy.so"
        assert 1000 <= (process.serving.allocations or 0) < 1100
        account = json.loads(report.read_text())
        held = account["total"]["requested_bytes"] - 500 * 100
        assert account["live"]["requested_bytes"] <= held
        assert account["peak"]["most_requested_bytes"] <= 500 * 100 + held

    def test_what_another_allocator_gives_is_summed_up(self, tmp_path: Path) -> None:
        """Blocks side by side in 16 bytes, as jemalloc has them, and one beyond 32 bits."""
        library = build(tmp_path, "libeights.so", EIGHTS, "-shared", "-fPIC")
        program = build(tmp_path, "eights", EIGHTS_PROGRAM, library)
        report = tmp_path / "report.json"
        watch([program], **preloaded("next") | {"ALLOTROPE_STATS": str(report)})
        account = json.loads(report.read_text())
        live, total = account["live"], account["total"]
        assert total["blocks"] - live["blocks"] == 1001
        assert total["requested_bytes"] - live["requested_bytes"] == 500 * 9 + (5 << 30)
        assert 5 << 30 <= account["peak"]["most_requested_bytes"] <= total["requested_bytes"]

    @pytest.mark.parametrize("peer", PEERS, ids=lambda peer: str(peer.name))
    def test_every_peer_is_watched(self, peer: Any, tmp_path: Path) -> None:
        if peer.path() is None:
            pytest.skip(f"{peer.name} is not installed")
        environment = choose(peer.name).watched_environment() | {"ALLOTROPE_STATS": os.devnull}
        (process,) = watch([build(tmp_path, "plain", PROGRAM)], **environment)
        assert process.serving.allocator == peer.name
        assert 1000 <= (process.serving.allocations or 0) < 1100

    def test_a_process_that_runs_is_looked_at_without_being_stopped(self) -> None:
        running = subprocess.Popen(["sleep", str(HANG)], env=os.environ | preloaded("knuth"))
        try:
            await_that(lambda: look(running.pid).allocator == "knuth")
            assert look(running.pid).allocator == "knuth"
        finally:
            running.kill()
            running.wait()

    def test_a_look_brings_no_page_into_memory(self) -> None:
        """Without address randomization the heap is the first mapping behind the program's data."""
        script = "kept = [bytes(3000) for _ in range(3000)]; print(flush=True); input()"
        line = ["setarch", "-R", "/usr/bin/python3", "-I", "-S", "-c", script]
        environment = os.environ | preloaded("blocks")
        pipe = subprocess.PIPE
        with subprocess.Popen(line, env=environment, stdin=pipe, stdout=pipe) as running:
            assert running.stdin and running.stdout
            running.stdout.readline()
            before = present_pages(running.pid)
            assert (look(running.pid).allocations or 0) > 3000
            assert before and present_pages(running.pid) == before
            running.stdin.write(b"\n")
            running.stdin.flush()

    def test_what_is_gone_is_unknown(self) -> None:
        gone = subprocess.Popen(["true"])
        gone.wait()
        assert not look(gone.pid).is_known

    def test_in_the_middle_of_an_exec_there_is_no_loader(self) -> None:
        assert first_link(b"", None) == 0


class TestTree:
    def test_every_process_is_seen_however_it_ends(self) -> None:
        script = "(exit 3); true & sleep 0.01; sh -c 'kill -KILL $$'; env true; wait"
        names = sorted(process.command for process in watch(["sh", "-c", script]))
        # The subshell, the background job and what kills itself are shells.
        assert names == ["sh", "sh", "sh", "sh", "sleep", "true"]

    def test_a_child_does_not_count_what_its_parent_allocated(self) -> None:
        script = """if True:
            import os
            kept = [bytes(1000) for _ in range(5000)]
            os.fork() == 0 and os._exit(0)
            os.wait()
        """
        parent, child = watch(["/usr/bin/python3", "-I", "-S", "-c", script], **preloaded("blocks"))
        assert (parent.serving.allocations or 0) > 5000
        assert (child.serving.allocations or 0) < 1000

    def test_an_end_that_is_told_before_the_birth_is_one_process(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The child may end before the launcher hears that its parent has forked."""
        counts = {1: 1000, 2: 1030, 3: 20}
        monkeypatch.setattr(serving, "look", lambda pid: Serving("gc", "/x", counts[pid]))
        watcher = Watcher()
        for line in ("exit 2 2", "fork 1 2", "exec 3", "exit 3 3", "fork 1 3", "fork 1 2"):
            watcher.take(line)
        found = [(process.pid, process.serving.allocations) for process in watcher.processes]
        assert found == [(2, 30), (3, 20), (2, None)]

    @pytest.mark.parametrize(
        "title, name",
        [
            ("/usr/bin/sleep", "sleep"),
            ("redis-server *:6379", "redis-server"),
            ("nginx: master process /usr/sbin/nginx -c conf/nginx.conf", "nginx"),
            ("postgres: checkpointer ", "postgres"),
            ("/opt/a folder/server", "server"),
            ("-sh", "-sh"),
        ],
    )
    def test_a_title_that_a_server_gives_itself(self, title: str, name: str) -> None:
        process = subprocess.Popen([title, "600"], executable="/bin/sleep")
        try:
            await_that(lambda: serving.command_of(process.pid) == name)
            assert serving.command_of(process.pid) == name
        finally:
            process.kill()
            process.wait()

    def test_what_was_not_looked_at_has_a_name_and_a_reason(self) -> None:
        """Of a process that is killed in the middle of its exit nothing is told any more."""
        killed = subprocess.Popen(["sleep", "600"])
        try:
            await_that(lambda: serving.command_of(killed.pid) == "sleep")
            with Watcher() as watcher:
                watcher.take(f"exec {killed.pid}")
                watcher.take(f"exec {os.getpid()}")
                killed.kill()
                killed.wait()
        finally:
            killed.kill()
            killed.wait()
        found = [(process.command, process.unseen) for process in watcher.processes]
        assert found[0] == ("sleep", "killed") and found[1][1] == "outlives"
        mine = [row("glibc", 1, "sh"), *watcher.processes[:1]]
        said = served.by_command(served.account(mine, glibc()))
        assert said == (
            "sh 10, sleep not counted (it was killed, and gone before it was looked at)"
        )

    def test_all_threads_of_a_short_process_count(self, tmp_path: Path) -> None:
        """Else a shell with 2 ms would seem the main process, or not, as it happens."""
        (process,) = watch([build(tmp_path, "threaded", THREADED, "-pthread")])
        assert process.cpu_seconds >= 0.005

    def test_what_may_not_be_read_at_its_end_has_a_reason(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(serving, "look", lambda pid: NOT_KNOWN)
        monkeypatch.setattr(serving.os, "open", refuse)
        watcher = Watcher()
        watcher.take(f"exit {os.getpid()} {os.getpid()}")
        found = served.account(watcher.processes, choose("blocks"))
        assert found is not None and found["rows"][0]["unseen"] == PRIVATE
        assert served.why_unknown({"served": found}).endswith(served.UNSEEN[PRIVATE])

    def test_threads_are_no_processes(self) -> None:
        script = "import threading\nfor _ in range(5): threading.Thread(target=print).start()"
        assert len(watch(["/usr/bin/python3", "-I", "-S", "-c", script])) == 1

    def test_a_stopped_process_is_continued_by_others_alone(self) -> None:
        """The status tells whether it stood still, and went on when it might."""
        script = """
            sleep 5 &
            is() { sleep 0.5; grep -q "^State:.[$1]" /proc/$!/status; }
            kill -STOP $!; is Tt && kill -CONT $! && is S
            found=$?; kill -9 $!; exit $found
        """
        watch(["sh", "-c", script])

    def test_a_watcher_that_dies_does_not_hold_the_run(self) -> None:
        watcher = Watcher()
        watcher.thread.start()
        watcher.ours.shutdown(2)
        run = launch(Launch(["sh", "-c", "true; /bin/true"], watcher=watcher, timeout=HANG))
        watcher.launchers.close()
        assert run.exit_status == 0


@contextlib.contextmanager
def waiting(*command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when its standard input is closed."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=os.environ | environment, stdin=pipe) as process:
        yield process


# As a word of the command preloads it that counts nothing.
UNCOUNTED = {"LD_PRELOAD": str(LIBRARY), "ALLOTROPE": "blocks"}


ARCHIVE = BUILD / ".libs" / "liballotrope.a"


def read_so_far() -> int:
    """Bytes that this thread has read from files, /proc included."""
    lines = Path("/proc/thread-self/io").read_text().splitlines()
    return int(lines[0].removeprefix("rchar: "))


class TestLookIsCheap:
    """A look that takes long is followed by a long rest, in which processes are missed."""

    @pytest.mark.parametrize(
        "name, options, preloads",
        [
            ("glibc", (), False),
            ("blocks", (), True),
            ("static", ("-static",), False),
            ("blocks", ("-static", "-pthread", str(ARCHIVE)), False),
            ("blocks", ("-static", "-pthread", "-s", str(ARCHIVE)), False),
            ("own", ("-pthread", str(ARCHIVE)), False),
        ],
    )
    def test_a_programs_data_are_not_searched(
        self, tmp_path: Path, name: str, options: Sequence[str], preloads: bool
    ) -> None:
        program = build(tmp_path, "large", LARGE, *options)
        environment = UNCOUNTED if preloads else {"LD_PRELOAD": ""}
        with waiting(program, **environment) as process:
            await_that(lambda: look(process.pid).is_known)
            before = read_so_far()
            serving = look(process.pid)
            assert read_so_far() - before < 1 << 18
        assert (serving.allocator, serving.reaches_us) == (name, name == "blocks")


@pytest.mark.parametrize("told, name", [("next", "own"), ("blocks", "blocks")])
def test_a_program_with_our_archive_serves_itself(tmp_path: Path, told: str, name: str) -> None:
    """Told to pass calls on it does so in this run; in none that is timed, and glibc serves in
    none."""
    program = build(tmp_path, "many", MANY, "-pthread", str(ARCHIVE))
    counted = {"LD_PRELOAD": str(LIBRARY), "ALLOTROPE": told, "ALLOTROPE_STATS": os.devnull}
    with waiting(program, **counted) as process:
        in_read = Path(f"/proc/{process.pid}/syscall")  # of number 0
        await_that(lambda: in_read.read_text().startswith("0 "))
        assert look(process.pid).allocator == name


def test_a_static_program_with_our_archive_is_taken(real: Command, tmp_path: Path) -> None:
    """Called directly, as among a shell's children."""
    program = build(tmp_path, "carrier", PROGRAM, "-static", "-pthread", str(ARCHIVE))
    assert "allocator " in real.run("run", "-a", "bsd", "--stats", "--", program).stderr
    said = real.run("sites", "--rate=1", "--", program).stderr
    assert "allocated at" in said and "Not seen" not in said
    assert among([program], "bsd", 1000) == Serving("bsd", program, 1000, True)
    assert among([program], None, 0).allocator == "static"
    options = ["-a", "glibc", "-a", "blocks", "--rounds=1", "--warmup=0", "--json=-"]
    document = json.loads(real.run("compare", *options, "--", program).stdout)
    reach = {one["spec"]: one["served"]["in_reach"] for one in document["results"]}
    assert reach == {"glibc": False, "blocks": True}


def test_a_static_program_with_our_archive_is_not_for_others(real: Command, tmp_path: Path) -> None:
    program = build(tmp_path, "carrier", PROGRAM, "-static", "-pthread", str(ARCHIVE))
    for words in (["run", "-a", "glibc", "--latency"], ["sites", "-a", "glibc"]):
        refused = real.run(*words, "--", program)
        assert refused.returncode == 126 and "only allotrope's own allocators" in refused.stderr


def test_why_a_watched_run_failed_is_told(real: Command) -> None:
    script = '[ "$ALLOTROPE" != next ] || { echo the cause >&2; exit 1; }'
    options = ["-a", "glibc", "-a", "blocks", "--rounds=1", "--warmup=0", "--json=-"]
    document = json.loads(real.run("compare", *options, "--", "sh", "-c", script).stdout)
    missing = document["results"][0]["served_missing"]
    assert missing == "for, when watched, it ended so: exit status 1 (the cause)"


MARK = "MARK=of this run"


@contextlib.contextmanager
def orphan(line: str, **settings: Any) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A shell, and a process that goes on when the shell below it, which has started it, ends. That
    one ends when it reads a line."""
    script = f"({line} >/dev/null & echo $!; read go); read end"
    pipe = subprocess.PIPE
    environment = os.environ | dict([MARK.split("=")])
    with subprocess.Popen(
        ["sh", "-c", script], env=environment, stdin=pipe, stdout=pipe, **settings
    ) as root:
        assert root.stdin and root.stdout
        pid = int(root.stdout.readline())
        try:
            yield root, pid
        finally:
            os.kill(pid, signal.SIGKILL)
            root.communicate(b"\n\n")


def lose_parent(root: subprocess.Popen[bytes], pid: int) -> None:
    assert root.stdin
    root.stdin.write(b"\n")
    root.stdin.flush()
    await_that(lambda: pid not in descendants(root.pid))
    assert pid not in descendants(root.pid)


class TestCommandTree:
    def test_who_was_seen_once_is_followed(self) -> None:
        with orphan(f"sleep {HANG}") as (root, pid):
            tree = CommandTree(root.pid)
            assert pid in tree.look()
            lose_parent(root, pid)
            assert pid in tree.look() and pid in tree.look()

    @pytest.mark.parametrize(
        "line, mark, settings, looks",
        [
            ("sleep", MARK, {}, [True, True]),
            ("sleep", "", {}, [False, False]),
            ("sleep", MARK + "s", {}, [False, False]),
            ("setsid sleep", MARK, {}, [True, True]),
            ("env -i A=1 sleep", MARK, {}, [False, False]),
            ("env -i A=1 sleep", MARK, {"start_new_session": True}, [True, True]),
            ("env -i A=1 sleep", MARK, {"process_group": 0}, [True, True]),
            ("env -i sleep", MARK, {}, [False, True]),
            ("setsid env -i sleep", MARK, {}, [False, False]),
        ],
    )
    def test_who_was_orphaned_between_two_looks_is_known_by_what_it_inherits(
        self, line: str, mark: str, settings: dict[str, Any], looks: list[bool]
    ) -> None:
        with orphan(f"{line} {HANG}", **settings) as (root, pid):
            lose_parent(root, pid)
            await_that(lambda: serving.command_of(pid) == "sleep")
            tree = CommandTree(root.pid, mark)
            assert [pid in tree.look() for _ in looks] == looks

    @pytest.mark.parametrize(
        "line, perhaps",
        [("setsid env -i sleep", True), ("setsid sleep", False), ("env -i sleep", False)],
    )
    def test_of_whom_nothing_is_known_is_perhaps_of_it(self, line: str, perhaps: bool) -> None:
        with orphan(f"{line} {HANG}") as (root, pid):
            lose_parent(root, pid)
            await_that(lambda: serving.command_of(pid) == "sleep")
            tree = CommandTree(root.pid, MARK)
            tree.look()
            assert pid not in tree.perhaps  # it may be in the middle of an exec
            tree.look()
            assert (pid in tree.perhaps) == perhaps

    def test_who_began_before_it_or_is_another_users_is_not_perhaps_of_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with orphan(f"setsid env -i sleep {HANG}") as (root, pid):
            lose_parent(root, pid)
            await_that(lambda: serving.command_of(pid) == "sleep")
            time.sleep(2 / TICKS)
            with waiting("cat") as later:
                trees = [CommandTree(later.pid, MARK), CommandTree(root.pid, MARK)]
                read = command_tree._user_and_control_groups
                others = [*read(pid)[:1], b"0::/other"]
                monkeypatch.setattr(
                    command_tree,
                    "_user_and_control_groups",
                    lambda one: others if one == pid else read(one),
                )
                for tree in trees * 2:
                    tree.look()
                assert [pid in tree.perhaps for tree in trees] == [False, False]

    def test_who_was_there_before_the_command_is_not_of_it(self) -> None:
        with orphan(f"env -i sleep {HANG}") as (other, pid):
            lose_parent(other, pid)
            time.sleep(2 / TICKS)
            with waiting("cat") as root:
                tree = CommandTree(root.pid, MARK)
                assert [pid in tree.look() for _ in range(2)] == [False, False]


class Slow(Follower):
    """Its first look takes long."""

    looks = 0

    def look(self, pids: Sequence[int], seconds: float) -> None:
        self.looks += 1
        if self.looks == 1:
            time.sleep(0.2)


class TestFollower:
    def test_looks_take_a_twentieth_of_a_processor(self) -> None:
        """But for a start, which may take more at once."""
        allowance = Allowance()
        assert allowance.rest_after(BURST / 2, 0.0) == allowance.rest_after(BURST / 2, 0.0) == 0.0
        assert allowance.rest_after(0.1, 0.0) == pytest.approx(2.0)
        assert allowance.rest_after(0.1, 2.0) == pytest.approx(2.0)
        # What was not used for an hour is not kept.
        assert allowance.rest_after(BURST + 0.1, 3600.0) == pytest.approx(2.0)

    def test_the_longest_time_without_a_look_is_known(self) -> None:
        with Slow() as follower:
            follower.follow(os.getpid())
            await_that(lambda: follower.looks > 1)
            assert follower.longest_gap >= 0.2
        never = Slow()
        never.period = HANG
        with never:
            never.follow(os.getpid())
            time.sleep(0.1)
        assert never.looks == 0 and never.longest_gap >= 0.1


def refuse(*_: object) -> int:
    """As open does for who may not read."""
    raise PermissionError


class TestOnlooker:
    def seen(self, onlooker: Onlooker, process: subprocess.Popen[bytes], name: str) -> list[Any]:
        """Once the process is served by this one it is looked at; who is not seen then."""
        await_that(lambda: image_of(process.pid) and look(process.pid).allocator == name)
        onlooker.look([process.pid], 0.0)
        assert [one.serving.allocator for one in onlooker.processes] == [name]
        return served.not_seen(onlooker.processes, choose("blocks"), ())

    def test_who_does_not_come_to_our_library_is_told(self, tmp_path: Path) -> None:
        static = build(tmp_path, "static", WAITER, "-static")
        own = build(tmp_path, "own", WAITER + OWN_MALLOC)
        plain = build(tmp_path, "plain", WAITER)
        next_one = UNCOUNTED | {"ALLOTROPE": "next"}
        cases: list[tuple[str, dict[str, str], str, bool]] = [
            (static, UNCOUNTED, "static", False),
            (own, UNCOUNTED, "own", False),
            (own, next_one, "own", False),
            (plain, UNCOUNTED, "blocks", True),
            (plain, preloaded("blocks"), "blocks", True),
            (plain, next_one, "glibc", True),
            (plain, {"LD_PRELOAD": ""}, "glibc", False),
        ]
        for program, environment, name, is_seen in cases:
            with waiting(program, **environment) as process:
                rows = self.seen(Onlooker(), process, name)
            assert [row["command"] for row in rows] == ([] if is_seen else [Path(program).name])
            assert is_seen or rows[0]["processes"] == 1 and rows[0]["allocator"] == name

    def test_who_runs_on_is_told(self, tmp_path: Path) -> None:
        """Its report comes at its end, when nobody reads it. Of a static one none comes at all."""
        static = build(tmp_path, "static", WAITER, "-static")
        plain = build(tmp_path, "plain", WAITER)
        onlooker = Onlooker()
        with waiting(plain, **preloaded("blocks")) as ended:
            self.seen(onlooker, ended, "blocks")
        with waiting(static) as other, waiting(plain, **preloaded("blocks")) as process:
            await_that(lambda: look(process.pid).allocator == "blocks")
            await_that(lambda: look(other.pid).allocator == "static")
            for one in (process, other):
                onlooker.look_at_the_end(CommandTree(one.pid))
            rows = served.not_seen(onlooker.processes, choose("blocks"), ())
            heard = served.not_seen(onlooker.processes, choose("blocks"), {process.pid})
        unseen = {row["command"]: row["unseen"] for row in rows}
        assert unseen == {"plain": OUTLIVES, "static": None}
        assert [row["command"] for row in heard] == ["static"]
        first, second = served.NotSeen(rows).sentences("what was lost there")
        assert str(first) == (
            "Not seen: our library did not serve static (it is linked statically); what was lost "
            "there is not known."
        )
        assert str(second) == (
            "Not seen: plain still ran when the command had ended, and will report to nobody; a "
            "process that runs can be asked by its id (see --help)."
        )

    def test_the_last_program_of_a_process_counts(self, tmp_path: Path) -> None:
        static = build(tmp_path, "static", WAITER, "-static")
        onlooker = Onlooker()
        with waiting("sh", "-c", f"read line; exec {static}", **UNCOUNTED) as process:
            assert self.seen(onlooker, process, "blocks") == []
            assert process.stdin
            process.stdin.write(b"\n")
            process.stdin.flush()
            (row,) = self.seen(onlooker, process, "static")
        assert row["command"] == "static" and row["object"] == os.path.realpath(static)

    def test_who_passes_calls_on_was_heard_of(self, tmp_path: Path) -> None:
        own = build(tmp_path, "own", WAITER + OWN_MALLOC)
        onlooker = Onlooker()
        with waiting(own, **UNCOUNTED) as process:
            assert self.seen(onlooker, process, "own")
        assert served.not_seen(onlooker.processes, choose("blocks"), {process.pid}) == []

    def test_what_is_gone_is_not_seen(self) -> None:
        with waiting("true") as gone:
            pass
        onlooker = Onlooker()
        onlooker.look([gone.pid], 0.0)
        assert onlooker.processes == []

    def test_what_may_not_be_read_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(serving, "look", lambda pid: NOT_KNOWN)
        onlooker = Onlooker()
        with waiting("cat") as process:
            await_that(lambda: serving.command_of(process.pid) == "cat")
            onlooker.look([process.pid], 0.0)
            assert served.not_seen(onlooker.processes, choose("blocks"), ()) == []
            monkeypatch.setattr(serving.os, "open", refuse)
            onlooker.look([process.pid], 0.0)
        (row,) = served.not_seen(onlooker.processes, choose("blocks"), ())
        assert (row["command"], row["unseen"]) == ("cat", PRIVATE)
        (said,) = served.NotSeen([row]).sentences("what was lost there")
        assert str(said) == (
            "Not seen: whether our library served cat (it may not be read: it is another user's, "
            "setuid or not dumpable, or Yama forbids it) is not known."
        )

    def test_a_program_that_closes_itself_is_who_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It may have become another by then, whose name is another."""
        onlooker = Onlooker()
        with waiting("cat", **UNCOUNTED) as process:
            assert self.seen(onlooker, process, "blocks") == []
            monkeypatch.setattr(serving, "image_of", lambda pid: replace(image_of(pid), code=1))
            monkeypatch.setattr(serving, "look", lambda pid: NOT_KNOWN)
            monkeypatch.setattr(serving.os, "open", refuse)
            onlooker.look([process.pid], 0.0)
            assert served.not_seen(onlooker.processes, choose("blocks"), ()) == []
            monkeypatch.setattr(serving, "command_of", lambda pid: "other")
            onlooker.look([process.pid], 0.0)
        (row,) = served.not_seen(onlooker.processes, choose("blocks"), ())
        assert (row["command"], row["unseen"]) == ("other", PRIVATE)

    def test_alike_ones_are_one_and_most_cpu_comes_first(self) -> None:
        processes = [row("static", 1, "go") for _ in range(3)] + [row("own", 9, "rustc")]
        rows = served.not_seen(processes, choose("blocks"), ())
        (said,) = served.NotSeen(rows, 0.4).sentences("what was lost there")
        assert str(said) == (
            "Not seen: our library did not serve rustc (it has a malloc of its own) and go (it is "
            "linked statically, at least 3 processes); what was lost there is not known."
        )
        assert served.NotSeen([]).sentences("x") == []
        (said,) = served.NotSeen(rows).without(["rustc"]).clauses()
        assert (
            said == "our library did not serve go (it is linked statically, at least 3 processes)"
        )

    def test_who_is_perhaps_of_the_command_is_named(self) -> None:
        onlooker = Onlooker()
        with waiting("cat") as process, waiting("cat") as heard_of:
            await_that(lambda: serving.command_of(process.pid) == "cat")
            onlooker.look_at_perhaps({process.pid, heard_of.pid})
            found = served.seen_by(onlooker, choose("blocks"), {heard_of.pid})
            (said,) = found.sentences("what was lost there")
            assert str(said) == (
                "Not seen: whether cat, orphaned while the command ran and without an environment "
                "that may be read, came from it is not known."
            )
            assert found.as_document()["perhaps"] == ["cat"]
            onlooker.look([process.pid, heard_of.pid], 0.0)  # they are the command's after all
            assert not onlooker.perhaps
        (said,) = served.NotSeen([], perhaps=list("abcdef")).clauses()
        assert said.startswith("whether a, b, c, d and 2 more commands, orphaned")

    def test_how_long_nobody_looked_is_told(self) -> None:
        gap = (
            "Not seen: 3.1 s passed between two looks at the command's processes, so one that ran "
            "for less may have been missed."
        )
        for rows, count in (([], 1), (served.not_seen([row("own", 9)], choose("gc"), ()), 2)):
            said = served.NotSeen(rows, 3.14).sentences("x")
            assert len(said) == count and str(said[-1]) == gap
        assert served.NotSeen([], 3.14159).as_document() == {
            "not_seen": [],
            "longest_gap_seconds": 3.142,
            "perhaps": [],
        }
        nobody = {"not_seen": None, "longest_gap_seconds": None, "perhaps": None}
        assert served.NotSeen(None).as_document() == nobody


class TestWeight:
    @pytest.mark.parametrize("choice", ["blocks", "gc", "bsd"])
    def test_memory_that_no_malloc_gave_counts_against_the_share(
        self, tmp_path: Path, choice: str
    ) -> None:
        (process,) = watch([build(tmp_path, "mapper", MAPPER)], weighs=True, **preloaded(choice))
        assert 8 << 20 <= process.heap_bytes < 48 << 20
        assert 24 << 20 <= process.anonymous_bytes - process.heap_bytes < 28 << 20

    def test_a_malloc_of_the_programs_own_leaves_us_nothing(self, tmp_path: Path) -> None:
        own = build(tmp_path, "own", PROGRAM + OWN_MALLOC)
        (process,) = watch([own], weighs=True, **preloaded("blocks"))
        assert process.heap_bytes < process.anonymous_bytes / 2

    def test_it_is_weighed_only_when_asked(self, tmp_path: Path) -> None:
        (process,) = watch([build(tmp_path, "mapper", MAPPER)], **preloaded("blocks"))
        assert process.heap_bytes == process.anonymous_bytes == 0


def row(allocator: str, cpu: float, command: str = "a", file: str = "/x") -> Process:
    return Process(1, command, cpu, Serving(allocator, file, 10))


class TestAccount:
    def test_the_process_with_most_cpu_decides(self) -> None:
        mine = choose("blocks")
        found = served.account([row("blocks", 0.1, "sh"), row("static", 5, "go")], mine)
        assert served.is_out_of_reach(found) and found is not None
        assert [one["command"] for one in found["rows"]] == ["go", "sh"]
        assert found["cpu_share"] == pytest.approx(0.1 / 5.1) and found["allocations"] == 20
        found = served.account([row("blocks", 5, "sh"), row("static", 0.1, "go")], mine)
        assert not served.is_out_of_reach(found)

    def test_of_a_server_the_load_decides(self) -> None:
        """A script starts the server and goes on beside it; others come and go within the load,
        before it and after it."""
        processes = [row("static", 9, "start"), row("blocks", 3, "server"), row("static", 5, "old")]
        processes += [row("blocks", 0.2, "worker"), row("static", 7, "late")]
        for pid, process in enumerate(processes, start=1):
            process.pid = pid
        times = (30.0, 30.0, 5.0, 15.0, 25.0)
        for process, ended in zip(processes, times):
            process.ended = ended
        before = TreeUsage(0, 0, 0, 0, 2, {1: 8.9, 2: 0.5})
        after = TreeUsage(0, 0, 0, 0, 2, {1: 8.9, 2: 2.5})
        found = served.account(processes, choose("blocks"), Window(10, 20, before, after))
        assert found is not None and found["in_reach"] and found["cpu_share"] == 1
        used = {one["command"]: one["cpu_seconds"] for one in found["rows"]}
        assert used == {"server": 2.0, "worker": 0.2, "start": 0.0, "old": 0.0, "late": 0.0}

    def test_counts_of_different_commands_are_not_mixed(self) -> None:
        processes = [row("blocks", 5, "gawk"), row("blocks", 1, "sh"), row("static", 0.1, "go")]
        processes[0].serving = Serving("blocks", "/x", 200_000)
        processes[2].serving = Serving("static", "/go", None)
        found = served.account([*processes, row("blocks", 1, "sh")], choose("blocks"))
        assert served.cell(found) == "blocks (200k)"
        assert served.by_command(found) == (
            "gawk 200k, sh 20 in 2 processes, go not counted (static)"
        )
        alone = served.account(processes[:1], choose("blocks"))
        assert served.by_command(alone) == ""

    def test_alike_processes_are_one_row(self) -> None:
        found = served.account([row("glibc", 1)] * 300, glibc())
        assert found is not None and len(found["rows"]) == 1 and found["processes"] == 300

    def test_who_is_not_known_is_not_out_of_reach(self) -> None:
        found = served.account([row("unknown", 1)], glibc())
        assert found is not None and found["in_reach"] is None
        assert not served.is_out_of_reach(found) and served.account([], glibc()) is None

    @pytest.mark.parametrize(
        "pids, processes, blocks, proven",
        [
            ((1, 2), 2, 5, True),
            ((1, 2), 3, 5, False),  # a process without a report
            ((1, 1), 2, 5, False),
            ((1,), 1, 0, False),  # somebody else's malloc may have been called
            ((1,), None, 5, False),
            ((), 0, 5, False),
        ],
    )
    def test_reports_prove_who_served_when_every_process_has_one(
        self, pids: tuple[int, ...], processes: int | None, blocks: int, proven: bool
    ) -> None:
        made = {"command": "x", "allocator": "blocks", "preset": "default"}
        reports = [made | {"pid": pid, "total": {"blocks": blocks}} for pid in pids]
        found = served.account_by_reports(reports, choose("blocks"), processes)
        assert served.is_unknown(found) is not proven
        if found is not None:
            assert found["in_reach"] and found["allocations"] == blocks * len(pids)
            assert [one["cpu_seconds"] for one in found["rows"]] == [None] * len(found["rows"])
        assert served.account_by_reports(reports, glibc(), processes) is None

    # A row has the name without what stands behind a space.
    @pytest.mark.parametrize("command, share", [("a", 0.75), ("a b", 0.75), ("b", 0.5)])
    def test_malloc_has_a_share_of_what_was_weighed(self, command: str, share: float) -> None:
        """The most that was asked for, where the account is of that process; else its heap."""
        process = row("blocks", 1)
        process.anonymous_bytes, process.heap_bytes = 200, 100
        found = served.account([process], choose("blocks"))
        served.note_share(found, {"command": command, "requested_peak_bytes": 300})
        assert found is not None
        assert found["rows"][0]["malloc_share"] == share and found["rows"][0]["own_bytes"] == 100
        results = [{"served": None}, {"served": found}]
        assert served.malloc_share(results, "a") == share and served.own_bytes(results, "a") == 100
        assert served.malloc_share(results, "c") is None

    @pytest.mark.skipif(PEERS[0].path() is None, reason="libjemalloc2 is not installed")
    def test_a_peer_is_its_file(self) -> None:
        peer: Allocator = choose("jemalloc")
        assert served.is_served_by(Serving("jemalloc", str(peer.library), None), peer)
        assert not served.is_served_by(Serving("jemalloc", "/opt/libjemalloc.so.2", None), peer)

    def test_contenders_with_the_same_strangers_share_a_line(self) -> None:
        found = served.account([row("static", 5, "go"), row("glibc", 1, "sh")], glibc())
        results = [{"spec": spec, "served": found, "served_missing": None} for spec in "ab"]
        assert served.notes(results) == [
            "a and b did not serve go (it is linked statically); what they did serve used 17% of "
            "the CPU."
        ]


def present_pages(pid: int) -> set[int]:
    """Of the heap, which begins at 2 to 4 TiB (vm/window.h): be it the kernel's page of zeros."""
    found: set[int] = set()
    with open(f"/proc/{pid}/pagemap", "rb") as entries:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split()
            first, end = (int(word, 16) // mmap.PAGESIZE for word in words[0].split("-"))
            if 2 << 40 <= first * mmap.PAGESIZE < 5 << 40 and words[1] == "rw-p":
                entries.seek(8 * first)
                numbers = struct.unpack(f"={end - first}Q", entries.read(8 * (end - first)))
                found.update(first + i for i, number in enumerate(numbers) if number >> 63)
    return found


# Twelve threads with little to keep, and processes that are forked and started.
FORKS = """if True:
    import multiprocessing, subprocess, threading
    def work(count):
        return len([bytes(1000 + i % 500) for i in range(count)])
    def serve():
        kept = [bytes(600) for _ in range(200)]
        barrier.wait()
        subprocess.run(["/bin/true"], check=True)
        barrier.wait()
    barrier = threading.Barrier(12)
    threads = [threading.Thread(target=serve) for _ in range(12)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, [2000] * 4) == [2000] * 4
"""


OVER_GLIBCS = """
#include <stddef.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t), __libc_free(void *);
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }
void free(void *block) { __libc_free(block); }
"""


def compare(real: Command, tmp_path: Path, *words: str, status: int) -> dict[str, Any]:
    file = tmp_path / "result.json"
    done = real.run("compare", "--rounds", "9", "--json", str(file), *words)
    assert done.returncode == status, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(file.read_text()) | {"shown": done.stdout}
    return document


class TestCompare:
    def test_forks_of_a_python_program_leave_no_fragments(
        self, real: Command, tmp_path: Path
    ) -> None:
        """What the watcher or the program only reads is not in memory."""
        specs = ("-a", "glibc", "-a", "blocks", "-a", "knuth", "-a", "gnu")
        program = ("/usr/bin/python3", "-I", "-c", FORKS)
        document = compare(real, tmp_path, *specs, "--", *program, status=0)
        for result in document["results"][1:]:
            heap, timeline = result["heap"], result["heap"]["timeline"]
            assert heap["resident_peak_bytes"] <= heap["mapped_peak_bytes"], result["spec"]
            pairs = zip(timeline["resident_bytes"], timeline["mapped_bytes"])
            assert all(resident <= mapped for resident, mapped in pairs), result["spec"]
        assert "Fragmentation" not in document["shown"]

    def test_a_static_program_in_a_shell_has_no_verdict(
        self, real: Command, tmp_path: Path
    ) -> None:
        static = build(tmp_path, "static", PROGRAM + BURN, "-static")
        words = ("-a", "glibc", "-a", "blocks", "--", "sh", "-c", f"{static}; true")
        document = compare(real, tmp_path, *words, status=1)
        assert [one["status"] for one in document["results"]] == ["out-of-reach"] * 2
        blocks = document["results"][1]
        assert blocks["heap"] is None and blocks["cpu_seconds"]["verdict"] is None
        assert [one["command"] for one in blocks["served"]["rows"]] == ["static", "sh"]
        assert "Not decided: the baseline glibc did not serve static" in document["shown"]
        assert "all rows are the same program" in " ".join(document["shown"].split())

    def test_a_program_that_maps_its_memory_has_no_recommendation(
        self, real: Command, tmp_path: Path
    ) -> None:
        """Of 24 MB it asks malloc for 9 KB."""
        source = MAPPER.replace("8 << 20", "8 << 10").replace("3 * SIZE", "3000 * SIZE")
        source = source.replace("1 << 15", "1")
        words = ("-a", "glibc", "-a", "blocks", "--", build(tmp_path, "mapper", source))
        document = compare(real, tmp_path, *words, status=0)
        row = document["results"][1]["served"]["rows"][0]
        assert row["malloc_share"] < 0.01 and row["own_bytes"] >= 24_000_000
        shown = " ".join(document["shown"].split())
        assert "Not decided: malloc serves next to nothing of mapper: it was called" in shown
        assert "malloc was asked for less than 1% of mapper's memory" in shown

    def test_a_library_of_the_programs_is_not_glibc(self, real: Command, tmp_path: Path) -> None:
        library = build(tmp_path, "libheap.so", OWN_MALLOC, "-shared", "-fPIC")
        linked = build(tmp_path, "linked", PROGRAM + BURN, library)
        words = ("-a", "glibc", "-a", "blocks", "--", linked)
        document = compare(real, tmp_path, *words, status=1)
        assert [one["status"] for one in document["results"]] == ["out-of-reach", "ok"]
        assert "glibc did not serve linked (libheap.so did)" in document["shown"]
        assert document["results"][1]["served"]["allocations"] >= 1000
