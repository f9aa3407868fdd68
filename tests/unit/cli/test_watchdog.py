"""The watchdog: what it does with orders that come one right behind the other."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from lockfast.cli.job.handle import Handle
from lockfast.cli.job.line import Ended, Forward, Report, Start
from lockfast.cli.job.plan import Plan
from lockfast.cli.job.signals import Signals
from lockfast.runtime.base import now


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_behind_the_start_reaches_the_command(number: signal.Signals) -> None:
    """Between fork and exec it met the watchdog's handlers, and the command went on."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    with Signals() as signals, Handle(sleeper, Plan.of(60.0), freeze=False) as watchdog:
        for _ in range(5):
            watchdog.tell(Start(dict(os.environ), now() + 60.0, in_front=False))
            watchdog.tell(Forward(number))
            ended, end = _ended(watchdog.hear(signals, 1.0)), time.monotonic() + 20.0
            while ended is None:
                assert time.monotonic() < end, "the command goes on"
                ended = _ended(watchdog.hear(signals, 1.0))
            assert not ended.by_lease


def _ended(report: Report | None) -> Ended | None:
    return report if isinstance(report, Ended) else None
