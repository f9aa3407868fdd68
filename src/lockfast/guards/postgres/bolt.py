"""The bolt: while a guarded block is open, its connection cannot begin a second transaction.

A `commit()` or `rollback()` in the block, or in a helper that it calls, ends the guarded
transaction. psycopg would begin the next one by itself, and no guard would have checked the lease
for it. Autocommit could be switched on then, and every statement would be such a transaction. The
bolt does not see a transaction that the block begins by SQL of its own (COMMIT AND CHAIN, or COMMIT
and BEGIN in one text). So before the commit, the guard asks the server whether the transaction is
still the same one.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

from psycopg import BaseConnection
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from lockfast.errors import Unguarded

# psycopg calls this method for the text of every BEGIN: for a statement outside of autocommit, for
# `transaction()` and for a two-phase transaction. It is not public. If a later psycopg does not
# have it, this line fails at the import, and no stale write passes.
HOOK = BaseConnection._get_tx_start_command.__name__
# psycopg calls this method before every statement, in autocommit too, to begin a transaction.
START = BaseConnection._start_query.__name__
ENDED = (
    "the guarded transaction had ended before its block did: by an error that the block caught, or "
    "by a commit or rollback in the block. The guard rejects later statements, because it has not "
    "checked their transaction. Leave the block, and begin another one."
)


NAME = "_lockfast_block"


class Bolt:
    """Makes a connection refuse new transactions, from the check to the end of the guarded block.

    It replaces two methods of the connection, which must not be in autocommit.
    """

    def __init__(self, connection: BaseConnection[Any], block: str) -> None:
        """Close the bolt. An inner block shares the name of the block that contains it."""
        self._words = vars(connection)
        self._connection = connection
        self._outer = self._words.get(HOOK)  # a block within a block
        self._words[HOOK] = refuse
        self._words[START] = partial(start, connection)
        self.block: str = self._words.setdefault(NAME, block)
        """The value of `BLOCK` in the guarded transaction."""

    @property
    def broken(self) -> bool:
        """Whether the guarded transaction has ended or failed."""
        return over(self._connection)

    def open(self) -> None:
        """Open the bolt at the end of the block. An outer block keeps the connection bolted."""
        if self._outer is None:
            self._words.pop(HOOK, None)
            self._words.pop(START, None)
            self._words.pop(NAME, None)
        else:
            self._words[HOOK] = self._outer


def bolted(connection: BaseConnection[Any]) -> bool:
    """Return whether a guarded block is open on this connection."""
    return HOOK in vars(connection)


def over(connection: BaseConnection[Any]) -> bool:
    """Return whether the transaction has ended or failed, so that COMMIT would commit nothing."""
    return connection.pgconn.transaction_status != TransactionStatus.INTRANS


def refuse_next(connection: BaseConnection[Any]) -> None:
    """Raise `Unguarded` if the next statement would begin a new transaction."""
    if connection.pgconn.transaction_status == TransactionStatus.IDLE:
        refuse()


def start(connection: BaseConnection[Any]) -> PQGen[None]:
    """Replace `_start_query`: allow statements of the guarded transaction, and refuse others."""
    refuse_next(connection)
    yield from ()


def refuse() -> NoReturn:
    """Raise `Unguarded`, because the guarded transaction has ended."""
    raise Unguarded(ENDED)
