# SPDX-License-Identifier: MIT
"""Runs commands through the native launcher, and reads what each run cost.

launch() runs one. launch_together() runs several that begin at the same moment, for a duet: each
launcher waits at a gate until all are ready.

Programs are given os.environ: pyelftools imports pdb, and with Python 3.13 that imports readline,
which puts LINES and COLUMNS into the environment that a child otherwise has."""

import contextlib
import json
import os
import signal
import socket
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Callable, Mapping, Sequence

from .children import ENDING, ends_with_us, ignore_hangups, interruptions_held, signal_name
from .errors import UserError
from .places import PLACES, built
from .scratch import scratch_folder
from .serving import Watcher


@dataclass(frozen=True)
class Run:
    """What one run cost and how it ended. Exactly one of exit_status, signal and error is set."""

    pid: int
    exit_status: int | None
    signal: int | None
    error: str | None  # why it could not be started
    timed_out: bool
    leftovers: bool  # processes of its group outlived it and were stopped
    wall_seconds: float
    user_seconds: float
    system_seconds: float
    peak_rss_bytes: int
    minor_faults: int
    major_faults: int
    tree_peak_bytes: int | None  # None: a single process, or too short a life to be seen
    tree_peak_method: str | None
    processes: int | None = None  # the most that were seen at once; None: it was not looked at
    killed: bool = False  # a signal that asks was not enough
    shares_processor: bool = False  # with other runs; its wall time says nothing

    @property
    def problem(self) -> str | None:
        """What went wrong beside the ending itself; nothing for a command."""
        return None

    def figure(self, quantity: str) -> float | None:
        """What was measured of a quantity; None where it was not."""
        if quantity == "wall_seconds" and self.shares_processor:
            return None
        value: float | None = getattr(self, quantity)
        return value

    @property
    def cpu_seconds(self) -> float:
        return self.user_seconds + self.system_seconds

    def ending(self) -> str:
        """How it ended, in words."""
        if self.error is not None:
            return f"could not be started: {self.error}"
        if self.timed_out:
            return "timed out"
        if self.signal is not None:
            return f"killed by {signal_name(self.signal)}"
        return f"exit status {self.exit_status}"


def _read_report(report: dict[str, Any]) -> Run:
    error = report["error"]
    tree = report["tree_peak"]
    return Run(
        pid=report["pid"],
        exit_status=report["exit_status"],
        signal=report["signal"],
        error=error["message"] if error else None,
        timed_out=report["timed_out"],
        leftovers=report["leftovers"],
        wall_seconds=(report["wall_ns"] or 0) / 1e9,
        user_seconds=(report["user_us"] or 0) / 1e6,
        system_seconds=(report["system_us"] or 0) / 1e6,
        peak_rss_bytes=report["peak_rss_bytes"] or 0,
        minor_faults=report["minor_faults"] or 0,
        major_faults=report["major_faults"] or 0,
        tree_peak_bytes=tree["bytes"],
        tree_peak_method=tree["method"],
        processes=report["processes"],
        killed=report["killed"],
    )


def _run_launcher(
    arguments: Sequence[str], directory: Path | None, descriptors: Sequence[int]
) -> int:
    """Runs the launcher and returns its status. An interruption is passed on to it and the run's
    end awaited, so that nothing of it stays behind; one that comes while it is being started
    waits until there is somebody to pass it on to."""
    launcher: subprocess.Popen[bytes] | None = None
    try:
        with interruptions_held() as pending:
            launcher = subprocess.Popen(
                arguments, cwd=directory, env=os.environ, pass_fds=descriptors
            )
        if pending:
            raise KeyboardInterrupt
        return launcher.wait()
    except KeyboardInterrupt:
        if launcher is not None:
            _end_launcher(launcher)
        raise


def _end_launcher(launcher: subprocess.Popen[bytes]) -> None:
    # What we ignore, the launcher ignores; TERM it never does.
    is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    launcher.send_signal(signal.SIGTERM if is_ignored else signal.SIGINT)
    try:
        launcher.wait()
    except KeyboardInterrupt:
        launcher.terminate()
        launcher.wait()


