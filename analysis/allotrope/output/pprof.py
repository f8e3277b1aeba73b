# SPDX-License-Identifier: MIT
"""Writes profiles for pprof and the tools that read its files: profile.proto, gzipped.

The format is google/pprof's proto/profile.proto. Protocol Buffers' encoding of what is needed is a
dozen lines: a field is its number and kind, then a varint, or a length and bytes.
"""

import gzip
from dataclasses import dataclass, field
from typing import Iterable, Sequence

from ..system.symbols import Mapping, Place


@dataclass(frozen=True)
class Frame:
    """A return address and where it is, innermost place first."""

    address: int
    places: Sequence[Place]


@dataclass
class Profile:
    types: Sequence[tuple[str, str]]  # kind and unit of each value
    default_type: str
    mappings: Sequence[Mapping]
    samples: list[tuple[Sequence[Frame], Sequence[int]]] = field(default_factory=list)
    period: int = 0  # bytes between samples


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(encoded + bytes([number]))


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value) if value else b""


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _numbers(fields: dict[int, int]) -> bytes:
    """fields: value by field number."""
    return b"".join(_number(number, value) for number, value in fields.items())


def _packed(number: int, values: Iterable[int]) -> bytes:
    return _bytes(number, b"".join(_varint(value) for value in values))


class _Writer:
    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.strings: dict[str, int] = {"": 0}
        self.functions: dict[tuple[str, str], int] = {}
        self.locations: dict[tuple[int, Sequence[Place]], int] = {}  # of several processes, too
        self.function_bytes: list[bytes] = []
        self.location_bytes: list[bytes] = []

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def function(self, place: Place) -> int:
        key = (place.name, place.file or place.object)
        if key not in self.functions:
            self.functions[key] = len(self.functions) + 1
            name, file = (self.string(text) for text in key)
            fields = {1: self.functions[key], 2: name, 3: name, 4: file}
            self.function_bytes.append(_numbers(fields))
        return self.functions[key]

    def location(self, frame: Frame) -> int:
        key = (frame.address, tuple(frame.places))
        if key not in self.locations:
            self.locations[key] = len(self.locations) + 1
            fields = {1: self.locations[key], 2: self.mapping(frame), 3: frame.address}
            lines = [
                _bytes(4, _number(1, self.function(place)) + _number(2, place.line or 0))
                for place in frame.places
            ]
            self.location_bytes.append(_numbers(fields) + b"".join(lines))
        return self.locations[key]

    def mapping(self, frame: Frame) -> int:
        """The number of the mapping that holds the frame, 0 for none."""
        for place, one in enumerate(self.profile.mappings, start=1):
            if one.start <= frame.address < one.end:
                return place
        return 0

    def value_type(self, kind: str, unit: str) -> bytes:
        return _number(1, self.string(kind)) + _number(2, self.string(unit))

    def encode(self) -> bytes:
        profile = self.profile
        parts = [_bytes(1, self.value_type(*one)) for one in profile.types]
        for frames, values in profile.samples:
            locations = [self.location(frame) for frame in frames]
            parts.append(_bytes(2, _packed(1, locations) + _packed(2, values)))
        for place, one in enumerate(profile.mappings, start=1):
            fields = {1: place, 2: one.start, 3: one.end, 4: one.offset}
            fields |= {5: self.string(one.path)}
            fields |= {7: 1, 8: 1, 9: 1}  # it has functions, their files and lines
            parts.append(_bytes(3, _numbers(fields)))
        parts += [_bytes(4, one) for one in self.location_bytes]
        parts += [_bytes(5, one) for one in self.function_bytes]
        parts.append(_bytes(11, self.value_type("space", "bytes")))
        parts.append(_number(12, profile.period))
        parts.append(_number(14, self.string(profile.default_type)))
        # The format's strings are UTF-8; a path may be any bytes.
        parts += [_bytes(6, text.encode(errors="backslashreplace")) for text in self.strings]
        return b"".join(parts)


def encode(profile: Profile) -> bytes:
    """The profile as pprof reads it."""
    return gzip.compress(_Writer(profile).encode(), mtime=0)
