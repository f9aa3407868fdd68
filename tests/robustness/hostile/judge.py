"""The judge: holds every call to its deadline and its errors, and every lease to its ttl."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from lockfast import Lease, LockfastError
from lockfast.aio import AsyncLease
from tests import stolen as theft
from tests.robustness.hostile.machine import Machine

LATE = 0.5  # seconds by which a call may pass its deadline
MOST = 20  # violations that are described
TOP = 2**53


class Judge(logging.Handler):
    """Counts calls and their ends; keeps what must not be."""

    def __init__(self) -> None:
        """Begin, in the process whose calls it judges."""
        super().__init__(logging.ERROR)
        self.ends: Counter[str] = Counter()
        self.violations: list[str] = []
        self.latest = 0.0
        self._machine = Machine()
        self._mutex = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a bug in that a heart has survived."""
        if record.exc_info:
            said = logging.Formatter().format(record)
            self.violate(f"a bug was logged: {said}")

    def violate(self, said: str) -> None:
        """Keep a violation."""
        with self._mutex:
            self.ends["violation"] += 1
            if len(self.violations) < MOST:
                self.violations.append(said)

    @contextmanager
    def call(self, what: str, seconds: float) -> Iterator[None]:
        """Hold a call to its time and to our errors, which end here."""
        began, stolen = time.monotonic(), theft.seconds()
        end, trace = "answered", ""
        try:
            yield
        except LockfastError as error:
            end, trace = type(error).__name__, traceback.format_exc()
        except Exception:  # noqa: BLE001  # that is what is looked for
            end = "foreign"
            self.violate(f"{what} raised no LockfastError:\n{traceback.format_exc()}")
        late = time.monotonic() - began - seconds
        if late > LATE:  # by its own doing, and not because the machine gave it no time
            late -= self._machine.starved(began, stolen)
        with self._mutex:
            self.ends[f"{what}: {end}"] += 1
            self.latest = max(self.latest, late)
        if late > LATE:
            self.violate(
                f"{what} ({end}) passed its deadline of {seconds:g} s by {late:.2f} s\n{trace}"
            )

    def lease(self, lease: Lease | AsyncLease, ttl: float) -> None:
        """Look at a lease."""
        if not 0 < lease.ticket < TOP:
            self.violate(f"a ticket of {lease.ticket}")
        if lease.remaining > ttl:
            self.violate(f"a lease of {ttl} s is believed in for {lease.remaining} s more")
