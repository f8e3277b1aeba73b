# SPDX-License-Identifier: MIT
"""The processes of a command that we have started, orphaned ones included.

When a process ends the kernel gives its children to one of our ancestors: to init, or to one that
has asked for orphaned processes. What was below the command at an earlier look is remembered. What
was orphaned between two looks is known by what it has inherited:

    its environment           has the mark, which no other command's has
    its session or its group  it is not ours, and a process of the command is in it

Where the environment tells nothing at two looks, because it is empty or may not be read, our own
group will do. A shell makes one for each job, a script has one. Any other may be the command's or
somebody else's: it is among `perhaps`, where its user and its control groups, which are inherited
too, are ours.

PR_SET_CHILD_SUBREAPER would bring all of them to us. But it changes what getppid() tells, and
programs wait for their parent's end by asking whether that is 1.
"""

import os
from pathlib import Path
from typing import Iterable

from .process_tree import (
    GROUP,
    PARENT,
    SESSION,
    STARTED,
    children_of,
    descendants,
    start_times,
    stat_fields,
)


class CommandTree:
    def __init__(self, root: int, mark: str = "") -> None:
        """root: the command's process. mark: NAME=VALUE of its environment; empty: it has none."""
        self.root = root
        self.mark = os.fsencode(mark)
        self.ancestors = _ancestors(os.getpid())
        self.foreign = {0, os.getpgrp(), os.getsid(0)}  # groups and sessions
        fields = stat_fields(root)
        self.began = fields[STARTED] if fields else 0
        # Of the last look: when each process was started (a number may be given again), and the
        # command's own sessions and groups.
        self.started: dict[int, int] = {}
        self.groups: set[int] = set()
        # Children of our ancestors that are not the command's, and whose environment tells nothing.
        self.strangers = {os.getpid(), *self.ancestors}
        self.silent: set[int] = set()
        # Orphaned while the command ran, and nothing tells whose they are.
        self.perhaps: set[int] = set()

    def look(self) -> list[int]:
        """The command and its processes, of which some may have ended."""
        before, groups = self.started, self.groups
        self.started, self.groups = {}, set()
        self._add([self.root])
        self._add(pid for pid, started in before.items() if self._goes_on(pid, started))
        new = self._taken_in()
        environments = {pid: _environment(pid) for pid in new}
        self._add(pid for pid in new if self.mark and self.mark in environments[pid])
        self._add(pid for pid, ids in new.items() if (groups | self.groups).intersection(ids))
        silent = {pid for pid in new if not any(environments[pid])}
        self._add(pid for pid in silent & self.silent if new[pid][0] == os.getpgrp())
        self.perhaps = {pid for pid in silent & self.silent if _may_come_from_us(pid)}
        self.perhaps -= self.started.keys()
        self.silent = silent - self.started.keys()
        self.strangers |= new.keys() - self.started.keys() - silent
        return list(self.started)

    def _add(self, pids: Iterable[int]) -> None:
        """They and their descendants are the command's."""
        for top in pids:
            whole = [] if top in self.started else [top, *descendants(top)]
            for pid in whole:
                if fields := stat_fields(pid):
                    self.started[pid] = fields[STARTED]
                    self.groups |= {fields[GROUP], fields[SESSION]} - self.foreign

    def _goes_on(self, pid: int, started: int) -> bool:
        """Of one that was seen before: whether it is there, but not below the command."""
        return pid not in self.started and start_times([pid]).get(pid) == started

    def _taken_in(self) -> dict[int, tuple[int, int]]:
        """Children of our ancestors of which it is not known whose they are; their group and
        session."""
        children = {pid for one in self.ancestors for pid in children_of(one)}
        self.strangers &= children  # who is gone is forgotten
        new: dict[int, tuple[int, int]] = {}
        for pid in children - self.strangers - self.started.keys():
            fields = stat_fields(pid)
            if fields and fields[STARTED] < self.began:
                self.strangers.add(pid)
            elif fields:
                new[pid] = fields[GROUP], fields[SESSION]
        return new


def _ancestors(pid: int) -> list[int]:
    """Init is one of them, wherever the chain ends: in a container it may end at another's
    process."""
    found = []
    while pid > 1 and (fields := stat_fields(pid)):
        pid = fields[PARENT]
        found.append(pid)
    return [one for one in dict.fromkeys([*found, 1]) if one > 0]


def _may_come_from_us(pid: int) -> bool:
    """Of a child of an ancestor. What another program of our session has as a child, a shell, it
    started itself; init and those that ask for orphaned processes have others' children."""
    try:
        parent = stat_fields(pid)[PARENT]
        is_orphan = parent == 1 or os.getsid(parent) != os.getsid(0)
        return is_orphan and _user_and_control_groups(pid) == _user_and_control_groups(os.getpid())
    except (OSError, IndexError):
        return False  # it has ended


def _user_and_control_groups(pid: int) -> tuple[bytes, bytes]:
    """The user is who started it: a setuid program has another's rights alone."""
    status = Path(f"/proc/{pid}/status").read_bytes()
    user = status.partition(b"\nUid:")[2].split()[0]
    return user, Path(f"/proc/{pid}/cgroup").read_bytes()


def _environment(pid: int) -> list[bytes]:
    """NAME=VALUE each. Empty when it may not be read, and in the middle of an exec."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
