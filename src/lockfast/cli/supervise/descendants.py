"""Finds and signals all descendants of a process, also those that left its group or its session.

A process group is not enough, because a daemon makes a session of its own. A cgroup would be
enough, but few processes may make one: it takes root or a delegated hierarchy. Being a subreaper
takes no rights, and no descendant escapes it: a process that loses its parent becomes its child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
LINUX = sys.platform == "linux"


class Process(NamedTuple):
    """A process, as /proc/PID/stat describes it."""

    pid: int
    parent: int
    group: int


def adopt_orphans() -> None:
    """Make this process the subreaper: the parent of each descendant that loses its own."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, however it ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def take_name(name: bytes) -> None:
    """Set the name by which `ps` and `pkill` know this process."""
    _prctl(PR_SET_NAME, ctypes.c_char_p(name))


def _prctl(option: int, value: object) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def descendants(root: int, spared: Collection[int] = ()) -> list[Process]:
    """Return the living descendants of a process, except the `spared` ones and their descendants.

    The list is empty on systems other than Linux.
    """
    children: dict[int, list[Process]] = {}
    for each in _processes():
        children.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    heads = [root]
    while heads:
        below = [each for each in children.pop(heads.pop(), []) if each.pid not in spared]
        found += below
        heads += [each.pid for each in below]
    return found


def send(root: int, group: int, number: int, spared: Collection[int] = ()) -> None:
    """Send a signal to a process group, and to every descendant of `root` outside of the group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for each in descendants(root, spared):
        if each.group != group:
            # This pid still means the same process: the kernel reuses one only after all others.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, number)


def _processes() -> Iterator[Process]:
    proc = Path("/proc")
    if not LINUX:
        return
    for entry in os.listdir(proc):  # noqa: PTH208  # making a Path for each takes most of the time
        if entry.isdigit():
            with suppress(OSError):  # the process has just ended
                stat = (proc / entry / "stat").read_bytes()
                # The state follows the name, which is in brackets and may contain brackets itself.
                state, parent, group = stat[stat.rindex(b")") + 2 :].split(maxsplit=3)[:3]
                if state not in b"ZX":
                    yield Process(int(entry), int(parent), int(group))
