# SPDX-License-Identifier: MIT
"""The options of allocators that are not ours, written as ours are: `jemalloc:narenas=1`,
`mimalloc:page_reset=1`, `tcmalloc:release_rate=10`, `glibc:arena_max=1`.

Each of them reads its options from the environment, and most pass over what they do not know; so
the names are looked up first: jemalloc and mimalloc are asked, tcmalloc's names are in its library,
glibc's are listed by the loader.
"""

import difflib
import os
import re
import subprocess
from pathlib import Path
from typing import Mapping

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
        _need_known(spec, name, options, _tunables())
        text = ":".join(f"{TUNABLES}{key}={value}" for key, value in options.items())
        return {"GLIBC_TUNABLES": text}
    assert library is not None
    if name == "jemalloc":
        variables = {"MALLOC_CONF": ",".join(f"{key}:{value}" for key, value in options.items())}
        complaint = re.search(r"<jemalloc>: (Invalid.*)", _ask(library, variables))
        if complaint:
            raise UserError(f"'{spec}': jemalloc says: {complaint[1]}")
        return variables
    if name == "mimalloc":
        said = _ask(library, {"MIMALLOC_VERBOSE": "1"})
        known = [one for one in re.findall(r"option '(\w+)'", said) if "deprecated" not in one]
    else:
        found = re.findall(rb"\0TCMALLOC_([A-Z_]+)(?=\0)", library.read_bytes())
        known = [one.decode().lower() for one in found]
    _need_known(spec, name, options, known)
    return {f"{name.upper()}_{key.upper()}": value for key, value in options.items()}


def _need_known(spec: str, name: str, options: Mapping[str, str], known: list[str]) -> None:
    for key in options:
        if known and key not in known:
            near = difflib.get_close_matches(key, known, 3) or sorted(known)
            raise UserError(f"'{spec}': {name} has no option '{key}'; valid are: {', '.join(near)}")


def _tunables() -> list[str]:
    try:
        done = subprocess.run([LOADER, "--list-tunables"], capture_output=True, text=True)
    except OSError:
        return []
    return re.findall(rf"^{re.escape(TUNABLES)}(\w+):", done.stdout, re.MULTILINE)


def _ask(library: Path, variables: Mapping[str, str]) -> str:
    """What an allocator says on standard error in a program that does nothing."""
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    environment = plain | {"LD_PRELOAD": str(library)} | dict(variables)
    return subprocess.run(
        ["/bin/true"], env=environment, capture_output=True, text=True, errors="replace"
    ).stderr
