"""A server's clock, which a test moves while the server runs."""

import functools
import mmap
import struct
import tempfile
from pathlib import Path

from tests.servers.guard import guard
from tests.servers.process import Server, ServerError, program, run

_SOURCE = Path(__file__).with_name("clock_shim.c")
_NANO = 1_000_000_000
_OFFSET = struct.Struct("=q")


class ServerClock:
    """The clock of every server that was started with `env`; at first it goes right.

    Only readings of the clock move. A sleep, or a wait with a timeout, takes its true time.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Make a clock, or take the one that is kept at the path."""
        if path is None:
            folder = guard().folder
            with tempfile.NamedTemporaryFile(prefix="clock-", dir=folder, delete=False) as file:
                file.write(bytes(2 * _OFFSET.size))
            path = Path(file.name)
        with path.open("r+b") as kept:
            self._map = mmap.mmap(kept.fileno(), 2 * _OFFSET.size)
        self.env = {"LD_PRELOAD": str(_library()), "LOCKFAST_CLOCK": str(path)}

    @staticmethod
    def of(server: Server) -> "ServerClock":
        """Tell the clock that a server was started with."""
        if "LOCKFAST_CLOCK" not in server.env:
            raise ServerError(f"{server.name} was started without a clock of its own")
        return ServerClock(Path(server.env["LOCKFAST_CLOCK"]))

    @property
    def offset(self) -> float:
        """How far the wall clock is ahead, in seconds."""
        return self._read(0) / _NANO

    def advance(self, seconds: float) -> None:
        """Move the wall clock forward, or back when negative; the monotonic clock stays."""
        self._add(0, seconds)

    def advance_monotonic(self, seconds: float) -> None:
        """Move the monotonic clock; forward only, or it would not be one."""
        if seconds < 0:
            raise ValueError("a monotonic clock does not go back")
        self._add(1, seconds)

    def _read(self, place: int) -> int:
        (nanoseconds,) = _OFFSET.unpack_from(self._map, place * _OFFSET.size)
        return int(nanoseconds)

    def _add(self, place: int, seconds: float) -> None:
        moved = self._read(place) + round(seconds * _NANO)
        # One assignment of eight aligned bytes: the server must not read half an offset.
        with memoryview(self._map) as view, view.cast("q") as offsets:
            offsets[place] = moved


@functools.cache
def _library() -> Path:
    library = guard().folder / "clock_shim.so"
    run(
        *(program("gcc"), "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"),
        *("-o", str(library), str(_SOURCE)),
    )
    return library
