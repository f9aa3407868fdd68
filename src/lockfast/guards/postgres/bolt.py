"""The bolt: while a guarded block is open, its connection cannot begin a second transaction.

A `commit()` or `rollback()` in the block, or in a helper that it calls, ends the guarded
transaction. psycopg would begin the next one by itself, and nothing would have checked the lease
for that one; and in autocommit, which can be switched on then, every statement would be one. One
that the block begins by SQL of its own (COMMIT AND CHAIN, or COMMIT and BEGIN in one text) the bolt
does not see: before the commit, the server is asked if it is still the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from psycopg import BaseConnection
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from lockfast.errors import Unguarded

# Whatever begins a transaction in psycopg asks this method for the BEGIN: a statement outside of
# autocommit, `transaction()`, a two-phase one. It is not public, so it is named here: a psycopg
# without it fails at the import, and not by letting a stale write through.
HOOK = BaseConnection._get_tx_start_command.__name__
# And whatever runs a statement, in autocommit too, asks this one to begin a transaction before it.
START = BaseConnection._start_query.__name__
ENDED = (
    "the guarded transaction had ended before its block did: by an error that the block has "
    "swallowed, or by a commit or rollback of its own. What comes after that is not guarded, so it "
    "is refused: leave the block, and begin another one."
)


NAME = "_lockfast_block"


class Bolt:
    """Closed from the check to the end of the block, on a connection that is not in autocommit."""

    def __init__(self, connection: BaseConnection[Any], block: str) -> None:
        """Close it, for the block of that name, or for the one that this is within."""
        self._words = vars(connection)
        self._connection = connection
        self._outer = self._words.get(HOOK)  # a block within a block
        self._words[HOOK] = refuse
        self._words[START] = partial(start, connection)
        self.block: str = self._words.setdefault(NAME, block)
        """Which block the transaction was begun for."""

    @property
    def broken(self) -> bool:
        """Whether the transaction is over."""
        return over(self._connection)

    def open(self) -> None:
        """Open it: the block has come to its end."""
        if self._outer is None:
            self._words.pop(HOOK, None)
            self._words.pop(START, None)
            self._words.pop(NAME, None)
        else:
            self._words[HOOK] = self._outer


def bolted(connection: BaseConnection[Any]) -> bool:
    """Return whether a block is open on this connection."""
    return HOOK in vars(connection)


def over(connection: BaseConnection[Any]) -> bool:
    """Return whether the transaction is over: a COMMIT finds nothing, or brings a ROLLBACK."""
    return connection.pgconn.transaction_status != TransactionStatus.INTRANS


def refuse_next(connection: BaseConnection[Any]) -> None:
    """Refuse a statement with which this connection would begin a transaction."""
    if connection.pgconn.transaction_status == TransactionStatus.IDLE:
        refuse()


def start(connection: BaseConnection[Any]) -> PQGen[None]:
    """Let a statement of the guarded transaction pass, and refuse every other one."""
    refuse_next(connection)
    yield from ()


def refuse() -> NoReturn:
    """Begin no transaction."""
    raise Unguarded(ENDED)
