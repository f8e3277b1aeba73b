# SPDX-License-Identifier: MIT
"""Shell commands of the user's, which are not measured: preparations, checks, setups."""

import contextlib
import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any, BinaryIO

from .children import interruptions_held
from .native import last_line
from .process_tree import descendants

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
    says would be waited for until that has ended, too, so there is a file. An interruption ends all
    of it. settings: as of subprocess.Popen()."""
    line = ["/bin/sh", *options.split(), script]
    settings = {"env": os.environ} | settings  # see launch.py
    files: dict[str, Any] = {"stdin": stdin, "stdout": subprocess.DEVNULL}
    with tempfile.TemporaryFile() as errors:
        with interruptions_held() as pending:
            started = subprocess.Popen(line, stderr=errors, **files, **settings)
        with started as shell:
            try:
                if pending:
                    raise KeyboardInterrupt
                status = shell.wait()
            except BaseException:
                _end(shell)
                raise
        errors.seek(0)
        return Said(status, last_line(errors.read()))


def _end(shell: subprocess.Popen[bytes]) -> None:
    """And what it waits for: a signal that was sent to us has reached neither."""
    tree = [*descendants(shell.pid), shell.pid]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in tree:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.wait(GRACE_SECONDS)
            return
