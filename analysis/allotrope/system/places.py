# SPDX-License-Identifier: MIT
"""Where the native parts are: in the build tree or installed, as the `allotrope` script says.

The variables are taken out of the environment once read, so that no program that we start can
tell from which tree it was started.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError


@dataclass(frozen=True)
class Places:
    library: Path  # the routing library, to be preloaded
    describe: Path  # tells what is compiled into it
    launcher: Path
    load: Path  # sends requests at a given rate
    recorder: Path  # runs a program under Valgrind and writes its trace
    tracer: Path  # reads traces
    events: Path  # writes and reads recordings of allocations
    player: Path  # makes the allocations of a recording
    simulator: Path
    vm: Path  # measures what virtual memory costs
    tools: Path  # the folder of the Valgrind tool


VARIABLES = ("ALLOTROPE_BUILD_DIR", "ALLOTROPE_LIBDIR", "ALLOTROPE_LIBEXECDIR")
_FOUND_BY = {name: os.environ[name] for name in VARIABLES if name in os.environ}


def _find() -> Places:
    build = os.environ.pop("ALLOTROPE_BUILD_DIR", None)
    library = os.environ.pop("ALLOTROPE_LIBDIR", None)
    programs = os.environ.pop("ALLOTROPE_LIBEXECDIR", None)
    if build is None and library is not None and programs is not None:
        return Places(
            library=Path(library, "liballotrope.so"),
            describe=Path(programs, "allotrope-describe"),
            launcher=Path(programs, "allotrope-launch"),
            load=Path(programs, "allotrope-load"),
            recorder=Path(programs, "allotrope-trace-record"),
            tracer=Path(programs, "allotrope-trace"),
            events=Path(programs, "allotrope-events"),
            player=Path(programs, "allotrope-replay"),
            simulator=Path(programs, "allotrope-simulate"),
            vm=Path(programs, "allotrope-vm"),
            tools=Path(programs, "valgrind"),
        )
    # Without a word from the script we run from a source tree that was built in place.
    tree = Path(build) if build is not None else Path(__file__).resolve().parents[3]
    return Places(
        library=tree / ".libs" / "liballotrope.so",
        describe=tree / "allotrope-describe",
        launcher=tree / "allotrope-launch",
        load=tree / "allotrope-load",
        recorder=tree / "trace" / "allotrope-trace-record",
        tracer=tree / "trace" / "allotrope-trace",
        events=tree / "trace" / "allotrope-events",
        player=tree / "allotrope-replay",
        simulator=tree / "allotrope-simulate",
        vm=tree / "allotrope-vm",
        tools=tree / "trace" / "recorder",
    )


PLACES = _find()


def found_by() -> dict[str, str]:
    """The variables that said it, for a command of ours that is to find the same."""
    return dict(_FOUND_BY)


def own_programs() -> Path:
    """The folder of those that loads may call by name."""
    return PLACES.load.parent


def built(program: Path) -> Path:
    """The program; raises UserError where it is not there."""
    if not program.exists():
        raise UserError(f"{program} is missing; run make")
    return program
