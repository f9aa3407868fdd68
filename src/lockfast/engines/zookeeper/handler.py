"""How kazoo connects: over plain TCP or TLS, leaving nothing open, and remembering what failed."""

from __future__ import annotations

import socket
import ssl

from kazoo.handlers.threading import SequentialThreadingHandler


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo ships no types
    """kazoo's threads, with connections of our own: kazoo leaves those open that TLS refuses."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        """Speak TLS if there is a context."""
        super().__init__()
        self._context = context
        self.trouble = ""
        """Why the last attempt failed."""

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_: object,
    ) -> socket.socket:
        """Connect to an address that was looked up for `hostname`."""
        try:
            plain = socket.create_connection(address, timeout)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found = self._secured(plain, hostname)
        except OSError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        return found

    def _secured(self, plain: socket.socket, hostname: str | None) -> socket.socket:
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise
