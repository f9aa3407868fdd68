"""All descendants of a process, also those that left its group or its session.

A process group is not enough: a daemon makes a session of its own. A cgroup would be, but few may
make one: it takes root or a delegated hierarchy. Being the subreaper takes nothing, and no child
can leave: whoever loses its parent becomes ours.
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
    """What is needed of one line of the kernel's."""

    pid: int
    parent: int
    group: int


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent ends, however it ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def take_name(name: bytes) -> None:
    """Be called so by `ps` and `pkill`."""
    _prctl(PR_SET_NAME, ctypes.c_char_p(name))


def _prctl(option: int, value: object) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def descendants(root: int, spared: Collection[int] = ()) -> list[Process]:
    """List the living descendants of a process, without those that are spared, and theirs.

    Nobody, where there is no /proc.
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
    """Send a signal to the group, and to every descendant of `root` that is not in it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for each in descendants(root, spared):
        if each.group != group:
            # A pid cannot have been given away since: that takes a whole round of all pids.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, number)


def _processes() -> Iterator[Process]:
    proc = Path("/proc")
    if not LINUX:
        return
    for entry in os.listdir(proc):  # noqa: PTH208  # a Path for each would be most of the time
        if entry.isdigit():
            with suppress(OSError):  # it has just ended
                stat = (proc / entry / "stat").read_bytes()
                # The state follows the name, which stands in brackets and may hold anything.
                state, parent, group = stat[stat.rindex(b")") + 2 :].split(maxsplit=3)[:3]
                if state not in b"ZX":
                    yield Process(int(entry), int(parent), int(group))
