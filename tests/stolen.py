"""Stolen time: processor time that the hypervisor gives to other virtual machines.

While most of it is stolen, this machine stands still for seconds. Each failure of a test is
recorded with the share that was stolen during the test. tests/tries.py runs a test again that
failed while much was stolen; on a quiet machine, a test has failed that failed twice.

In CI a test, or a scenario of the torture, begins only when little is stolen, for as long as the
budget lasts. That changes when it runs, and nothing of what it must show.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

BUILD = Path(__file__).parents[1] / "build"
FAILURES = BUILD / "failures.txt"  # since the last `make clean`
WAITED = BUILD / "waited.txt"  # seconds that were waited for a quiet machine, a line each time
BUDGET = 300.0  # of them in all
BUSY, QUIET = 0.2, 0.1  # shares: wait from the one on, go on below the other
LOOK = 2.0  # seconds over which a share is measured
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

    def passed(self) -> float:
        """Return the seconds since then."""
        return time.monotonic() - self._began

    def share(self) -> float:
        """Return the share: 0 is nothing, 1 is everything."""
        passed = self.passed() * (os.cpu_count() or 1)
        return (seconds() - self._stolen) / max(passed, 0.01)


def record(test: str, share: float) -> None:
    """Record a failure. Several processes may do so at once."""
    FAILURES.parent.mkdir(exist_ok=True)
    with FAILURES.open("a", encoding="utf-8") as file:
        file.write(f"{test} ({share:.0%} stolen)\n")


def recorded() -> list[float]:
    """Return the share that was stolen at each failure on record, in their order."""
    lines = FAILURES.read_text("utf-8").splitlines() if FAILURES.exists() else []
    return [int(line.rpartition("(")[2].partition("%")[0]) / 100 for line in lines]


def wait_quiet(watch: Watch) -> None:
    """Wait in CI, if at least `BUSY` was stolen since then, until less than `QUIET` is."""
    share = watch.share()
    if share < BUSY or "CI" not in os.environ:
        return
    waited = WAITED.read_text("utf-8").split() if WAITED.exists() else []
    began = time.monotonic()
    end = began + BUDGET - sum(map(float, waited))
    if began >= end:
        return  # it is used up
    while share >= QUIET and time.monotonic() < end:
        watch = Watch()
        time.sleep(LOOK)
        share = watch.share()
    WAITED.parent.mkdir(exist_ok=True)
    with WAITED.open("a", encoding="utf-8") as file:
        file.write(f"{time.monotonic() - began:.0f}\n")
