"""Who holds it: the payload that a claim carries, written for people to read."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

REMEMBERED = 1024  # workers whose description is kept
_written: dict[tuple[str, str, float], tuple[float, bytes]] = {}


class Who(NamedTuple):
    """A holder or waiter, as it described itself. Times are its own wall clock's."""

    host: str = "?"
    pid: int = 0
    worker: str = "?"
    service: str = ""
    purpose: str = ""
    since: float = 0.0
    ttl: float = 0.0
    """For how long a grant is to last without a renewal; 0: it did not say."""

    def __str__(self) -> str:
        """Describe it in words, with how long ago it asked."""
        said = " ".join(filter(None, [self.service, f"({self.purpose})" if self.purpose else ""]))
        age = f", since {max(time.time() - self.since, 0.0):.0f} s" if self.since else ""
        return f"{said + ' on ' if said else ''}{self.host} pid {self.pid} [{self.worker}]{age}"


def payload(  # noqa: PLR0913, PLR0917  # each is a part of the description; a hot path
    worker: str,
    purpose: str,
    now: float,
    holding: Mapping[str, str] | None = None,
    value: str = "",
    ttl: float = 0.0,
) -> bytes:
    """Describe the running thread or task.

    `holding`: names that it holds, by the ids of the claims: a search for deadlocks reads them.
    `value`: what a leader publishes.
    """
    known = _written.get((worker, purpose, ttl))
    raw = known[1] if known is not None and now < known[0] else _write(worker, purpose, ttl, now)
    if holding:  # written behind the rest: whoever holds ten locks asks for the next as fast
        each = ", ".join([f'"{id_}": {_quoted(name)}' for id_, name in holding.items()])
        raw = b'%b, "holding": {%b}}' % (raw[:-1], each.encode())
    if value:
        raw = b'%b, "value": %b}' % (raw[:-1], _quoted(value).encode())
    return raw


def _write(worker: str, purpose: str, ttl: float, now: float) -> bytes:
    """Write what is the same for all claims of a worker, anew only every second."""
    if len(_written) >= REMEMBERED:
        _written.clear()
    said: dict[str, object] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "worker": worker[:128],
        "service": os.path.basename(sys.argv[0] or "python")[:64],  # noqa: PTH119  # not a path
        "purpose": purpose,
        "since": int(time.time()),
        "ttl": ttl,
    }
    raw = json.dumps({key: value for key, value in said.items() if value}).encode()
    _written[worker, purpose, ttl] = (now + 1.0, raw)
    return raw


_quoted = lru_cache(REMEMBERED)(json.dumps)


def holding(raw: bytes) -> dict[str, str]:
    """Read from a payload what its writer held, names by ids."""
    try:
        return {str(id_): str(name) for id_, name in json.loads(raw)["holding"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def value(raw: bytes) -> str:
    """Read from a payload what a leader publishes."""
    try:
        return str(json.loads(raw).get("value", ""))
    except (ValueError, TypeError, AttributeError):
        return ""


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
            ttl=float(said.get("ttl", 0.0)),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Who(worker=raw[:64].decode(errors="replace") or "?")


if hasattr(os, "register_at_fork"):  # a child has another pid
    os.register_at_fork(after_in_child=_written.clear)
