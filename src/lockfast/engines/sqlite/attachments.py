"""Which connection of the service each claim belongs to, and the end of claims with it.

The table is made when a client of the service first asks for it. So files that are used without the
service, or by earlier versions of lockfast, do not change.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.engines.sqlite.claims import Claims
from lockfast.engines.sqlite.clock import UNITS
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.port import ATTACHED, Ask

TABLE = """CREATE TABLE IF NOT EXISTS attached (
 id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID"""
EXPIRY = "CREATE INDEX IF NOT EXISTS attached_expiry ON attached (until)"
FIND = "SELECT epoch FROM attached WHERE id = ? AND until > ?"
KEEP = """INSERT INTO attached (id, epoch, until) VALUES (?, ?, ?)
 ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, until = excluded.until"""
DROP = "DELETE FROM attached WHERE until <= ?"


def attach(transaction: Transaction, asks: Sequence[Ask]) -> list[bool]:
    """Store that claims belong to their connections, unless they belong to later ones."""
    _prepare(transaction)
    return [_attach(transaction, ask) for ask in asks]


def depart(transaction: Transaction, claims: Claims, asks: Sequence[Ask]) -> list[bool]:
    """Remove the claims for good that belong to their connections."""
    _prepare(transaction)
    found = []
    for ask in asks:
        ours = transaction.one(FIND, ask.id, transaction.now) == (ask.epoch,)
        found.append(ours and claims.resign(transaction, [ask], doubt=True)[0])
    return found


def _attach(transaction: Transaction, ask: Ask) -> bool:
    (latest,) = transaction.one(FIND, ask.id, transaction.now) or (0,)
    if latest > ask.epoch:
        return False
    until = transaction.now + round((ask.shape.ttl + ATTACHED) * UNITS)
    transaction.execute(KEEP, (ask.id, ask.epoch, until))
    return True


def _prepare(transaction: Transaction) -> None:
    transaction.execute(TABLE)
    transaction.execute(EXPIRY)
    transaction.execute(DROP, (transaction.now,))
