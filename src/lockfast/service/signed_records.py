"""Writes into the record of a break who has broken the lock."""

from __future__ import annotations

import json

from lockfast.claims.break_records import LONGEST_BREAKER, LONGEST_REASON, read
from lockfast.errors import EngineRefused
from lockfast.port import RECORD
from lockfast.service.caller import Caller


def signed(record: bytes, claim: str, caller: Caller) -> bytes:
    """Return the record of a break with the subject of the client that sent it. Without a subject,
    it stays as it is. Raise `EngineRefused` if it is not the record of this claim.
    """
    if not caller.name:
        return record
    found = read(record)
    if found is None or found.id != claim:
        raise EngineRefused("the record of a break does not describe this break")
    who = f"{caller.name}{f' at {caller.address}' if caller.address else ''}: {found.by}"
    said = {
        "id": found.id,
        "ticket": found.ticket,
        "by": who[:LONGEST_BREAKER],
        "reason": found.reason[:LONGEST_REASON],
        "at": int(found.at),
    }
    line = json.dumps(said, ensure_ascii=False).encode(errors="replace")
    if len(line) > RECORD:
        raise EngineRefused(f"the record of a break has {len(line)} bytes: give a shorter reason")
    return line
