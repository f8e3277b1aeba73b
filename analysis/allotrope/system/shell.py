# SPDX-License-Identifier: MIT
"""Shell commands of the user's, which are not measured: preparations, checks, setups."""

import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any, BinaryIO

from .native import last_line


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
    says would be waited for until that has ended, too, so there is a file. settings: as of
    subprocess.run()."""
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(
            ["/bin/sh", *options.split(), script],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            check=False,
            **settings,
        )
        errors.seek(0)
        return Said(done.returncode, last_line(errors.read()))
