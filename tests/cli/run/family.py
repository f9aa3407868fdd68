"""A command with descendants of every kind, each of which writes down that it lives.

`python -m tests.cli.run.family FOLDER` makes four: the `head`, a `polite` one that ends on TERM and
says so, a `deaf` one that does not, and a `daemon` in a session of its own. Each writes its pid
and the machine's monotonic clock into a file of its name, again and again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple, NoReturn

from tests.servers import wait_until

MEMBERS = ("head", "polite", "deaf", "daemon")
LONGEST = 60.0  # seconds: nobody stays for ever, whatever is broken


class Trace(NamedTuple):
    """What one of them has left."""

    pid: int
    seen: float

    @property
    def alive(self) -> bool:
        """Whether it still lives. One that is dead and not buried does not."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}

    @property
    def stopped(self) -> bool:
        """Whether it stands still."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        return stat.rpartition(")")[2].split()[0] == "T"


class Family:
    """The test's side of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.argv = [sys.executable, "-m", "tests.cli.run.family", str(folder)]

    def complete(self, timeout: float = 30.0) -> None:
        """Wait until all of them live."""
        wait_until(lambda: len(self.traces()) == len(MEMBERS), "all live", timeout)

    def traces(self) -> dict[str, Trace]:
        """Read what each has written last."""
        found = {}
        for name in MEMBERS:
            said = (
                (self._folder / name).read_text("ascii") if (self._folder / name).exists() else ""
            )
            if said.endswith("\n"):
                pid, seen = said.split()
                found[name] = Trace(int(pid), float(seen))
        return found

    def alive(self) -> set[str]:
        """Tell who lives."""
        return {name for name, trace in self.traces().items() if trace.alive}

    def told(self) -> float | None:
        """Tell when the polite one was told to end."""
        path = self._folder / "told"
        return float(path.read_text("ascii")) if path.exists() else None


def live(folder: Path, name: str) -> NoReturn:
    """Write down that one lives, again and again."""
    end = time.monotonic() + LONGEST
    with (folder / name).open("wb", buffering=0) as file:
        while time.monotonic() < end and folder.exists():
            os.pwrite(file.fileno(), b"%-9d %-25.9f\n" % (os.getpid(), time.monotonic()), 0)
            time.sleep(0.005)
    os._exit(0)


def end_politely(folder: Path) -> NoReturn:
    """Say when TERM came, and end."""
    path = folder / "told.new"
    path.write_text(f"{time.monotonic()}", "ascii")
    path.rename(folder / "told")
    os._exit(0)


def main(folder: Path) -> None:
    """Make the others, and live."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if not os.fork():
        signal.signal(signal.SIGTERM, lambda _number, _frame: end_politely(folder))
        live(folder, "polite")
    if not os.fork():
        live(folder, "deaf")
    between = os.fork()
    if not between:
        os.setsid()
        if os.fork():
            os._exit(0)
        live(folder, "daemon")
    os.waitpid(between, 0)
    live(folder, "head")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
