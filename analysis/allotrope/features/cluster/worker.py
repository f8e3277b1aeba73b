# SPDX-License-Identifier: MIT
"""What runs on a worker: the command itself, for one program of a suite.

The client sends these functions by value, so they use the standard library alone: a worker that has
no Allotrope, or another one, is then told apart instead of failing to import. The work is done by a
process, `allotrope compare --suite FILE --only NAME`, which is what one machine does; it ends with
the worker (setpriv --pdeathsig), and measures while it holds the host's timing slot.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

# The same file for every user and every worker of a host. /tmp is the one folder that all have.
SLOT = "/tmp/allotrope-timing-slot"
# It ends with the worker. A worker may ignore INT, which programs under test are not to inherit.
PREFIX = ("setpriv", "--pdeathsig", "KILL", "env", "--default-signal=INT")
POLL_SECONDS = 0.2


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
    as for unlike(); `command`, its `environment` and `directory`; `keeps_state`, whether it takes
    --state. Returns the `host`, and either what is `unlike` or the process's `status`, `output`
    and `errors`."""
    host = {"host": platform.node()}
    if differences := unlike(question["expected"]):
        return host | {"unlike": differences}
    folder, is_cancelled = _surroundings()
    with timing_slot(SLOT, is_cancelled) as slot:
        # Its scratch is the worker's, which Dask removes behind a worker that was killed, too.
        state = os.path.join(folder, f"{os.urandom(8).hex()}.state")
        more = ["--state", state] if question["keeps_state"] else []
        process = subprocess.Popen(
            [*PREFIX, *question["command"], *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=question["environment"],
            cwd=question["directory"],
            pass_fds=[slot],
            start_new_session=True,  # a terminal's Ctrl-C is the client's
        )
        output, errors = _wait(process, is_cancelled)
        Path(state).unlink(missing_ok=True)
    return host | {"status": process.returncode, "output": output, "errors": errors}


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
def timing_slot(path: str, is_cancelled: Callable[[], bool]) -> Iterator[int]:
    """Held by one measurement of the host at a time, whoever started it. The kernel frees it when
    the last process that has the descriptor has ended. Raises InterruptedError when the task is
    cancelled while it waits."""
    slot = _open_slot(path)
    try:
        while True:
            try:
                fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
            return os.open(path, kind | os.O_CREAT | os.O_EXCL, 0o644)
        return os.open(path, kind)


def _wait(process: "subprocess.Popen[str]", is_cancelled: Callable[[], bool]) -> tuple[str, str]:
    while True:
        try:
            return process.communicate(timeout=POLL_SECONDS)
        except subprocess.TimeoutExpired:
            if is_cancelled():
                process.kill()  # its launcher ends what runs
