"""The bolt: while a guarded block is open, its connection cannot end the transaction unnoticed.

A commit in the block, or in a helper that it calls, would end the guarded transaction. The next
statement would begin another one, which no guard has checked, or commit itself in autocommit.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from inspect import iscoroutinefunction
from typing import Any

from lockfast.guards.mysql.lookout import Lookout
from lockfast.guards.mysql.statements import ENDED, STILL, code_of

NAME = "_lockfast_bolt"
# PyMySQL and mysqlclient have these public methods. Cursors send everything by `query`. PyMySQL
# connects anew by `connect` if `ping` finds the connection closed.
REFUSED = ("autocommit", "begin", "change_user", "commit", "connect", "rollback")


WRAPPED = (
    "a guarded transaction needs a connection of PyMySQL or mysqlclient itself, because it watches "
    "what is sent over it, and {} is not one. A pool may wrap the connection: SQLAlchemy's "
    "raw_connection() has the driver's own as `driver_connection`. With asyncio, use the guard for "
    "SQLAlchemy."
)


class Bolt:
    """Watches the statements of a driver's connection, from the check to the end of the block.

    It replaces methods of that connection. A block within a block shares the bolt of the outer one.
    """

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # of PyMySQL or mysqlclient
        """Close the bolt."""
        self._connection = connection
        self._words = vars(connection)
        self._outer: Bolt | None = self._words.get(NAME)
        self._lookout = Lookout()
        if self._outer is None:
            self._send = connection.query
            self._words[NAME] = self
            self._words["query"] = self._query
            for word in REFUSED:
                if hasattr(connection, word):
                    self._words[word] = partial(self._refuse, word)
        else:
            self._lookout = self._outer._lookout

    def check(self) -> None:
        """Raise `Unguarded` if the transaction has ended, or if a statement was refused."""
        self._lookout.check()

    def open(self) -> None:
        """Open the bolt at the end of the block. An outer block keeps the connection bolted."""
        if self._outer is None:
            for word in (NAME, "query", *REFUSED):
                self._words.pop(word, None)

    def _query(self, statement: str | bytes, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the driver's
        if self._lookout.before(statement):
            self._ask()
        sent = self._send(statement, *args, **kwargs)
        self._lookout.after(statement)
        return sent

    def _ask(self) -> None:
        """Raise `Unguarded` unless the server is still in a transaction."""
        self._words["query"] = self._send
        try:
            with closing(self._connection.cursor()) as cursor:
                cursor.execute(STILL)
        except self._connection.Error as error:
            if code_of(error) == ENDED:
                self._lookout.end()
            raise
        finally:
            self._words["query"] = self._query

    def _refuse(self, word: str, *args: object, **kwargs: object) -> None:
        del args, kwargs
        self._lookout.refuse(f"connection.{word}()")


def refuse_wrapped(connection: Any) -> None:  # noqa: ANN401  # perhaps of PyMySQL or mysqlclient
    """Raise `TypeError` if the bolt would not see the statements of this connection.

    The cursors of a wrapper send past its `query`. Some wrappers also connect anew when the server
    has closed the connection, and send the statement again, which no guard has checked there. A
    connection for asyncio would send nothing at all, because nobody awaits it here.
    """
    query = getattr(connection, "query", None)
    own = getattr(connection.cursor(), "connection", None) is connection
    if not own or query is None or iscoroutinefunction(query):
        kind = type(connection)
        raise TypeError(WRAPPED.format(f"{kind.__module__}.{kind.__qualname__}"))


def bolted(connection: Any) -> bool:  # noqa: ANN401  # of PyMySQL or mysqlclient
    """Return whether a guarded block is open on this connection."""
    return NAME in vars(connection)
