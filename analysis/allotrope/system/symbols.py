# SPDX-License-Identifier: MIT
"""Names for addresses of a process that has ended, from its /proc/PID/maps.

elfutils' eu-addr2line reads what there is: debugging information, also where Debian's -dbgsym
packages put it, else the symbol table, else the exported symbols. What has no name is called by
its file and the address in it. So is what was mapped from a file that is gone by now: another one
may have its name.

    symbols = Symbols(lines_of_proc_maps)
    places = symbols.find(addresses)             # a return address is looked up a byte before
    print(*places[address])                      # innermost first: what was inlined has a place too
"""

import bisect
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Iterable, Sequence

from .counters import DELETED
from .native import name_in_report

TOOL = "eu-addr2line"
PAGE = 4096


@dataclass(frozen=True)
class Place:
    """Where an address is in the program's text."""

    function: str | None
    file: str | None
    line: int | None
    object: str  # path of the program or library; "" where nothing is mapped
    offset: int  # in the object, as nm and objdump write it

    def __str__(self) -> str:
        where = f" ({os.path.basename(self.file)}:{self.line})" if self.file else ""
        return f"{self.name}{where}"

    @property
    def name(self) -> str:
        """Its function, without arguments, or something to tell it from others by."""
        if self.function:
            return brief(self.function)
        return f"{os.path.basename(self.object) or '?'}+{self.offset:#x}"


def brief(function: str) -> str:
    """A C++ function without its arguments and with "<…>" for those of templates."""
    function = function.replace("operator()", "operator\0").replace("(anonymous namespace)", "\1")
    kept: list[str] = []
    depth = 0
    for letter in function:
        if letter in "<(" and not "".join(kept[-9:]).endswith(("operator", "operator<")):
            if depth == 0 and letter == "<":
                kept.append("<…>")
            depth += 1
        elif letter in ">)" and depth > 0:
            depth -= 1
        elif depth == 0:
            kept.append(letter)
    text = "".join(kept).replace("operator\0", "operator()").replace("\1", "(anonymous)")
    text = text.removesuffix(" const")
    words = text.split(" ")
    return words[-1] if len(words) > 1 and "operator" not in text else text


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    offset: int
    path: str
    loaded: int | None = None  # where the file's first byte is, instead of the offset
    is_gone: bool = False  # the file that was mapped


def read_maps(lines: Iterable[str]) -> list[Mapping]:
    """The mappings of files, in order of address. Names stand as in our library's reports."""
    mappings = []
    for line in lines:
        words = line.split(None, 5)
        if len(words) == 6 and words[5].startswith("/"):
            start, end = (int(word, 16) for word in words[0].split("-"))
            name = name_in_report(words[5].strip())
            path, is_gone = name.removesuffix(DELETED), name.endswith(DELETED)
            mappings.append(Mapping(start, end, int(words[2], 16), path, is_gone=is_gone))
    return sorted(mappings, key=lambda mapping: mapping.start)


def find_loaded(mappings: Sequence[Mapping]) -> list[Mapping]:
    """Of mappings whose offsets are not known: those of one file that touch or overlap are one
    program or library, loaded where the first of them begins."""
    found: list[Mapping] = []
    ends: dict[str, tuple[int, int]] = {}
    for one in mappings:
        loaded, end = ends.get(one.path, (one.start, one.start))
        if one.start > end:
            loaded = one.start
        ends[one.path] = loaded, max(one.end, end)
        found.append(replace(one, loaded=loaded))
    return found


