# SPDX-License-Identifier: MIT
"""The launcher: what one run cost, how it ended, and that nothing of it stays behind."""

import contextlib
import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from under import HANG, LAUNCHER, PYTHON, SOURCE, refusing

MEGABYTE = 1 << 20

# Uses that much CPU, as the kernel itself counts it.
BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
# Leaves a daemon behind, in a session of its own, which does not wait for its child. That one is a
# zombie in the command's group.
LEAVE_ZOMBIE = """
import os, sys, time
left, stop = sys.argv[1:]
if os.fork() == 0:
    if os.fork() == 0:
        os._exit(0)
    os.setsid()
    open(left, "w").close()
    while not os.path.exists(stop):
        time.sleep(0.05)
    os._exit(0)
while not os.path.exists(left):
    time.sleep(0.01)
"""
# In the place of memory_cgroup.c: few machines of tests have a cgroup that we may divide.
MADE_UP_CGROUP = """
#include "analysis/launcher/memory_cgroup.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
bool memory_cgroup_create(struct memory_cgroup *cgroup) { return cgroup->processes = 1; }
bool memory_cgroup_enter(const struct memory_cgroup *cgroup)
{
    struct timespec now;
    cpu_set_t all;
    usleep(atoi(getenv("MOVE_TAKES") ?: "0"));
    memset(&all, 255, sizeof all);
    sched_setaffinity(0, sizeof all, &all); /* so did kernels before 6.2 */
    clock_gettime(CLOCK_MONOTONIC, &now);
    dprintf(2, "moved at %lld ns\\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    return cgroup->processes;
}
long long memory_cgroup_peak(const struct memory_cgroup *cgroup) { return cgroup->processes * 7; }
void memory_cgroup_remove(struct memory_cgroup *cgroup) { cgroup->processes = -1; }
"""
# In the place of two functions of libc: /proc/self tells of a tree of folders, and a cgroup that is
# made in it has the files that the kernel would put there.
MADE_UP_TREE = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char *place(const char *folder, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
FILE *fopen(const char *path, const char *mode)
{
    if (strncmp(path, "/proc/self/", 11) == 0)
        path = place(getenv("MADE_UP"), path + 11);
    int file = open(path, *mode == 'r' ? O_RDONLY : O_CREAT | O_WRONLY, 0666);
    return file < 0 ? NULL : fdopen(file, *mode == 'r' ? "r" : "w");
}
static void fill(const char *folder, const char *name, const char *content)
{
    int file = open(place(folder, name), O_CREAT | O_WRONLY, 0666);
    if (write(file, content, strlen(content)) < 0)
        abort();
    close(file);
}
int mkdir(const char *path, mode_t mode)
{
    long failed = syscall(SYS_mkdir, path, mode);
    fill(path, "cgroup.procs", "");
    fill(path, "memory.peak", "7\\n");
    fill(path, "pids.max", "max\\n");
    return (int)failed;
}
"""
KCMP = 312  # the system call
# Holds 60 MB, a forked child other 60 MB; then makes a child that never leaves its memory.
FORKS = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    size_t bytes = 60 << 20;
    int written[2];
    char *block = malloc(bytes), byte;
    memset(block, 1, bytes);
    pipe(written);
    if (fork() == 0) {
        memset(block, 2, bytes);
        write(written[1], block, 1);
        pause();
    }
    read(written[0], &byte, 1);
    if (vfork() == 0) {
        write(1, "ready\\n", 6);
        pause();
    }
    return 0;
}
"""
# Writes to that many bytes, all of which stay.
HOLD = "import time; block = b'x' * {bytes}; time.sleep({seconds})"


def python(script: str) -> list[str]:
    return [PYTHON, "-I", "-c", script]


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def eventually(condition: Callable[[], bool], seconds: float = HANG) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def look_at(launcher: list[str], report: Path, command: list[str]) -> Any:
    """Runs a command that says when it is ready and then waits, until the launcher has looked at
    it, which takes from it that it waits in between."""
    words = [*launcher, "--report", str(report), "--", *command]
    started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert started.stdout is not None and started.stdout.readline() == b"ready\n"
    before = sleeps(started.pid)
    assert eventually(lambda: sleeps(started.pid) >= before + 10)
    started.terminate()
    started.communicate(timeout=HANG)
    return json.loads(report.read_text())


def is_alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def sleeps(pid: int) -> int:
    """How often a process has waited for something."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


class TestEnding:
    def test_exit_status_is_passed_on_and_reported(self, launch: Any) -> None:
        done, report = launch([], shell("exit 42"))
        assert done.returncode == report["exit_status"] == 42
        assert report["signal"] is None and report["error"] is None

    def test_signal_is_passed_on_as_a_shell_does_and_reported(self, launch: Any) -> None:
        done, report = launch([], shell("kill -SEGV $$"))
        assert done.returncode == 128 + signal.SIGSEGV
        assert report["signal"] == signal.SIGSEGV and report["exit_status"] is None

    @pytest.mark.parametrize(
        "command, status", [("/no/such/program", 127), ("/etc/passwd", 126), ("/etc", 126)]
    )
    def test_command_that_cannot_be_started(self, launch: Any, command: str, status: int) -> None:
        done, report = launch([], [command])
        assert done.returncode == status
        assert report["error"]["stage"] == "exec" and report["error"]["message"]
        unknown = ("exit_status", "signal", "wall_ns", "user_us", "peak_rss_bytes", "minor_faults")
        assert all(report[key] is None for key in unknown)

    def test_missing_input_is_no_failure_of_the_command(self, launch: Any) -> None:
        done, report = launch(["--stdin", "/no/such/file"], ["true"])
        assert done.returncode == 125
        assert report["error"]["stage"] == "redirect"


class TestAccount:
    def test_cpu_time_of_the_command(self, launch: Any) -> None:
        _, report = launch([], python(BURN.format(seconds=0.2)))
        assert 200_000 <= report["user_us"] + report["system_us"] < 2_000_000

    def test_sleeping_costs_wall_time_only(self, launch: Any) -> None:
        _, report = launch([], ["sleep", "0.3"])
        assert report["wall_ns"] >= 300_000_000
        assert report["user_us"] + report["system_us"] < 100_000

    def test_cpu_time_of_children(self, launch: Any) -> None:
        burn = shlex.join(python(BURN.format(seconds=0.2)))
        _, report = launch([], shell(f"{burn} & {burn}; wait"))
        assert report["user_us"] + report["system_us"] >= 400_000

    def test_cpu_time_of_orphans(self, launch: Any, tmp_path: Path) -> None:
        """The middle shell is gone before its child, which then is ours to wait for."""
        burn = shlex.join(python(BURN.format(seconds=0.2)))
        orphan = f"(({burn}; : >{tmp_path}/done) &)"
        awaiting = f"while [ ! -e {tmp_path}/done ]; do sleep 0.02; done"
        _, report = launch([], shell(f"{orphan}; {awaiting}"))
        assert report["user_us"] + report["system_us"] >= 200_000

    def test_peak_memory_of_the_command(self, launch: Any) -> None:
        _, report = launch([], python(HOLD.format(bytes=100 * MEGABYTE, seconds=0)))
        assert 100 * MEGABYTE <= report["peak_rss_bytes"] < 130 * MEGABYTE

    def test_peak_memory_without_that_of_a_large_parent(self, tmp_path: Path) -> None:
        """A 300 MB Python starts `true` by itself and through us: only the first shows it."""
        script = f"""
import os, subprocess
block = b"x" * {300 * MEGABYTE}
pid = os.fork()
if pid == 0:
    os.execv("/bin/true", ["true"])
plain = os.wait4(pid, 0)[2].ru_maxrss * 1024
subprocess.run(["{LAUNCHER}", "--report", "{tmp_path}/report", "--", "/bin/true"], check=True)
print(plain)
"""
        plain = int(subprocess.check_output(python(script), timeout=HANG))
        report = json.loads((tmp_path / "report").read_text())
        assert plain > 300 * MEGABYTE, "the test shows nothing if a large parent does not"
        assert report["peak_rss_bytes"] < 5 * MEGABYTE

    def test_minor_faults_count_the_pages_touched(self, launch: Any) -> None:
        script = "import mmap; m = mmap.mmap(-1, {size}); m.madvise(mmap.MADV_NOHUGEPAGE)\n"
        touch = "for page in range(0, {size}, 4096): m[page] = 1"
        size = 4000 * 4096
        _, without = launch([], python(script.format(size=size)))
        _, touched = launch([], python((script + touch).format(size=size)))
        assert 3900 < touched["minor_faults"] - without["minor_faults"] < 4200


class TestTree:
    def test_single_process_has_no_tree(self, launch: Any) -> None:
        _, report = launch([], ["sleep", "0.1"])
        assert report["tree_peak"]["method"] in ("memory.peak", "pss-sampled")
        assert report["tree_peak"]["bytes"] is None

    def test_tree_is_the_sum_of_its_processes(self, launch: Any, tmp_path: Path) -> None:
        holds = (
            "import os, sys, time; block = b'x' * {bytes}; open(sys.argv[1], 'w').close()\n"
            "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\n"
            "time.sleep(3)"  # the next look may come late where one took long
        )
        hold = shlex.join(python(holds.format(bytes=60 * MEGABYTE)))
        one, two = tmp_path / "one", tmp_path / "two"
        _, report = launch([], shell(f"{hold} {one} {two} & {hold} {two} {one} & wait"))
        assert report["tree_peak"]["method"] in ("memory.peak", "pss-sampled")
        assert 120 * MEGABYTE <= report["tree_peak"]["bytes"] < 170 * MEGABYTE
        assert report["peak_rss_bytes"] < 90 * MEGABYTE

    @pytest.mark.parametrize("prefix", [[], refusing(KCMP)], ids=["kcmp", "refused"])
    def test_child_in_its_parents_memory_counts_once(
        self, tmp_path: Path, prefix: list[str]
    ) -> None:
        """Between vfork and exec both processes show the same memory. What was forked has its own,
        with the same addresses."""
        source, program = tmp_path / "forks.c", tmp_path / "forks"
        source.write_text(FORKS)
        subprocess.run(["cc", "-w", source, "-o", program], check=True)
        report = look_at([*prefix, str(LAUNCHER)], tmp_path / "report", [str(program)])
        assert report["processes"] == 3
        assert 120 * MEGABYTE <= report["tree_peak"]["bytes"] < 150 * MEGABYTE

    def test_looking_costs_the_command_nothing_it_is_charged_for(self, launch: Any) -> None:
        hold = shlex.join(python(HOLD.format(bytes=MEGABYTE, seconds=1)))
        _, report = launch([], shell(f"{hold} & wait"))
        assert report["processes"] == 2
        assert report["user_us"] + report["system_us"] < 500_000


def launcher_with(folder: Path, made_up: str, without: str = "") -> Path:
    """Ours with a part that is made up, in the place of one of its files or of a library's."""
    (folder / "made_up.c").write_text(made_up)
    ours = (SOURCE / "analysis" / "launcher").glob("*.c")
    sources = [folder / "made_up.c", SOURCE / "trace" / "base" / "json.c"]
    sources += [file for file in ours if file.name != without]
    compiler = [*os.environ.get("CC", "cc").split(), "-w", "-D_GNU_SOURCE", f"-I{SOURCE}"]
    subprocess.run([*compiler, "-o", folder / "launcher", *sources], check=True)
    return folder / "launcher"


class TestCgroup:
    """Ours is made up: its peak is 7 bytes."""

    @pytest.fixture(scope="class")
    def launcher(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("launcher")
        return launcher_with(folder, MADE_UP_CGROUP, without="memory_cgroup.c")

    def test_single_process_has_no_tree(self, launcher: Path, tmp_path: Path) -> None:
        """Page cache is in the cgroup's peak, so that it was larger than the process."""
        command = shell(f"echo ready; exec sleep {2 * HANG}")
        report = look_at([str(launcher)], tmp_path / "report", command)
        assert report["processes"] == 1
        assert report["tree_peak"] == {"bytes": None, "method": "memory.peak"}

    def test_tree_has_the_cgroups_peak(self, launcher: Path, tmp_path: Path) -> None:
        command = shell(f"sleep {2 * HANG} & echo ready; wait")
        report = look_at([str(launcher)], tmp_path / "report", command)
        assert report["processes"] == 2
        assert report["tree_peak"] == {"bytes": 7, "method": "memory.peak"}

    def test_move_into_it_does_not_count(self, launcher: Path, tmp_path: Path) -> None:
        report = tmp_path / "report"
        environment = dict(os.environ, MOVE_TAKES="2000000")
        command = [launcher, "--report", report, "--", "true"]
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True)
        ended_ns = time.monotonic_ns()
        assert json.loads(report.read_text())["wall_ns"] <= ended_ns - int(done.stderr.split()[2])

    @pytest.mark.parametrize("given", [True, False])
    def test_processors_are_kept(self, launcher: Path, given: bool) -> None:
        """Those that the command is to have, or else its caller's."""
        one = max(os.sched_getaffinity(0))
        told = ["--processors", str(one)] if given else []
        command = [launcher, *told, "--", "grep", "Cpus_allowed_list", "/proc/self/status"]
        limited = [] if given else ["taskset", "--cpu-list", str(one)]
        done = subprocess.run([*limited, *command], stdout=subprocess.PIPE, text=True)
        assert done.stdout.split()[1:] == [str(one)]


class TestCgroupTree:
    """The launcher is in app/terminal, whose parent hands out memory."""

    @pytest.fixture(scope="class")
    def launcher(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return launcher_with(tmp_path_factory.mktemp("launcher"), MADE_UP_TREE)

    @staticmethod
    def run(launcher: Path, folder: Path, own: str, limits: dict[str, str]) -> tuple[str, Path]:
        """How memory was accounted for, and where the run's cgroup was to be."""
        app = folder / "tree" / "app"
        (app / own).mkdir(parents=True)
        (app / "cgroup.subtree_control").write_text("cpu memory pids\n")
        for file, value in limits.items():
            (app / file).write_text(f"{value}\n")
        mount = f"30 23 0:26 / {folder}/tree rw - cgroup2 cgroup2 rw\n"
        (folder / "mountinfo").write_text(mount)
        (folder / "cgroup").write_text(f"0::/app/{own}\n")
        command = [launcher, "--report", folder / "report", "--", "true"]
        subprocess.run(command, check=True, timeout=HANG, env={"MADE_UP": str(folder)})
        return json.loads((folder / "report").read_text())["tree_peak"]["method"], app

    @pytest.mark.parametrize(
        "file, value",
        [
            ("terminal/memory.max", "max"),
            ("terminal/cpu.max", "max 100000"),
            ("terminal/cpuset.cpus", ""),
            ("memory.max", "8589934592"),
        ],
    )
    def test_run_leaves_a_group_without_limits(
        self, launcher: Path, tmp_path: Path, file: str, value: str
    ) -> None:
        """Those of the parent and of groups above it go on."""
        method, app = self.run(launcher, tmp_path, "terminal", {file: value})
        (group,) = app.glob("allotrope-*")
        assert method == "memory.peak"
        assert (group / "cgroup.procs").read_text() == "0"
        assert (group / "pids.max").read_text() == "max\n"

    @pytest.mark.parametrize(
        "file, limit",
        [
            ("memory.max", "2147483648"),
            ("memory.high", "2147483648"),
            ("memory.swap.max", "0"),
            ("cpu.max", "50000 100000"),
            ("cpuset.cpus", "3"),
            ("io.max", "8:16 rbps=2097152 wbps=max riops=max wiops=max"),
        ],
    )
    @pytest.mark.parametrize("group", ["terminal.slice", "terminal.slice/one"])
    def test_run_stays_in_a_group_with_a_limit(
        self, launcher: Path, tmp_path: Path, group: str, file: str, limit: str
    ) -> None:
        limits = {f"{group}/{file}": limit}
        method, app = self.run(launcher, tmp_path, "terminal.slice/one", limits)
        assert method == "pss-sampled"
        assert not list(app.glob("allotrope-*"))

    def test_limit_on_tasks_goes_with_the_run(self, launcher: Path, tmp_path: Path) -> None:
        """systemd sets one for each scope. The smallest counts."""
        limits = {"terminal.slice/pids.max": "700", "terminal.slice/one/pids.max": "9000"}
        method, app = self.run(launcher, tmp_path, "terminal.slice/one", limits)
        (group,) = app.glob("allotrope-*")
        assert method == "memory.peak"
        assert (group / "pids.max").read_text() == "700\n"


class TestEnvironment:
    def test_settings_reach_the_command(self, launch: Any) -> None:
        options = ["--env", "FIRST=one=1", "--env", "EMPTY=", "--unset", "HOME"]
        done, _ = launch(options, shell('echo "$FIRST,${EMPTY-unset},${HOME-gone}"'))
        assert done.stdout == "one=1,,gone\n"

    def test_addresses_are_random_or_fixed(self, launch: Any) -> None:
        stack = shell("grep stack /proc/self/maps")
        free = {launch([], stack)[0].stdout for _ in range(4)}
        fixed = {launch(["--fixed-addresses"], stack)[0].stdout for _ in range(4)}
        assert len(free) > 1
        assert len(fixed) == 1

    def test_preloading_reaches_only_the_command(self, launch: Any) -> None:
        """The loader complains of a library that is not there, once for each program."""
        done, _ = launch(["--env", "LD_PRELOAD=/no/such/library.so"], ["/bin/true"])
        assert done.stderr.count("/no/such/library.so") == 1

    def test_preloading_that_is_inherited_leaves_us_alone(self, launch: Any) -> None:
        environment = dict(os.environ, LD_PRELOAD="/no/such/library.so")
        done, _ = launch(["--unset", "LD_PRELOAD"], ["/bin/true"], env=environment)
        assert done.stderr == ""

    def test_signals_are_as_the_caller_had_them(self, launch: Any) -> None:
        done, _ = launch([], ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"])
        ours = subprocess.check_output(
            ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"], text=True
        )
        assert done.stdout == ours

    def test_no_descriptor_of_ours_is_left_open(self, launch: Any) -> None:
        done, _ = launch([], shell("ls /proc/self/fd"), stdin=subprocess.DEVNULL)
        assert done.stdout.split() == ["0", "1", "2", "3"], "3 is the folder that ls reads"

    def test_redirections_are_the_commands(self, launch: Any, tmp_path: Path) -> None:
        (tmp_path / "in").write_text("given\n")
        options = [f"--{name}={tmp_path / name[3:]}" for name in ("stdin", "stdout", "stderr")]
        launch(options, shell("read word; echo out-$word; echo err-$word >&2"))
        assert (tmp_path / "out").read_text() == "out-given\n"
        assert (tmp_path / "err").read_text() == "err-given\n"


class TestGate:
    """Several launchers whose commands begin at the same moment."""

    @staticmethod
    def start(tmp_path: Path, gate: socket.socket) -> subprocess.Popen[bytes]:
        words = [str(LAUNCHER), "--report", str(tmp_path / "report"), "--gate", str(gate.fileno())]
        return subprocess.Popen(
            [*words, "--", "touch", str(tmp_path / "begun")], pass_fds=[gate.fileno()]
        )

    def test_command_is_ready_and_begins_when_told(self, tmp_path: Path) -> None:
        ours, its = socket.socketpair()
        ours.settimeout(HANG)
        launcher = self.start(tmp_path, its)
        its.close()
        assert ours.recv(1) == b"\0"
        assert not (tmp_path / "begun").exists()
        ours.send(b"g")
        assert launcher.wait(HANG) == 0
        assert (tmp_path / "begun").exists()
        assert ours.recv(1) == b"", "the command has no descriptor of the gate"

    def test_command_never_begins_when_the_caller_is_gone(self, tmp_path: Path) -> None:
        ours, its = socket.socketpair()
        launcher = self.start(tmp_path, its)
        its.close()
        assert ours.recv(1) == b"\0"
        ours.close()
        assert launcher.wait(HANG) == 125
        assert not (tmp_path / "begun").exists()
        assert json.loads((tmp_path / "report").read_text())["error"]["stage"] == "gate"

    def test_descriptor_that_is_not_open_is_refused(self) -> None:
        words = [str(LAUNCHER), "--gate", "77", "--", "true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 125
        assert done.stderr == "allotrope-launch: --gate: 77 is not open\n"


class TestStopping:
    def test_timeout_ends_the_whole_group(self, launch: Any, tmp_path: Path) -> None:
        pids = tmp_path / "pids"
        script = f"sleep 100 & echo $! >{pids}; sleep 100 & echo $! >>{pids}; wait"
        done, report = launch(["--timeout", "2"], shell(script))
        assert done.returncode == 124 and report["timed_out"]
        assert not any(is_alive(int(pid)) for pid in pids.read_text().split())

    def test_kill_follows_for_who_ignores_term(self, launch: Any) -> None:
        options = ["--timeout", "2", "--grace", "0.3"]
        done, report = launch(options, shell("trap '' TERM; while :; do sleep 0.05; done"))
        assert done.returncode == 124
        assert report["signal"] == signal.SIGKILL

    def test_stopped_command_times_out_too(self, launch: Any) -> None:
        _, report = launch(["--timeout", "0.3"], shell("kill -STOP $$"))
        assert report["timed_out"] and report["signal"] == signal.SIGTERM

    def test_leftovers_are_ended_and_told(self, launch: Any, tmp_path: Path) -> None:
        _, report = launch([], shell(f"sleep 100 & echo $! >{tmp_path}/pid"))
        assert report["exit_status"] == 0 and report["leftovers"]
        assert not is_alive(int((tmp_path / "pid").read_text()))

    def test_what_ends_by_itself_soon_after_is_awaited(self, launch: Any, tmp_path: Path) -> None:
        _, report = launch([], shell(f"(sleep 0.05; echo done >{tmp_path}/late) &"))
        assert not report["leftovers"]
        assert (tmp_path / "late").read_text() == "done\n"

    def test_what_is_left_is_awaited_asleep(self, tmp_path: Path) -> None:
        """We kept a processor busy until it ended."""
        pid, stop = tmp_path / "pid", tmp_path / "stop"
        stays = f"trap '' TERM; while [ ! -e {stop} ]; do sleep 0.05; done"
        launcher = subprocess.Popen(
            [str(LAUNCHER), "--report", os.devnull, "--grace", str(HANG), "--"]
            + shell(f"({stays}) & echo $$ >{pid}.new; mv {pid}.new {pid}")
        )
        try:
            assert eventually(lambda: pid.exists() and not is_alive(int(pid.read_text())))
            before = sleeps(launcher.pid)
            assert eventually(lambda: sleeps(launcher.pid) >= before + 10)
        finally:
            stop.touch()
            launcher.wait(HANG)

    def test_what_cannot_be_ended_is_not_awaited_for_ever(
        self, launch: Any, tmp_path: Path
    ) -> None:
        left, stop = tmp_path / "left", tmp_path / "stop"
        options = ["--grace", "0.1", "--stdout=/dev/null", "--stderr=/dev/null"]
        try:
            _, report = launch(options, [*python(LEAVE_ZOMBIE), str(left), str(stop)])
        finally:
            stop.touch()
        assert report["exit_status"] == 0 and report["leftovers"] and report["killed"]

    def test_other_groups_are_left_alone(self, launch: Any, tmp_path: Path) -> None:
        script = f"setsid sleep 100 & echo $! >{tmp_path}/pid; sleep 1"
        launch(["--stdout=/dev/null", "--stderr=/dev/null"], shell(script))
        pid = int((tmp_path / "pid").read_text())
        try:
            assert is_alive(pid)
        finally:
            os.kill(pid, signal.SIGKILL)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_signals_go_on_to_the_command(self, tmp_path: Path, number: int) -> None:
        report, ready = tmp_path / "report", tmp_path / "ready"
        name = signal.Signals(number).name.removeprefix("SIG")
        # It waits in the shell itself: dash forgets a signal that comes while it starts a program.
        script = (
            f"trap 'kill $!; echo caught; exit 9' {name}; sleep 100 >{os.devnull} & "
            f": >{ready}; wait"
        )
        # Long grace: on a busy machine the shell may take seconds to come to its trap.
        command = [str(LAUNCHER), "--report", str(report), "--grace", "60", "--", *shell(script)]
        # A shell cannot catch what was ignored when it began, as SIGHUP is under nohup.
        launcher = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL) and None,
        )
        assert eventually(ready.exists)
        launcher.send_signal(number)
        assert launcher.communicate(timeout=HANG)[0] == "caught\n"
        assert launcher.returncode == 9
        assert json.loads(report.read_text())["interrupted_by"] == number

    @pytest.mark.parametrize(
        "number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP]
    )
    def test_what_the_caller_ignores_stops_nothing(self, tmp_path: Path, number: int) -> None:
        """A terminal that closed ended the command although it was under nohup."""
        report, ready, go = tmp_path / "report", tmp_path / "ready", tmp_path / "go"
        script = f": >{ready}; while [ ! -e {go} ]; do sleep 0.02; done; kill -{number} $$; exit 9"
        launcher = subprocess.Popen(
            [str(LAUNCHER), "--report", str(report), "--", *shell(script)],
            preexec_fn=lambda: signal.signal(number, signal.SIG_IGN) and None,
        )
        assert eventually(ready.exists)
        launcher.send_signal(number)
        go.touch()
        assert launcher.wait(HANG) == 9, "the command ignores it, too"
        assert json.loads(report.read_text())["interrupted_by"] is None

    def test_caller_that_ignores_term_ends_it_by_term(self, tmp_path: Path) -> None:
        """The command ignores it, too, until KILL."""
        report, ready = tmp_path / "report", tmp_path / "ready"
        launcher = subprocess.Popen(
            [str(LAUNCHER), "--report", str(report), "--grace", "0.1", "--"]
            + shell(f": >{ready}; exec sleep {2 * HANG}"),
            preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN) and None,
        )
        assert eventually(ready.exists)
        launcher.terminate()
        launcher.wait(HANG)
        assert json.loads(report.read_text())["signal"] == signal.SIGKILL

    def test_command_ends_with_a_launcher_that_is_killed(self, tmp_path: Path) -> None:
        pid = tmp_path / "pid"
        command = [str(LAUNCHER), "--", *shell(f"echo $$ >{pid}; exec sleep 100")]
        launcher = subprocess.Popen(command)
        assert eventually(lambda: pid.exists() and pid.read_text() != "")
        launcher.kill()
        launcher.wait()
        assert eventually(lambda: not is_alive(int(pid.read_text())))


class Terminal:
    """A program whose terminal we are."""

    def __init__(self, command: list[str]) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvp(command[0], command)
        self.seen = ""

    def look(self) -> None:
        os.set_blocking(self.master, False)
        with contextlib.suppress(BlockingIOError, OSError):
            self.seen += os.read(self.master, 4096).decode()

    def expect(self, text: str) -> None:
        deadline = time.monotonic() + HANG
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.seen!r}"
            self.look()
            time.sleep(0.01)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def terminal() -> Iterator[Callable[[list[str]], Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(command: list[str]) -> Terminal:
        opened.append(Terminal(command))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


class TestTerminal:
    def test_command_reads_from_it_and_the_caller_after(self, terminal: Any) -> None:
        inner = f"{LAUNCHER} --report /dev/null -- sh -c 'read word; echo inner-$word'"
        shown = terminal(shell(f"{inner}; read word; echo outer-$word"))
        shown.type("one\n")
        shown.expect("inner-one")
        shown.type("two\n")
        shown.expect("outer-two")

    def test_interrupt_reaches_the_command(self, terminal: Any, tmp_path: Path) -> None:
        report = tmp_path / "report"
        inner = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.02; done"
        shown = terminal([str(LAUNCHER), "--report", str(report), "--", *shell(inner)])
        shown.expect("ready")
        shown.type("\x03")
        shown.expect("caught")
        assert eventually(lambda: report.exists() and report.read_text() != "")
        assert json.loads(report.read_text())["exit_status"] == 3

    def test_stopping_stops_both_and_does_not_count(self, terminal: Any, tmp_path: Path) -> None:
        report = tmp_path / "report"
        # Starts no process: a shell that is stopped between vfork and exec never gets there.
        inner = "echo ready; read word; echo finished"
        begun = time.monotonic_ns()
        shown = terminal([str(LAUNCHER), "--report", str(report), "--", *shell(inner)])
        shown.expect("ready")
        shown.type("\x1a")
        _, status = os.waitpid(shown.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        stopped = time.monotonic_ns()
        shown.type("word\n")
        time.sleep(0.5)
        shown.look()
        assert "finished" not in shown.seen
        stopped_ns = time.monotonic_ns() - stopped
        os.kill(shown.pid, signal.SIGCONT)
        shown.expect("finished")
        assert eventually(lambda: report.exists() and report.read_text() != "")
        took_ns = time.monotonic_ns() - begun
        assert json.loads(report.read_text())["wall_ns"] <= took_ns - stopped_ns


class TestOptions:
    @pytest.mark.parametrize(
        "arguments, words",
        [
            ([], "no command given"),
            (["--"], "no command given"),
            (["--timeout", "soon", "--", "true"], "'soon' is not a number of seconds above 0"),
            (["--timeout", "0", "--", "true"], "'0' is not a number"),
            (["--timeout", "-1", "--", "true"], "'-1' is not a number"),
            (["--timeout", "nan", "--", "true"], "'nan' is not a number"),
            (["--grace", "1s", "--", "true"], "'1s' is not a number"),
            (["--env", "NOVALUE", "--", "true"], "'NOVALUE' is not of the form NAME=VALUE"),
            (["--env", "=value", "--", "true"], "'=value' is not of the form"),
            (["--report", "/no/such/folder/file", "--", "true"], "cannot write /no/such/folder"),
            (["--bogus", "--", "true"], "unrecognized option '--bogus'"),
        ],
    )
    def test_what_is_wrong_is_named_in_one_line(self, arguments: list[str], words: str) -> None:
        done = subprocess.run([LAUNCHER, *arguments], capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 125
        assert words in done.stderr and done.stderr.count("\n") == 1

    def test_report_goes_to_standard_error_by_default(self) -> None:
        done = subprocess.run([LAUNCHER, "true"], capture_output=True, text=True, timeout=HANG)
        assert json.loads(done.stderr)["schema"] == "allotrope.launch/1"

    def test_options_of_the_command_are_its_own(self, launch: Any) -> None:
        done, _ = launch([], ["echo", "--timeout", "-n"])
        assert done.stdout == "--timeout -n\n"

    def test_it_is_linked_statically(self) -> None:
        """Unless a sanitizer forbids it."""
        if b"__asan_init" in LAUNCHER.read_bytes():
            pytest.skip("built with a sanitizer")
        listed = subprocess.run(["ldd", LAUNCHER], capture_output=True, text=True)
        assert "not a dynamic executable" in listed.stdout + listed.stderr
