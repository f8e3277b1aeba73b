# SPDX-License-Identifier: MIT
"""The traps of a collector under existing binaries: no pointer is lost, nothing hangs.

Each case is a program of tests/gc/traps with an argument; its exit status says what it found, 77
that this machine lacks what it is about, and its last line then what that is."""

import json
import os
import re
import subprocess
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Iterator

import pytest

from under import BUILD, GLIBC, HANG, LIBRARY, Under

TIMEOUT = 900  # seconds; only for what hangs: the machine may be as busy as it likes
PROGRAMS = BUILD / "tests" / "gc" / "traps"

PLACES = (
    "nowhere disguised freed data bss interior last-byte behind behind-in-heap thread-local "
    "specific heap packed packed-large packed-mapping packed-by-mapping packed-by-guard "
    "packed-by-read-only large aligned jump jump-in-heap "
    "guarded-block guarded-inside guarded-large guarded-large-inside jump-in-heap-8 break mapping "
    "read-only no-access code across-code shared packed-shared shared-read-only shared-code file"
)
THREADS = (
    "register vector red-zone red-zone-alone stack blocks-all blocks-filled stopped-on-alternate "
    "stopped-on-alternate-disarmed alternate alternate-disarmed "
    "suspended stack-in-block stopped-in-block control-block-in-block "
    "dead-control-block-by-copy behind-stack alternate-in-block others-alternate-in-block "
    "made-while-stopping starting loaded-storage "
    "coming-and-going clone coroutine main-ends "
    "other-namespace borrowed-memory at-page-start interrupted-at-page-start"
)
WAITS = (
    "poll ppoll select read epoll ring aio sem-wait thrd-sleep long-write long-send long-receive "
    "long-write-parts long-send-message long-receive-message "
    "nanosleep nanosleep-no-rest clock-nanosleep "
    "clock-nanosleep-no-rest usleep poll-limit ppoll-limit select-limit epoll-limit "
    "epoll-signals-limit sem-timedwait condition-limit recv-limit recvfrom-limit recvmsg-limit "
    "accept-limit accept4-limit send-limit sendto-limit sendmsg-limit recvmmsg-limit "
    "sendmmsg-limit lifted-limit epoll-span semtimedop sigtimedwait aio-suspend signals "
    "peek peek-message short-sleeps short-writes file-limit sleep sleep-again bad-ring-argument "
    "poll-other-name nanosleep-other-name long-write-other-name long-send-other-name "
    "long-write-at-position"
)
RESTS = (
    "descriptors reset reset-message broken-send broken-write limit mark received-messages "
    "sent-messages sent-long-messages addressed addressed-send credentials urgent"
)
WORLD = (
    "epoll signal-values signal-by-descriptor "
    "streams queued-for-thread message-queue shared-terabyte pins-end "
    "real-time-signals sigwait signalfd setuid-and-cancel handler-replaced forks "
    "spawns shared-across-fork mapped-after-fork forked-by-number guard-pages dead-at-the-end "
    "reserved-terabytes inaccessible-terabytes descriptors kernel-worker "
    "ring-user-data ring-buffers privileges-given-up privileges-given-up-by-child hidden "
    "hidden-from-user sandboxed-child freed-in-sandbox "
    "libraries mappings"
)
HANDLED = (
    "pause sigsuspend poll poll-limit ppoll pselect epoll sleep receive-limit receive-all send "
    "by-signal by-siginterrupt by-sysv-signal by-sigset nested restarting to-process "
    "masked-ppoll masked-pselect masked-epoll masked-suspend sandbox"
)
KERNEL = (
    "odd-size odd-offset sendto sendmsg sendmmsg writev split-writev name-of-socket pwrite "
    "pwrite64 pwritev pwritev64 pwritev2 pwritev64v2 unbuffered "
    "unbuffered-unlocked eventfd mq-send mq-timedsend msgsnd vmsplice driver "
    "aio-read aio-read64 aio-write aio-write64 aio-fsync aio-fsync64 lio-listio lio-listio64 "
    "lio-listio-each getaddrinfo-a notify-with-attributes behind-pinned gs-base gs-base-in-thread "
    "no-memory unmapped-by-receiver pwrite64-other-name unbuffered-other-name"
)
PAGES = (
    "below-given-stack below-stack-without-guard below-stack-with-marked-guard protection-key "
    "user-faults user-faults-signed user-faults-shared "
    "guard-in-block guard-in-large guard-by-descriptor "
    "below-dev below-dev-deleted other-root named-shared "
    "behind-guard-in-shared packed-by-guard-in-shared written-text file-for-code "
    "low-mappings truncated-in-block truncated-in-block-shared unmapped-in-block unmapped-in-large "
    "joined-below-block not-for-children excepted secret other-view system-v"
)
EXECS = (
    "exec exec-in-thread exec-in-handler exec-in-roots exec-left exec-fails exec-in-borrowed "
    "exec-kinds starved inherited-filter contained"
)
CASES = [
    (program, case)
    for program, cases in (
        ("execs", EXECS),
        ("handled", HANDLED),
        ("kernel", KERNEL),
        ("pages", PAGES),
        ("places", PLACES),
        ("rests", RESTS),
        ("threads", THREADS),
        ("waits", WAITS),
        ("world", WORLD),
    )
    for case in cases.split()
]
FREED_AGAIN = "freed-again freed-again-elsewhere freed-again-pinned resized-again resized-in-place"
HIDERS = "early late opened grown entries foreign returned frees resized shown"
BUNDLED = ["libfontconfig-8f5dd3c0.so.1.12.0", "libswipl-0a1b2c3d.so.9"]  # by a Python package
KNOWN_HIDERS = ["libfontconfig.so.1", "libswipl.so.9", *BUNDLED, "hiders_linked"]
COLLECTORS = [  # what is dead is reclaimed when it is found for the first time
    Under("ignore", LIBRARY, "gc:free=ignore,leaks=collect"),
    Under("honour", LIBRARY, "gc:free=honour,leaks=collect"),
    Under("small-stack", LIBRARY, "gc:free=ignore,leaks=collect,stack=64K"),
    Under("many-markers", LIBRARY, "gc:free=ignore,leaks=collect,markers=4,pause=1"),
]
MINORS = [  # each minor collection is checked by a full one, and malloc_trim has both
    Under("minors", LIBRARY, "gc:free=ignore,leaks=collect,generations=2,verify=on,every=40"),
    Under("minors-honour", LIBRARY, "gc:free=honour,leaks=collect,generations=2,verify=on"),
    Under(
        "cycles",
        LIBRARY,
        "gc:free=ignore,leaks=collect,generations=2,concurrent=on,verify=on,every=40",
    ),
    Under(
        "cycles-forked",
        LIBRARY,
        "gc:free=ignore,leaks=collect,generations=2,concurrent=fork,verify=on,every=200",
    ),
    Under("forked", LIBRARY, "gc:free=ignore,leaks=collect,concurrent=fork,verify=on,every=200"),
    Under(
        "cycles-honour",
        LIBRARY,
        "gc:free=honour,leaks=collect,generations=2,concurrent=on,verify=on",
    ),
]
QUARANTINE = Under("quarantine", LIBRARY, "gc:free=quarantine,leaks=collect,every=40")
WITHOUT_DIRTY_BITS = Under(
    "minors-none", LIBRARY, "gc:free=ignore,leaks=collect,generations=2,verify=on,dirty=none"
)


