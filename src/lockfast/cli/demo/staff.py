"""The worker processes of `lockfast demo --web`, and what the demo does to them meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import lockfast
from lockfast.cli.demo.die_with_parent import leashed

CREW = ("billing", "billing", "orders", "stock", "reports", "reports", "imports", "shop")
BEAT = 1.0  # seconds between two looks
PAUSED, RUNNING = 9.0, 12.0  # seconds: the first is longer than the ttl of the report's lock
HANGS = 15.0  # seconds after which the import is broken
REASON = "the import hangs (demo)"


class Staff:
    """The processes. `with` starts them, and kills them, even those that are paused."""

    def __init__(self, url: str) -> None:
        """Take the URL of the engine."""
        self._url = url
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def pids(self) -> list[int]:
        """The ids of all processes."""
        return [each.pid for each in self._processes]

    def __enter__(self) -> Self:
        """Start all."""
        try:
            for name in CREW:
                argv = leashed(sys.executable, "-m", "lockfast.cli.demo.chores", self._url, name)
                # A group of its own, so that Ctrl-C reaches only the demo.
                self._processes.append(
                    subprocess.Popen(argv, stdin=subprocess.DEVNULL, process_group=0)  # noqa: S603  # a module of ours
                )
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill all."""
        self._end()

    def _end(self) -> None:
        for each in self._processes:
            each.kill()
        for each in self._processes:
            each.wait()


def disturb(client: lockfast.Client, staff: Staff, over: threading.Event) -> None:
    """Pause the process that writes the report, for longer than its lease lasts, and resume it.
    Break the lock of the import that hangs. Again and again, until it is over.
    """
    clock, turn, paused = 0.0, RUNNING, 0
    while not over.wait(BEAT):
        clock += BEAT
        with suppress(lockfast.EngineError):  # a busy machine: it looks again soon
            if clock >= turn and paused:
                os.kill(paused, signal.SIGCONT)
                paused, turn = 0, clock + RUNNING
            elif clock >= turn and (paused := _holder(client, staff)):
                os.kill(paused, signal.SIGSTOP)
                turn = clock + PAUSED
            for claim in client.inspect("import"):
                if claim.granted and time.time() - claim.who.since > HANGS:
                    client.revoke(claim, REASON)


def _holder(client: lockfast.Client, staff: Staff) -> int:
    """Return the process that holds the report's lock, or 0. It is one of ours."""
    holders = [claim.who.pid for claim in client.inspect("report") if claim.granted]
    return next((pid for pid in holders if pid in staff.pids), 0)
