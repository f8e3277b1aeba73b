# SPDX-License-Identifier: MIT
"""`allotrope leaks`: blocks that were not freed and cannot be reached, by the place that made them;
what is still reachable is none."""

import dataclasses
import gzip
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Sequence

import click
import pytest
from conftest import Command
from under import (
    HANG,
    LIBRARY,
    OWN_MALLOC,
    SOURCE,
    await_looks,
    await_that,
    plain_environment,
    static_that_lingers,
)

from allotrope.commands import leaks as leaks_command
from allotrope.features.leaks import scan
from allotrope.features.leaks.ask import PUBLISHED, REPORT, need_reporter
from allotrope.features.leaks.measure import Leaks
from allotrope.features.leaks.output import headline, read_before
from allotrope.features.sites.measure import Tally
from allotrope.features.sites.snapshot import Unreadable
from allotrope.output import pprof
from allotrope.system.errors import UserError
from allotrope.system.symbols import Place

# A frame of a function that has ended may hold a stale pointer: it is written over.
PROLOGUE = r"""
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
struct node { struct node *next; long weight[3]; };
static __attribute__((noinline)) void scrub(void)
{
    volatile char old[16384];
    memset((char *)old, 0, sizeof old);
}
"""

PLANTED = (
    PROLOGUE
    + r"""
static void *volatile kept;
static __thread void *volatile thread_kept;
static __attribute__((noinline)) void lose(void) { memset(malloc(72), 1, 72); } /* LOSE */
static __attribute__((noinline)) void lose_list(int length)
{
    struct node *volatile head = NULL;
    for (int i = 0; i < length; i++) {
        struct node *one = malloc(sizeof *one); /* LIST */
        one->next = head;
        head = one;
    }
    head = NULL;
}
static __attribute__((noinline)) void lose_ring(int length)
{
    struct node *first = malloc(sizeof *first), *last = first; /* RING */
    for (int i = 1; i < length; i++) {
        last->next = malloc(sizeof *last); /* RING */
        last = last->next;
    }
    last->next = first;
}
static __attribute__((noinline)) void lose_itself(void)
{
    struct node *one = malloc(sizeof *one); /* SELF */
    one->next = one;
}
static void *hold(void *stop)
{
    void *volatile own = malloc(1234); /* HELD */
    thread_kept = malloc(1235);        /* HELD */
    pthread_barrier_wait(stop);
    pthread_barrier_wait(stop);
    return (void *)own == NULL ? stop : NULL;
}
static __attribute__((noinline)) void *inside(void)
{
    char *block = malloc(100); /* HELD */
    return block + 50;
}
int main(void)
{
    static pthread_barrier_t stop;
    pthread_t thread;
    void *volatile local = malloc(321); /* HELD */
    pthread_barrier_init(&stop, NULL, 2);
    pthread_create(&thread, NULL, hold, &stop);
    pthread_barrier_wait(&stop);
    for (int i = 0; i < 3; i++) lose();
    lose_list(10);
    lose_ring(5);
    lose_itself();
    kept = inside();
    scrub();
    exit(local == NULL);
}
"""
)

CXX = r"""
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
struct Shape { std::vector<std::string> names; virtual ~Shape() {} };
static __attribute__((noinline)) void forget()
{
    Shape *shape = new Shape; // SHAPE
    shape->names.push_back(std::string(100, 'x')); // NAME
}
static __attribute__((noinline)) void scrub()
{
    volatile char old[16384];
    memset((char *)old, 0, sizeof old);
}
int main()
{
    forget();
    scrub();
    std::vector<int> fine(1000);
    return fine[0];
}
"""

EXPORTED = (
    PROLOGUE
    + r"""
__attribute__((noinline)) void exported_loser(void) { memset(malloc(500), 1, 500); }
int main(void) { exported_loser(); scrub(); return 0; }
"""
)


def build(folder: Path, source: str, *options: str, suffix: str = ".c") -> str:
    file = folder / f"source{suffix}"
    file.write_text(source)
    compiler = "gcc" if suffix == ".c" else "g++"
    line = [compiler, "-O1", "-g", "-fno-builtin", "-pthread", "-o", str(folder / "program")]
    subprocess.run([*line, str(file), *options], check=True)
    return str(folder / "program")


def lines_of(source: str, mark: str) -> set[int]:
    return {number for number, line in enumerate(source.splitlines(), 1) if mark in line}


