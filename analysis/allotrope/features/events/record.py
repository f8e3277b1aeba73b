# SPDX-License-Identifier: MIT
"""How a program's allocations and frees are recorded: the command line of allotrope-events."""

import json
import os
from datetime import datetime, timezone

from ...system import allocators
from ...system.errors import UserError
from ...system.executables import need_preloadable
from ...system.places import PLACES, built


def recording_line(
    output: str, command: tuple[str, ...], spec: str, level: int, frames: int = 1
) -> list[str]:
    """The command line that records `command`; raises UserError where that cannot work."""
    chosen = allocators.choose(spec)
    if not chosen.ours:
        raise UserError(
            f"-a {spec}: only allotrope's own allocators tell of events; the events "
            "are the program's, whichever of them serves it"
        )
    need_preloadable(command[0], ours=True)
    description = {
        "command": list(command),
        "allocator": chosen.spec,
        "frames": frames,
        "recorded": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": os.uname().release,
    }
    line = [str(built(PLACES.events)), "record"]
    line += [f"--output={output}", f"--level={level}", f"--frames={frames}"]
    line += [f"--description={json.dumps(description)}"]
    environment = chosen.environment()
    if frames > 1:
        environment = allocators.with_unwinder(environment, command[0])
    line += [f"--env={name}={value}" for name, value in environment.items()]
    return [*line, "--", *command]
