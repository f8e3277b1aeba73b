# SPDX-License-Identifier: MIT
"""`allotrope trace dump --format drmemtrace` against the trace's own dump."""

import csv
import io
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import Command
from under import BUILD

# trace_entry_t of DynamoRIO 11.3.0, and the types and markers that we write.
RECORD = np.dtype([("type", "<u2"), ("size", "<u2"), ("address", "<u8")])
READ, WRITE, INSTRUCTION, THREAD, THREAD_EXIT, PID = 0, 1, 10, 22, 23, 24
HEADER, FOOTER, MARKER = 25, 26, 28
FILE_TYPE, VERSION = 9, 12
PROGRAM = BUILD / "tests/trace/allocating"
# What refers to memory without an operand in brackets.
ON_THE_STACK = re.compile(r"\b(push|pop|call|ret|leave|stos|movs)")


@pytest.fixture(scope="module")
def command() -> Command:
    return Command(BUILD)


@pytest.fixture(scope="module")
def trace(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drmemtrace")
    whole, start = folder / "whole.alt", folder / "start.alt"
    for words in (
        ["record", "-o", str(whole), "--", str(PROGRAM), "threadlets"],
        ["trace", "cut", "--count", "300000", "-o", str(start), str(whole)],
    ):
        done = command.run(*words)
        assert done.returncode == 0, done.stderr
    return start


def exported(command: Command, trace: Path, status: int = 0) -> np.ndarray:
    output = trace.with_suffix(".trace")
    words = ["trace", "dump", "--format", "drmemtrace", str(trace)]
    with output.open("wb") as file:
        assert command.start(*words, stdout=file).wait() == status
    return np.frombuffer(output.read_bytes(), RECORD)


def test_every_reference_is_there_with_its_thread(command: Command, trace: Path) -> None:
    records = exported(command, trace)
    found, thread = [], 0
    for kind, size, address in records.tolist():
        if kind == THREAD:
            thread = address
        elif kind in (READ, WRITE):
            found.append((str(thread), "store" if kind == WRITE else "load", address, size))
    text = command.run("trace", "dump", str(trace)).stdout
    rows = csv.DictReader(io.StringIO(text))
    assert found == [
        (row["thread"], row["kind"], int(row["address"], 16), int(row["size"])) for row in rows
    ]
    assert len({one[0] for one in found}) > 10


def test_what_readers_ask_for_is_there(command: Command, trace: Path) -> None:
    records = exported(command, trace).tolist()
    assert records[:3] == [(HEADER, 0, 3), (MARKER, VERSION, 3), (MARKER, FILE_TYPE, 0xC0)]
    assert records[3][0] == THREAD and records[4][0] == PID and records[4][2] > 0
    assert records[-1] == (FOOTER, 0, 0)
    threads = {address for kind, _, address in records if kind == THREAD}
    assert {address for kind, _, address in records if kind == THREAD_EXIT} == threads
    for before, after in zip(records, records[1:]):
        assert before[0] != THREAD or after[0] == PID


def test_each_reference_has_its_instruction(command: Command, trace: Path) -> None:
    """Of those that the program's own code makes, the disassembler says they refer to memory."""
    records = exported(command, trace).tolist()
    counters, counter = [], 0
    for kind, size, address in records:
        if kind == INSTRUCTION:
            assert size == 0 and address != counter
            counter = address
        elif kind in (READ, WRITE):
            counters.append(counter)
    assert 0 not in counters
    events = command.run("trace", "dump", "--events", str(trace)).stdout
    starts = [
        int(row["value1"], 16)
        for row in csv.DictReader(io.StringIO(events))
        if row["event"] == "map" and row["name"] == str(PROGRAM)
    ]
    text = subprocess.run(["objdump", "-d", PROGRAM], capture_output=True, text=True, check=True)
    lines = re.findall(r"^ +([0-9a-f]+):\t[0-9a-f ]+\t(.+)$", text.stdout, re.MULTILINE)
    code = {int(address, 16): line for address, line in lines}
    base = min(starts)
    own = [one - base for one in counters if one - base in range(min(code), max(code) + 1)]
    assert len(set(own)) > 20
    for offset in set(own):
        assert "(" in code[offset] or ON_THE_STACK.search(code[offset]), (hex(offset), code[offset])


def test_a_damaged_trace_has_no_footer(command: Command, trace: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.alt"
    short.write_bytes(trace.read_bytes()[:-300])
    assert FOOTER not in set(exported(command, short, status=1)["type"].tolist())
