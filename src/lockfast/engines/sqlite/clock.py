"""The clock that all processes of a host share: the time since the host was started."""

from __future__ import annotations

from pathlib import Path

from lockfast.engines.server_clock import in_units
from lockfast.errors import EngineRefused
from lockfast.port import Ask
from lockfast.runtime.base import Clock

UNITS = 10**6  # in a second: stored times are in µs
OFFSETS = Path("/proc/self/timens_offsets")
OWN, CHILDRENS = Path("/proc/self/ns/time"), Path("/proc/self/ns/time_for_children")


class HostClock:
    """Converts instants of the local clock to the time since the host's boot, in µs.

    The local clock counts from the boot too (CLOCK_BOOTTIME). But in a container with a time
    namespace of its own it is ahead by a fixed offset, and must not be compared with the clock of
    a process outside.

    The clock starts again with each boot. Then it is behind what is stored, as if it had gone back:
    see `Transaction`. The id of the boot would tell the two apart, but it cannot be trusted: LXC
    and systemd-nspawn give each container an id of its own.
    """

    def __init__(self, now: Clock) -> None:
        """Read the time from `now`, the clock of the runtime."""
        self._now = now
        self._ahead = ahead()

    def micros(self) -> int:
        """Return the present time."""
        return self.at(self._now())

    def at(self, instant: float) -> int:
        """Return the time of an instant of the local clock."""
        return int((instant - self._ahead) * UNITS)

    def latest(self, ask: Ask) -> int:
        """Return until when a copy of a claim may be applied."""
        return self.at(ask.not_after) if ask.fixed is None else in_units(ask.fixed, UNITS)


def ahead() -> float:
    """Return by how many seconds the clock of this time namespace is ahead of the host's.

    After `unshare(CLONE_NEWTIME)`, a process keeps its clock, and the offsets that it can read are
    those of its future children. Then its own offset is unknown.
    """
    if _link(OWN) != _link(CHILDRENS):
        raise EngineRefused(
            "SQLite locks expire by the clock of the host. This process has made a time namespace "
            "for its children (unshare), so it cannot read by how much its own clock differs. "
            "Call connect before unshare, or in a child"
        )
    for line in _read(OFFSETS).splitlines():
        clock, *numbers = line.split()
        if clock == "boottime":
            seconds, nanoseconds = map(int, numbers)
            return seconds + nanoseconds / 1e9
    return 0.0


def _link(path: Path) -> str:
    """Return what a link in /proc points to. "" if there is none: no time namespaces here."""
    try:
        return str(path.readlink())
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unreadable(path, error) from error


def _read(path: Path) -> str:
    """Return the text of a file. "" if there is none: not Linux, or a kernel before 5.6."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> EngineRefused:
    return EngineRefused(
        f"SQLite locks expire by the clock of the host, and {path} cannot be read: {error}"
    )