class Symbols:
    def __init__(self, maps: Iterable[str], offsets_known: bool = True) -> None:
        self.mappings = read_maps(maps)
        if not offsets_known:
            self.mappings = find_loaded(self.mappings)
        self.starts = [mapping.start for mapping in self.mappings]
        self.tool = shutil.which(TOOL)
        self.gone = dict[str, None]()  # files that are, of what was looked up

    def mapping_of(self, address: int) -> Mapping | None:
        place = bisect.bisect_right(self.starts, address) - 1
        if place < 0 or address >= self.mappings[place].end:
            return None
        return self.mappings[place]

    def lacking(self) -> list[str]:
        """Why functions have no names, in sentences."""
        if self.tool is None:
            return ["functions have no names: install the Debian package elfutils."]
        names = ", ".join(map(os.path.basename, self.gone))
        return [f"of {names}, replaced or removed since, functions have no names."] if names else []

    def names(self, addresses: Iterable[int]) -> dict[int, list[str]]:
        """For each return address the places of its call in words, innermost first."""
        return {
            address: ["unknown"] if address == 0 else [_in_words(place) for place in places]
            for address, places in self.find(addresses).items()
        }

    def find(self, addresses: Iterable[int]) -> dict[int, tuple[Place, ...]]:
        """For each return address the places of its call, innermost first; never none."""
        found: dict[int, tuple[Place, ...]] = {}
        by_object: dict[tuple[str, bool], dict[int, int]] = {}
        for address in set(addresses):
            mapping = self.mapping_of(address - 1)
            if mapping is None:
                found[address] = (Place(None, None, None, "", address),)
            elif mapping.is_gone:
                offset = address - 1 - mapping.start + mapping.offset
                found[address] = (Place(None, None, None, mapping.path, offset),)
                self.gone[mapping.path] = None
            else:
                loaded = mapping.loaded
                start = mapping.start - mapping.offset if loaded is None else loaded
                of_object = by_object.setdefault((mapping.path, loaded is None), {})
                of_object[address] = address - 1 - start
        for (path, known), wanted in by_object.items():
            virtual = _virtual_addresses(path, wanted, known)
            named = _ask(self.tool, path, sorted(set(virtual.values()))) if self.tool else {}
            for address, one in virtual.items():
                found[address] = named.get(one) or (Place(None, None, None, path, one),)
        return found


def _in_words(place: Place) -> str:
    """The line, or else the file that holds it."""
    if place.file or not place.function:
        return str(place)
    return f"{place.name} ({os.path.basename(place.object)})"


def _virtual_addresses(path: str, places: dict[int, int], offsets: bool) -> dict[int, int]:
    """Offsets in a file, or distances from where it was loaded, as the addresses that its symbols
    have."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with open(path, "rb") as file:
            segments = [
                (segment["p_offset"], segment["p_filesz"], segment["p_vaddr"])
                for segment in ELFFile(file).iter_segments("PT_LOAD")
            ]
    except (OSError, ELFError):
        return places
    if not offsets:
        first = min((start for _, _, start in segments), default=0) & -PAGE
        return {address: place + first for address, place in places.items()}
    virtual = {}
    for address, offset in places.items():
        inside = [
            start - begin for begin, size, start in segments if begin <= offset < begin + size
        ]
        virtual[address] = offset + (inside[0] if inside else 0)
    return virtual


def _ask(tool: str, path: str, addresses: Sequence[int]) -> dict[int, tuple[Place, ...]]:
    asked = subprocess.run(
        [tool, "-e", path, "-a", "-f", "-i", "-C"],
        input="".join(f"{address:#x}\n" for address in addresses),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    named: dict[int, list[Place]] = {}
    lines = iter(asked.stdout.splitlines())
    address = None
    for line in lines:
        if line.startswith("0x"):
            address = int(line, 16)
        elif line and address is not None:
            place = _place(line, next(lines, ""), path, address)
            found = named.setdefault(address, [])
            # A function that was split and inlined into itself has two places.
            if not found or place.function is None or found[-1].function != place.function:
                found.append(place)
    return {address: tuple(places) for address, places in named.items()}


def _place(function: str, where: str, path: str, address: int) -> Place:
    """From a pair of lines: "function[ inlined at ... in ...]" and "file:line[:column]"."""
    name = function.partition(" inlined at ")[0]
    words = where.split(" (", 1)[0].split(":")
    known = len(words) >= 2 and words[0] != "??" and words[1].isdigit() and words[1] != "0"
    return Place(
        function=None if name == "??" else name,
        file=str(Path(words[0])) if known else None,
        line=int(words[1]) if known else None,
        object=path,
        offset=address,
    )
