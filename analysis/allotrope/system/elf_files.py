# SPDX-License-Identifier: MIT
"""What ELF files say of themselves. Each question is asked once of a file, however many processes
run it and however often they are looked at."""

import contextlib
import functools
import os
import re
from typing import TYPE_CHECKING, Any, Callable, Iterator, TypeVar

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

Answer = TypeVar("Answer")
# By what jemalloc, tcmalloc and mimalloc are asked for blocks beside malloc.
OWN_NAME = re.compile(
    r"mallocx|rallocx|(tc|mi)_(?!\w*_(size|stats)$)\w*(alloc|memalign|new|dup|realpath)\w*"
)
# (device, inode, change) tells one file from another.
Identity = tuple[int, int, int]


def ask(file: str, question: Callable[["ELFFile"], Answer]) -> Answer:
    """Raises OSError where the file cannot be read, ValueError where it is none that we can
    follow."""
    status = os.stat(file)
    answers = _answers((status.st_dev, status.st_ino, status.st_mtime_ns))
    if question not in answers:
        with _opened(file) as elf:
            answers[question] = question(elf)
    answer: Answer = answers[question]
    return answer


@functools.lru_cache(maxsize=4096)
def _answers(identity: Identity) -> dict[Callable[["ELFFile"], Any], Any]:
    return {}


@contextlib.contextmanager
def _opened(file: str) -> Iterator["ELFFile"]:
    # Imported here: commands that start nothing need not wait for it.
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    with open(file, "rb") as stream:
        try:
            elf = ELFFile(stream)
            if elf.elfclass != 64:
                raise ValueError("not of 64 bits")
            yield elf
        except ELFError as error:
            raise ValueError(str(error)) from None


# Questions


def is_static(elf: "ELFFile") -> bool:
    """Whether no loader is asked for."""
    return all(segment["p_type"] != "PT_INTERP" for segment in elf.iter_segments())


def calls_another_malloc(elf: "ELFFile") -> bool:
    """Whether it asks for blocks by names of one allocator alone."""
    symbols = elf.get_section_by_name(".dynsym")
    return symbols is not None and any(
        symbol["st_shndx"] == "SHN_UNDEF" and OWN_NAME.fullmatch(symbol.name)
        for symbol in symbols.iter_symbols()
    )


def defines_malloc(elf: "ELFFile") -> bool:
    """By the hash table where there is one: libraries have tens of thousands of symbols."""
    for kind in (".gnu.hash", ".hash"):
        table = elf.get_section_by_name(kind)
        if table is not None:
            symbol = table.get_symbol("malloc")
            return symbol is not None and symbol["st_shndx"] != "SHN_UNDEF"
    symbols = elf.get_section_by_name(".dynsym")
    found = symbols.get_symbol_by_name("malloc") if symbols is not None else None
    return any(symbol["st_shndx"] != "SHN_UNDEF" for symbol in found or ())
