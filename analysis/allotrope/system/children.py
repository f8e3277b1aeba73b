# SPDX-License-Identifier: MIT
"""What we start: how it ends with us, and how its end is told.

A child ends when we do, even if we are killed: the kernel sees to it (PR_SET_PDEATHSIG). The native
parts do the same for what they start themselves.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

PR_SET_PDEATHSIG = 1
AGAIN_SECONDS = 0.01
# That ask us to end: Ctrl-C, a TERM, a terminal that is closed.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_of_caller: Any = signal.SIG_DFL  # what it does at SIGCHLD
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


def heed_children() -> None:
    """A caller who ignores SIGCHLD would cost us the status of all that we start."""
    global _of_caller
    _of_caller = signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def heed_signals() -> None:
    """Before we become another program: Python ignores these, and what is ignored stays so."""
    signal.signal(signal.SIGCHLD, _of_caller)
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


@contextlib.contextmanager
def interruptions_held() -> Iterator[list[int]]:
    """Collects ENDING instead of acting on them; signals belong to the main thread, so
    elsewhere there is nothing to hold. Who finds some ends, and heeds no second SIGHUP."""
    pending: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pending
        return
    previous = {
        number: signal.signal(number, lambda number, _: pending.append(number))
        for number in ENDING
        if signal.getsignal(number) != signal.SIG_IGN  # else the run would not ignore it either
    }
    try:
        yield pending
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if signal.SIGHUP in pending:
            ignore_hangups()


def ignore_hangups() -> None:
    """After the first: of a terminal that closes both the shell and the kernel tell, and the second
    must not cost the results that are being written."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def repeat_lost_interruptions() -> None:
    """Python drops what a signal's handler raises in a destructor, in what is called around a fork,
    and in sys.unraisablehook, which is told of it. The interruption comes again then, a moment
    later; who sets another hook afterwards calls this once more."""
    tell = sys.unraisablehook

    def hook(lost: "sys.UnraisableHookArgs") -> None:
        is_interruption = lost.exc_type is KeyboardInterrupt
        while True:
            try:
                if not (is_interruption and _interrupt_soon()):
                    tell(lost)
                return
            except KeyboardInterrupt:
                is_interruption = True

    sys.unraisablehook = hook


def _interrupt_soon() -> bool:
    """False where no signal would interrupt us."""
    numbers = [number for number in ENDING if callable(signal.getsignal(number))]
    if numbers:
        again = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), numbers[0]))
        again.daemon = True
        again.start()
    return bool(numbers)
