"""Who holds it: the payload that a claim carries, written for people to read."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from functools import lru_cache
from typing import NamedTuple


class Who(NamedTuple):
    """A holder or waiter, as it described itself. Times are its own wall clock's."""

    host: str = "?"
    pid: int = 0
    worker: str = "?"
    service: str = ""
    purpose: str = ""
    since: float = 0.0

    def __str__(self) -> str:
        """Describe it in words, with how long ago it asked."""
        said = " ".join(filter(None, [self.service, f"({self.purpose})" if self.purpose else ""]))
        age = f", since {max(time.time() - self.since, 0.0):.0f} s" if self.since else ""
        return f"{said + ' on ' if said else ''}{self.host} pid {self.pid} [{self.worker}]{age}"


def payload(worker: str, purpose: str) -> bytes:
    """Describe the running thread or task."""
    return _written(os.getpid(), worker, purpose) % time.time()


def read(raw: bytes) -> Who:
    """Read a payload; whatever it is, an answer comes out: it may be another library's."""
    try:
        said = json.loads(raw)
        return Who(
            host=str(said["host"]),
            pid=int(said["pid"]),
            worker=str(said.get("worker", "?")),
            service=str(said.get("service", "")),
            purpose=str(said.get("purpose", "")),
            since=float(said.get("since", 0.0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Who(worker=raw[:64].decode(errors="replace") or "?")


@lru_cache(maxsize=1024)
def _written(pid: int, worker: str, purpose: str) -> bytes:
    """Write all but the time once per worker: JSON costs more than the round trip's other half."""
    said = {
        "host": socket.gethostname(),
        "pid": pid,
        "worker": worker[:128],
        "service": os.path.basename(sys.argv[0] or "python")[:64],  # noqa: PTH119  # not a path
        "purpose": purpose,
    }
    raw = json.dumps({key: value for key, value in said.items() if value}).encode()
    return raw[:-1].replace(b"%", b"%%") + b', "since": %.3f}'