def start(
    under: Under, program: str, case: str, statistics: Path | None
) -> subprocess.CompletedProcess[str]:
    extra = {"ALLOTROPE_STATS": str(statistics)} if statistics else {}
    return under.run([str(PROGRAMS / program), case], extra, timeout=TIMEOUT)


def run(under: Under, program: str, case: str, statistics: Path | None = None) -> None:
    judge(start(under, program, case, statistics))


def judge(result: subprocess.CompletedProcess[str]) -> None:
    if result.returncode == 77:
        reasons = re.findall(r"^skipped: (.*)$", result.stderr, re.MULTILINE)
        assert reasons, "a case that is skipped says why"
        pytest.skip(reasons[-1])
    assert result.returncode == 0, result.stderr


# There no collection can be done.
GIVEN_UP = {
    "blocks-all",
    "borrowed-memory",
    "inherited-filter",
    "other-namespace",
    "privileges-given-up",
    "privileges-given-up-by-child",
}

# Each collection is given up after 0.1 s: a few will do.
GIVEN_UP_SLOWLY = {"blocks-all"}

# Each allocates some ten thousand blocks, in many processes or with many mappings to read: a
# collection for each 40 of them is hundreds that are alike. The collections that the case itself
# asks for are as many as ever. ALLOTROPE_CORNERS=all, which `make stress` sets, has every one.
ALLOCATES_MUCH = {"forks", "loaded-storage", "low-mappings"}
ALL_COLLECTIONS = os.environ.get("ALLOTROPE_CORNERS") == "all"

