"""Records of breaks: the newest of each name are kept for about a day, by the wall clock."""

from __future__ import annotations

import time

from lockfast.engines.sqlite.clock import UNITS
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.port import RECORD, RECORDS, REMEMBERED

OLDEST = """SELECT n FROM broken WHERE name = ? ORDER BY n DESC LIMIT 1 OFFSET ?"""


def keep(transaction: Transaction, name: str, claim: str, record: bytes) -> None:
    """Store the record of a break, and delete old ones. The first record of a claim counts."""
    raw, now = name.encode(), time.time_ns() // 1000
    transaction.execute("DELETE FROM broken WHERE at < ?", (now - int(REMEMBERED * UNITS),))
    transaction.execute(
        "INSERT OR IGNORE INTO broken (id, name, at, record) VALUES (?, ?, ?, ?)",
        (claim, raw, now, record),
    )
    oldest = transaction.one(OLDEST, raw, RECORDS)
    if oldest is not None:
        transaction.execute("DELETE FROM broken WHERE name = ? AND n <= ?", (raw, oldest[0]))


def kept(transaction: Transaction, name: str) -> list[bytes]:
    """Return the records of a name, the newest first."""
    since = time.time_ns() // 1000 - int(REMEMBERED * UNITS)
    rows = transaction.all(
        "SELECT record FROM broken WHERE name = ? AND at >= ? ORDER BY n DESC LIMIT ?",
        *(name.encode(), since, RECORDS),
    )
    return [record for (record,) in rows if isinstance(record, bytes) and len(record) <= RECORD]
