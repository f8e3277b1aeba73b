# SPDX-License-Identifier: MIT
"""Which machine of a cluster has measured which program. study.json keeps it, and with it every
measurements.json:

    "machines": {HOST: {"kind", "noise", "quiet", "itself", "facts", "programs"}}
    "lacking": {PROGRAM: why it was not measured}

A study of one machine has neither.
"""

from typing import Any, Iterable, Mapping

MACHINES, LACKING = "machines", "lacking"
Study = Mapping[str, Any]


def places_of(study: Study) -> dict[str, str]:
    """By program its host."""
    machines: Mapping[str, Any] = study.get(MACHINES, {})
    return {name: host for host, one in machines.items() for name in one["programs"]}


def lacking(study: Study) -> Mapping[str, str]:
    found: Mapping[str, str] = study.get(LACKING, {})
    return found


def unlike_kinds(study: Study, programs: Iterable[str]) -> str:
    """That these ran on machines of different kinds, where they did."""
    places, wanted = places_of(study), set(programs)
    kinds = {study[MACHINES][host]["kind"] for name, host in places.items() if name in wanted}
    return "they ran on machines of different kinds" if len(kinds) > 1 else ""


def of_machines(study: Study) -> list[str]:
    """What a reader must know of them."""
    machines = {host: one for host, one in study.get(MACHINES, {}).items() if one["programs"]}
    if not machines:
        return []
    each = [
        f"{host} ({one['kind']}): {', '.join(one['programs'])}" for host, one in machines.items()
    ]
    said = "Each program was measured whole on one machine, of which alone its ratios are. "
    said += f"{'; '.join(each)}."
    if unlike_kinds(study, places_of(study)):
        said += (
            " These are machines of different kinds: no time is held against one of another kind, "
            "and what is counted over programs is counted over both."
        )
    if any(one["noise"] is None for one in machines.values()):
        said += " Nobody asked whether they were quiet (--noise any)."
    return [said]
