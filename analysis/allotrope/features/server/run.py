# SPDX-License-Identifier: MIT
"""One start of a server: set up, started, awaited, loaded, measured, stopped, cleaned up.

    setup     a shell command, in the surroundings of a new, empty folder
    server    under the allocator, on processors of its own where there are any
    ready     asked every 20 ms until it says so; it must not say so before the server is started
    load      not under the allocator, on the other processors; what the server's processes use
              from its start to its end is what is measured
    stop      TERM, and KILL for what does not listen; whatever it has started ends with it
    cleanup   a shell command

CPU time is the difference of two readings of the whole tree (system/process_tree.py). Memory is
looked at every 50 ms from outside, by the launcher.
"""

import contextlib
import os
import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from ...system.children import signal_name
from ...system.launch import Launch, Run, Running, launch
from ...system.native import last_line
from ...system.places import own_programs
from ...system.process_tree import Window, tree_usage
from ...system.scratch import scratch_folder
from ...system.serving import Watcher
from .metrics import REQUESTS, Metric, read_metrics
from .plan import Place, Processors, ServerPlan, answers, free_port

READY_EVERY = 0.02
END_SEEN_WITHIN = 5.0  # a load fails at once when the server dies; our launcher needs a moment
STARTS = 3  # a port that was free may be taken before the server gets it
METRIC = "metric:"  # how a metric's quantity is called
QUANTITIES = ("cpu_per_request_seconds", "memory_mean_bytes", "memory_end_bytes", "start_seconds")
TIMELINE_POINTS = 160


class ServerFailed(Exception):
    """Something of one start went wrong; the text says what. It is the server's doing, or the
    allocator's, unless it happens under glibc as well."""


@dataclass(frozen=True)
class ServerRun(Run):
    """CPU time, wall time and faults are those of the load's time; peaks are of the whole life."""

    trouble: str | None = None
    start_seconds: float | None = None  # until it was ready
    memory_mean_bytes: float | None = None  # while the load lasted
    memory_end_bytes: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    known: Sequence[Metric] = ()  # what the metrics are
    timeline: Sequence[tuple[float, float]] = ()  # seconds since the load began, bytes
    window: Window | None = None  # the load's time

    @property
    def problem(self) -> str | None:
        return self.trouble

    def ending(self) -> str:
        return (
            self.trouble
            or ("killed, for TERM did not end it" if self.killed else "")
            or (super().ending())
        )

    @property
    def cpu_per_request_seconds(self) -> float | None:
        requests = self.metrics.get(REQUESTS)
        return self.cpu_seconds / requests if requests else None

    def figure(self, quantity: str) -> float | None:
        if quantity.startswith(METRIC):
            return self.metrics.get(quantity.removeprefix(METRIC))
        return super().figure(quantity)


@dataclass
class Surroundings:
    """Where a server and its helpers run, the same for every start."""

    environment: Mapping[str, str]  # of the server, the allocator's included
    unset: Sequence[str]
    plain: Mapping[str, str]  # of the shell commands
    processors: Processors
    stderr: Path  # where what the server says goes
    timeout: float | None = None  # seconds that the load may take
    directory: Path | None = None
    watcher: Watcher | None = None  # sees each process; such a run's times are not to be used


@dataclass
class _Loaded:
    usage: dict[str, Any]
    window: Window
    metrics: Mapping[str, float]
    known: Sequence[Metric]


def serve(plan: ServerPlan, around: Surroundings) -> ServerRun:
    """One start. A failure of it is in the run's `trouble`."""
    with scratch_folder() as folder:
        for attempt in range(STARTS):
            place = Place(free_port() if plan.has_port else 0, folder / f"dir-{attempt}")
            place.folder.mkdir()
            # A server that gives its rights up must get there.
            folder.chmod(0o755)
            place.folder.chmod(0o755)
            run = _serve_at(plan, around, place, folder)
            if run.trouble is None or not plan.has_port or not _lost_port(run, place):
                break
        return run


def _lost_port(run: ServerRun, place: Place) -> bool:
    return run.start_seconds is None and answers(place.port)


