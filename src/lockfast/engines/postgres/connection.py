"""One connection to a server, for threads and asyncio. Each step says what to wait for.

It uses libpq through psycopg's low-level wrapper, without psycopg's connections. A deadline cannot
bound those, and their finalizers would send to the parent's server from a forked child.
"""

from __future__ import annotations

import os

import psycopg
from psycopg import pq
from psycopg.pq import abc

from lockfast.engines.postgres.cancel import Cancel
from lockfast.engines.sql.steps import READ, WRITE, Steps
from lockfast.engines.sql.words import END
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

Row = list[bytes | None]

# Functions and operators are qualified, because a schema on the caller's search_path may contain
# others with the same names: see schema.sql.
GREETING = (
    b"SELECT pg_catalog.pg_backend_pid(), pg_catalog.floor(pg_catalog.date_part('epoch', "
    b"pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8, "
    b"pg_catalog.current_setting('transaction_isolation')"
)
BEGIN = b"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
# SQLSTATEs after which a later try may succeed: another isolation level; a standby, which may be
# promoted; a server in recovery; a lock that was not free in time.
NOT_NOW = frozenset(["25000", "25006", "55000", "55P03"])
MISSING = frozenset(["3F000", "42883", "42P01"])
INSTALL = (
    "the schema is not installed, or is of another version: run "
    "lockfast.engines.postgres.install(url) once, or `lockfast --url URL install`"
)
GRANT = (
    "the role has no right to use locks: let the owner of the schema run "
    "SELECT lockfast.grant_v2('ROLE')"
)
DENIED = "42501"
OURS = (  # messages of libpq after which only another URL helps, and no later try
    "no password supplied",
    "does not support SSL",
    "certificate verify failed",
    "root certificate file",
)
# Read once here, because looking up a member of an enum takes longer than comparing two numbers.
OK, DONE = int(pq.ExecStatus.TUPLES_OK), int(pq.ExecStatus.COMMAND_OK)
BAD, FREE = int(pq.ConnStatus.BAD), int(pq.TransactionStatus.IDLE)


