# SPDX-License-Identifier: MIT
"""Follows a command while it runs, from outside: none of its processes is stopped, and none does
anything for it."""

import threading
import time
from typing import Collection, Self, Sequence

from .command_tree import CommandTree

FIRST_PERIOD = 0.02
REST = 20
BURST = 0.05  # CPU seconds


class Allowance:
    """The CPU time that looks may take: a twentieth of the time that passes, and BURST at once. The
    first look at a program or library reads its file, which takes some thousandths; with a rest
    after each of these a command's first children were missed."""

    def __init__(self) -> None:
        self.seconds = BURST

    def rest_after(self, spent: float, passed: float) -> float:
        """How long to rest after a look. spent: the CPU time that it took; passed: the time between
        it and the look before."""
        self.seconds = min(BURST, self.seconds + passed / REST) - spent
        return max(0.0, -self.seconds * REST)


class Follower:
    """A thread that looks at all processes of a command again and again, as often as its allowance
    permits. For `with`, round the command's run."""

    def __init__(self, mark: str = "") -> None:
        """mark: NAME=VALUE of the command's environment, by which its orphaned processes are
        known (command_tree.py)."""
        self.mark = mark
        self.period = FIRST_PERIOD  # seconds between two looks
        # Seconds. What begins and ends in less may never have been looked at.
        self.longest_gap = 0.0
        self.over = threading.Event()
        self.thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        if self.thread is not None:
            self.thread.join()

    def follow(self, pid: int) -> None:
        """pid: the command's process, which has been started."""
        self.thread = threading.Thread(target=self._look_on, args=(pid,), daemon=True)
        self.thread.start()

    def prepare(self) -> None:
        """What would make the first look a long one."""

    def look(self, pids: Sequence[int], seconds: float) -> None:
        """pids: the command's processes, of which some may have ended. seconds: since the first
        look was due."""
        raise NotImplementedError

    def look_at_perhaps(self, pids: Collection[int]) -> None:
        """pids: orphaned processes that may be the command's or somebody else's."""

    def look_at_the_end(self, tree: CommandTree) -> None:
        """tree: the command's processes, now that the command has ended."""

    def _look_on(self, root: int) -> None:
        last = time.monotonic()
        tree = CommandTree(root, self.mark)
        self.prepare()
        began = time.monotonic()
        allowance, rest = Allowance(), 0.0
        while not self.over.wait(max(self.period, rest)):
            start, now = time.thread_time(), time.monotonic()
            passed, last = now - last, now
            self.longest_gap = max(self.longest_gap, passed)
            self.look(tree.look(), now - began)
            self.look_at_perhaps(tree.perhaps)
            rest = allowance.rest_after(time.thread_time() - start, passed)
        self.longest_gap = max(self.longest_gap, time.monotonic() - last)
        self.look_at_the_end(tree)
