"""The payload of a claim: JSON that describes its holder or waiter, for people to read."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from lockfast.claims.untrusted import number, parsed, text
from lockfast.plain import plain

REMEMBERED = 1024  # workers whose description is cached
LARGEST = 65_536  # bytes of a payload
RESERVED = 8_192  # bytes of it that `holding` leaves free for the value that a leader publishes
LONGEST_HOST, LONGEST_WORKER, LONGEST_SERVICE, LONGEST_PURPOSE = 255, 128, 64, 256  # characters
LONGEST_VALUE = 1024  # bytes that a leader may publish
LONGEST_SUBJECT, LONGEST_ADDRESS = 350, 64  # characters
HIGHEST_PID = 2**32
LATEST = 2.0**40  # seconds since 1970: later than any real clock
LONGEST_TTL = 86_400.0  # seconds, as in `lockfast.port`
LONGEST_NAME = 512  # bytes, as in `lockfast.names`
ID = 32  # hexadecimal digits of a claim's id
UNREADABLE = "unreadable payload"
_written: dict[tuple[str, str, float], tuple[float, bytes]] = {}


class Who(NamedTuple):
    """A holder or waiter, as it has described itself."""

    host: str = "?"
    """The name of its machine."""
    pid: int = 0
    """Its process id."""
    worker: str = "?"
    """Its thread or task."""
    service: str = ""
    """The file name of its program."""
    purpose: str = ""
    """The `purpose` that was passed to the lock."""
    since: float = 0.0
    """When it asked, in seconds since 1970, by the wall clock of its machine."""
    ttl: float = 0.0
    """Seconds for which its lease lasts without a renewal. 0 if the payload does not say."""
    subject: str = ""
    """Who it is for the service, which has written this. Empty without the service."""
    address: str = ""
    """The address from which it is connected to the service."""

    def __str__(self) -> str:
        """Return the description in words, with its age. The text is safe to log and to print."""
        said = " ".join(filter(None, [self.service, f"({self.purpose})" if self.purpose else ""]))
        age = f", for {max(time.time() - self.since, 0.0):.0f} s" if self.since else ""
        told = f"{said + ' on ' if said else ''}{self.host} pid {self.pid} [{self.worker}]{age}"
        if self.subject:
            told = f"{self.subject}{f' at {self.address}' if self.address else ''}: {told}"
        return plain(told)


def write(  # noqa: PLR0913, PLR0917  # each is a part of the description; a hot path
    worker: str,
    purpose: str,
    now: float,
    holding: Mapping[str, str] | None = None,
    value: str = "",
    ttl: float = 0.0,
) -> bytes:
    """Return the payload that describes the running thread or task.

    `purpose`: for people to read. It is cut, because the engine sends it to every waiter.
    `holding`: the names that it holds, by the ids of the claims. The search for deadlocks reads
    them. If there are more than fit into a payload, only the first are written.
    `value`: what a leader publishes.
    """
    if not isinstance(purpose, str):
        raise TypeError(f"purpose must be a str, not {type(purpose).__name__}")
    if len(purpose) > LONGEST_PURPOSE:
        purpose = purpose[:LONGEST_PURPOSE]
    known = _written.get((worker, purpose, ttl))
    raw = known[1] if known is not None and now < known[0] else _write(worker, purpose, ttl, now)
    if holding:  # appended to the cached part, so that ten held locks do not slow the next one down
        each = ", ".join([f'"{id_}": {_quoted(name)}' for id_, name in holding.items()])
        if len(raw) + len(each) > LARGEST - RESERVED:
            each = _fitting(holding, LARGEST - RESERVED - len(raw))
        raw = b'%b, "holding": {%b}}' % (raw[:-1], each.encode())
    if value:
        raw = b'%b, "value": %b}' % (raw[:-1], _quoted(value).encode())
    return raw


def _write(worker: str, purpose: str, ttl: float, now: float) -> bytes:
    """Return the part of a payload that all claims of a worker share, and cache it.

    The cached text is valid until the clock passes the next half second. So `since`, which is in
    whole seconds, is never wrong by more than half a second.
    """
    rounded = time.time() + 0.5
    if len(_written) >= REMEMBERED:
        _written.clear()
    said: dict[str, object] = {
        "host": socket.gethostname()[:LONGEST_HOST],
        "pid": os.getpid(),
        "worker": worker[:LONGEST_WORKER],
        "service": os.path.basename(sys.argv[0] or "python")[:LONGEST_SERVICE],  # noqa: PTH119  # not a path
        "purpose": purpose,
        "since": int(rounded),
        "ttl": ttl,
    }
    raw = json.dumps({key: value for key, value in said.items() if value}).encode()
    _written[worker, purpose, ttl] = (now + 1.0 - rounded % 1.0, raw)
    return raw


def _fitting(holding: Mapping[str, str], room: int) -> str:
    """Return as many of the held names as fit into `room` bytes, as JSON."""
    parts: list[str] = []
    for id_, name in holding.items():
        part = f'"{id_}": {_quoted(name)}'
        room -= len(part) + 2
        if room < 0:
            break
        parts.append(part)
    return ", ".join(parts)


_quoted = lru_cache(REMEMBERED)(json.dumps)


def holding(raw: bytes) -> dict[str, str]:
    """Return the names that the writer of a payload held, by the ids of the claims.

    Ids and names that no claim can have are left out, because the search for deadlocks sends these
    names to the engine.
    """
    said = parsed(raw).get("holding")
    if not isinstance(said, dict):
        return {}
    return {id_: name for id_, name in said.items() if len(id_) == ID and _is_name(name)}


def value(raw: bytes) -> str:
    """Return the value that a leader or candidate publishes in its payload."""
    return text(parsed(raw), "value", LONGEST_VALUE, "")


def read(raw: bytes) -> Who:
    """Return the description in a payload. Never raises.

    Every client of the engine can write any payload. So fields of a wrong type or range are left
    out, and long ones are cut.
    """
    said = parsed(raw)
    if not said:
        return Who(worker=UNREADABLE)
    return Who(
        host=text(said, "host", LONGEST_HOST, "?"),
        pid=int(number(said, "pid", 1, HIGHEST_PID)),
        worker=text(said, "worker", LONGEST_WORKER, "?"),
        service=text(said, "service", LONGEST_SERVICE, ""),
        purpose=text(said, "purpose", LONGEST_PURPOSE, ""),
        since=float(number(said, "since", 0, LATEST)),
        ttl=float(number(said, "ttl", 0.001, LONGEST_TTL)),
        subject=text(said, "subject", LONGEST_SUBJECT, ""),
        address=text(said, "address", LONGEST_ADDRESS, ""),
    )


def _is_name(name: object) -> bool:
    """Return whether the text is a valid lock name."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        return False
    try:
        return len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


if hasattr(os, "register_at_fork"):  # the cached descriptions have the parent's pid
    os.register_at_fork(after_in_child=_written.clear)
