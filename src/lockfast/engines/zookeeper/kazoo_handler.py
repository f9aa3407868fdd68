"""kazoo's handler with our sockets: TCP or TLS, no leaks, and the last error is remembered."""

from __future__ import annotations

import io
import os
import socket
import ssl
import time
from collections.abc import Callable

from kazoo.handlers.threading import SequentialThreadingHandler

from lockfast.engines.tls import Tls

PATIENCE = 2.0  # seconds that a four-letter command may take
LARGEST = 65_536  # bytes of its answer that are read
PIPE = 65_536  # bytes that a pipe holds


class WriteEnd:
    """The end of a pipe that callers write to, in order to wake kazoo's thread.

    kazoo writes a byte for each request, and reads one for each that it sends. Its own socket pair
    is full after 278 bytes (Linux). Then callers block past their deadlines while kazoo's thread
    waits for a silent server. Writing to this pipe never blocks, even when it is full.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over a descriptor. The file object checks under the interpreter's lock that it is
        still open. `os.write` could write to another file that got the number of a closed one.
        """
        os.set_blocking(descriptor, False)
        file = io.FileIO(descriptor, "w")
        self.send, self.close = file.write, file.close


class ReadEnd:
    """The end that kazoo's thread reads. It stays readable while requests wait to be sent."""

    def __init__(self, descriptor: int, writer: WriteEnd, waiting: Callable[[], object]) -> None:
        """Take over a descriptor. `waiting` returns something true while requests wait."""
        os.set_blocking(descriptor, False)
        file = io.FileIO(descriptor, "r")
        self.fileno, self.close = file.fileno, file.close
        self._read, self._writer, self._waiting = file.read, writer, waiting

    def recv(self, size: int) -> None:  # noqa: ARG002  # kazoo's, which wants one byte
        """Empty the pipe, unless requests wait. One byte stands for any number of requests."""
        if not self._waiting():
            self._read(PIPE)
            if self._waiting():  # its byte may have been read just now
                self._writer.send(b"\0")


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo ships no types
    """kazoo's threading handler with our own connections: kazoo leaks a socket if TLS fails."""

    def __init__(self, tls: Tls[ssl.SSLContext] | None) -> None:
        """Use TLS if `tls` is given, with its current context for each connection."""
        super().__init__()
        self._tls = tls
        self.waiting: Callable[[], object] = bool
        """Returns something true while requests wait to be sent. The session sets it."""
        self.trouble = ""
        """Why the last attempt to connect failed; empty after a success."""
        self._peer: tuple[tuple[str, int], str | None] | None = None

    def create_socket_pair(self) -> tuple[ReadEnd, WriteEnd]:
        """Return the pipe that wakes kazoo's thread: the end that it reads, and the other."""
        read, write = os.pipe()
        writer = WriteEnd(write)
        return ReadEnd(read, writer, self.waiting), writer

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_: object,
    ) -> socket.socket:
        """Connect to `address`, which was looked up for `hostname`, and return the socket."""
        try:
            plain = socket.create_connection(address, timeout)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found = self._secured(plain, hostname)
        except OSError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        self._peer = address, hostname
        return found

    def command(self, word: str) -> str:
        """Send a four-letter command to the last connected server, and return its answer. Blocking.

        kazoo's own method uses the port as the host name, and leaks a socket if TLS fails.
        """
        if self._peer is None:
            return ""
        address, hostname = self._peer
        end = time.monotonic() + PATIENCE
        said = b""
        with self.create_connection(address, hostname, PATIENCE) as connection:
            connection.sendall(word.encode())
            # A socket's timeout starts anew with each part, so a server that sends byte by byte
            # would never exceed it.
            while len(said) < LARGEST:
                left = end - time.monotonic()
                if left <= 0.0:
                    raise TimeoutError(f"the answer to {word} took longer than {PATIENCE:g} s")
                connection.settimeout(left)
                part = connection.recv(LARGEST - len(said))
                if not part:
                    break
                said += part
        return said.decode(errors="replace")

    def _secured(self, plain: socket.socket, hostname: str | None) -> socket.socket:
        if self._tls is None:
            return plain
        try:
            return self._tls.current().wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise
