"""lockfast's end of the line to its watchdog."""

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

SURE = 2  # lists in a row without a process: a list is not made at one instant


class WatchdogDied(Exception):
    """Somebody killed the watchdog."""


class Handle:
    """A watchdog that runs, and can start the command any number of times, one after another.

    It is forked, so it must be made before the client: a client has threads, and the locks that
    they hold would stay locked in the child for ever.
    """

    def __init__(self, command: Sequence[str], plan: Plan, *, freeze: bool) -> None:
        """Fork it. Both adopt orphans: should the watchdog be killed, its orphans are ours."""
        # After `sidecar & exec lockfast run ...` in a script, these are no business of ours.
        self._spared = {each.pid for each in descendants.descendants(os.getpid())}
        descendants.adopt_orphans()
        self._line: OrderLine
        self._line, other = Pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                self._line.close()
                os.setpgid(0, 0)  # neither Ctrl-C nor Ctrl-Z is for it
                Watchdog(other, command, plan, freeze=freeze).serve()
            except Exception:  # noqa: BLE001  # a bug: the command ends with it, and people see why
                traceback.print_exc()
            finally:
                os._exit(0)
        other.close()
        self.alive = True

    def tell(self, order: Order) -> None:
        """Send an order. Whether it is still there, `hear` tells."""
        with suppress(OSError):
            self._line.send(order)

    def hear(self, signals: Signals, seconds: float) -> Report | None:
        """Sleep until it reports, a signal comes or the time is over."""
        line = self._line.fileno()
        if line not in ready([line, signals.fileno()], seconds):
            return None
        try:
            return self._line.recv()
        except (EOFError, OSError) as error:
            raise WatchdogDied("the watchdog was killed, and the command with it") from error

    def kill(self) -> None:
        """Kill it and all that it has. Without children, not even adopted ones, nothing is left."""
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
            if self._spared:  # there may always be children
                left = descendants.descendants(os.getpid(), self._spared)
                empty = 0 if left else empty + 1
            time.sleep(pause)
            pause = min(pause * 2.0, NAP)

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, and whatever an unforeseen way out has left."""
        self._line.close()
        self.kill()
