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

from lockfast.claims.untrusted import number, parsed, text
from lockfast.plain import plain

REMEMBERED = 1024  # workers whose description is kept
LARGEST = 65_536  # bytes of a payload
RESERVED = 8_192  # bytes of it that what is held leaves to what a leader publishes
LONGEST_HOST, LONGEST_WORKER, LONGEST_SERVICE, LONGEST_PURPOSE = 255, 128, 64, 256  # characters
LONGEST_VALUE = 1024  # bytes that a leader may publish
HIGHEST_PID = 2**32
LATEST = 2.0**40  # seconds since 1970: no clock shows more
LONGEST_TTL = 86_400.0  # seconds, as the port has it
LONGEST_NAME = 512  # bytes, as any name
ID = 32  # hexadecimal digits of a claim's id
UNREADABLE = "unreadable payload"
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
        """Describe it in words, with how long ago it asked. Safe to log and to print."""
        said = " ".join(filter(None, [self.service, f"({self.purpose})" if self.purpose else ""]))
        age = f", for {max(time.time() - self.since, 0.0):.0f} s" if self.since else ""
        told = f"{said + ' on ' if said else ''}{self.host} pid {self.pid} [{self.worker}]{age}"
        return plain(told)


def write(  # noqa: PLR0913, PLR0917  # each is a part of the description; a hot path
    worker: str,
    purpose: str,
    now: float,
    holding: Mapping[str, str] | None = None,
    value: str = "",
    ttl: float = 0.0,
) -> bytes:
    """Describe the running thread or task.

    `purpose`: for people to read. It is cut: everybody who waits is sent it.
    `holding`: names that it holds, by the ids of the claims: a search for deadlocks reads them.
    Of a worker that holds many hundreds only the first are written.
    `value`: what a leader publishes.
    """
    if not isinstance(purpose, str):
        raise TypeError(f"purpose is a str, not {type(purpose).__name__}")
    if len(purpose) > LONGEST_PURPOSE:
        purpose = purpose[:LONGEST_PURPOSE]
    known = _written.get((worker, purpose, ttl))
    raw = known[1] if known is not None and now < known[0] else _write(worker, purpose, ttl, now)
    if holding:  # written behind the rest: whoever holds ten locks asks for the next as fast
        each = ", ".join([f'"{id_}": {_quoted(name)}' for id_, name in holding.items()])
        if len(raw) + len(each) > LARGEST - RESERVED:
            each = _fitting(holding, LARGEST - RESERVED - len(raw))
        raw = b'%b, "holding": {%b}}' % (raw[:-1], each.encode())
    if value:
        raw = b'%b, "value": %b}' % (raw[:-1], _quoted(value).encode())
    return raw


def _write(worker: str, purpose: str, ttl: float, now: float) -> bytes:
    """Write what is the same for all claims of a worker, anew only every second: at the half, so
    that the whole seconds that are told are never wrong by more than a half.
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
    """Write as much of what is held as there is room for."""
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
    """Read from a payload what its writer held, names by ids.

    Only ids and names that a claim can have: a search for deadlocks asks the engine for them.
    """
    said = parsed(raw).get("holding")
    if not isinstance(said, dict):
        return {}
    return {id_: name for id_, name in said.items() if len(id_) == ID and _is_name(name)}


def value(raw: bytes) -> str:
    """Read from a payload what a leader publishes."""
    return text(parsed(raw), "value", LONGEST_VALUE, "")


def read(raw: bytes) -> Who:
    """Read a payload. Anybody who may use the engine can write one, so this never raises, and
    whatever it returns is bounded: a field that is not as we write it is left out.
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
    )


def _is_name(name: object) -> bool:
    """Return whether the text is a valid lock name."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        return False
    try:
        return len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


if hasattr(os, "register_at_fork"):  # a child has another pid
    os.register_at_fork(after_in_child=_written.clear)
