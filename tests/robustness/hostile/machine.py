"""The machine: for how long it kept this process from running, which no call can help.

Virtual machines lose their processors to their neighbours for seconds. The hypervisor tells of it
as stolen time. A process can also starve beside the relays and the servers.
"""

from __future__ import annotations

import threading
import time

from tests.stolen import seconds

TICK = 0.02  # seconds between two looks
SHORT = 0.05  # seconds of a stall that are not worth keeping


class Machine:
    """Watches from a thread of its own."""

    def __init__(self) -> None:
        self._stalls: list[tuple[float, float]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def starved(self, began: float, stolen: float) -> float:
        """Tell for how many seconds this process could not run since a call began."""
        now = time.monotonic()
        idle = sum(min(end, now) - max(start, began) for start, end in self._stalls if end > began)
        return max(idle, seconds() - stolen)

    def _watch(self) -> None:
        while True:
            began, worked = time.monotonic(), time.process_time()
            time.sleep(TICK)
            ended = time.monotonic()
            stall = ended - began - TICK
            # A process that was at work meanwhile has kept its own threads from running.
            if stall > SHORT and time.process_time() - worked < stall / 2:
                self._stalls.append((began + TICK, ended))
