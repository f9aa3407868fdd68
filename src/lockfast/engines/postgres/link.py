"""One connection, without a colour: each step is a generator that says what to wait for.

libpq is used through psycopg's own wrapper, below its connections: these cannot be bounded by a
deadline, and a finalizer of theirs in a forked child would speak to the parent's server.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TypeVar

import psycopg
from psycopg import pq
from psycopg.pq import abc

from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

T = TypeVar("T")
Row = list[bytes | None]
READ, WRITE = 1, 2
Steps = Generator[int, None, T]
"""Yields READ, WRITE or both: go on once the socket is ready for one of them."""

GREETING = (
    b"SELECT pg_backend_pid(), floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
)
NOT_NOW = frozenset(["25006", "55P03"])  # a standby, a lock that was not to be had
MISSING = frozenset(["3F000", "42883", "42P01"])
INSTALL = (
    "the schema is not installed, or not this version of it: run "
    "lockfast.engines.postgres.install(url) once"
)


class Link:
    """A connection that is open, or being opened."""

    def __init__(self, conninfo: str, where: str) -> None:
        """Begin to connect."""
        self.where = where
        self.channel: str | None = None
        self.pooled = False
        """Whether something between us and the server hands its connections around."""
        self.micros = 0
        """The server's clock when it was greeted."""
        self._pgconn: abc.PGconn = pq.PGconn.connect_start(conninfo.encode())

    def fileno(self) -> int:
        """Give the socket to wait for. While connecting, it may be another after each step."""
        try:
            return self._pgconn.socket
        except psycopg.Error as broken:
            raise EngineUnavailable(f"PostgreSQL at {self.where}: {broken}", sent=True) from broken

    @property
    def idle(self) -> bool:
        """Whether it may be used again: the last exchange came to its end."""
        return self._pgconn.transaction_status == pq.TransactionStatus.IDLE

    def connect(self) -> Steps[None]:
        """Connect, and read the server's clock."""
        pgconn = self._pgconn
        while pgconn.status != pq.ConnStatus.BAD:
            status = pgconn.connect_poll()
            if status == pq.PollingStatus.OK:
                break
            if status == pq.PollingStatus.FAILED:
                raise unconnected(pgconn.get_error_message(), self.where)
            yield READ if status == pq.PollingStatus.READING else WRITE
        else:
            raise unconnected(pgconn.get_error_message(), self.where)
        pgconn.nonblocking = 1
        ((pid, micros),) = yield from self.exchange(GREETING)
        self.pooled = int(pid or 0) != pgconn.backend_pid
        self.micros = int(micros or 0)

    def exchange(self, sql: bytes) -> Steps[list[Row]]:
        """Send statements by the simple protocol, which prepares nothing and so suits every
        pooler, and give the rows of the last.
        """
        pgconn = self._pgconn
        error: EngineError | None = None
        rows: list[Row] = []
        try:
            pgconn.send_query(sql)
            while pgconn.flush():
                yield READ | WRITE
                pgconn.consume_input()
            while True:
                while pgconn.is_busy():
                    yield READ
                    pgconn.consume_input()
                result = pgconn.get_result()
                if result is None:
                    break
                if result.status == pq.ExecStatus.TUPLES_OK:
                    columns = range(result.nfields)
                    rows = [
                        [result.get_value(row, column) for column in columns]
                        for row in range(result.ntuples)
                    ]
                elif result.status != pq.ExecStatus.COMMAND_OK:
                    error = self._failure(result)
        except psycopg.Error as broken:
            raise EngineUnavailable(f"PostgreSQL at {self.where}: {broken}", sent=True) from broken
        if error is not None:
            raise error
        return rows

    def pushes(self) -> list[bytes]:
        """Give the notifications that have arrived with what was read."""
        pushes = []
        while (push := self._pgconn.notifies()) is not None:
            pushes.append(push.extra)
        return pushes

    def drain(self) -> None:
        """Read what has arrived, after the socket was found readable."""
        try:
            self._pgconn.consume_input()
        except psycopg.Error as broken:
            raise EngineUnavailable(f"PostgreSQL at {self.where}: {broken}", sent=False) from broken

    def close(self) -> None:
        """Say goodbye."""
        self._pgconn.finish()

    def forget(self) -> None:
        """Close the descriptor alone, in a forked child: a goodbye would end the parent's."""
        if self._pgconn.status != pq.ConnStatus.BAD:
            os.close(self._pgconn.socket)

    def _failure(self, result: abc.PGresult) -> EngineError:
        code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(
            "utf-8", "replace"
        )
        said = f"PostgreSQL at {self.where}: {text or result.get_error_message()} [{code}]"
        if code in NOT_NOW or code[:2] in {"40", "53"}:
            if code == "25006":  # another server is the primary now
                self.close()
            return EngineUnavailable(said, sent=False)
        if not code or code[:2] in {"08", "57"}:
            return EngineUnavailable(said, sent=True)
        return EngineRefused(f"{said} ({INSTALL})" if code in MISSING else said)


def unconnected(text: str, where: str) -> EngineError:
    """Tell a server that is not there, or not yet, from one that said no. libpq gives no code."""
    text = " ".join(text.split())
    later = ("starting", "shutting", "recovery", "accepting", "too many", "slots", "terminat")
    if "FATAL:" in text and not any(word in text for word in later):
        return EngineRefused(f"PostgreSQL at {where}: {text}")
    return EngineUnavailable(f"no connection to PostgreSQL at {where}: {text}", sent=False)
