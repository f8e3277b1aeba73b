# SPDX-License-Identifier: MIT
"""Shell commands of the user's, which are not measured: preparations, checks, setups."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import Any, BinaryIO, Mapping, Sequence

from .children import interruptions_held
from .native import last_line
from .process_tree import children_of, has_stopped, image_of, start_times

GRACE_SECONDS = 2.0  # between TERM and KILL


@dataclass(frozen=True)
class Said:
    """How a shell command ended."""

    status: int
    complaint: str  # the last line on its standard error

    def ending(self) -> str:
        said = f" ({self.complaint})" if self.complaint else ""
        return f"ended with status {self.status}{said}"


def run_shell(
    script: str, options: str = "-c", stdin: int | BinaryIO = subprocess.DEVNULL, **settings: Any
) -> Said:
    """Runs it until its shell ends. What it leaves in the background may go on: a pipe for what it
    says would be waited for until that has ended, too, so there is a file. A signal to us ends all
    of it; a terminal's ends the shell itself, and not what it has in the background, which ignores
    it. settings: as of subprocess.Popen()."""
    line = ["/bin/sh", *options.split(), script]
    settings = {"env": os.environ} | settings  # see launch.py
    files: dict[str, Any] = {"stdin": stdin, "stdout": subprocess.DEVNULL}
    shell: subprocess.Popen[bytes] | None = None
    with tempfile.TemporaryFile() as errors:
        try:
            with interruptions_held() as pending:
                shell = subprocess.Popen(line, stderr=errors, **files, **settings)
            if pending:
                raise KeyboardInterrupt
            status = shell.wait()
        except BaseException:
            if shell is not None:
                _end(shell)
            raise
        errors.seek(0)
        return Said(status, last_line(errors.read()))


def _end(shell: subprocess.Popen[bytes]) -> None:
    """And what it waits for: a signal that was sent to us has reached neither. One that comes
    meanwhile ends the wait."""
    tree: dict[int, int] = {}
    roots = [shell.pid] if shell.poll() is None else []
    with interruptions_held() as pending:
        for number in (signal.SIGTERM, signal.SIGKILL):
            tree |= start_times(_stopped(roots))
            for pid, started in start_times(list(tree)).items():
                if started == tree[pid]:
                    _send(pid, number)
                    _send(pid, signal.SIGCONT)
            deadline = time.monotonic() + GRACE_SECONDS
            while (roots := _running(tree)) and time.monotonic() < deadline and not pending:
                time.sleep(0.01)
        shell.wait()


def _stopped(roots: Sequence[int]) -> list[int]:
    """They and their descendants. Each has stopped before its children are listed: a fork that has
    begun is not undone by a signal."""
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        _send(pid, signal.SIGSTOP)
        deadline = time.monotonic() + GRACE_SECONDS
        while has_stopped(pid) is False and time.monotonic() < deadline:
            time.sleep(0.001)
        found.append(pid)
        waiting += children_of(pid)
    return found


def _running(tree: Mapping[int, int]) -> list[int]:
    """Those that were started then and have not ended."""
    images = {pid: image_of(pid) for pid in tree}
    return [pid for pid, image in images.items() if image and image.started == tree[pid]]


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