class Running:
    """A command that runs under the launcher until it is told to stop, with the memory of its
    processes over time. For `with`: nothing of its tree is left behind it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environment: Mapping[str, str],
        unset: Sequence[str],
        stderr: Path,
        processors: Sequence[int],
        grace: float,
        directory: Path | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """folder: scratch space. processors: where it runs; none: anywhere. grace: seconds between
        TERM and KILL. The rest as for launch(). Standard output goes where standard error does."""
        self.report = folder / "report.json"
        self.samples = folder / "samples"
        one = Launch(
            command,
            environment=environment,
            unset=unset,
            stdout=os.devnull,
            stderr=stderr,
            directory=directory,
            watcher=watcher,
            processors=processors,
        )
        options = ["--samples", str(self.samples), "--whole-tree", "--grace", repr(grace)]
        with interruptions_held() as pending:
            self.launcher = subprocess.Popen(
                one.line(self.report, options),
                cwd=directory,
                env=os.environ,
                pass_fds=_descriptors(watcher),
            )
        if pending:
            _end_launcher(self.launcher)
            raise KeyboardInterrupt

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def has_ended(self) -> bool:
        return self.launcher.poll() is not None

    def await_end(self, seconds: float) -> None:
        """Returns when it has ended, and after so many seconds in any case."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.launcher.wait(seconds)

    def stop(self) -> None:
        """Asks with TERM, and kills what does not listen within the grace."""
        if not self.has_ended():
            self.launcher.terminate()
        try:
            self.launcher.wait()
        except KeyboardInterrupt:
            self.launcher.wait()
            raise

    def account(self) -> Run:
        """Once it was stopped. Raises UserError when the launcher has left none."""
        return _read_report_file(self.report, self.launcher.returncode)


def _variables(environment: Mapping[str, str], unset: Sequence[str]) -> list[str]:
    arguments = []
    for name in unset:
        arguments += ["--unset", name]
    for name, value in environment.items():
        arguments += ["--env", f"{name}={value}"]
    return arguments


def _descriptors(watcher: Watcher | None) -> list[int]:
    """Those that the launcher needs beside the usual ones."""
    return [watcher.launchers.fileno()] if watcher is not None else []


def _watching(watcher: Watcher | None) -> list[str]:
    return [word for one in _descriptors(watcher) for word in ("--watch", str(one))]


def _read_report_file(report: Path, status: int) -> Run:
    text = report.read_text() if report.exists() else ""
    if not text:
        raise UserError(f"{PLACES.launcher} gave no report (status {status})")
    return _read_report(json.loads(text))


@dataclass(frozen=True)
class Launch:
    """A command to run once, and how.

    environment: set for the command only, over our own. unset: removed from it. stdin, stdout,
    stderr: files; None leaves ours. timeout: seconds, after which its process group is stopped.
    directory: where it runs; stdin, stdout and stderr are then relative to it. fixed_addresses:
    the kernel puts nothing at random, where it may be told so. watcher: is shown every process;
    such a run's times are not to be used. processors: where it runs; none: anywhere."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    stdin: str | os.PathLike[str] = os.devnull
    stdout: str | os.PathLike[str] | None = None
    stderr: str | os.PathLike[str] | None = None
    timeout: float | None = None
    directory: Path | None = None
    fixed_addresses: bool = False
    watcher: Watcher | None = None
    processors: Sequence[int] = ()

    def line(self, report: Path, options: Sequence[str] = ()) -> list[str]:
        """The launcher's command line."""
        arguments = [str(built(PLACES.launcher)), "--report", str(report)]
        arguments += ["--stdin", os.fspath(self.stdin)]
        arguments += _variables(self.environment, self.unset)
        for option, file in (("--stdout", self.stdout), ("--stderr", self.stderr)):
            if file is not None:
                arguments += [option, os.fspath(file)]
        if self.timeout is not None:
            arguments += ["--timeout", repr(self.timeout)]
        if self.fixed_addresses:
            arguments.append("--fixed-addresses")
        if self.processors:
            arguments += ["--processors", ",".join(map(str, self.processors))]
        return [*arguments, *_watching(self.watcher), *options, "--", *self.command]


