# SPDX-License-Identifier: MIT
"""Which allocator really serves a process.

What is preloaded need not serve: a program may bring a malloc of its own, before which the loader
looks nowhere, or have no loader at all. So it is looked up as the loader does it: the first object
of the process, in the loader's order (r_debug of <link.h>), that defines malloc. A debugger says
the same of `info symbol malloc`.

    static program     it has no loader; its malloc is its own
    the program itself defines malloc: its own
    a library          by its name; ours tells which allocator it was told to be, and its counts

`Watcher` does so for every process of a run, at the moment when it ends, while its memory is still
there (analysis/launcher/watch.c). `Onlooker` does so from outside, for a run that must stay as it
is, and misses what ends between two looks.
"""

import os
import socket
import struct
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Collection, Iterator, Sequence

from .command_tree import CommandTree
from .counters import Published, carries_ours, find_published, heap_range, mapped_memory
from .elf_files import ask, defines_malloc, is_static
from .following import Follower
from .process_tree import Image, cpu_clock, image_of, proc_text

AT_PHDR, AT_PHENT, AT_PHNUM = 3, 4, 5
PT_DYNAMIC, PT_PHDR = 2, 6
DT_DEBUG = 21
PAIR = struct.Struct("<QQ")
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
POINTER = struct.Struct("<Q")
LINK = struct.Struct("<QQQQ")  # l_addr, l_name, l_ld, l_next
R_MAP_OFFSET = 8
MOST_OBJECTS = 10_000
OWN_LIBRARY = "liballotrope"
PASS_THROUGH = "next"
# Of a library's name, up to its version, and what it is called here.
LIBRARIES = {
    "libc": "glibc",
    "libjemalloc": "jemalloc",
    "libmimalloc": "mimalloc",
    "libtcmalloc": "tcmalloc",
    "libtcmalloc_minimal": "tcmalloc",
    "libtcmalloc_minimal_debug": "tcmalloc",
    "libtcmalloc_debug": "tcmalloc",
}
UNKNOWN = "unknown"
# What our statistics count as an allocation, by the names of the published counters.
ALLOCATION_COUNTER = "total_blocks"
# From so many allocations on we serve a process although its malloc is another: that passes calls
# on to ours, as one that is written over __libc_malloc does. Libraries' start needs far fewer.
PASSED_ON = 1000


@dataclass(frozen=True)
class Serving:
    """Who serves a process."""

    allocator: str  # as -a names it, a library's file, "own", "static" or "unknown"
    object: str | None  # the program or library whose malloc it is
    allocations: int | None  # since the process began; None: nobody counted
    reaches_us: bool = False  # calls come to our library, which serves them or passes them on

    @property
    def is_known(self) -> bool:
        return self.allocator != UNKNOWN


NOT_KNOWN = Serving(UNKNOWN, None, None)


def look(thread: int) -> Serving:
    """Who serves the process of a thread that stands still, or of one that runs. Whatever keeps us
    from seeing it (it is gone, it is not ours, it is of another kind) makes it unknown."""
    try:
        program = f"/proc/{thread}/exe"
        name = os.readlink(program)
        is_static_program = ask(program, is_static)
        if is_static_program and not carries_ours(program):
            return Serving("static", name, None)
        maps = Path(f"/proc/{thread}/maps").read_text(errors="replace").splitlines()
        published = find_published(thread, maps)
        allocations = _count(thread, published)
        if is_static_program:
            # Without counters ours is there, but not ready yet.
            return (
                Serving(_own_name(published), name, allocations, True) if published else NOT_KNOWN
            )
        found, passed_on = _first_with_malloc(thread, name, published)
        over_ours = not passed_on and (allocations or 0) >= PASSED_ON
        passes_on = published is not None and published.allocator == PASS_THROUGH
        # A program with our library in itself passes calls on in this run alone, since it was told
        # to: in all others it serves itself.
        if over_ours and passes_on and not carries_ours(program):
            found, passed_on = _first_with_malloc(thread, name, published, beyond=found)
    except (OSError, ValueError, OverflowError, struct.error):
        return NOT_KNOWN
    if found is None:
        return NOT_KNOWN
    is_ours = os.path.basename(found).startswith(OWN_LIBRARY)
    if published is not None and published.allocator != PASS_THROUGH and (is_ours or over_ours):
        return Serving(_own_name(published), found, allocations, True)
    # Likewise.
    return Serving(
        _library_name(found, name), found, allocations if passed_on else None, passed_on or is_ours
    )


