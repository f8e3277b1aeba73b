# SPDX-License-Identifier: MIT
"""Names for addresses of a program that has ended, from what was mapped where and the files.

An address is named by the function that holds it, as far as the file tells; else by its place in
the file, which debuggers understand: `gawk+0x65b86`. Names of C++ are written as compilers
mangle them.
"""

import bisect
from functools import cached_property
from pathlib import Path
from typing import Iterable


class File:
    """A mapped file, and its functions where it is an ELF file that tells of them."""

    def __init__(self, path: str, start: int) -> None:
        self.path = path
        self.start = start  # where its first mapping lies

    @cached_property
    def _functions(self) -> tuple[int, list[tuple[int, int, str]]]:
        """What to take off an address, and (start, end, name) in order."""
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import SymbolTableSection

        try:
            with open(self.path, "rb") as file:
                elf = ELFFile(file)
                found = {
                    (symbol["st_value"], symbol["st_value"] + symbol["st_size"]): symbol.name
                    for section in elf.iter_sections()
                    if isinstance(section, SymbolTableSection)
                    for symbol in section.iter_symbols()
                    if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]
                }
                bias = 0 if elf["e_type"] == "ET_EXEC" else self.start
        except (OSError, ELFError):
            return self.start, []
        return bias, sorted((start, end, name) for (start, end), name in found.items())

    def name(self, address: int) -> str:
        """The function at an address of the program's."""
        bias, functions = self._functions
        place = bisect.bisect_right(functions, (address - bias, 1 << 64, "")) - 1
        if place >= 0 and address - bias < functions[place][1]:
            return f"{functions[place][2]} ({Path(self.path).name})"
        return f"{Path(self.path).name}+{address - self.start:#x}"


class Symbols:
    """The files of one process."""

    def __init__(self, maps: str) -> None:
        """maps: lines as of /proc/PID/maps; a later one counts where two overlap."""
        files: dict[str, File] = {}
        ranges: dict[tuple[int, int], File] = {}
        for line in maps.splitlines():
            words = line.split(None, 5)
            if len(words) < 6 or not words[5].startswith("/"):
                continue
            start, end = (int(word, 16) for word in words[0].split("-"))
            file = files.setdefault(words[5], File(words[5], start))
            file.start = min(file.start, start)
            ranges[(start, end)] = file
        self._ranges = sorted(
            ((start, end, file) for (start, end), file in ranges.items()), key=lambda one: one[:2]
        )
        self._starts = [start for start, _, _ in self._ranges]

    def name(self, return_address: int) -> str:
        """The function that a call returns to."""
        if return_address == 0:
            return "unknown"
        address = return_address - 1  # of the call itself
        place = bisect.bisect_right(self._starts, address) - 1
        if place >= 0 and address < self._ranges[place][1]:
            return self._ranges[place][2].name(address)
        return f"{return_address:#x}"

    def names(self, addresses: Iterable[int]) -> list[str]:
        return [self.name(address) for address in addresses]
