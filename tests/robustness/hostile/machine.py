"""The machine: for how long it kept this process from running, which no call can help.

Virtual machines lose their processors to their neighbours for seconds. The hypervisor tells of it
as stolen time. A process can also starve beside the relays and the servers.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

TICK = 0.02  # seconds between two looks
SHORT = 0.05  # seconds of a stall that are not worth keeping
STEAL = 8  # the column of /proc/stat
HZ = os.sysconf("SC_CLK_TCK")


class Machine:
    """Watches from a thread of its own."""

    def __init__(self) -> None:
        self._stalls: list[tuple[float, float]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    @staticmethod
    def stolen() -> float:
        """Read the seconds of all processors that others have taken since the machine started."""
        first = Path("/proc/stat").read_text("ascii").partition("\n")[0].split()
        return int(first[STEAL]) / HZ

    def starved(self, began: float, stolen: float) -> float:
        """Tell for how many seconds this process could not run since a call began."""
        now = time.monotonic()
        idle = sum(min(end, now) - max(start, began) for start, end in self._stalls if end > began)
        return max(idle, self.stolen() - stolen)

    def _watch(self) -> None:
        while True:
            began, worked = time.monotonic(), time.process_time()
            time.sleep(TICK)
            ended = time.monotonic()
            stall = ended - began - TICK
            # A process that was at work meanwhile has kept its own threads from running.
            if stall > SHORT and time.process_time() - worked < stall / 2:
                self._stalls.append((began + TICK, ended))
