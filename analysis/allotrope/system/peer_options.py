# SPDX-License-Identifier: MIT
"""The options of allocators that are not ours, written as ours are: `jemalloc:narenas=1`,
`mimalloc:eager_commit=0`, `tcmalloc:release_rate=10`, `glibc:arena_max=1`.

Each of them reads its options from the environment, and most pass over what they do not know or
cannot read; so names and values are judged first.

    name        who knows the names         who judges a value
    jemalloc    jemalloc is asked           jemalloc says what it does not take
    mimalloc    mimalloc lists them         mimalloc says what it does not take
    tcmalloc    they are in its library     its documentation has each option's kind
    glibc       the loader lists them       the loader lists the bounds

What nobody knows is refused; a variable of the environment says it unjudged.
"""

import difflib
import os
import re
import subprocess
from pathlib import Path
from typing import Mapping, NoReturn

from .errors import UserError

LOADER = "/lib64/ld-linux-x86-64.so.2"
TUNABLES = "glibc.malloc."


def parse_options(spec: str, text: str) -> dict[str, str]:
    """Of `key=value,key=value`."""
    options: dict[str, str] = {}
    for word in text.split(","):
        key, equals, value = word.partition("=")
        if not (equals and value and re.fullmatch(r"[a-z][a-z0-9_.]*", key)):
            raise UserError(f"'{spec}': '{word}' is not of the form key=value")
        if key in options:
            raise UserError(f"'{spec}': {key} is given twice")
        options[key] = value
    return options


def peer_variables(
    spec: str, name: str, library: Path | None, options: Mapping[str, str]
) -> dict[str, str]:
    """What the environment must say for the options. Raises UserError for one that the allocator
    does not know."""
    if name == "glibc":
        bounds = _tunables()
        _need_known(spec, name, options, list(bounds))
        for key, value in options.items():
            _need_whole_number(spec, key, value, *bounds[key])
        text = ":".join(f"{TUNABLES}{key}={value}" for key, value in options.items())
        return {"GLIBC_TUNABLES": text}
    assert library is not None
    if name == "jemalloc":
        variables = {"MALLOC_CONF": ",".join(f"{key}:{value}" for key, value in options.items())}
        complaint = re.search(r"<jemalloc>: ((?:Invalid|Reducing).*)", _ask(library, variables))
        if complaint:
            raise UserError(f"'{spec}': jemalloc says: {complaint[1]}")
        return variables
    variables = {f"{name.upper()}_{key.upper()}": value for key, value in options.items()}
    if name == "mimalloc":
        said = _ask(library, {"MIMALLOC_VERBOSE": "1"})
        known = [one for one in re.findall(r"option '(\w+)'", said) if "deprecated" not in one]
        _need_known(spec, name, options, known)
        _need_no_complaint_of_mimalloc(spec, library, variables)
        return variables
    found = re.findall(rb"\0TCMALLOC_([A-Z_]+)(?=\0)", library.read_bytes())
    _need_known(spec, name, options, [one.decode().lower() for one in found])
    for key, value in options.items():
        _need_kind_of_tcmalloc(spec, key, value)
    return variables


def _need_known(spec: str, name: str, options: Mapping[str, str], known: list[str]) -> None:
    for key, value in options.items():
        if not known:
            raise UserError(
                f"'{spec}': {name} does not tell which options it has here, so '{key}' cannot be "
                f"checked; write {name},VARIABLE={value}, the variable that {name} reads"
            )
        if key not in known:
            near = difflib.get_close_matches(key, known, 3) or sorted(known)
            raise UserError(f"'{spec}': {name} has no option '{key}'; valid are: {', '.join(near)}")


def _refuse_value(spec: str, key: str, value: str, valid: str) -> NoReturn:
    raise UserError(f"'{spec}': '{value}' is no value of {key}; valid is {valid}")


def _need_whole_number(spec: str, key: str, value: str, least: int, most: int) -> None:
    """As glibc and tcmalloc read it: decimal, hexadecimal with 0x, or octal with 0."""
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|0[0-7]*|-?[1-9][0-9]*", value):
        octal = re.fullmatch(r"0[0-7]+", value)
        if least <= int(value, 8 if octal else 0) <= most:
            return
    _refuse_value(spec, key, value, f"a whole number from {least} to {most}")


def _need_no_complaint_of_mimalloc(spec: str, library: Path, variables: Mapping[str, str]) -> None:
    said = _ask(library, {"MIMALLOC_VERBOSE": "1"} | dict(variables))
    for found in re.findall(r"option (mimalloc_\w+) has an invalid value", said):
        key, value = found.removeprefix("mimalloc_"), variables[found.upper()]
        _refuse_value(spec, key, value, "0 or 1 for a switch, else a whole number (sizes in KiB)")


# Of gperftools' documentation; what is not here is a whole number.
TCMALLOC_SWITCHES = {
    "aggressive_decommit",
    "disable_memory_release",
    "memfs_abort_on_fail",
    "memfs_disable_fallback",
    "memfs_ignore_mmap_fail",
    "memfs_map_private",
    "skip_mmap",
    "skip_sbrk",
}
MOST_WORD = 2**63 - 1


def _need_kind_of_tcmalloc(spec: str, key: str, value: str) -> None:
    if key in TCMALLOC_SWITCHES:
        if value not in ("0", "1", "true", "false", "yes", "no"):
            _refuse_value(spec, key, value, "1 or 0")
    elif key == "release_rate":
        if not re.fullmatch(r"[0-9]+(\.[0-9]*)?", value):
            _refuse_value(spec, key, value, "a number from 0 on, such as 1 or 0.5")
    elif key != "memfs_malloc_path":
        _need_whole_number(spec, key, value, 0, MOST_WORD)


def _tunables() -> dict[str, tuple[int, int]]:
    """Names, and the bounds of each; none where the loader does not tell."""
    try:
        done = subprocess.run([LOADER, "--list-tunables"], capture_output=True, text=True)
    except OSError:
        return {}
    row = rf"^{re.escape(TUNABLES)}(\w+):.*\(min: (\w+), max: (\w+)\)"
    found = re.findall(row, done.stdout, re.MULTILINE)
    return {key: (int(least, 0), int(most, 0)) for key, least, most in found}


def _ask(library: Path, variables: Mapping[str, str]) -> str:
    """What an allocator says on standard error in a program that does nothing."""
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    environment = plain | {"LD_PRELOAD": str(library)} | dict(variables)
    return subprocess.run(
        ["/bin/true"], env=environment, capture_output=True, text=True, errors="replace"
    ).stderr
