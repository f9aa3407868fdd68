"""The crowd: when more threads wanted a processor than the machine could serve in time.

Then a client that is at another replica already may be too late with its renewal, and no fault of
ours has cost the lease.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.robustness.traffic.clock import now

_PACE = 0.1  # seconds between two looks
_LOOKS = 10  # of which the mean counts
_MANY = 3  # runnable threads for each core


class Crowd:
    """Looks, while it runs, at how many threads are runnable."""

    def __init__(self) -> None:
        """Begin without a look."""
        self.spans: list[tuple[float, float]] = []
        """When there were too many."""
        self._began = now()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="crowd", daemon=True)

    def __enter__(self) -> Self:
        """Start to look."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._over.set()
        self._thread.join()

    @property
    def share(self) -> float:
        """In which part of the time there were too many."""
        return sum(ended - began for began, ended in self.spans) / (now() - self._began)

    def _look(self) -> None:
        cores = len(os.sched_getaffinity(0))
        seen: deque[tuple[float, int]] = deque(maxlen=_LOOKS)
        while not self._over.wait(_PACE):
            seen.append((now(), _runnable()))
            if sum(count for _, count in seen) > _MANY * cores * len(seen):
                self._add(seen[0][0], seen[-1][0])

    def _add(self, began: float, ended: float) -> None:
        if self.spans and self.spans[-1][1] >= began:
            began = self.spans.pop()[0]
        self.spans.append((began, ended))


def _runnable() -> int:
    return int(Path("/proc/loadavg").read_text("ascii").split()[3].partition("/")[0])
