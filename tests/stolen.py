"""Stolen time: processor time that the hypervisor gives to other virtual machines.

While most of it is stolen, this machine stands still for seconds. Each failure of a test is
recorded with the share that was stolen during the test, for the reader of the failure. The record
excuses nothing: a test that failed has failed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

FAILURES = Path(__file__).parents[1] / "build" / "failures.txt"  # since the last `make clean`
STEAL = 8  # the column of /proc/stat
HZ = os.sysconf("SC_CLK_TCK")


def seconds() -> float:
    """Return the processor seconds that were stolen since the machine started."""
    try:
        first = Path("/proc/stat").read_text("ascii").partition("\n")[0].split()
    except OSError:  # not Linux
        return 0.0
    return int(first[STEAL]) / HZ if len(first) > STEAL else 0.0


class Watch:
    """Measures the share of the processors that is stolen, from its creation on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stolen = seconds()

    def share(self) -> float:
        """Return the share: 0 is nothing, 1 is everything."""
        passed = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return (seconds() - self._stolen) / max(passed, 0.01)


def record(test: str, share: float) -> None:
    """Record a failure. Several processes may do so at once."""
    FAILURES.parent.mkdir(exist_ok=True)
    with FAILURES.open("a", encoding="utf-8") as file:
        file.write(f"{test} ({share:.0%} stolen)\n")