def among(files: Sequence[str], own: str | None, allocations: int) -> Serving:
    """Who serves a process that is gone, by the files that its loader mapped, in this order; the
    program is the first. own: what our library was told to be; None: it passes calls on.
    allocations: those that our library was asked for."""
    passed_on = False
    for place, file in enumerate(files):
        try:
            if place == 0 and ask(file, is_static):
                if own is not None and carries_ours(file):
                    return Serving(own, file, allocations, True)
                return Serving("static", file, None)
            if not ask(file, defines_malloc):
                continue
        except (OSError, ValueError):
            continue  # no ELF file, or one that is gone
        if not os.path.basename(file).startswith(OWN_LIBRARY):
            if own is not None and allocations >= PASSED_ON:
                return Serving(own, file, allocations, True)
            counted = allocations if passed_on else None
            return Serving(_library_name(file, files[0]), file, counted, passed_on)
        if own is not None:
            return Serving(own, file, allocations, True)
        passed_on = True
    return NOT_KNOWN


def _own_name(published: Published) -> str:
    preset = "" if published.preset == "default" else f":{published.preset}"
    return published.allocator + preset


def _library_name(file: str, program: str) -> str:
    if file == program:
        return "own"
    name = os.path.basename(file)
    return LIBRARIES.get(name.split(".so", 1)[0], name)


def _count(thread: int, published: Published | None) -> int | None:
    if published is None or ALLOCATION_COUNTER not in published.counters:
        return None
    return published.read(thread)[ALLOCATION_COUNTER]


def _first_with_malloc(
    thread: int, program: str, published: Published | None, beyond: str | None = None
) -> tuple[str | None, bool]:
    """The file, and whether calls reach it through our library, which passes them on. beyond: not
    this one."""
    passes_on = published is not None and published.allocator == PASS_THROUGH
    passed_on = False
    for name in _objects(thread):
        file = f"/proc/{thread}/exe" if name == "" else f"/proc/{thread}/root{name}"
        try:
            defines = ask(file, defines_malloc)
        except (OSError, ValueError):
            continue  # the kernel's vdso, or a file that is gone
        if not defines or (name or program) == beyond:
            continue
        if not (passes_on and os.path.basename(name).startswith(OWN_LIBRARY)):
            return name or program, passed_on
        passed_on = True
    return None, passed_on


def _objects(thread: int) -> Iterator[str]:
    """The names of the loader's objects, in its order; the program's is empty."""
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:

        def read(layout: struct.Struct, address: int) -> tuple[Any, ...]:
            memory.seek(address)
            return layout.unpack(memory.read(layout.size))

        def text(address: int) -> str:
            memory.seek(address)
            return os.fsdecode(memory.read(4096).split(b"\0", 1)[0])

        link = first_link(Path(f"/proc/{thread}/auxv").read_bytes(), read)
        for number in range(MOST_OBJECTS):
            if link == 0:
                return
            _, name, _, link_after = read(LINK, link)
            yield "" if number == 0 else text(name)
            link = link_after


def first_link(vector: bytes, read: Any) -> int:
    """r_map of the loader's r_debug; 0 when the loader has not come so far. `vector` is the
    process's auxiliary vector, which is empty in the middle of an exec."""
    auxiliary = {key: value for key, value in PAIR.iter_unpack(vector)}
    if AT_PHDR not in auxiliary:
        return 0
    start, size, count = (auxiliary[key] for key in (AT_PHDR, AT_PHENT, AT_PHNUM))
    headers = [read(PROGRAM_HEADER, start + size * number) for number in range(count)]
    addresses = {header[0]: header[3] for header in headers}
    if PT_DYNAMIC not in addresses:
        return 0
    moved = start - addresses[PT_PHDR] if PT_PHDR in addresses else 0
    place = addresses[PT_DYNAMIC] + moved
    while True:
        tag, value = read(PAIR, place)
        if tag == 0 or (tag == DT_DEBUG and value == 0):
            return 0
        if tag == DT_DEBUG:
            return int(read(POINTER, value + R_MAP_OFFSET)[0])
        place += PAIR.size


