"""One connection, for threads and asyncio: each step says what to wait for.

libpq is used through psycopg's own wrapper, below its connections: these cannot be bounded by a
deadline, and a finalizer of theirs in a forked child would speak to the parent's server.
"""

from __future__ import annotations

import os

import psycopg
from psycopg import pq
from psycopg.pq import abc

from lockfast.engines.postgres.cancel import Cancel
from lockfast.engines.postgres.steps import READ, WRITE, Steps
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

Row = list[bytes | None]

# Qualified, operators too: see schema.sql on what stands in the caller's search_path.
GREETING = (
    b"SELECT pg_catalog.pg_backend_pid(), pg_catalog.floor(pg_catalog.date_part('epoch', "
    b"pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8, "
    b"pg_catalog.current_setting('transaction_isolation')"
)
END = 2**53  # of a clock in µs
BEGIN = b"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
# Another isolation; a standby, which may be promoted; a server in recovery; a lock that was not to
# be had.
NOT_NOW = frozenset(["25000", "25006", "55000", "55P03"])
MISSING = frozenset(["3F000", "42883", "42P01"])
INSTALL = (
    "the schema is not installed, or not this version of it: run "
    "lockfast.engines.postgres.install(url) once"
)
OURS = (  # said by libpq itself: the URL has to be changed, and no time helps
    "no password supplied",
    "does not support SSL",
    "certificate verify failed",
    "root certificate file",
)
# Read here once: to look a member of an enum up takes longer than to compare two numbers.
OK, DONE = int(pq.ExecStatus.TUPLES_OK), int(pq.ExecStatus.COMMAND_OK)
BAD, FREE = int(pq.ConnStatus.BAD), int(pq.TransactionStatus.IDLE)


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
        self._careful = False
        """Whether the isolation is not the one we need, and so is said in front of each statement:
        in the same message, where it costs no round trip and suits every pooler."""
        self._rows: list[Row] = []
        self._error: EngineError | None = None
        self._pgconn: abc.PGconn = pq.PGconn.connect_start(conninfo.encode())

    def fileno(self) -> int:
        """Return the socket to wait for. While connecting, it may be another after each step."""
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
        """Whether it may be used again: the last exchange came to its end."""
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
            said = f"PostgreSQL at {self.where}: a greeting that cannot be read ({error})"
            raise EngineUnavailable(said[:500], sent=False) from error
        self._careful = isolation != b"read committed"

    def send(self, sql: bytes) -> int:
        """Send statements by the simple protocol, which prepares nothing and so suits every pooler.
        Say what to wait for.
        """
        self._rows, self._error = [], None
        try:
            self._pgconn.send_query(BEGIN + sql if self._careful else sql)
            return READ | WRITE if self._pgconn.flush() else READ
        except psycopg.Error as broken:
            raise self._broken(broken) from broken

    def receive(self) -> tuple[list[Row] | None, int]:
        """Go on once the socket is ready: give the rows of the last statement when all is there.
        Until then, say what to wait for.
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
        """Return the notifications that have arrived with what was read."""
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
        """Make the request to drop what is under way: a server does not notice that its client has
        hung up while it waits for a lock or for a standby, and keeps the connection for that long.
        """
        return Cancel(self._pgconn)

    def close(self) -> None:
        """Say goodbye."""
        self._pgconn.finish()

    def forget(self) -> None:
        """Close the descriptor alone, in a forked child: a goodbye would end the parent's."""
        if self._pgconn.status != BAD:
            os.close(self._pgconn.socket)

    def _failure(self, result: abc.PGresult) -> EngineError:
        code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        text = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(
            "utf-8", "replace"
        )
        if code in {"25006", "55000"}:  # another server is the primary now
            self.close()
        if code == "25000":  # the default was changed behind our back
            self._careful = True
        return failed(code, text or result.get_error_message(), self.where)


def failed(code: str, text: str, where: str) -> EngineError:
    """Tell by its SQLSTATE whether a statement may succeed later, or was refused."""
    said = f"PostgreSQL at {where}: {text} [{code}]"
    if code in NOT_NOW or code[:2] in {"40", "53"}:
        return EngineUnavailable(said, sent=False)
    if not code or code[:2] in {"08", "57"}:
        return EngineUnavailable(said, sent=True)
    return EngineRefused(f"{said} ({INSTALL})" if code in MISSING else said)


def unconnected(text: str, where: str) -> EngineError:
    """Tell a server that is not there, or not yet, from one that said no. libpq gives no code."""
    text = " ".join(text.split())
    later = ("starting", "shutting", "recovery", "accepting", "too many", "slots", "terminat")
    fatal = "FATAL:" in text and not any(word in text for word in later)
    if fatal or any(word in text for word in OURS):
        return EngineRefused(f"PostgreSQL at {where}: {text}")
    return EngineUnavailable(f"no connection to PostgreSQL at {where}: {text}", sent=False)