def launch(one: Launch) -> Run:
    """Runs a command once and returns its account.
    Raises KeyboardInterrupt, after the command has ended, when the user interrupts."""
    with scratch_folder() as folder:
        report = folder / "report.json"
        status = _run_launcher(one.line(report), one.directory, _descriptors(one.watcher))
        return _read_report_file(report, status)


def launch_together(commands: Sequence[Launch]) -> list[Run]:
    """Runs all at the same time; none begins before all are ready. Returns their accounts in the
    same order when the last has ended, and otherwise does as launch()."""
    with scratch_folder() as folder:
        reports = [folder / f"{number}.json" for number in range(len(commands))]
        gates: list[socket.socket] = []
        launchers: list[subprocess.Popen[bytes]] = []
        try:
            with interruptions_held() as pending:
                for one, report in zip(commands, reports):
                    gate, its = socket.socketpair()
                    gates.append(gate)
                    with its:
                        line = one.line(report, ["--gate", str(its.fileno())])
                        fds = [*_descriptors(one.watcher), its.fileno()]
                        launchers.append(
                            subprocess.Popen(line, cwd=one.directory, env=os.environ, pass_fds=fds)
                        )
            if pending:
                raise KeyboardInterrupt
            for gate in gates:
                gate.recv(1)  # nothing comes of one that could not be started
            for gate in gates:
                with contextlib.suppress(OSError):
                    gate.send(b"g", socket.MSG_NOSIGNAL)
            statuses = [launcher.wait() for launcher in launchers]
        except BaseException:
            _close_all(gates)  # who still waits there never begins
            for launcher in launchers:
                _end_launcher(launcher)
            raise
        _close_all(gates)
        return [
            replace(_read_report_file(report, status), shares_processor=True)
            for report, status in zip(reports, statuses)
        ]


def _close_all(gates: Sequence[socket.socket]) -> None:
    for gate in gates:
        gate.close()


def run_group(
    words: Sequence[str],
    given: int | IO[bytes],
    taken: int | IO[bytes],
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int | None, str]:
    """Runs a command of several processes: its status (None: out of time) and what it wrote to
    standard error. Whatever ends it ends all of them."""
    child: subprocess.Popen[bytes] | None = None
    try:
        with interruptions_held() as pending:
            child = subprocess.Popen(
                words,
                stdin=given,
                stdout=taken,
                stderr=subprocess.PIPE,
                env=os.environ if environment is None else environment,
                start_new_session=True,
                preexec_fn=ends_with_us(),
            )
        if pending:
            raise KeyboardInterrupt
        _, errors = child.communicate(timeout=timeout)
    except BaseException as reason:
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
        if isinstance(reason, subprocess.TimeoutExpired):
            return None, ""
        raise
    return child.returncode, errors.decode(errors="replace")


def run_to_its_end(
    line: Sequence[str],
    environment: Mapping[str, str],
    started: Callable[[int], None] = lambda pid: None,
    stdout: int | None = None,
) -> int:
    """Its status. An interruption is the program's: a signal from the terminal has reached it, and
    one that was sent to us is passed on; after a SIGHUP we heed no other. A KILL of us kills it.
    started: is told its process id. stdout: what it has there, if not ours."""
    watched = {*ENDING, signal.SIGCHLD}
    ends = ends_with_us()

    def begin() -> None:
        ends()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        with subprocess.Popen(line, env=environment, stdout=stdout, preexec_fn=begin) as child:
            started(child.pid)
            while child.poll() is None:
                came = signal.sigwaitinfo(watched)
                if came.si_signo == signal.SIGHUP:
                    ignore_hangups()
                if came.si_signo != signal.SIGCHLD and came.si_code <= 0:
                    child.send_signal(came.si_signo)
            return child.returncode
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
