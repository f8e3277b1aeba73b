# SPDX-License-Identifier: MIT
"""Traces as numpy arrays.

    for batch in read("run.alt"):
        stores = batch.references[batch.references["kind"] == STORE]

Decoding is done by allotrope-trace in a process of its own (trace/format/decode.c); what comes
through the pipe is its structs as they are in memory. A damaged trace raises TraceError after
everything before the damage has been delivered.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Iterator

import numpy as np
from numpy.typing import NDArray

from ...system.children import was_killed
from ...system.native import without_name
from ...system.places import PLACES

LOAD, STORE = 0, 1
CLASSES = ("program", "allocator", "collector", "roots", "mark", "sweep")
EVENTS = (
    *("", "class", "thread", "thread_start", "thread_end", "malloc", "realloc", "free"),
    *("map", "unmap", "signal", "signal_return", "collection_begin", "collection_end", "mark"),
)

# struct trace_reference and struct trace_event (without its name) of trace/format/format.h.
REFERENCE = np.dtype(
    [("address", "<u8"), ("function", "<u4"), ("size", "<u2"), ("kind", "u1"), ("class", "u1")]
)
EVENT = np.dtype(
    [
        ("reference", "<u8"),
        ("instruction", "<u8"),
        ("allocated_bytes", "<u8"),
        ("thread", "<u4"),
        ("type", "<u4"),
        ("value", "<u8", (4,)),
    ]
)
HEADER = np.dtype(
    [
        ("first_reference", "<u8"),
        ("instruction", "<u8"),
        ("thread", "<u4"),
        ("events", "<u4"),
        ("references", "<u8"),
    ]
)


class TraceError(Exception):
    """The trace cannot be read (on); says at which byte."""


@dataclass(frozen=True)
class Batch:
    """References in their order, all of one thread, and the events between them."""

    first_reference: int
    instruction: int
    thread: int
    references: NDArray[np.void]  # of dtype REFERENCE
    events: NDArray[np.void]  # of dtype EVENT


def read(trace: str | Path) -> Iterator[Batch]:
    """The batches of a trace, from its beginning."""
    with subprocess.Popen(
        [PLACES.tracer, "export", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as decoder:
        assert decoder.stdout is not None and decoder.stderr is not None
        try:
            while (header := decoder.stdout.read(HEADER.itemsize)) and len(
                header
            ) == HEADER.itemsize:
                yield _read_batch(np.frombuffer(header, HEADER)[0], decoder.stdout)
            message = decoder.stderr.read().decode(errors="replace").strip()
            if decoder.wait() != 0:
                raise TraceError(
                    was_killed(PLACES.tracer, decoder.returncode) or without_name(message)
                )
        finally:
            decoder.kill()  # when the caller does not want the rest


def _read_batch(header: np.void, pipe: IO[bytes]) -> Batch:
    references = pipe.read(int(header["references"]) * REFERENCE.itemsize)
    events = pipe.read(int(header["events"]) * EVENT.itemsize)
    return Batch(
        int(header["first_reference"]),
        int(header["instruction"]),
        int(header["thread"]),
        np.frombuffer(references, REFERENCE),
        np.frombuffer(events, EVENT),
    )
