# SPDX-License-Identifier: MIT
"""Runs a program under an allocator, the recorder and the simulators, without a trace on disk."""

import json
import os
import subprocess
from typing import Any

import click

from ...system import allocators
from ...system.allocators import Allocator
from ...system.children import ends_with_us, was_killed
from ...system.errors import UserError
from ...system.executables import STATUS_CANNOT_EXECUTE, find_program, need_preloadable
from ...system.native import without_name
from ...system.places import PLACES, built
from ..trace.record import allocator_environment, recorder_tools
from .process import describe
from .simulate import Document
from .verdicts import PADDING, paddings, quantities


def run_one(
    allocator: Allocator,
    options: list[str],
    command: tuple[str, ...],
    stdout: Any,
    layouts: int = 1,
) -> Document:
    """Runs the command under the recorder and an allocator, once for each layout. All figures but
    "recordings" are the first's."""
    recorded: list[Document] = []
    recordings = []
    for padding in paddings(layouts):
        run = _record(allocator, options, command, stdout, padding)
        recordings.append({"padding": padding, "counts": [count for _, count in quantities(run)]})
        recorded.append(run)
        if run["status"] != recorded[0]["status"]:
            first, now = recorded[0]["status"], run["status"]
            raise UserError(
                f"{command[0]}: with a longer environment its exit status is {now}, not {first}"
            )
        del recorded[1:]
    run = recorded[0]
    simulated = describe(allocator, command, run["process"], run["status"])
    parts = [key for key in ("status", "pages", "caches", "tlb") if key in run]
    about = {"allocator": allocator.spec, "simulated": simulated, "recordings": recordings}
    return about | {key: run[key] for key in parts}


def _record(
    allocator: Allocator,
    options: list[str],
    command: tuple[str, ...],
    stdout: Any,
    padding: int,
) -> Document:
    """padding: bytes by which the environment is longer."""
    asked = None if allocator.spec == "glibc" else allocator.spec
    environment = allocator_environment(find_program(command[0]), command[0], asked, False)
    if padding:
        environment[PADDING] = "x" * padding
    settings = [f"--env={name}={value}" for name, value in environment.items()]
    # Memory, so that nothing stays behind; by our name for it, so that the program inherits none.
    with open(os.memfd_create("allotrope-locality"), "rb") as result:
        output = f"--output=/proc/{os.getpid()}/fd/{result.fileno()}"
        words = [str(built(PLACES.simulator)), "locality", output, *options]
        words += [f"--tools={recorder_tools()}", *settings, "--", *command]
        done = subprocess.run(
            words,
            env=os.environ,
            stdout=stdout,
            stderr=subprocess.PIPE,
            preexec_fn=ends_with_us(),
        )
        message = done.stderr.decode(errors="replace").strip()
        text = result.read()
    if done.returncode != 0 or not text:
        killed = was_killed(PLACES.simulator, done.returncode)
        reason = killed or without_name(message) or "the simulation failed"
        status = 128 - done.returncode if killed else max(done.returncode, 1)
        raise UserError(reason, status)
    if message:
        click.echo(message, err=True)
    run: Document = json.loads(text)
    if run["pages"]["references"] == 0:
        raise UserError(f"{command[0]}: cannot be run under the recorder", STATUS_CANNOT_EXECUTE)
    return run


def choose_all(specs: tuple[str, ...], command: tuple[str, ...]) -> list[Allocator]:
    chosen = allocators.choose_each(specs or ("glibc",))
    find_program(command[0])
    for allocator in chosen:
        if allocator.library is not None:
            need_preloadable(command[0], allocator.ours)
    return [allocators.for_program(one, command[0]) for one in chosen]
