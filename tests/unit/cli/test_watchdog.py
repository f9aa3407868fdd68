"""The watchdog: what it does with orders that come one right behind the other.

Its handle ends every descendant of the process that has it, so that process is one of our own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from lockfast.cli.supervise.messages import Ended, Forward, Start
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.signals import Signals
from lockfast.cli.supervise.watchdog_handle import Handle
from lockfast.runtime.base import now

PATIENCE = 20.0  # seconds for a command to end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_behind_the_start_reaches_the_command(number: signal.Signals) -> None:
    """Between fork and exec it met the watchdog's handlers, and the command went on."""
    argv = [sys.executable, "-m", __name__, str(int(number))]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stdout) == (0, "ended\n" * 5), ran.stderr


def main(number: int) -> None:
    """Start a command and signal it at once, five times."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    with Signals() as signals, Handle(sleeper, Plan.of(60.0), freeze=False) as watchdog:
        for _ in range(5):
            watchdog.tell(Start(dict(os.environ), now() + 60.0, in_front=False))
            watchdog.tell(Forward(number))
            end = time.monotonic() + PATIENCE
            while not isinstance(watchdog.hear(signals, 1.0), Ended):
                if time.monotonic() > end:
                    sys.exit("the command goes on")
            print("ended", flush=True)  # noqa: T201  # to the test


if __name__ == "__main__":
    main(int(sys.argv[1]))
