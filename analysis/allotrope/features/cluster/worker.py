# SPDX-License-Identifier: MIT
"""What runs on a worker: the command itself, for one program of a suite or of a study, or the
simulator, for one part of a trace.

The client sends these functions by value, so they use the standard library alone: a worker that has
no Allotrope, or another one, is then told apart instead of failing to import. The work is done by a
process, such as `allotrope compare --suite FILE --only NAME`, which is what one machine does; it
ends with the worker (setpriv --pdeathsig). Who measures holds the host's timing slot alone; those
who simulate, which is not timed, hold it together.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

# The same file for every user and every worker of a host. /tmp is the one folder that all have.
SLOT = "/tmp/allotrope-timing-slot"
# It ends with the worker. A worker may ignore INT, which programs under test are not to inherit.
PREFIX = ("setpriv", "--pdeathsig", "KILL", "env", "--default-signal=INT")
POLL_SECONDS = 0.2
END_BYTES = 1 << 16  # of a trace, at its head and at its tail


def fingerprints(paths: Sequence[str]) -> dict[str, str | None]:
    """Of each file, or of all Python modules below a folder; None where there is nothing."""
    return {path: _fingerprint(Path(path)) for path in paths}


def _fingerprint(path: Path) -> str | None:
    digest = hashlib.blake2b(digest_size=16)
    try:
        if not path.is_dir():
            return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
        for file in sorted(path.rglob("*.py")):
            digest.update(f"{file.relative_to(path)}\0".encode() + file.read_bytes())
    except OSError:
        return None
    return digest.hexdigest()


def unlike(expected: Mapping[str, str | None]) -> list[str]:
    """What this host has not, or has otherwise, a line each."""
    found = fingerprints(list(expected))
    return [
        f"{path} is " + ("missing" if found[path] is None else "another one")
        for path in expected
        if found[path] != expected[path]
    ]


def introduce(
    expected: Mapping[str, str | None], doctor: Sequence[str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Who this worker is, what differs from the client, and what its doctor says."""
    answer: dict[str, Any] = {"host": platform.node(), "unlike": unlike(expected)}
    if not answer["unlike"]:
        done = subprocess.run(doctor, env=environment, capture_output=True, text=True, check=True)
        rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
        answer["lacks"] = [name for name, row in rows.items() if row["available"] is False]
        answer["kind"] = f"{rows['CPUs']['state']}, Linux {rows['kernel']['state']}"
    return answer


def measure(question: Mapping[str, Any]) -> dict[str, Any]:
    """A program with all contenders and rounds, or the machine with itself. question: `expected`,
    as for unlike(); `command`, its `environment` and `directory`; `scratch`, the option by which it
    takes a file or folder of its own, or None; and `returned`, patterns of the files in it that are
    wanted. Returns the `host`, and either what is `unlike` or the process's `status`, `output` and
    `errors`, and the text of the `files` by their paths."""
    host = {"host": platform.node()}
    if differences := unlike(question["expected"]):
        return host | {"unlike": differences}
    folder, is_cancelled = _surroundings()
    with timing_slot(SLOT, is_cancelled) as slot:
        # It is the worker's, which Dask removes behind a worker that was killed, too.
        scratch = Path(folder, f"{os.urandom(8).hex()}.scratch")
        more = [question["scratch"], str(scratch)] if question["scratch"] else []
        ended = _run(
            [*question["command"], *more],
            is_cancelled,
            text=True,
            env=question["environment"],
            cwd=question["directory"],
            pass_fds=[slot],
        )
        found = [file for one in question["returned"] for file in scratch.glob(one)]
        files = {str(file.relative_to(scratch)): file.read_text() for file in found}
        if scratch.is_dir():
            shutil.rmtree(scratch)
        scratch.unlink(missing_ok=True)
    return host | ended | {"files": files}


def trace_ends(path: str) -> dict[str, Any]:
    """By which a trace is known again without being read: its size, and BLAKE2 of head and tail.
    Raises OSError."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        for start in (0, max(0, size - END_BYTES)):
            file.seek(start)
            digest.update(file.read(END_BYTES))
    return {"bytes": size, "ends": digest.hexdigest()}


def see(question: Mapping[str, Any]) -> dict[str, Any]:
    """Who this worker is, and what differs from the client. question: `expected`, as for unlike();
    `path`, a trace, and the client's trace_ends() of it."""
    other = unlike(question["expected"]) + _other_trace(question["path"], question["trace_ends"])
    return {"host": platform.node(), "unlike": other}


def _other_trace(path: str, ends: Mapping[str, Any]) -> list[str]:
    try:
        found = trace_ends(path)
    except OSError as error:
        return [f"{path} cannot be read: {error.strerror}"]
    if found["bytes"] != ends["bytes"]:
        return [f"{path} has {found['bytes']:,} bytes, not {ends['bytes']:,}"]
    return [] if found == ends else [f"{path} is another trace"]


def simulate(question: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a trace. question: as for see(), and the `command`. Returns what see() does, and
    where nothing is unlike the process's `status`, and `output` and `errors` as bytes."""
    seen = see(question)
    if seen["unlike"]:
        return seen
    _, is_cancelled = _surroundings()
    with timing_slot(SLOT, is_cancelled, fcntl.LOCK_SH):
        return seen | _run(question["command"], is_cancelled)


def _surroundings() -> tuple[str, Callable[[], bool]]:
    """The worker's scratch folder, and whether nobody waits for this task any more."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state != "executing"

    return worker.local_directory, is_cancelled


@contextlib.contextmanager
def timing_slot(
    path: str, is_cancelled: Callable[[], bool], how: int = fcntl.LOCK_EX
) -> Iterator[int]:
    """Held by one measurement of the host at a time, whoever started it, or by those together that
    are not timed; how: LOCK_EX or LOCK_SH. The kernel frees it when the last process that has the
    descriptor has ended. Raises InterruptedError when the task is cancelled while it waits."""
    slot = _open_slot(path)
    try:
        while True:
            try:
                fcntl.flock(slot, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if is_cancelled():
                    raise InterruptedError("cancelled while it waited for the host") from None
                time.sleep(POLL_SECONDS)
        yield slot
    finally:
        os.close(slot)


def _open_slot(path: str) -> int:
    """Another user's file is never opened with O_CREAT: the kernel forbids that in /tmp
    (fs.protected_regular)."""
    kind = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, kind)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            slot = os.open(path, kind | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(slot, 0o644)  # for other users, whatever the umask
            return slot
        return os.open(path, kind)


def _run(
    command: Sequence[str], is_cancelled: Callable[[], bool], **settings: Any
) -> dict[str, Any]:
    """Runs it until it ends or nobody waits for it. Returns its `status`, `output` and `errors`."""
    process = subprocess.Popen(
        [*PREFIX, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C is the client's
        **settings,
    )
    while True:
        try:
            output, errors = process.communicate(timeout=POLL_SECONDS)
            return {"status": process.returncode, "output": output, "errors": errors}
        except subprocess.TimeoutExpired:
            if is_cancelled():
                process.kill()  # its launcher ends what runs
