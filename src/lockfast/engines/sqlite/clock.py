"""The clock that all processes of a host share: the time since the host was started."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lockfast.errors import EngineRefused
from lockfast.runtime.base import Clock

UNITS = 10**6  # in a second: stored times are in µs
OFFSETS = Path("/proc/self/timens_offsets")
BOOT = Path("/proc/sys/kernel/random/boot_id")


class HostClock:
    """Converts instants of the local clock to the time since the host's boot, in µs.

    The local clock counts from the boot too (CLOCK_BOOTTIME). But in a container with a time
    namespace of its own it is ahead by a fixed offset, and must not be compared with the clock of
    a process outside.
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


def ahead() -> float:
    """Return by how many seconds the clock of this time namespace is ahead of the host's."""
    for line in _read(OFFSETS).splitlines():
        clock, *numbers = line.split()
        if clock == "boottime":
            seconds, nanoseconds = map(int, numbers)
            return seconds + nanoseconds / 1e9
    return 0.0


@cache
def boot_id() -> str:
    """Return the id of this boot of the host. "" if the system has none.

    The clock starts again with each boot. Claims of another boot are dead, because the processes
    that made them are. Without an id, a claim of another boot lives for at most one ttl: see
    `Transaction`.
    """
    return _read(BOOT).strip()


def _read(path: Path) -> str:
    """Return the text of a file in /proc. "" if there is none: not Linux, or an old kernel."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise EngineRefused(
            f"SQLite locks expire by the clock of the host, and {path} cannot be read: {error}"
        ) from error