class Link:
    """A connection that is open, or being opened."""

    def __init__(self, conninfo: str, where: str) -> None:
        """Start to connect. `where` names the server in messages."""
        self.where = where
        self.listens = False
        """Whether it listens for all clients that were heard when it began to."""
        self.missing: list[str] | None = None
        """Those of them for which it does not listen yet. None: it has not begun to."""
        self.pooled = False
        """Whether a pooler between us and the server shares its connections among clients."""
        self.micros = 0
        """The server's clock in µs, when the connection was made."""
        self._careful = False
        """Whether the default isolation level is not READ COMMITTED. Then each message sets the
        level in front of its statement, which costs no round trip and suits every pooler."""
        self._rows: list[Row] = []
        self._error: EngineError | None = None
        self._pgconn: abc.PGconn = pq.PGconn.connect_start(conninfo.encode())

    def fileno(self) -> int:
        """Return the descriptor to wait for. While connecting, it may change after each step."""
        try:
            return self._pgconn.socket
        except psycopg.Error as broken:
            raise self._broken(broken) from broken

    @property
    def used_password(self) -> bool:
        """Whether the server asked for a password, and got one."""
        return self._pgconn.used_password

    @property
    def idle(self) -> bool:
        """Whether the connection may be used again, because the last exchange is complete."""
        return self._pgconn.transaction_status == FREE

    def connect(self) -> Steps:
        """Connect, and read the server's clock."""
        pgconn = self._pgconn
        while pgconn.status != BAD:
            status = pgconn.connect_poll()
            if status == pq.PollingStatus.OK:
                break
            if status == pq.PollingStatus.FAILED:
                raise unconnected(pgconn.get_error_message(), self.where)
            yield READ if status == pq.PollingStatus.READING else WRITE
        else:
            raise unconnected(pgconn.get_error_message(), self.where)
        pgconn.nonblocking = 1
        events = self.send(GREETING)
        rows = None
        while rows is None:
            yield events
            rows, events = self.receive()
        try:
            ((pid, micros, isolation),) = rows
            self.pooled = int(pid or 0) != pgconn.backend_pid
            self.micros = int(micros or 0)
            if not 0 <= self.micros < END:
                raise ValueError("no time")
        except ValueError as error:
            said = (
                f"PostgreSQL at {self.where}: the greeting of the server cannot be read ({error})"
            )
            raise EngineUnavailable(said[:500], sent=False) from error
        self._careful = isolation != b"read committed"

    def send(self, sql: bytes) -> int:
        """Send statements, and return what to wait for. The simple protocol prepares nothing, so it
        suits every pooler.
        """
        self._rows, self._error = [], None
        try:
            self._pgconn.send_query(BEGIN + sql if self._careful else sql)
            return READ | WRITE if self._pgconn.flush() else READ
        except psycopg.Error as broken:
            raise self._broken(broken) from broken

    def receive(self) -> tuple[list[Row] | None, int]:
        """Read from the socket, once it is ready. Return the rows of the last statement when all
        have arrived. Until then, return None and what to wait for.
        """
        pgconn = self._pgconn
        try:
            pgconn.consume_input()
            if pgconn.flush():
                return None, READ | WRITE
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    break
                if result.status != OK:
                    if result.status != DONE:
                        self._error = self._failure(result)
                elif result.nfields == result.ntuples == 1:
                    self._rows = [[result.get_value(0, 0)]]
                else:
                    columns = range(result.nfields)
                    self._rows = [
                        [result.get_value(row, column) for column in columns]
                        for row in range(result.ntuples)
                    ]
            else:
                return None, READ
        except psycopg.Error as broken:
            raise self._broken(broken) from broken
        if self._error is not None:
            raise self._error
        return self._rows, READ

    def _broken(self, error: psycopg.Error) -> EngineUnavailable:
        return EngineUnavailable(f"PostgreSQL at {self.where}: {error}", sent=True)

    def pushes(self) -> list[bytes]:
        """Return the notifications that were read from the socket so far."""
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

    def cancel(self) -> Cancel:
        """Return a request to cancel the statement under way. While a server waits for a lock or a
        standby, it does not notice that its client has hung up, and keeps the connection.
        """
        return Cancel(self._pgconn)

    def close(self) -> None:
        """Close the connection, and tell the server."""
        self._pgconn.finish()

    def forget(self) -> None:
        """Close only the descriptor, in a forked child. `close` would end the parent's session."""
        if self._pgconn.status != BAD:
            os.close(self._pgconn.socket)

    def _failure(self, result: abc.PGresult) -> EngineError:
        code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(
            "utf-8", "replace"
        )
        if code in {"25006", "55000"}:  # another server is the primary now
            self.close()
        if code == "25000":  # the server's default was changed meanwhile
            self._careful = True
        return failed(code, text or result.get_error_message(), self.where)


def failed(code: str, text: str, where: str, denied: str = GRANT) -> EngineError:
    """Return the error for an SQLSTATE: unavailable if a later try may succeed, else refused.

    `denied`: what to do if a right is missing.
    """
    said = f"PostgreSQL at {where}: {text} [{code}]"
    if code in NOT_NOW or code[:2] in {"40", "53"}:
        return EngineUnavailable(said, sent=False)
    if not code or code[:2] in {"08", "57"}:
        return EngineUnavailable(said, sent=True)
    ours = text.startswith(("the claim ", "the schema lockfast "))  # says itself what is missing
    hint = INSTALL if code in MISSING else denied if code == DENIED and not ours else ""
    return EngineRefused(f"{said} ({hint})" if hint else said)


def unconnected(text: str, where: str) -> EngineError:
    """Return the error for a failed connection: refused if the server said no, unavailable if it is
    not there or not ready. Only the text tells, because libpq gives no SQLSTATE.
    """
    text = " ".join(text.split())
    later = ("starting", "shutting", "recovery", "accepting", "too many", "slots", "terminat")
    fatal = "FATAL:" in text and not any(word in text for word in later)
    if fatal or any(word in text for word in OURS):
        return EngineRefused(f"PostgreSQL at {where}: {text}")
    return EngineUnavailable(f"no connection to PostgreSQL at {where}: {text}", sent=False)
