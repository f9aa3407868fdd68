"""How kazoo connects: over plain TCP or TLS, leaving nothing open, and remembering what failed."""

from __future__ import annotations

import io
import os
import socket
import ssl
import time
from collections.abc import Callable

from kazoo.handlers.threading import SequentialThreadingHandler

from lockfast.engines.tls import Tls

PATIENCE = 2.0  # seconds that a four-letter word may take
LARGEST = 65_536  # bytes of its answer that are read
PIPE = 65_536  # bytes that a pipe holds


class WriteEnd:
    """What wakes kazoo's thread: the end of a pipe that callers write to.

    kazoo writes a byte for each request, and reads one for each that it sends. Its own sockets are
    full after 278 bytes (Linux): while its thread waits for a server that is silent, callers then
    block past their deadlines. Writing to this pipe never blocks, also when it is full.
    """

    def __init__(self, descriptor: int) -> None:
        """Own a descriptor. A file object checks under the interpreter's lock that it is still
        open: `os.write` could hit a descriptor that was closed and given to somebody else.
        """
        os.set_blocking(descriptor, False)
        file = io.FileIO(descriptor, "w")
        self.send, self.close = file.write, file.close


class ReadEnd:
    """The other end, which kazoo's thread reads. It is readable as long as requests wait."""

    def __init__(self, descriptor: int, writer: WriteEnd, waiting: Callable[[], object]) -> None:
        """Own a descriptor. `waiting`: what is true while requests wait to be sent."""
        os.set_blocking(descriptor, False)
        file = io.FileIO(descriptor, "r")
        self.fileno, self.close = file.fileno, file.close
        self._read, self._writer, self._waiting = file.read, writer, waiting

    def recv(self, size: int) -> None:  # noqa: ARG002  # kazoo's, which wants one byte
        """Take the wake-ups in, unless requests wait: one byte stands for any number of them."""
        if not self._waiting():
            self._read(PIPE)
            if self._waiting():  # its wake-up may have been among those
                self._writer.send(b"\0")


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo ships no types
    """kazoo's threads, with connections of our own: kazoo leaves those open that TLS refuses."""

    def __init__(self, tls: Tls[ssl.SSLContext] | None) -> None:
        """Speak TLS if there is something to make a context of."""
        super().__init__()
        self._tls = tls
        self.waiting: Callable[[], object] = bool
        """What is true while requests wait to be sent."""
        self.trouble = ""
        """Why the last attempt failed."""
        self._peer: tuple[tuple[str, int], str | None] | None = None

    def create_socket_pair(self) -> tuple[ReadEnd, WriteEnd]:
        """Make what wakes kazoo's thread: the end that it reads, and the one that others write."""
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
        """Connect to an address that was looked up for `hostname`."""
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
        """Send a four-letter word to the server that was connected to last. Blocking.

        kazoo's own takes the port for the host's name, and leaves a TLS connection open that fails.
        """
        if self._peer is None:
            return ""
        address, hostname = self._peer
        end = time.monotonic() + PATIENCE
        said = b""
        with self.create_connection(address, hostname, PATIENCE) as connection:
            connection.sendall(word.encode())
            # A timeout of the socket is one per part: who sends byte by byte would never meet it.
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
