# SPDX-License-Identifier: MIT
"""What we start: how it ends with us, and how its end is told.

A child ends when we do, even if we are killed: the kernel sees to it (PR_SET_PDEATHSIG). The native
parts do the same for what they start themselves.
"""

import ctypes
import os
import signal
from pathlib import Path
from typing import Callable

PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


def ends_with_us() -> Callable[[], None]:
    """For a child, before it becomes another program. We may have been killed before the kernel
    was told: then somebody else is its parent by now, and it ends here."""
    parent = os.getpid()

    def begin() -> None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return begin


def heed_signals() -> None:
    """Before we become another program: Python ignores these, and what is ignored stays so."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def signal_name(number: int) -> str:
    """SIGSEGV for 11; the number itself for a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def was_killed(program: Path, status: int) -> str:
    """That a signal ended it, which subprocess tells by a status below 0; else nothing."""
    return f"{program.name} was killed by {signal_name(-status)}" if status < 0 else ""