# The user may not write where they are wanted.
WITHOUT_STATISTICS = {"hidden-from-user"}

PRESETS = [*COLLECTORS[:2], *MINORS, QUARANTINE]
Outcome = tuple[subprocess.CompletedProcess[str], Path]


def observe(under: Under, program: str, case: str, folder: Path) -> Outcome:
    """The result, and where each process has written its statistics."""
    if case in GIVEN_UP_SLOWLY and under.spec:
        under = replace(under, spec=under.spec.replace("every=40", "every=1000"))
    if case in ALLOCATES_MUCH and under.spec and not ALL_COLLECTIONS:
        under = replace(under, spec=under.spec.replace("every=40", "every=400"))
    statistics = None if case in WITHOUT_STATISTICS else folder / "%p.json"
    return start(under, program, case, statistics), folder


class Together:
    """The cases of `waits` wait for half a second each: when one is asked for under a preset, it
    is begun under all."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.factory = factory
        self.pool = ThreadPoolExecutor(len(PRESETS))
        self.begun: dict[tuple[str, Under], Future[Outcome]] = {}

    def outcome(self, program: str, case: str, under: Under) -> Outcome:
        if program != "waits":
            return observe(under, program, case, self.factory.mktemp(case))
        if (case, under) not in self.begun:
            for one in PRESETS:
                folder = self.factory.mktemp(case)
                self.begun[case, one] = self.pool.submit(observe, one, program, case, folder)
        return self.begun.pop((case, under)).result()


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Together]:
    made = Together(tmp_path_factory)
    with made.pool:
        yield made


@pytest.mark.parametrize("under", PRESETS, ids=str)
@pytest.mark.parametrize("program, case", CASES)
def test_no_pointer_is_lost_and_collections_are_done(
    program: str, case: str, under: Under, together: Together
) -> None:
    """Nothing is lost, and not because nothing was collected."""
    result, folder = together.outcome(program, case, under)
    judge(result)
    if case in WITHOUT_STATISTICS:
        return
    processes = [figures(path) for path in folder.iterdir()]
    if case not in GIVEN_UP:
        assert max(process["gc"]["collections"] for process in processes) > 0
        for reason in ("no_thread_list", "no_signal", "too_many_threads", "roots_unreadable"):
            assert [process["gc_given_up"][reason] for process in processes] == [0] * len(processes)


@pytest.mark.parametrize("under", [*COLLECTORS[2:], WITHOUT_DIRTY_BITS], ids=str)
@pytest.mark.parametrize("case", ("nowhere", "heap", "large", "shared", "interior"))
def test_place_with_unusual_markers(case: str, under: Under) -> None:
    run(under, "places", case)


@pytest.mark.parametrize("under", COLLECTORS[:2], ids=str)
@pytest.mark.parametrize(
    "program, case",
    [*(("places", case) for case in PLACES.split()), ("world", "inaccessible-terabytes")],
)
def test_on_a_kernel_without_scans(program: str, case: str, under: Under) -> None:
    """Debian 12's own is one: it tells of pages one by one."""
    result = under.run([str(PROGRAMS / program), case, "without-scans"], timeout=TIMEOUT)
    judge(result)


def run_hider(
    spec: str, library: str, case: str, statistics: Path
) -> subprocess.CompletedProcess[str]:
    linked = library in ("hiders_linked", "hiders_unknown")
    command = [str(PROGRAMS / "hiders"), str(PROGRAMS / library), case]
    if linked:
        command = [str(PROGRAMS / library), "linked", case]
    environment = {"ALLOTROPE_STATS": str(statistics)}
    return Under("gc", LIBRARY, spec).run(command, environment, timeout=HANG)


