"""Records of breaks. The process that breaks a lock writes one, and the old holder reads it."""

from __future__ import annotations

import getpass
import json
import os
import socket
import time
from collections.abc import Sequence

from lockfast.breaks import LATEST, Break
from lockfast.claims.payload import ID
from lockfast.claims.untrusted import number, parsed, text
from lockfast.core.token import LIMIT
from lockfast.port import RECORD

LONGEST_REASON, LONGEST_BREAKER = 300, 200  # characters, of at most six bytes, to fit into RECORD


def written(claim: str, ticket: int, reason: str, by: str | None = None) -> bytes:
    """Return the record of a break. `by`: who breaks it. None: this process."""
    if not isinstance(reason, str):
        raise TypeError(f"reason must be a str, not {type(reason).__name__}")
    if by is not None and not isinstance(by, str):
        raise TypeError(f"by must be a str, not {type(by).__name__}")
    said = {
        "id": claim,
        "ticket": ticket,
        "by": (_breaker() if by is None else by)[:LONGEST_BREAKER],
        "reason": reason[:LONGEST_REASON],
        "at": int(time.time()),
    }
    return json.dumps(said, ensure_ascii=False).encode(errors="replace")


def _breaker() -> str:
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError, ImportError):  # the user of a container may have no name
        user = f"uid {os.getuid()}" if hasattr(os, "getuid") else "somebody"
    return f"{user} on {socket.gethostname()} pid {os.getpid()}"


def read(raw: bytes) -> Break | None:
    """Return the break that a record describes, or None if it is not a record of lockfast.

    Every client of the engine can write any record. So this never raises, and long fields are cut.
    """
    said = parsed(raw) if len(raw) <= RECORD else {}
    claim = text(said, "id", ID, "")
    if len(claim) != ID:
        return None
    return Break(
        id=claim,
        ticket=int(number(said, "ticket", 1, LIMIT - 1)),
        by=text(said, "by", LONGEST_BREAKER, "?"),
        reason=text(said, "reason", LONGEST_REASON, ""),
        at=float(number(said, "at", 0, LATEST)),
    )


def history(records: Sequence[bytes]) -> list[Break]:
    """Return the breaks of a name, the newest first.

    If there are two records for one claim, only the older counts, because the later break found
    the claim already gone.
    """
    found: dict[str, Break] = {}
    for each in map(read, reversed(records)):
        if each is not None:
            found.setdefault(each.id, each)
    return list(found.values())[::-1]