def _serve_at(plan: ServerPlan, around: Surroundings, place: Place, folder: Path) -> ServerRun:
    loaded, trouble, ready = None, None, None
    server: Running | None = None
    samples: Path = folder / "samples"
    try:
        if plan.setup is not None:
            _helper("--setup", plan.setup, place, around)
        _need_silence(plan, place, around)
        with Running(
            [place.fill(word) for word in plan.command()],
            folder=folder,
            environment=around.environment,
            unset=around.unset,
            stderr=around.stderr,
            processors=[] if around.processors.shared else around.processors.server,
            grace=plan.stop_timeout,
            directory=around.directory,
            watcher=around.watcher,
        ) as server:
            ready = _await_ready(plan, place, around, server)
            loaded = _load(plan, place, around, server)
    except ServerFailed as failed:
        trouble = str(failed)
    finally:
        if plan.cleanup is not None:
            try:
                _helper("--cleanup", plan.cleanup, place, around)
            except ServerFailed as failed:
                trouble = trouble or str(failed)
    run = server.account() if server is not None else None
    return _result(run, loaded, trouble, ready, samples)


def _result(
    run: Run | None, loaded: _Loaded | None, trouble: str | None, ready: float | None, samples: Path
) -> ServerRun:
    known = {one.name: getattr(run, one.name) for one in fields(Run)} if run else _NEVER_RAN
    if loaded is None:
        return ServerRun(**known, trouble=trouble, start_seconds=ready)
    window = loaded.window
    memory = read_samples(samples)
    during = [size for at, size in memory if window.began <= at <= window.ended]
    known |= loaded.usage | {"wall_seconds": window.ended - window.began}
    if memory:
        known |= {"tree_peak_bytes": max(size for _, size in memory)}
        known |= {"tree_peak_method": "pss-sampled"}
    return ServerRun(
        **known,
        trouble=trouble,
        start_seconds=ready,
        memory_mean_bytes=sum(during) / len(during) if during else None,
        memory_end_bytes=during[-1] if during else None,
        metrics=loaded.metrics,
        known=loaded.known,
        timeline=_thin([(at - window.began, size) for at, size in memory]),
        window=window,
    )


_NEVER_RAN: dict[str, Any] = {
    **{key: 0 for key in ("pid", "peak_rss_bytes", "minor_faults", "major_faults")},
    **{key: 0.0 for key in ("wall_seconds", "user_seconds", "system_seconds")},
    **{key: None for key in ("exit_status", "signal", "error")},
    **{key: None for key in ("tree_peak_bytes", "tree_peak_method")},
    **{key: False for key in ("timed_out", "leftovers")},
}


def read_samples(file: Path) -> list[tuple[float, float]]:
    """What the launcher saw: seconds by CLOCK_MONOTONIC, bytes. A last line that was cut short is
    left out."""
    found = []
    for line in file.read_text().splitlines(keepends=True) if file.exists() else ():
        words = line.split()
        if line.endswith("\n") and len(words) == 3:
            found.append((int(words[0]) / 1e9, float(words[1])))
    return found


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most TIMELINE_POINTS; of each stretch the largest, so that no peak is lost."""
    step = max(1, -(-len(points) // TIMELINE_POINTS))
    return [
        max(points[first : first + step], key=lambda point: point[1])
        for first in range(0, len(points), step)
    ]


# The steps


@dataclass(frozen=True)
class _Said:
    """How a shell command ended, what it printed, and the last line that it complained with."""

    run: Run
    output: str
    complaint: str

    @property
    def succeeded(self) -> bool:
        return self.run.exit_status == 0 and not self.run.timed_out

    def ending(self) -> str:
        said = self.complaint or last_line(self.output)
        number = self.run.signal
        status = f"ended with status {self.run.exit_status}"
        how = status if number is None else f"was killed by {signal_name(number)}"
        return how + (f" ({said[:200]})" if said else "")


def _shell(command: str, place: Place, around: Surroundings, timeout: float | None) -> _Said:
    """By the launcher, so that its process group ends with it, and with us."""
    environment = dict(around.plain)
    environment["PATH"] = f"{environment.get('PATH', os.defpath)}:{own_programs()}"
    with scratch_folder() as folder, _kept_on(around.processors.load):
        output, errors = folder / "stdout", folder / "stderr"
        run = launch(
            Launch(
                ["/bin/sh", "-c", place.fill(command)],
                # What is ours already need not stand on a command line, where others can read it.
                environment=dict(environment.items() - os.environ.items()),
                unset=[name for name in os.environ if name not in environment],
                stdout=output,
                stderr=errors,
                timeout=timeout,
                directory=around.directory,
            )
        )
        complaint = errors.read_text(errors="replace")
        return _Said(run, output.read_text(errors="replace") + complaint, last_line(complaint))


@contextlib.contextmanager
def _kept_on(processors: Sequence[int]) -> Iterator[None]:
    """We and what we start stay on these."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _helper(option: str, command: str, place: Place, around: Surroundings) -> None:
    said = _shell(command, place, around, None)
    if not said.succeeded:
        raise ServerFailed(f"{option}: '{command}' {said.ending()}")