@pytest.mark.parametrize(
    "spec",
    [
        "gc",
        "gc:leaks=collect",
        "gc:free=ignore",
        "gc:free=ignore,leaks=collect",
        "gc:free=ignore,leaks=keep",
        "gc:free=quarantine",
        "gc:leaks=watch",
    ],
)
@pytest.mark.parametrize("library", KNOWN_HIDERS)
@pytest.mark.parametrize("case", HIDERS.split())
def test_known_hiders_lose_nothing(spec: str, library: str, case: str, tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    result = run_hider(spec, library, case, path)
    assert (result.returncode, result.stderr) == (0, "")
    assert figures(path)["gc"]["collections"] >= 2
    hidden = figures(path)["gc_hidden"]
    assert hidden["known_hiders"] == 1 and hidden["pinned_blocks"] >= 150
    assert hidden["used_again"] == 0


@pytest.mark.parametrize("free", ("honour", "ignore"))
def test_what_an_unknown_hider_hides_is_lost_but_where_leaks_are_kept(
    free: str, tmp_path: Path
) -> None:
    """The counter-test: without the table these libraries lose their blocks."""
    path = tmp_path / "statistics.json"
    for library in ("libunknown.so", "hiders_unknown"):
        for more in ("", ",generations=2"):
            lost = run_hider(f"gc:free={free},leaks=collect{more}", library, "late", path)
            assert "whole_patterns() == PATTERNS" in lost.stderr
    for case in HIDERS.split():
        assert run_hider(f"gc:free={free},leaks=collect", "libunknown.so", case, path).returncode
    for spec in ("leaks=watch", "free=ignore,leaks=keep"):
        for case in HIDERS.split():
            kept = run_hider(f"gc:{spec}", "libunknown.so", case, path)
            assert kept.returncode == 0, kept.stderr


@pytest.mark.parametrize("free", ("honour", "ignore"))
@pytest.mark.parametrize(
    "case, use", [("frees", "free"), ("resized", "realloc"), ("shown", "a pointer to ")]
)
def test_who_uses_what_was_found_dead_keeps_its_leaks(
    case: str, use: str, free: str, tmp_path: Path
) -> None:
    path = tmp_path / "statistics.json"
    result = run_hider(f"gc:free={free}", "libunknown.so", case, path)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"allotrope: gc: {use}(0x")
    assert "the program hides pointers, so leaks are kept from here on" in lines[0]
    hidden = figures(path)["gc_hidden"]
    assert hidden["keeps_leaks"] == 1
    assert hidden["suspected_blocks"] >= 50 and hidden["used_again"] >= 1
    explicit = run_hider(f"gc:free={free},leaks=collect", "libunknown.so", case, path)
    assert explicit.returncode != 0 and "leaks are kept" not in explicit.stderr


@pytest.mark.parametrize("spec", ("gc", "gc:free=ignore", "gc:leaks=collect"))
def test_a_bad_free_after_leaks_were_reclaimed_names_the_remedy(spec: str, tmp_path: Path) -> None:
    """Before a block was reclaimed the line is another."""
    path = tmp_path / "statistics.json"
    told = "the program hides pointers and the collector has reclaimed"
    result = run_hider(spec, "libunknown.so", "lost", path)
    assert told in result.stderr and "leaks=keep" in result.stderr, result.stderr
    assert "verify-gc" in result.stderr
    bad = run_hider(spec, "libunknown.so", "bad-free", path)
    assert "not a live block" in bad.stderr and told not in bad.stderr


