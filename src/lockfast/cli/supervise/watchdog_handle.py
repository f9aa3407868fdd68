"""Starts the watchdog, sends it orders, receives its reports, and kills it: lockfast's side."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Pipe
from types import TracebackType
from typing import Self

from lockfast.cli.supervise import descendants
from lockfast.cli.supervise.messages import Order, OrderLine, Report
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.poll import ready
from lockfast.cli.supervise.signals import Signals
from lockfast.cli.supervise.watchdog import HASTE, NAP, Watchdog

SURE = 2  # empty lists of processes in a row that are needed: reading /proc is not atomic


class WatchdogDied(Exception):
    """The watchdog has ended before lockfast: somebody killed it, or it failed."""


class Handle:
    """A running watchdog, which can start the command any number of times, one after another.

    Make it before the client, because it forks. A client has threads, and a lock that such a thread
    holds during the fork would stay locked in the child for ever.
    """

    def __init__(self, command: Sequence[str], plan: Plan, *, freeze: bool) -> None:
        """Fork the watchdog. Both processes adopt orphans, in case the watchdog is killed."""
        # Children from before are not lockfast's, as after `sidecar & exec lockfast run ...`.
        self._spared = {each.pid for each in descendants.descendants(os.getpid())}
        descendants.adopt_orphans()
        self._line: OrderLine
        self._line, other = Pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                self._line.close()
                os.setpgid(0, 0)  # so that it gets neither Ctrl-C nor Ctrl-Z of the terminal
                Watchdog(other, command, plan, freeze=freeze).serve()
            except Exception:  # noqa: BLE001  # a bug: show it, since the command ends with it
                traceback.print_exc()
            finally:
                os._exit(0)
        other.close()
        self.alive = True

    def tell(self, order: Order) -> None:
        """Send an order. If the watchdog has ended, ignore that: `hear` raises `WatchdogDied`."""
        with suppress(OSError):
            self._line.send(order)

    def hear(self, signals: Signals, seconds: float) -> Report | None:
        """Wait for a report, a signal or the end of the time. Return the report, if one came.

        Raises `WatchdogDied` if the watchdog has ended.
        """
        line = self._line.fileno()
        if line not in ready([line, signals.fileno()], seconds):
            return None
        try:
            return self._line.recv()
        except (EOFError, OSError) as error:
            raise WatchdogDied("the watchdog was killed, and the command with it") from error

    def kill(self) -> None:
        """Kill the watchdog and all its descendants, and wait until none of them is left.

        That is so when this process has no children any more, not even adopted ones.
        """
        self.alive = False
        pause = HASTE
        empty = 0
        while empty < SURE:
            descendants.send(os.getpid(), self._pid, signal.SIGKILL, self._spared)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            if self._spared:  # these may live on, so `waitpid` may never run out of children
                left = descendants.descendants(os.getpid(), self._spared)
                empty = 0 if left else empty + 1
            time.sleep(pause)
            pause = min(pause * 2.0, NAP)

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the watchdog, and any process that an unexpected exception has left running."""
        self._line.close()
        self.kill()