# Every process of a run

# Why a process was not looked at when it ended: it was killed and gone before that, or it goes on
# when the run is over. Or at all: its memory is not for us to read. An Onlooker tells of one that
# goes on only where our library serves it.
KILLED, OUTLIVES, PRIVATE = "killed", "outlives", "private"


@dataclass
class Process:
    """A process of a run, as far as it has come; at its end `serving` is known."""

    pid: int
    command: str = ""
    cpu_seconds: float = 0.0
    serving: Serving = NOT_KNOWN
    counted: int | None = None  # of what serves it, its parent's count included
    inherited: int = 0  # what its parent had counted when it was made; 0 since an exec
    was_born: bool = False  # its birth was told
    has_execed: bool = False
    ended: float | None = None  # when its end was told, by CLOCK_MONOTONIC
    unseen: str | None = None  # why nobody looked: KILLED, OUTLIVES or PRIVATE
    # At its end, where that was asked for: anonymous memory without the first stack, and how much
    # of it lies in our heap.
    anonymous_bytes: int = 0
    heap_bytes: int = 0


class Watcher:
    """Sees every process of a run at its end. Its end of the socket is the launcher's --watch.
    weighs: whether it also looks where the memory of each lies."""

    def __init__(self, weighs: bool = False) -> None:
        self.weighs = weighs
        self.ours, self.launchers = socket.socketpair()
        self.processes: list[Process] = []  # the command first
        self.forbidden = False
        self.by_pid: dict[int, Process] = {}
        self.thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> "Watcher":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """The launcher has ended or never begun."""
        self.launchers.close()
        self.thread.join()
        for process in self.processes:
            if process.ended is None:
                process.unseen = OUTLIVES if os.path.exists(f"/proc/{process.pid}") else KILLED

    def _listen(self) -> None:
        with self.ours, self.ours.makefile("r") as lines:
            for line in lines:
                self.take(line)
                try:
                    self.ours.send(b".")
                except OSError:
                    return

    def take(self, line: str) -> None:
        """A line of the launcher's (analysis/launcher/watch.c)."""
        event, *words = line.split()
        numbers = [int(word) for word in words]
        if event == "forbidden":
            self.forbidden = True
        elif event == "exec":
            process = self._process(numbers[0])
            process.has_execed, process.inherited = True, 0
            process.command = command_of(numbers[0])
        elif event == "fork":
            self._note_birth(*numbers)
        elif event == "exit":
            self._note_end(*numbers)

    def _process(self, pid: int) -> Process:
        if pid not in self.by_pid:
            self.by_pid[pid] = Process(pid)
            self.processes.append(self.by_pid[pid])
        return self.by_pid[pid]

    def _note_birth(self, parent: int, pid: int) -> None:
        """The child does not wait for this: it may have become another program, or ended. The
        parent stands still, so its count is what the child began with."""
        if pid in self.by_pid and self.by_pid[pid].was_born:
            del self.by_pid[pid]  # of a process that had the number before
        process = self._process(pid)
        process.was_born = True
        if not process.has_execed:
            process.command = process.command or command_of(parent)
            process.inherited = look(parent).allocations or 0
            self._settle_count(process)

    def _settle_count(self, process: Process) -> None:
        counted = process.counted
        own = None if counted is None else max(0, counted - process.inherited)
        process.serving = replace(process.serving, allocations=own)

    def _note_end(self, pid: int, thread: int) -> None:
        process = self._process(pid)
        process.ended = time.monotonic()
        process.command = command_of(thread)
        process.cpu_seconds = cpu_clock(pid) or 0.0
        process.serving = look(thread)
        is_closed = not process.serving.is_known and _is_private(thread)
        process.unseen = PRIVATE if is_closed else None
        process.counted = process.serving.allocations
        self._settle_count(process)
        if self.weighs:
            process.anonymous_bytes, process.heap_bytes = weigh(thread)


