# SPDX-License-Identifier: MIT
"""`allotrope verify-gc`: runs a program under the recorder and a collector that only watches, and
judges what it did with blocks that the collector held for dead.

The trace is not kept: it goes through a pipe to allotrope-trace, which looks for references to such
blocks (trace/inspect/unsafe.c).
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Iterator, Sequence

from ...system import allocators
from ...system.children import ends_with_us, interruptions_held, signal_name, was_killed
from ...system.launch import run_to_its_end
from ...system.native import last_line, without_name
from ...system.places import PLACES, built
from ...system.scratch import scratch_folder
from ..trace.record import recorder_line

SIGNALLED = range(128 + 1, 128 + signal.NSIG)  # the recorder's status for a killed program


@dataclass(frozen=True)
class Use:
    """The first use of a block that was held for dead; one for each allocation site."""

    block: int
    bytes: int
    site: str
    use: str  # "load", "store", "free" or "realloc"
    function: str | None
    object: str | None

    def __str__(self) -> str:
        where = f" in {self.function}" if self.function not in (None, "?") else ""
        what = f"block {self.block:#x} of {self.bytes} bytes, allocated at {self.site}"
        return f"unsafe: {what}: {self.use}{where}"


@dataclass(frozen=True)
class Judgement:
    collections: int
    suspects: int  # blocks that were found dead
    uses: int
    found: tuple[Use, ...]
    status: int  # of the program
    obstacle: str = ""  # why nothing can be said

    @property
    def verdict(self) -> str:
        """Never "safe": what a run did not do, another may."""
        if self.found:
            return "unsafe"
        return "not judged" if self.obstacle else "nothing found"

    def __str__(self) -> str:
        if self.found:
            return "\n".join(map(str, self.found))
        if self.obstacle:
            return f"not judged: {self.obstacle}"
        plural = "" if self.collections == 1 else "s"
        ended = f"; CMD ended with status {self.status}" if self.status else ""
        return f"nothing found in {self.collections} collection{plural}{ended}"


def obstacle(answer: dict[str, int], status: int) -> str:
    if status == -1 or not answer:
        return "the program could not be recorded"
    if status in SIGNALLED:
        name = signal_name(status - 128)
        return f"CMD was killed by {name}: only what it did until then was seen"
    if not answer["collections"]:
        return (
            "there was no collection: too few allocations are made in its first process (--every "
            "asks for more collections), or they are served by another malloc"
        )
    if not answer["whole"]:
        return "the recording ended early"
    return ""


@contextlib.contextmanager
def opened(pipe: Path) -> Iterator[tuple[int, BinaryIO]]:
    """Its end for the tracer, and one that holds it open until the recorder, which opens it by its
    name or never, has ended."""
    os.mkfifo(pipe, 0o600)
    with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as given:
        with open(pipe, "wb", buffering=0) as held:
            os.set_blocking(given.fileno(), True)
            yield given.fileno(), held


def drain_behind(reader: subprocess.Popen[bytes], given: int) -> None:
    """Reads what a tracer that was killed has not read, so that nobody waits to write it."""
    reader.wait()
    while os.read(given, 1 << 16):
        pass


def verify(command: Sequence[str], every: int, stdout: int | None = None) -> Judgement:
    """stdout: the file that gets what the command writes there, if not ours."""
    spec = f"gc:leaks=watch,every={every}"
    environment = {
        name: value for name, value in os.environ.items() if name not in allocators.OWN_VARIABLES
    }
    with scratch_folder() as folder:
        pipe = folder / "trace"
        line = recorder_line(str(pipe), tuple(command), spec, 1, False)
        tracer = [str(built(PLACES.tracer)), "unsafe", "-"]
        with opened(pipe) as (given, held):
            with interruptions_held() as pending:
                # In a process group of its own it reads to the end, whatever the terminal says.
                reader = subprocess.Popen(
                    tracer,
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    process_group=0,
                    preexec_fn=ends_with_us(),
                )
            rest = threading.Thread(target=drain_behind, args=(reader, given))
            try:
                with reader, held:
                    if pending:
                        raise KeyboardInterrupt
                    status = run_to_its_end(line, environment, lambda _: rest.start(), stdout)
                    held.close()
                    output, said = reader.communicate()
            finally:
                if rest.ident is not None:
                    rest.join()
    try:
        answer = json.loads(output)
    except ValueError:
        killed = was_killed(PLACES.tracer, reader.returncode)
        why = killed or without_name(last_line(said)).removeprefix("-: ") or "it said nothing"
        return Judgement(0, 0, 0, (), status, f"the program could not be recorded: {why}")
    found = tuple(Use(**use) for use in answer["found"])
    return Judgement(
        answer["collections"],
        answer["suspects"],
        answer["uses"],
        found,
        status,
        obstacle(answer, status),
    )