def report(
    real: Command, folder: Path, program: Sequence[str], *options: str, status: int = 0
) -> dict[str, Any]:
    file = folder / "leaks.json"
    done = real.run("leaks", *options, f"--json={file}", "--", *program)
    assert done.returncode == status, done.stderr
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def by_line(document: dict[str, Any], name: str) -> dict[int, tuple[int, int, int, int]]:
    """Blocks and bytes, direct and indirect, by the innermost line in the file."""
    sums: dict[int, tuple[int, int, int, int]] = {}
    for leak in document["leaks"]:
        places = [place for frame in leak["frames"] for place in frame["places"]]
        line = next(place["line"] for place in places if (place["file"] or "").endswith(name))
        direct, indirect = leak["direct"], leak["indirect"]
        new = (direct["blocks"], direct["bytes"], indirect["blocks"], indirect["bytes"])
        old = sums.get(line, (0, 0, 0, 0))
        sums[line] = (old[0] + new[0], old[1] + new[1], old[2] + new[2], old[3] + new[3])
    return sums


@pytest.mark.parametrize("spec", ("gc", "gc:free=ignore", "gc:free=quarantine"))
def test_planted_leaks_and_nothing_else(real: Command, tmp_path: Path, spec: str) -> None:
    """A list whose head is lost is one block and what hangs on it; of a ring some block stands for
    the others. What a global, a stack, a thread's storage points to, to its inside too, is held."""
    document = report(real, tmp_path, [build(tmp_path, PLANTED)], "-a", spec)
    found = by_line(document, "source.c")
    assert not set(found) & lines_of(PLANTED, "HELD")
    (lose,), (chain,) = lines_of(PLANTED, "/* LOSE"), lines_of(PLANTED, "/* LIST")
    (itself,) = lines_of(PLANTED, "/* SELF")
    assert found.pop(lose) == (3, 216, 0, 0)
    assert found.pop(chain) == (1, 32, 9, 288)
    assert found.pop(itself) == (1, 32, 0, 0)
    ring = [found.pop(line) for line in lines_of(PLANTED, "/* RING")]
    assert [sum(column) for column in zip(*ring)] == [1, 32, 4, 128]
    assert not found
    assert document["direct"] == {"blocks": 6, "bytes": 312}
    assert document["indirect"] == {"blocks": 13, "bytes": 416}


def test_planted_leaks_of_cxx(real: Command, tmp_path: Path) -> None:
    document = report(real, tmp_path, [build(tmp_path, CXX, suffix=".cc")])
    found = by_line(document, "source.cc")
    (shape,), (name,) = lines_of(CXX, "// SHAPE"), lines_of(CXX, "// NAME")
    assert found[shape] == (1, 32, 0, 0)
    assert found[name] == (0, 0, 2, 32 + 101)
    assert set(found) == {shape, name}


def test_a_stripped_program_has_its_exported_symbols(real: Command, tmp_path: Path) -> None:
    program = build(tmp_path, EXPORTED, "-rdynamic")
    subprocess.run(["strip", program], check=True)
    done = real.run("leaks", "--", program)
    assert "500 B" in done.stdout + done.stderr and "exported_loser" in done.stderr


