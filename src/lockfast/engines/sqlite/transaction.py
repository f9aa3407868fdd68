"""One transaction: the time that it counts as now, what it reads of the host, what it has woken."""

from __future__ import annotations

import sqlite3
from typing import Any

from lockfast.port import Wake

ROUNDING = 1000  # µs by which times of two time namespaces may differ
LIFE = "CASE WHEN waits THEN wait_ttl ELSE ttl END"


class Transaction:
    """A transaction that has begun. If it writes, no other process can until it ends.

    The clock is read after the transaction has begun. So the order of transactions is the order of
    their times, as long as the clock does not go back.
    """

    def __init__(self, connection: sqlite3.Connection, now: int, *, writes: bool) -> None:
        """Take a connection whose transaction has begun, at the host's time `now`, in µs."""
        self.execute = connection.execute
        self.now = now
        self.wakes: list[Wake] = []
        """Waiters that it has granted. They are to be notified after the commit."""
        row = self.one("SELECT seen, last FROM host")
        if row is None:
            raise ValueError("the table host has lost its row")
        seen, self.last = row
        if writes and now < seen - ROUNDING:
            self._turn_back()

    def one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """Return the first row of a query; None if there is none."""
        row: tuple[Any, ...] | None = self.execute(sql, values).fetchone()
        return row

    def all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self.execute(sql, values).fetchall()

    def note(self) -> None:
        """Store the time, which a claim or a renewal has counted from, and the highest ticket."""
        self.execute("UPDATE host SET seen = ?, last = ?", (self.now, self.last))

    def _turn_back(self) -> None:
        """Shorten what would expire too late, since the clock went back: the host was restarted.

        No claim expires later than one ttl from now, so a dead holder blocks for one ttl at most.
        """
        self.execute(
            f"UPDATE claim SET expires = ?1 + {LIFE} WHERE expires > ?1 + {LIFE}",  # noqa: S608  # ours
            (self.now,),
        )
        self.execute("UPDATE host SET seen = ?", (self.now,))
