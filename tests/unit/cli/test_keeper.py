"""What lockfast does between a grant and the start of the command."""

from __future__ import annotations

import os
import signal
import threading
from typing import cast

import pytest

import lockfast
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.poll import ready
from lockfast.cli.supervise.run_under_lease import Keeper
from lockfast.cli.supervise.signals import Interrupted, Signals
from lockfast.cli.supervise.terminal import Terminal
from lockfast.cli.supervise.watchdog_handle import Handle


class Granted:
    """A lease that was waited for, and whose first renewal is not answered."""

    name, remaining = "x", 5.0

    def on_lost(self, callback: object) -> None:
        """Never lose it."""

    def ensure_held(self) -> None:
        """It is held."""


class Silent:
    """A watchdog that has nothing to report."""

    def hear(self, signals: Signals, seconds: float) -> None:
        ready([signals.fileno()], seconds)


def test_a_signal_ends_the_wait_for_the_first_renewal() -> None:
    """It was not taken for up to 10 s, in which lockfast used a whole processor."""
    with Signals() as signals, Terminal() as terminal:
        lease, watchdog = cast("lockfast.Lease", Granted()), cast("Handle", Silent())
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        with pytest.raises(Interrupted) as caught:
            Keeper(lease, Plan.of(30.0), watchdog, signals, terminal).run()
    assert caught.value.number == signal.SIGTERM
