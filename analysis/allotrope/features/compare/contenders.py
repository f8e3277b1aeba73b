# SPDX-License-Identifier: MIT
"""What a comparison compares, as -a, --baseline and --build name it: allocators, or builds of a
program under them, and which of them is the baseline."""

from typing import Sequence

from ...system import allocators
from ...system.allocators import Allocator
from ...system.errors import UserError
from .comparison import BUILD
from .gate import ANY

BASELINE = "glibc"


def choose_contenders(specs: tuple[str, ...], baseline: str) -> tuple[list[Allocator], int]:
    """The allocators to compare and the baseline's place among them. The baseline takes part
    even when no -a names it, and then comes first."""
    chosen = allocators.choose_each(specs) or allocators.default_choice()
    base = allocators.choose(baseline)
    for place, one in enumerate(chosen):
        if one.same_choice(base):
            return chosen, place
    return [base, *chosen], 0


def choose_measured(
    specs: tuple[str, ...], baseline: str | None, builds: Sequence[str], command: Sequence[str]
) -> tuple[list[Allocator], int]:
    """The allocators, or builds under them, to compare, and the baseline's place among them.
    baseline: None where none was named."""
    if builds:
        return choose_builds(builds, specs, baseline, command)
    return choose_contenders(specs, baseline or BASELINE)


def choose_builds(
    builds: Sequence[str], specs: tuple[str, ...], baseline: str | None, command: Sequence[str]
) -> tuple[list[Allocator], int]:
    """Each build under each allocator. The baseline is the first build under the allocator that is
    named as such, else under the first."""
    if not any(BUILD in word for word in command):
        raise UserError(f"--build: write {BUILD} in the command where the program's name stands")
    programs: dict[str, str] = {}
    for text in builds:
        name, equals, program = text.partition("=")
        if not (name and equals and program) or "/" in name:
            raise UserError(f"--build: '{text}' is not of the form NAME=PROGRAM")
        if name in programs:
            raise UserError(f"--build: '{name}' is given twice")
        if name == ANY:
            raise UserError(f"--build: '{name}' is every one of them; choose another name")
        programs[name] = program
    if len(programs) == 1:
        raise UserError("--build: one build alone compares with nothing; give two, old=… new=…")
    base = baseline or (specs[0] if specs else BASELINE)
    chosen, place = choose_contenders(specs or (base,), base)
    alone = len(chosen) == 1
    contenders = [
        allocator.with_build(name, program, alone)
        for name, program in programs.items()
        for allocator in chosen
    ]
    return contenders, place
