"""A request to the server to drop what a connection is waiting for there."""

from __future__ import annotations

import psycopg
from psycopg import capabilities
from psycopg.pq import PollingStatus
from psycopg.pq.abc import PGconn

from lockfast.engines.postgres.steps import READ, WRITE, Steps


class Cancel:
    """One request. A server closes it without an answer: what came of it is not known."""

    def __init__(self, pgconn: PGconn) -> None:
        """Nothing is sent yet."""
        self._request = pgconn.cancel_conn() if capabilities.has_cancel_safe() else None

    def fileno(self) -> int:
        """Return the socket to wait for."""
        return -1 if self._request is None else self._request.socket

    def send(self) -> Steps:
        """Connect as the connection did, with TLS where that has it, and ask."""
        if self._request is None:  # a libpq before 17 would block
            return
        try:
            self._request.start()
            while (status := self._request.poll()) not in (PollingStatus.OK, PollingStatus.FAILED):
                yield READ if status == PollingStatus.READING else WRITE
        except psycopg.Error:
            return
        finally:
            self._request.finish()
