# SPDX-License-Identifier: MIT
"""Runs a command so that the library samples where it allocates."""

import os
from typing import Callable, Sequence

from ...system import allocators
from ...system.children import signal_name
from ...system.errors import UserError
from ...system.executables import STATUS_CANNOT_EXECUTE, need_preloadable
from ...system.launch import run_to_its_end


def choose(spec: str | None, command: tuple[str, ...]) -> allocators.Allocator:
    """The allocator to run the command under, which must be one that can be watched there."""
    missing = allocators.own_missing()
    if missing:
        raise UserError(missing)
    catalogue = allocators.own_catalogue()
    assert catalogue is not None
    chosen = allocators.choose(spec or catalogue["allocators"][0]["name"])
    need_preloadable(command[0], chosen.ours)
    return allocators.for_program(chosen, command[0])


def environment_for(
    chosen: allocators.Allocator, program: str, rate: str | None, frames: int
) -> dict[str, str]:
    """program: the command's first word."""
    environment = {
        key: value for key, value in os.environ.items() if key not in allocators.OWN_VARIABLES
    }
    environment |= allocators.with_unwinder(chosen.watched_environment(), program)
    environment["ALLOTROPE_SITES_FRAMES"] = str(frames)
    if rate is not None:
        environment["ALLOTROPE_SITES_RATE"] = check_rate(rate)
    return environment


def check_rate(text: str) -> str:
    """As the library reads it: digits, perhaps with K, M or G; at most 1G."""
    digits, factor = text, 1
    if text[-1:] in ("K", "M", "G"):
        digits, factor = text[:-1], 1 << 10 * (1 + "KMG".index(text[-1]))
    if not (digits.isascii() and digits.isdigit()) or not 1 <= int(digits) * factor <= 1 << 30:
        raise UserError(f"--rate: bad value '{text}'; bytes from 1 to 1G, e.g. 64K")
    return text


def run(
    command: tuple[str, ...],
    environment: dict[str, str],
    followers: Sequence[Callable[[int], None]] = (),
) -> int:
    """Runs it to its end (run_to_its_end); the status as a shell has it. followers: are told its
    process id when it has been started."""

    def started(pid: int) -> None:
        for follow in followers:
            follow(pid)

    try:
        status = run_to_its_end(command, environment, started)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{command[0]}: cannot execute: {reason}", STATUS_CANNOT_EXECUTE) from None
    return status if status >= 0 else 128 - status


def ending(status: int) -> str:
    if status > 128:
        return f"was killed by {signal_name(status - 128)}"
    return f"ended with status {status}"
