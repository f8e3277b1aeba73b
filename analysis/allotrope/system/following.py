# SPDX-License-Identifier: MIT
"""Follows a command while it runs, from outside: none of its processes is stopped, and none does
anything for it."""

import threading
import time
from typing import Self, Sequence

from .process_tree import descendants

FIRST_PERIOD = 0.02
REST = 20


class Follower:
    """A thread that looks at all processes of a command again and again. A look that takes long is
    followed by REST times as long a rest, so looks take a twentieth of a processor at most. For
    `with`, round the command's run."""

    def __init__(self) -> None:
        self.period = FIRST_PERIOD  # seconds between two looks
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
        """pids: the command and those that it and its descendants have made, of which some may
        have ended. seconds: since the first look was due."""
        raise NotImplementedError

    def _look_on(self, root: int) -> None:
        self.prepare()
        began, rest = time.monotonic(), 0.0
        while not self.over.wait(max(self.period, rest)):
            start = time.thread_time()
            self.look([root, *descendants(root)], time.monotonic() - began)
            rest = REST * (time.thread_time() - start)
