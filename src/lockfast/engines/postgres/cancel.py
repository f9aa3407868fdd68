"""Asks the server to cancel the statement that a connection waits for."""

from __future__ import annotations

import psycopg
from psycopg import capabilities
from psycopg.pq import PollingStatus
from psycopg.pq.abc import PGconn

from lockfast.engines.sql.steps import READ, WRITE, Steps


class Cancel:
    """One cancel request. The server closes it without an answer, so its effect is not known."""

    def __init__(self, pgconn: PGconn) -> None:
        """Prepare the request, and send nothing yet."""
        self._request = pgconn.cancel_conn() if capabilities.has_cancel_safe() else None

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return -1 if self._request is None else self._request.socket

    def send(self) -> Steps:
        """Connect in the same way as the connection did, also by TLS, and send the request."""
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
