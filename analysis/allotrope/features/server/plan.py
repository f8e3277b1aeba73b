# SPDX-License-Identifier: MIT
"""What a measurement of a server is asked for: its commands, what is filled into them, where they
run, and the figures to be read from what the load prints."""

import os
import re
import shlex
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Sequence

from ...system.errors import UserError
from .metrics import Metric

PORT, FOLDER = "{port}", "{dir}"
COMMANDS = ("server", "ready", "load", "setup", "cleanup")
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Processors:
    """Which run the server and which all else; both the same where there is only one."""

    server: Sequence[int]
    load: Sequence[int]

    @property
    def shared(self) -> bool:
        return set(self.server) == set(self.load)


def divide_processors() -> Processors:
    """The larger half for the server."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        return Processors(usable, usable)
    middle = (len(usable) + 1) // 2
    return Processors(usable[:middle], usable[middle:])


@dataclass(frozen=True)
class ServerPlan:
    """The commands as they were written. {port} in any of them stands for a port that is free at
    each start, {dir} for a folder that is new and empty at each start."""

    server: str  # words, run without a shell
    ready: str | None  # shell commands from here on; None: a connection to {port}
    load: str
    setup: str | None = None
    cleanup: str | None = None
    metrics: Sequence[Metric] = ()  # none: those of the tools that are known
    ready_timeout: float = 30
    stop_timeout: float = 10

    def command(self) -> list[str]:
        """The server's words, before anything is filled in."""
        try:
            words = shlex.split(self.server)
        except ValueError as error:
            raise UserError(f"--server: '{self.server}' is no command: {error}") from None
        if not words:
            raise UserError("--server is empty; give the command that starts the server")
        return words

    def _written(self) -> dict[str, str]:
        """The commands that there are, by what they are for."""
        given = {key: getattr(self, key) for key in COMMANDS}
        return {key: text for key, text in given.items() if text is not None}

    def texts(self) -> list[str]:
        return list(self._written().values())

    def filled(self, fill: Callable[[str], str]) -> "ServerPlan":
        """The same with something filled into each command."""
        filled: dict[str, Any] = {key: fill(text) for key, text in self._written().items()}
        return replace(self, **filled)

    @property
    def has_port(self) -> bool:
        return any(PORT in text for text in self.texts())


@dataclass(frozen=True)
class Place:
    """What is filled into the commands of one start."""

    port: int
    folder: Path

    def fill(self, text: str) -> str:
        return text.replace(PORT, str(self.port)).replace(FOLDER, str(self.folder))


def check_server_plan(plan: ServerPlan) -> None:
    """Raises UserError for what can be known before anything is run."""
    plan.command()
    if plan.ready is None and not plan.has_port:
        raise UserError(
            "--ready is missing: say by which shell command the server is known to be ready, or "
            f"write {PORT} for the server's port in all commands, and a connection to it will do"
        )
    for text in plan.texts():
        unknown = re.search(r"\{(ports?|dirs?|folder|tmp|host)\}", text)
        if unknown and unknown[0] not in (PORT, FOLDER):
            raise UserError(f"'{unknown[0]}' means nothing; valid are {PORT} and {FOLDER}")


def free_port() -> int:
    """One that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether somebody accepts connections there."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
