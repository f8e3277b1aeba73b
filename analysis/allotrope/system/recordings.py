# SPDX-License-Identifier: MIT
"""Which files hold recordings and traces, looked at before they are read."""

import os
import shlex
import stat
from pathlib import Path

from .errors import UserError

# How a recording begins (trace/events/chunk.h), and a trace (trace/format/chunk.h).
RECORDING_BEGINS, TRACE_BEGINS = b"\x89ALEVENT", b"\x89ALTRACE"


def need_recording(file: str | Path) -> None:
    """Raises UserError where a file is neither a recording nor a trace, or not there; only the
    beginning is looked at. What comes through a pipe is left to its reader."""
    remedy = "`allotrope events -o {} -- CMD` makes a recording"
    try:
        kind = os.stat(file).st_mode
        if stat.S_ISDIR(kind):
            raise UserError(f"{file}: this is a folder; name a file: {remedy.format('run.ale')}")
        if not stat.S_ISREG(kind):
            return
        with open(file, "rb") as recording:
            begins = recording.read(len(RECORDING_BEGINS))
    except FileNotFoundError:
        name = shlex.quote(str(file))
        wanted = name if str(file) else "run.ale"
        raise UserError(f"{name}: no such file; {remedy.format(wanted)}") from None
    except OSError as error:
        what = f"cannot read {file}: {error.strerror}"
        raise UserError(f"{what}; name a file that you may read") from None
    if not begins:
        what = "the file is empty"
    elif begins not in (RECORDING_BEGINS, TRACE_BEGINS):
        what = "this is neither a recording of `allotrope events` nor a trace of `allotrope record`"
    else:
        return
    raise UserError(f"{file}: {what}; {remedy.format('run.ale')}")