class Onlooker(Follower):
    """Sees the processes of a run that nothing may change, looking at them while they run. A
    Watcher stops each of them; under its ptrace a setuid program gains no rights, and a debugger
    or a leak sanitizer finds its place taken. What begins and ends between two looks is not seen
    here. Of a process its last look counts, and the program that it ran then."""

    def __init__(self, mark: str = "") -> None:
        super().__init__(mark)
        self.processes: list[Process] = []  # in the order in which they were first seen
        self.known: dict[int, tuple[Image, Process]] = {}
        self.perhaps: dict[int, str] = {}  # their names, where nothing tells whose they are

    def look_at_perhaps(self, pids: Collection[int]) -> None:
        self.perhaps |= {pid: command_of(pid) for pid in pids}

    def look(self, pids: Sequence[int], seconds: float) -> None:
        for pid in pids:
            self.perhaps.pop(pid, None)
            image = image_of(pid)
            if image is not None:
                self._look_at(pid, image)

    def look_at_the_end(self, tree: CommandTree) -> None:
        """Our library writes a report at a process's end, so of one that runs on there is none."""
        self.look(tree.look(), 0.0)
        for pid, (before, process) in self.known.items():
            image = image_of(pid)
            goes_on = image is not None and image.started == before.started
            if goes_on and process.serving.reaches_us:
                process.command, process.unseen = command_of(pid), OUTLIVES

    def _look_at(self, pid: int, image: Image) -> None:
        before = self.known.get(pid)
        if before is None or before[0].started != image.started:
            process = Process(pid)
            self.processes.append(process)
        else:
            process = before[1]
            if _is_other_program(process, before[0], image):
                process.serving, process.unseen = NOT_KNOWN, None
        self.known[pid] = image, process
        if process.serving.reaches_us:
            return
        process.cpu_seconds = max(process.cpu_seconds, cpu_clock(pid) or 0.0)
        if process.serving.allocator != "static":
            self._ask_who_serves(process)

    def _ask_who_serves(self, process: Process) -> None:
        """What cannot be seen at the moment, because it begins or ends, changes nothing."""
        command, serving = command_of(process.pid), look(process.pid)
        if serving.is_known:
            process.command, process.serving, process.unseen = command, serving, None
        elif _is_private(process.pid):
            process.command, process.unseen = command, PRIVATE


def _is_other_program(process: Process, before: Image, image: Image) -> bool:
    """Whether it has become one since its last look. Of a program that has closed itself to others
    (PR_SET_DUMPABLE) the addresses tell nothing, but its name does."""
    if image.is_hidden:
        return process.command != command_of(process.pid)
    return before != image


def _is_private(pid: int) -> bool:
    """Whether its memory is not for us to read. The owner of /proc/PID does not tell: of a program
    that is not dumpable that is still who runs it."""
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))
    except PermissionError:
        return True
    except OSError:
        pass  # it has ended
    return False


def weigh(thread: int) -> tuple[int, int]:
    """Bytes of anonymous memory without the first stack: of the process, and of it our heap's. So
    the memory of allocators that call nobody's malloc is seen as well. Large blocks have mappings
    of their own, which look like anybody's: as much counts as is mapped for them, touched or not.
    The tables of the statistics count for nobody."""
    window = elsewhere = large = 0
    try:
        maps = Path(f"/proc/{thread}/maps").read_text(errors="replace").splitlines()
        published = find_published(thread, maps)
        values = published.read(thread) if published is not None else {}
        ours = heap_range(values) if values else range(0)
        for addresses, name, size in mapped_memory(thread, "Anonymous"):
            if addresses.start in ours:
                window += size
            elif not name.startswith(("/", "[stack")):
                elsewhere += size
        if values:
            elsewhere = max(0, elsewhere - values.get("account_bytes", 0))
            large = max(0, values["mapped_bytes"] - values["metadata_bytes"] - values["area_bytes"])
    except (OSError, ValueError, OverflowError, struct.error, KeyError):
        return 0, 0
    return window + elsewhere, window + min(large, elsewhere)


def name_of_title(title: str) -> str:
    """Without its folder and without what servers write behind it ("redis-server *:6379", "nginx:
    master process /usr/sbin/nginx -c conf/nginx.conf")."""
    role, colon, _ = title.partition(": ")
    return os.path.basename(role if colon else title).split(" ")[0].rstrip(":")


def command_of(pid: int) -> str:
    """The name by which the process was called; the kernel's name for it where there is none."""
    try:
        title = proc_text(pid, "cmdline").partition("\0")[0]
        return name_of_title(title) or proc_text(pid, "comm").strip()
    except OSError:
        return "?"
