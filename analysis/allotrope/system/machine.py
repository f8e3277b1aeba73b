# SPDX-License-Identifier: MIT
"""What is known of the machine that the figures come from. Unknown is None, never a guess."""

import os
import platform
import re
from pathlib import Path
from typing import Any

from .errors import UserError


def read_line(path: str) -> str | None:
    """A one-line file of /proc or /sys, None where it is missing or unreadable."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _find(pattern: str, path: str) -> str | None:
    found = re.search(pattern, read_line(path) or "", re.MULTILINE)
    return found.group(1) if found else None


def bracketed(setting: str | None) -> str | None:
    """The chosen word of a kernel setting that is shown as `always [madvise] never`."""
    found = re.search(r"\[(\w+)\]", setting or "")
    return found.group(1) if found else None


def integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def proc_is_mounted() -> bool:
    return os.path.exists("/proc/self/maps")


def need_proc(word: str) -> None:
    """Raises UserError where the kernel's /proc is not there, which a word of ours needs: what
    fails without it blames something else."""
    if not proc_is_mounted():
        raise UserError(f"/proc is not mounted, and {word} needs it (mount -t proc proc /proc)")


def busy_seconds() -> float | None:
    """How long all processors together have been busy since the machine started, with whatever."""
    words = (read_line("/proc/stat") or "").split("\n", 1)[0].split()
    if len(words) < 9 or words[0] != "cpu":
        return None
    user, nice, system, _, _, interrupts, soft, stolen = (int(word) for word in words[1:9])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def duet_processor() -> int:
    """Where runs share one: the last that we may use, for the first serves more interrupts."""
    return max(os.sched_getaffinity(0))


def memory_bytes() -> int | None:
    kilobytes = integer(_find(r"^MemTotal:\s+(\d+) kB", "/proc/meminfo"))
    return kilobytes * 1024 if kilobytes is not None else None


def machine_facts() -> dict[str, Any]:
    """The "machine" object of a comparison's JSON."""
    return {
        "cpu": _find(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo"),
        "cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": memory_bytes(),
        "kernel": platform.release(),
        "distribution": distribution(),
        "libc": " ".join(platform.libc_ver()) or None,
        "transparent_huge_pages": bracketed(
            read_line("/sys/kernel/mm/transparent_hugepage/enabled")
        ),
        "overcommit_memory": integer(read_line("/proc/sys/vm/overcommit_memory")),
        "randomize_va_space": integer(read_line("/proc/sys/kernel/randomize_va_space")),
        "scaling_governor": read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_average": round(os.getloadavg()[0], 2),
    }