@pytest.mark.parametrize("spec", ("gc", "gc:free=ignore", "gc:leaks=watch"))
def test_what_an_ended_thread_left_on_its_stack_proves_nothing(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    result = run_hider(spec, "libunknown.so", "thread-ended", path)
    assert (result.returncode, result.stderr) == (0, "")
    hidden = figures(path)["gc_hidden"]
    assert hidden["suspected_blocks"] >= 50 and hidden["pointed_to_again"] >= 30
    assert hidden["used_again"] == 0


@pytest.mark.parametrize(
    "case, use", [("frees", "free"), ("resized", "realloc"), ("shown", "a pointer to ")]
)
def test_watching_tells_the_site(case: str, use: str, tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    result = run_hider("gc:leaks=watch", "libunknown.so", case, path)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert 2 <= len(lines) <= 4  # a line for each site, not for each block
    assert lines[0].startswith(f"allotrope: gc: watch: {use}(0x")
    for line in lines:
        assert line.startswith("allotrope: gc: watch: ")
        assert "allocated by libunknown.so+0x" in line
    hidden = figures(path)["gc_hidden"]
    assert hidden["suspects"] > 0 and hidden["keeps_leaks"] == 0
    assert figures(path)["gc"]["freed_blocks"] == 0


def test_leaks_that_are_kept_are_told_in_statistics(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    run_hider("gc:leaks=keep", "libunknown.so", "early", path)
    assert figures(path)["gc_hidden"]["keeps_leaks"] == 1
    assert figures(path)["gc"]["collections"] == 0


@pytest.mark.parametrize(
    "case",
    ("epoll", "signal-values", "streams", "pins-end", "hidden-from-user", "sandboxed-child"),
)
def test_the_historic_collector_does_so_too(case: str) -> None:
    run(Under("classic", LIBRARY, "gc:classic,pointers=interior"), "world", case)


@pytest.mark.parametrize("case", ("control-block-in-block", "dead-control-block-by-copy"))
def test_the_historic_collector_finds_each_threads_vector(case: str) -> None:
    """Only a pointer to a block's start counts, but for these."""
    run(Under("classic", LIBRARY, "gc:classic"), "threads", case)


@pytest.mark.parametrize("case", ("exec-in-roots", "exec-left", "write-in-roots"))
def test_a_handler_waits_for_no_historic_collection(case: str) -> None:
    run(Under("classic", LIBRARY, "gc:classic,pointers=interior"), "execs", case)


def figures(path: Path) -> dict[str, dict[str, int]]:
    return json.loads(path.read_text())


def test_statistics_count_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    run(COLLECTORS[0], "places", "nowhere", path)
    gc = figures(path)
    assert gc["gc"]["collections"] == gc["gc_causes"]["asked"] == 2
    assert gc["gc"]["freed_bytes"] > 40 * 104
    assert sum(gc["gc_pauses"].values()) == 2
    assert sum(gc["gc_given_up"].values()) == 0
    assert 0 < gc["gc"]["stop_ns"] <= gc["gc"]["pause_ns"]
    in_1, in_10, in_100 = (gc["gc_stopped"][f"longest_in_{n}_ms_ns"] for n in (1, 10, 100))
    assert 0 < in_1 <= in_10 <= in_100 <= gc["gc"]["pause_ns"] + gc["gc"]["given_up_ns"]
    assert in_100 >= min(gc["gc"]["longest_pause_ns"], 100_000_000)
    assert gc["gc"]["pause_ns"] / 2 <= gc["gc"]["longest_pause_ns"] < gc["gc"]["pause_ns"]


def test_a_thread_that_cannot_be_stopped_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    run(COLLECTORS[0], "threads", "blocks-all", path)
    gc = figures(path)
    assert gc["gc"]["collections"] == 0
    assert gc["gc_given_up"]["thread_does_not_stop"] == 1
    assert "gc_pauses" not in gc and gc["gc"]["pause_ns"] == 0
    assert gc["gc"]["given_up_ns"] >= 100_000_000  # which it has to answer
    assert gc["gc_stopped"]["longest_in_100_ms_ns"] == 100_000_000


@pytest.mark.parametrize("spec", ("gc:free=ignore", "gc:free=ignore,leaks=collect"))
@pytest.mark.parametrize("case", FREED_AGAIN.split())
def test_what_takes_the_place_of_a_block_that_was_freed_again_is_live(case: str, spec: str) -> None:
    run(Under("gc", LIBRARY, spec), "world", case)


@pytest.mark.parametrize(
    "options, named",
    [
        ("leaks=keep,limit=2M", "limit="),
        ("leaks=keep,markers=1", "markers="),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: str, named: str) -> None:
    result = Under("gc", LIBRARY, f"gc:{options}").run(["/bin/true"])
    assert result.returncode == 2
    assert options in result.stderr and named in result.stderr


def control_group() -> Path | None:
    """A new one of the second version, within another; None where none can be made."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2":
            group = Path(line.split()[1]) / f"allotrope-{os.getpid()}" / "inner"
            try:
                group.mkdir(parents=True)
            except OSError:
                return None
            return group
    return None


def test_the_limit_of_an_outer_control_group_counts(tmp_path: Path) -> None:
    """The process's own has none. What the collector reads takes the place of this machine's."""
    group = control_group()
    if not group:
        pytest.skip("needs the right to make control groups")
    outer = tmp_path / group.parent.name
    (outer / "inner").mkdir(parents=True)
    (outer / "memory.max").write_text("8388608\n")
    (outer / "inner" / "memory.max").write_text("max\n")
    statistics = tmp_path / "statistics.json"
    script = (
        f'echo $$ > {group}/cgroup.procs && mount --bind {tmp_path} /sys/fs/cgroup && exec "$@"'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "sh", "env", f"LD_PRELOAD={LIBRARY}"]
    command += ["ALLOTROPE=gc", f"ALLOTROPE_STATS={statistics}", "/bin/true"]
    try:
        result = GLIBC.run(command)
        if not statistics.exists():
            pytest.skip(f"cannot be put in its place: {result.stderr}")
        assert figures(statistics)["gc"]["next_collection_bytes"] == 7 << 20
    finally:
        group.rmdir()
        group.parent.rmdir()


def run_with_helpers(tmp_path: Path, case: str) -> None:
    """What tells of idle processors takes the place of this machine's, so that there is one."""
    load = tmp_path / "loadavg"
    load.write_text("0.00 0.00 0.00 0/80 1\n")
    script = f'mount --bind {load} /proc/loadavg && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", "env", f"LD_PRELOAD={LIBRARY}"]
    command += ["ALLOTROPE=gc:free=ignore", str(PROGRAMS / "world"), case]
    result = GLIBC.run(command, timeout=TIMEOUT)
    if result.returncode == 77 or result.stderr.startswith(("unshare:", "mount:")):
        pytest.skip(f"needs the right to mount, and to trace; {result.stderr}")
    assert result.returncode == 0, result.stderr


def test_a_helper_that_has_not_ended_at_a_fork_is_not_waited_for(tmp_path: Path) -> None:
    """A tracer keeps it from beginning."""
    run_with_helpers(tmp_path, "late-helper")


def test_no_helper_is_left_when_credentials_or_namespaces_change(tmp_path: Path) -> None:
    run_with_helpers(tmp_path, "alone-before-changes")


def test_where_proc_is_anothers_it_is_said_and_frees_are_honoured(tmp_path: Path) -> None:
    path = tmp_path / "%p.json"
    command = ["unshare", "--pid", "--fork", str(PROGRAMS / "threads"), "register"]
    result = COLLECTORS[0].run(command, {"ALLOTROPE_STATS": str(path)}, timeout=TIMEOUT)
    if "unshare failed" in result.stderr:
        pytest.skip("needs the right to make namespaces")
    assert result.returncode == 0, result.stderr
    assert "no collections here" in result.stderr


CHURN = """
import sys
for i in range(6000):
    block = bytes(36000 + i % 19 * 4096)
print(len(block))
"""


def test_the_heaps_own_records_keep_nothing(tmp_path: Path) -> None:
    """Records of free runs tell where large blocks lay."""
    _, seen = COLLECTORS[0].run_counted(["/usr/bin/python3", "-c", CHURN], tmp_path)
    assert seen["gc"]["collections"] > 5
    assert seen["heap"]["large_bytes"] < 30 << 20
    assert seen["mapped_peak_bytes"] < 80 << 20


def test_a_heap_with_a_live_block_in_every_slab_does_not_grow_for_ever(tmp_path: Path) -> None:
    """1 MB live, 900 MB handed out: the heap keeps to the room that a collection is due after."""
    program = str(BUILD / "bench_programs" / "thread_churn_forgets")
    _, seen = COLLECTORS[0].run_counted([program, "tasks=48", "threads=2"], tmp_path)
    assert seen["gc"]["collections"] > 5
    assert seen["gc"]["next_collection_bytes"] < 40 << 20
    assert seen["mapped_peak_bytes"] < 80 << 20


def test_honoured_frees_are_not_collected_for_nothing(tmp_path: Path) -> None:
    """A heap that grows because the program fills it is left alone while that is cheaper: until a
    collection is expected to take 2% of the time since the last. Both stretch with the load."""
    program = str(BUILD / "bench_programs" / "destroy")
    begun = time.monotonic_ns()
    _, seen = COLLECTORS[1].run_counted([program, "depth=18", "replace=20000"], tmp_path)
    took = time.monotonic_ns() - begun
    assert seen["gc"]["pause_ns"] < took / 5 or seen["gc"]["collections"] <= 2