def _is_ready(plan: ServerPlan, place: Place, around: Surroundings) -> tuple[bool, str]:
    """And what was said instead."""
    if plan.ready is None:
        return answers(place.port), f"no connection to port {place.port}"
    said = _shell(plan.ready, place, around, plan.ready_timeout)
    if said.run.timed_out:
        return False, f"takes longer than {plan.ready_timeout:g} s"
    return said.succeeded, said.ending()


def _need_silence(plan: ServerPlan, place: Place, around: Surroundings) -> None:
    """Another server that answers would be taken for ours."""
    if plan.ready is not None and _is_ready(plan, place, around)[0]:
        raise ServerFailed(
            f"--ready: '{plan.ready}' succeeds before the server is started, so something else "
            "answers: stop that, or write {port} for the port in all commands, which is a free one"
        )


def _await_ready(plan: ServerPlan, place: Place, around: Surroundings, server: Running) -> float:
    """Seconds until it was."""
    began = time.monotonic()
    while True:
        ready, instead = _is_ready(plan, place, around)
        if server.has_ended():
            raise ServerFailed(_explain_end("before it was ready", server))
        if ready:
            return time.monotonic() - began
        if time.monotonic() - began > plan.ready_timeout:
            probe = f"'{plan.ready}' {instead}" if plan.ready else instead
            raise ServerFailed(
                f"the server was not ready within {plan.ready_timeout:g} s: {probe}; mend --ready, "
                "or raise --ready-timeout"
            )
        time.sleep(READY_EVERY)


def _explain_end(when: str, server: Running) -> str:
    server.stop()
    run = server.account()
    return f"the server ended {when}: {run.ending()}"


def _load(plan: ServerPlan, place: Place, around: Surroundings, server: Running) -> _Loaded:
    before = tree_usage(server.launcher.pid)
    began = time.monotonic()
    said = _shell(plan.load, place, around, around.timeout)
    ended = time.monotonic()
    after = tree_usage(server.launcher.pid)
    if said.run.timed_out:
        raise ServerFailed(f"the load takes longer than {around.timeout:g} s; raise --timeout")
    if not said.succeeded:
        server.await_end(END_SEEN_WITHIN)
    if server.has_ended() or after.processes == 0:
        raise ServerFailed(_explain_end("under the load", server))
    if not said.succeeded:
        raise ServerFailed(f"--load: '{plan.load}' {said.ending()}")
    try:
        figures, known = read_metrics(said.output, plan.metrics)
    except LookupError as error:
        shown = last_line(said.output)
        raise ServerFailed(
            f"--metric: {error.args[0]}; what the load printed ends with '{shown[:200]}'"
        ) from None
    used = after.since(before)
    usage = {
        key: getattr(used, key)
        for key in ("user_seconds", "system_seconds", "minor_faults", "major_faults")
    }
    return _Loaded(usage, Window(began, ended, before, after), figures, known)