def test_the_report_is_on_standard_error_and_the_status_the_commands(
    real: Command, tmp_path: Path
) -> None:
    done = real.run("leaks", "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    done = real.run("leaks", "--", build(tmp_path, PLANTED))
    assert "13 blocks" in " ".join(done.stderr.split())


def test_suppressed_leaks_are_counted_apart(real: Command, tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text("# known\nlose_l*t\nsource.c:%d\n" % lines_of(PLANTED, "/* SELF").pop())
    document = report(real, tmp_path, [build(tmp_path, PLANTED)], f"--suppressions={rules}")
    found = by_line(document, "source.c")
    assert not set(found) & (lines_of(PLANTED, "/* LIST") | lines_of(PLANTED, "/* SELF"))
    assert document["suppressed"] == {"blocks": 11, "bytes": 352}
    assert document["direct"]["blocks"] == 4
    unused = tmp_path / "unused"
    unused.write_text("nobody\n")
    done = real.run("leaks", f"--suppressions={unused}", "--", str(tmp_path / "program"))
    assert "nobody" in done.stderr


SERVER = (
    PROLOGUE
    + r"""
static __attribute__((noinline)) void serve(void) { memset(malloc(1000), 1, 1000); } /* SERVE */
static void *idle(void *unused) { for (;;) pause(); return unused; }
int main(void)
{
    struct pollfd input = {0, POLLIN, 0};
    pthread_t thread;
    setvbuf(stdout, NULL, _IONBF, 0);
    pthread_create(&thread, NULL, idle, NULL);
    for (char line[100];;) {
        if (poll(&input, 1, 100000000) != 1) return 9;
        if (!fgets(line, sizeof line, stdin)) break;
        for (int i = atoi(line); i > 0; i--) serve();
        scrub();
        puts("done");
    }
    return 0;
}
"""
)


class Server:
    """Leaks as many blocks as it is told, and waits with two threads."""

    def __init__(self, real: Command, folder: Path) -> None:
        command = [build(folder, SERVER)]
        self.line = lines_of(SERVER, "/* SERVE").pop()
        self.command = real.start(
            "leaks",
            "--",
            *command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.leak(0)
        self.pid = self.child()

    def child(self) -> int:
        children = Path(f"/proc/{self.command.pid}/task/{self.command.pid}/children")
        return int(children.read_text().split()[0])

    def leak(self, blocks: int) -> None:
        self.command.stdin.write(f"{blocks}\n")
        self.command.stdin.flush()
        assert self.command.stdout.readline() == "done\n"

    def end(self) -> str:
        _, said = self.command.communicate(timeout=HANG)
        assert self.command.returncode == 0, said
        return str(said)


def test_a_running_process_is_asked_and_growth_is_shown(real: Command, tmp_path: Path) -> None:
    """The process waits for a line of input all the while: no wait ends in EINTR."""
    server = Server(real, tmp_path)
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    server.leak(3)
    done = real.run("leaks", f"--json={first}", str(server.pid))
    assert done.returncode == 0, done.stderr
    assert by_line(json.loads(first.read_text()), "source.c")[server.line] == (3, 3000, 0, 0)
    server.leak(4)
    done = real.run("leaks", f"--json={second}", f"--since={first}", str(server.pid))
    assert done.returncode == 0, done.stderr
    assert by_line(json.loads(second.read_text()), "source.c")[server.line] == (7, 7000, 0, 0)
    assert "+3.9 KiB" in done.stdout and "+4" in done.stdout
    assert "7 blocks" in " ".join(server.end().split())


def start(real: Command, folder: Path, source: str) -> tuple[Any, int]:
    """A process that runs under `leaks`, as that command and its number."""
    command = real.start(
        "leaks",
        "--",
        build(folder, source),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    command.stdout.readline()
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
    return command, int(children.read_text().split()[0])


COPIED = (
    "#define _GNU_SOURCE\n"
    + PROLOGUE
    + r"""
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
static void *pages(int sharing)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
}
static __attribute__((noinline)) void *make(size_t bytes)
{
    return memset(malloc(bytes), 1, bytes);
}
static volatile sig_atomic_t ended;
static void count(int signal) { (void)signal; ended++; }
int main(int count_of_arguments, char **arguments)
{
    const char *how = count_of_arguments > 1 ? arguments[1] : "";
    void *volatile *places[] = {pages(MAP_PRIVATE), pages(MAP_SHARED)};
    int advice = strstr(how, "wiped") ? MADV_WIPEONFORK : MADV_DONTFORK;
    signal(SIGCHLD, count);
    if (strstr(how, "namespace") && unshare(CLONE_NEWPID) != 0)
        return 77;
    for (int i = 0; i < 2; i++)
        *places[i] = make(2000);
    if (strstr(how, "told"))
        madvise((void *)places[0], 4096, advice);
    else if (strstr(how, "not"))
        syscall(SYS_madvise, places[0], 4096, advice);
    (void)make(500); /* LOST */
    scrub();
    for (char line[100]; puts("waits") > 0 && fflush(stdout) == 0;) {
        if (!fgets(line, sizeof line, stdin))
            break;
        if (waitpid(-1, NULL, 0) != -1 || errno != ECHILD || ended)
            return 1;
    }
    return 0;
}
"""
)


@pytest.mark.parametrize(
    "how, ends",
    [
        ("", {"done": 2}),
        ("told", {"done": 2}),
        ("told-wiped", {"done": 2}),
        ("not", {"lacking": 1, "done": 1}),
        ("not-wiped", {"lacking": 1, "done": 1}),
        ("namespace", {"no_child": 2}),
    ],
)
def test_a_child_with_a_copy_of_the_memory_answers(
    real: Command, tmp_path: Path, how: str, ends: dict[str, int]
) -> None:
    """What it does not have its parent has read, or it does not answer."""
    environment = plain_environment() | {
        "LD_PRELOAD": str(LIBRARY),
        "ALLOTROPE": "gc:leaks=report",
        "ALLOTROPE_STATS": str(tmp_path / "statistics.json"),
    }
    with subprocess.Popen(
        [build(tmp_path, COPIED), how],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout
        if process.stdout.readline() != "waits\n":
            assert process.wait() == 77
            pytest.skip("only the superuser may make a namespace")
        for turn in ("first", "second"):
            file = tmp_path / f"{turn}.json"
            done = real.run("leaks", f"--json={file}", str(process.pid))
            assert done.returncode == 0, done.stderr
            document = json.loads(file.read_text())
            assert document["direct"] == {"blocks": 1, "bytes": 500}
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "waits\n"
        process.stdin.close()
        assert process.wait() == 0
    counts = json.loads((tmp_path / "statistics.json").read_text())["gc_snapshots"]
    assert (counts["root_bytes"] > 0) == ("done" in ends)
    told = {
        end: count for end, count in counts.items() if not end.endswith(("ns", "bytes")) and count
    }
    assert told == ends


@pytest.mark.parametrize("failure", [Unreadable("gone"), FileNotFoundError(2, "gone")])
def test_a_process_that_ends_as_it_is_asked_is_told(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def ask(*_: Any) -> Any:
        raise failure

    monkeypatch.setattr(leaks_command, "need_reporter", lambda pid: None)
    monkeypatch.setattr(leaks_command, "ask", ask)
    with pytest.raises(UserError, match="process 1 did not answer: .*gone"):
        leaks_command.running(click.Context(click.Command("leaks")), ("1",))


READER = (
    PROLOGUE
    + r"""
#include <sys/mman.h>
#include <sys/syscall.h>
int main(void)
{
    static const unsigned char call[] = {0xB8, SYS_read, 0, 0, 0, 0x0F, 0x05, 0xC3};
    size_t page = 4096;
    unsigned char *code = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *start = code + page - 6; /* mov $0, %eax; syscall; ret */
    long (*read_a_byte)(int, void *, size_t) = (long (*)(int, void *, size_t))start;
    char byte;
    memcpy(start, call, sizeof call);
    memset(malloc(500), 1, 500);
    scrub();
    puts("waits");
    fflush(stdout);
    return read_a_byte(0, &byte, 1) != 1;
}
"""
)


def test_a_wait_whose_system_call_lies_across_two_pages_is_asked(
    real: Command, tmp_path: Path
) -> None:
    """Its code is read as where protection keys may forbid it. No collection came before."""
    command, pid = start(real, tmp_path, READER)
    file = tmp_path / "report.json"
    done = real.run("leaks", f"--json={file}", str(pid))
    assert done.returncode == 0, done.stderr
    command.communicate("x", timeout=HANG)
    assert command.returncode == 0


POINTED = (
    PROLOGUE
    + r"""
struct node *global_head; /* the first of three */
static __attribute__((noinline)) struct node *make(void) { return calloc(1, sizeof(struct node)); }
static __attribute__((noinline)) void plant(char *text)
{
    global_head = make();
    global_head->next = make();
    global_head->next->next = make();
    sprintf(text, "%p %p", (void *)global_head->next->next, (void *)make());
}
int main(void)
{
    char line[100];
    plant(line);
    scrub();
    puts(line);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}
"""
)


def test_who_points_to_a_block(real: Command, tmp_path: Path) -> None:
    """A terminal would obey a byte of the program's path."""
    folder = tmp_path / "ring\a"
    folder.mkdir()
    command = real.start(
        "leaks", "--", build(folder, POINTED), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert command.stdout is not None
    last, lost = command.stdout.readline().split()
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
    pid = children.read_text().split()[0]
    done = real.run("leaks", "--address", hex(int(last, 16) + 5), pid)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "5 bytes into a live block of 32 B" in lines[0] and "make (source.c:" in lines[0]
    assert "0 bytes into a live block of 32 B" in lines[1]
    assert "a path from a root" in done.stdout and "/ring\\x07/program\n" in done.stdout
    assert done.stdout.count("\n    to a live block") == 3
    assert f"at {last}, allocated at make" in lines[-1]
    done = real.run("leaks", "--address", lost, pid)
    assert "it is lost" in done.stdout and "pointed to at" not in done.stdout
    done = real.run("leaks", "--address", "0x10", pid)
    assert "no block of ours" in done.stdout
    command.communicate(timeout=HANG)


STATES = (
    PROLOGUE
    + r"""
#include <malloc.h>
#include <sys/mman.h>
char *dangling, *behind;
struct { int before; char *block; } __attribute__((packed, aligned(8))) packed;
struct node *chain;
static char *read_only, *code;
static __attribute__((noinline)) char *make(size_t bytes)
{
    return calloc(1, bytes); /* HELD */
}
static __attribute__((noinline)) void free_some(char *text)
{
    char *some[64];
    for (int i = 0; i < 64; i++) some[i] = malloc(48);
    sprintf(text, "free=%p ", (void *)some[32]);
    for (int i = 0; i < 64; i++) free(some[i]);
}
static char *map(int protection)
{
    return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static __attribute__((noinline)) void plant(char *text)
{
    char *block = make(400), *constant = make(600); /* no neighbours, which could keep each other */
    dangling = make(100);
    free(dangling);
    packed.block = make(200);
    behind = make(256);
    read_only = map(PROT_READ | PROT_WRITE);
    code = map(PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(read_only + 8, &block, sizeof block);
    memcpy(code + 13, &constant, sizeof constant);
    mprotect(read_only, 4096, PROT_READ);
    sprintf(text, "retired=%p packed=%p behind=%p read_only=%p code=%p\n", (void *)dangling,
            (void *)packed.block, (void *)behind, (void *)block, (void *)constant);
    behind += malloc_usable_size(behind);
}
static __attribute__((noinline)) void lengthen_chain(char *text)
{
    for (int i = 0; i < 20; i++) {
        struct node *one = (struct node *)(void *)make(sizeof *one);
        if (i == 0) sprintf(text, "far=%p ", (void *)one);
        one->next = chain;
        chain = one;
    }
}
int main(void)
{
    static char line[1000];
    lengthen_chain(line);
    free_some(line + strlen(line));
    plant(line + strlen(line));
    scrub();
    malloc_trim(0); /* a collection, which releases */
    scrub();
    fputs(line, stdout);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}
"""
)


def test_an_address_is_of_a_live_block_a_retired_or_a_free_one(
    real: Command, tmp_path: Path
) -> None:
    """What the collector takes for a pointer holds a block here, too: one at a multiple of four,
    past the end, in a page that is read-only now, in code."""
    command = real.start(
        *("leaks", "-a", "gc:free=quarantine", "--", build(tmp_path, STATES)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    addresses = dict(word.split("=") for word in command.stdout.readline().split())
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
    pid = children.read_text().split()[0]
    told = {}
    for name, address in addresses.items():
        done = real.run("leaks", "--address", address, pid)
        assert done.returncode == 0, done.stderr
        told[name] = done.stdout
    assert f": retired block with room for 112 B at {addresses['retired']}\n" in told["retired"]
    assert "/program\n" in told["retired"]
    assert told["free"].endswith(f": free block with room for 64 B at {addresses['free']}\n")
    for name, size in {"packed": 200, "behind": 256, "read_only": 400, "code": 600}.items():
        assert f": live block of {size} B" in told[name]
        assert told[name].count("\n  pointed to at") == 1 and "it is lost" not in told[name]
    assert " (one past its end), in " in told["behind"]
    assert "longer ones were not looked for" in told["far"]
    file = tmp_path / "leaks.json"
    done = real.run("leaks", f"--json={file}", pid)
    assert done.returncode == 0, done.stderr
    found = by_line(json.loads(file.read_text()), "source.c")
    assert not set(found) & lines_of(STATES, "HELD")
    command.communicate(timeout=HANG)


def test_a_block_of_a_known_hider_is_pinned(real: Command, tmp_path: Path) -> None:
    (tmp_path / "hider.c").write_text(
        r"""
#include <stdio.h>
#include <stdlib.h>
static size_t hidden;
void hide(char *text)
{
    void *block = malloc(4000);
    sprintf(text, "%p", block);
    hidden = ~(size_t)block;
}
"""
    )
    library = str(tmp_path / "libfontconfig.so.1")
    line = ["gcc", "-shared", "-fPIC", "-g", "-o", library, str(tmp_path / "hider.c")]
    subprocess.run(line, check=True)
    source = (
        PROLOGUE
        + r"""
void hide(char *text);
int main(void)
{
    static char line[100];
    hide(line);
    scrub();
    puts(line);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL;
}
"""
    )
    command = real.start(
        *("leaks", "--", build(tmp_path, source, library, f"-Wl,-rpath,{tmp_path}")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    address = command.stdout.readline().strip()
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
    done = real.run("leaks", "--address", address, children.read_text().split()[0])
    assert ": pinned live block of 3.9 KiB" in done.stdout, done.stdout + done.stderr
    assert "it is pinned" in done.stdout and "it is lost" not in done.stdout
    command.communicate(timeout=HANG)


VFORK = (
    PROLOGUE
    + r"""
static __attribute__((noinline)) void lose(void) { memset(malloc(500), 1, 500); }
int main(void)
{
    char byte;
    lose();
    scrub();
    if (vfork() == 0) {
        write(1, "child\n", 6);
        read(0, &byte, 1);
        free(malloc(100));
        write(1, "freed\n", 6);
        read(0, &byte, 1);
        _exit(0);
    }
    return read(0, &byte, 1) != 1;
}
"""
)


def words_of_report(pid: int) -> tuple[int, ...]:
    """struct leak_report: asked and answered come first."""
    table = need_reporter(pid)
    address = table.published.counters[PUBLISHED]
    return tuple(REPORT.unpack(table.read(address, REPORT.size)))


def test_a_vfork_child_leaves_the_answer_to_its_parent(real: Command, tmp_path: Path) -> None:
    """It allocates in its parent's memory, where the request is, and can make no collection."""
    command, pid = start(real, tmp_path, VFORK)
    file = tmp_path / "report.json"
    asker = real.start("leaks", f"--json={file}", str(pid), stderr=subprocess.PIPE)
    while words_of_report(pid)[0] == 0:
        time.sleep(0.01)
    command.stdin.write("x")
    command.stdin.flush()
    assert command.stdout.readline() == "freed\n"
    assert words_of_report(pid)[:2] == (1, 0)
    command.stdin.write("x")
    command.stdin.flush()
    _, said = asker.communicate(timeout=HANG)
    assert asker.returncode == 0, said
    document = json.loads(file.read_text())
    assert (document["not_known_of"], document["direct"]["bytes"]) == (0, 500)
    command.communicate("x", timeout=HANG)
    assert command.returncode == 0


SMALL_STACK = (
    PROLOGUE
    + r"""
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
static void *wait_without(void *unused) { for (;;) pause(); return unused; }
int main(void)
{
    size_t least = getauxval(AT_MINSIGSTKSZ) + 512, page = 4096;
    char *guard = mmap(NULL, 17 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = guard + page, .ss_size = least};
    struct pollfd input = {0, POLLIN, 0};
    pthread_t thread;
    if (mprotect(guard + page, 16 * page, PROT_READ | PROT_WRITE) != 0) return 8;
    if (sigaltstack(&stack, NULL) != 0) return 9;
    pthread_create(&thread, NULL, wait_without, NULL);
    memset(malloc(500), 1, 500);
    scrub();
    puts("waits");
    fflush(stdout);
    return poll(&input, 1, -1) != 1;
}
"""
)


def test_a_thread_with_a_small_alternate_stack_leaves_the_answer_to_another(
    real: Command, tmp_path: Path
) -> None:
    """What suffices for a stop (docs/gc.md) may not for an answer."""
    command, pid = start(real, tmp_path, SMALL_STACK)
    file = tmp_path / "report.json"
    done = real.run("leaks", f"--json={file}", str(pid))
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text())["direct"] == {"blocks": 1, "bytes": 500}
    command.communicate("x", timeout=HANG)
    assert command.returncode == 0


def test_a_long_list_is_lost_whole(real: Command, tmp_path: Path) -> None:
    """Its blocks fill the heap up to where the heap's own records lie: addresses of those keep none
    of them."""
    source = (
        PROLOGUE
        + r"""
static __attribute__((noinline)) void lose_list(void)
{
    struct node *volatile head = NULL;
    for (int i = 0; i < 300000; i++) {
        struct node *one = malloc(sizeof *one);
        one->next = head;
        head = one;
    }
    head = NULL;
}
int main(void) { lose_list(); scrub(); return 0; }
"""
    )
    document = report(real, tmp_path, [build(tmp_path, source)])
    assert (document["direct"]["blocks"], document["indirect"]["blocks"]) == (1, 299999)


def test_blocks_of_no_bytes_are_leaks(real: Command, tmp_path: Path) -> None:
    source = (
        PROLOGUE
        + r"""
static __attribute__((noinline)) void lose(void)
{
    for (int i = 0; i < 3; i++) {
        void *volatile lost = malloc(0); /* MALLOC */
        lost = calloc(0, 8); /* CALLOC */
        lost = aligned_alloc(64, 0); /* ALIGNED */
        lost = NULL;
    }
}
int main(void) { lose(); scrub(); return 0; }
"""
    )
    document = report(real, tmp_path, [build(tmp_path, source)])
    found = by_line(document, "source.c")
    lines = [lines_of(source, mark).pop() for mark in ("/* MALLOC", "/* CALLOC", "/* ALIGNED")]
    assert found == {line: (3, 0, 0, 0) for line in lines}
    assert document["unknown_blocks"] == 0


@pytest.mark.parametrize(
    "words, said",
    [
        ((), "no command given"),
        (("1",), "process 1"),
        (("4711", "--json", "x"), "options stand before"),
        (("--address", "0x10", "true"), "--address needs PID"),
        (("--address", "x", "1"), "'x' is no number"),
        (("-a", "bsd", "true"), "-a"),
        (("-a", "gc:leaks=keep", "true"), "leaks="),
        (("--suppressions", "/nowhere/x", "true"), "cannot read /nowhere/x"),
        (("--since", "/nowhere/x", "true"), "cannot read /nowhere/x"),
    ],
)
def test_bad_input_is_told_in_a_line(real: Command, words: tuple[str, ...], said: str) -> None:
    done = real.run("leaks", *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_without_the_command_the_library_says_it(tmp_path: Path) -> None:
    program = build(tmp_path, PLANTED)
    environment = plain_environment() | {
        "LD_PRELOAD": str(LIBRARY),
        "ALLOTROPE": "gc:leaks=report",
        "ALLOTROPE_SITES_FRAMES": "1",
    }
    done = subprocess.run(
        [program], env=environment, capture_output=True, text=True, check=False, timeout=HANG
    )
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert any("6 blocks of 312 bytes" in line and "13 of 416" in line for line in lines), lines
    assert any("3 blocks of 216 bytes" in line and "program+0x" in line for line in lines)


def test_blocks_of_known_hiders_are_no_leaks(tmp_path: Path, real: Command) -> None:
    """The library of that name keeps its block by its complement only."""
    hider = r"""
#include <stdlib.h>
static size_t hidden;
void hide(void) { hidden = ~(size_t)malloc(4000); }
"""
    (tmp_path / "hider.c").write_text(hider)
    for name in ("libfontconfig.so.1", "libother.so"):
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-g", "-o", str(tmp_path / name), "hider.c"],
            cwd=tmp_path,
            check=True,
        )
    source = (
        PROLOGUE
        + r"""
void hide(void);
static __attribute__((noinline)) void lose(void) { memset(malloc(64), 1, 64); } /* LOSE */
int main(void) { hide(); lose(); scrub(); return 0; }
"""
    )
    for name, leaked in (("libfontconfig.so.1", 64), ("libother.so", 4064)):
        program = build(tmp_path, source, str(tmp_path / name), f"-Wl,-rpath,{tmp_path}")
        document = report(real, tmp_path, [program])
        assert document["direct"]["bytes"] == leaked


NOTHING_FOUND = Leaks(
    {"command": "prog", "allocator": "gc"}, [], Tally(), 2, 0, [], [], allocations=7, strangers=()
)
ALL_CLEAR = "all that was not freed can be reached"


@pytest.mark.parametrize(
    "more, said",
    [
        ({}, ALL_CLEAR),
        ({"unanswered": 1}, "no leaks are known among 7 allocations of 2 processes"),
        ({"unanswered": 2}, "the leaks are not known: no collection could be made"),
        ({"suppressed": Tally(1, 8)}, "but those that are suppressed"),
    ],
)
def test_only_where_all_was_looked_for_nothing_leaked(more: dict[str, Any], said: str) -> None:
    text = headline(dataclasses.replace(NOTHING_FOUND, **more))
    assert said in text and (ALL_CLEAR in text) == (said == ALL_CLEAR)


def test_what_is_suppressed_today_is_suppressed_in_the_earlier_report(tmp_path: Path) -> None:
    def leak(function: str) -> dict[str, Any]:
        place = {"function": function, "file": None, "line": None, "object": "/x", "offset": 1}
        counts = {"direct": {"blocks": 1, "bytes": 8}, "indirect": {"blocks": 0, "bytes": 0}}
        return {"pid": 1, "frames": [{"address": 1, "places": [place]}], **counts}

    file = tmp_path / "leaks.json"
    document = {"schema": "allotrope.leaks/1", "leaks": [leak("lose"), leak("known")]}
    file.write_text(json.dumps(document))
    assert set(read_before(str(file), [])) == {"lose", "known"}
    assert set(read_before(str(file), ["kno*"])) == {"lose"}


def test_one_address_of_two_programs_is_two_places_in_a_profile() -> None:
    def at(function: str) -> pprof.Frame:
        return pprof.Frame(0x401000, [Place(function, None, None, "/x\udcff", 0x1000)])

    profile = pprof.Profile([("direct_space", "bytes")], "direct_space", [])
    profile.samples += [([at("of_one")], [1]), ([at("of_the_other")], [2])]
    written = gzip.decompress(pprof.encode(profile))
    assert b"of_one" in written and b"of_the_other" in written
    assert b"/x\\udcff" in written  # a path that is no UTF-8


def test_a_profile_for_pprof(real: Command, tmp_path: Path) -> None:
    file = tmp_path / "leaks.pb.gz"
    done = real.run("leaks", f"--pprof={file}", "--", build(tmp_path, PLANTED))
    assert done.returncode == 0, done.stderr
    assert b"direct_space" in gzip.decompress(file.read_bytes())


def test_children_report_themselves(real: Command, tmp_path: Path) -> None:
    source = (
        PROLOGUE
        + r"""
static __attribute__((noinline)) void lose(size_t n) { memset(malloc(n), 1, n); }
int main(void)
{
    lose(100);
    if (fork() == 0) { lose(5000); scrub(); exit(0); }
    wait(NULL);
    scrub();
    return 0;
}
"""
    )
    document = report(real, tmp_path, [build(tmp_path, source)])
    assert document["processes"] == 2
    assert document["direct"] == {"blocks": 3, "bytes": 5200}  # the child has the parent's, too


def test_of_what_another_malloc_served_nothing_is_said(real: Command, tmp_path: Path) -> None:
    """Of such a program it was said that it had no leaks."""
    (tmp_path / "own.c").write_text(OWN_MALLOC + "int main(void) { return !malloc(100); }")
    own = str(tmp_path / "own")
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-o", own, str(tmp_path / "own.c")], check=True)
    done = real.run("leaks", "--", own)
    assert done.returncode == 1 and "no leaks" not in done.stderr
    assert "gc served no allocation of the command, so nothing is known" in done.stderr
    document = report(real, tmp_path, ["sh", "-c", f"{own}; ls / >/dev/null"])
    assert document["not_served"] == ["own"] and document["processes"] == 2
    headline, *notes = document["words"]
    assert headline.startswith(f"no leaks among {document['allocations']:,} allocations of 2 proc")
    assert any("gc served nothing of own; what was lost there is not known" in n for n in notes)


def test_who_wrote_no_report_is_named(real: Command, tmp_path: Path) -> None:
    static = static_that_lingers(tmp_path)
    line = ["leaks", "--json=leaks.json", "--", "sh", "-c", f"{static} ready go; exec ls"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with real.start(*line, cwd=tmp_path, **pipes) as command:
        await_that((tmp_path / "ready").exists)
        await_looks(command.pid)
        (tmp_path / "go").touch()
        _, said = command.communicate(timeout=HANG)
    assert command.returncode == 0, said
    assert "; what was lost there is not known." in " ".join(said.split())
    document = json.loads((tmp_path / "leaks.json").read_text())
    assert document["not_served"] == [] and document["longest_gap_seconds"] > 0
    assert [(row["command"], row["allocator"]) for row in document["not_seen"]] == [
        ("static", "static")
    ]


MARKED_GUARD = (
    "#define _GNU_SOURCE\n"
    + PROLOGUE
    + r"""
#include <errno.h>
#include <sys/mman.h>
enum { PAGE = 4096, INSTALL_GUARD = 102 };
static char *volatile plain, *volatile marked;
static void *wait_plain(void *unused)
{
    char here;
    plain = &here;
    for (;;) pause();
    return unused;
}
static void *wait_marked(void *unused)
{
    pthread_attr_t attributes;
    void *start;
    size_t bytes;
    char here;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &start, &bytes);
    char *guard = access(start, F_OK) != 0 && errno == EFAULT ? start : (char *)start - PAGE;
    if (mprotect(guard, PAGE, PROT_READ | PROT_WRITE) != 0) exit(9);
    if (madvise(guard, PAGE, INSTALL_GUARD) != 0) exit(77);
    mmap(guard - PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    marked = &here;
    for (;;) pause();
    return unused;
}
int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, wait_plain, NULL);
    pthread_create(&threads[1], NULL, wait_marked, NULL);
    while (!plain || !marked) usleep(1000);
    printf("%p %p\n", (void *)plain, (void *)marked);
    fflush(stdout);
    return getchar() != '\n';
}
"""
)


def unused_below(pid: int, address: int) -> list[range]:
    areas = scan.areas_of(pid)
    area = next(area for area in areas if address in area.addresses)
    return [part for part in scan.unused_stacks(pid, areas) if part.start in area.addresses]


def test_below_a_guard_that_no_mapping_shows_another_stack_may_be_in_use(tmp_path: Path) -> None:
    """glibc 2.42 marks its guards in the page table, and the kernel joins to the stack what is
    mapped below it."""
    program = build(tmp_path, MARKED_GUARD)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([program], text=True, **pipes) as process:  # type: ignore[call-overload]
        line = process.stdout.readline()
        if not line and process.wait() == 77:
            pytest.skip("this kernel has no marks for guards")
        plain, marked = (int(word, 16) for word in line.split())
        await_that(lambda: len(scan.stack_pointers(process.pid)) == 3)
        if (
            os.confstr("CS_GNU_LIBC_VERSION") or ""
        ) < "glibc 2.42":  # else its guard is a mark, too
            assert len(unused_below(process.pid, plain)) == 1
        assert unused_below(process.pid, marked) == []
        process.communicate("\n")
    assert process.returncode == 0


def test_what_has_roots_is_known_by_the_collectors_names_and_numbers() -> None:
    """Two of the collector's names the command need not know: of a file, which pagemap tells, and
    of secret memory, which nobody else can read."""
    roots = (SOURCE / "gc" / "world" / "roots.c").read_text()
    names = set(re.findall(r'mapping_name_begins\(mapping, "(.+?)"\)', roots))
    known = Path(scan.__file__).read_text()
    assert len(names) >= 9
    assert {name for name in names if f'"{name}"' not in known} == {"/", "/secretmem"}
    assert '" (deleted)"' in roots and '" (deleted)"' in known
    assert f"RED_ZONE = {scan.RED_ZONE}," in roots
    assert f"PACKED_BYTES = {scan.PACKED}," in (SOURCE / "gc/mark/candidates.h").read_text()
