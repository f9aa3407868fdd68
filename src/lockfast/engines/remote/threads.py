"""The blocking transport: a thread of its own moves the bytes of the connection.

Callers share the connection, and any of them may be interrupted by a signal handler that uses it
too. So no caller touches the socket. It appends its message to a queue, rings a bell, and waits for
its own event. The thread ends with its connection.
"""

from __future__ import annotations

import _thread
import socket
import ssl
from collections import deque

from lockfast.engines.remote.line import Line, Owner, Pending
from lockfast.engines.remote.opening import Opening
from lockfast.engines.remote.transport import IO, Transport
from lockfast.engines.remote.url import Place
from lockfast.engines.remote.websocket import Ended, WebSocket
from lockfast.engines.sockets import dial, give_up, keep_alive, reason
from lockfast.errors import EngineUnavailable
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import ThreadBell

PIECE = 65_536  # bytes that are read at once


class ThreadLine(Line):
    """A connection whose bytes one thread moves. Any thread may post."""

    def __init__(self, owner: Owner, wire: WebSocket, where: str, sock: socket.socket) -> None:
        """Take a connected socket."""
        super().__init__(owner, wire, where)
        self._sock = sock
        self._sock.settimeout(IO)
        self._bell = ThreadBell(owner.now)
        self._queue: deque[bytes | None] = deque()

    def post(self, message: bytes) -> None:
        """Queue a message, and wake the thread."""
        self._queue.append(message)
        self._bell.ring()

    def probe(self) -> None:
        """Queue a ping, and wake the thread."""
        self._queue.append(None)
        self._bell.ring()

    async def answered(self, pending: Pending, deadline: float) -> bool:
        """Wait for the reply to a request until the deadline, and return whether it came."""
        return await pending.event.wait(deadline)

    def shut(self) -> None:
        """Wake the thread, which closes the socket."""
        self._bell.ring()

    def leave_to_parent(self) -> None:
        """Close the child's copy of the socket."""
        give_up(self._sock.fileno())

    def begin(self, deadline: float) -> None:
        """Shake hands and greet, until the deadline."""
        while self.welcome is None and self.error is None:
            if self._owner.now() >= deadline:
                self.drop(EngineUnavailable(f"{self.where}: no greeting in time", sent=False))
            self._turn(deadline)

    def serve(self) -> None:
        """Move bytes until the connection ends."""
        try:
            while self.error is None:
                self._turn(None)
        finally:
            self.drop(EngineUnavailable(f"{self.where}: its thread has ended", sent=True))
            self._sock.close()
            self._bell.close()

    def _turn(self, until: float | None) -> None:
        """Write what is queued, then wait for something to read or to write."""
        try:
            self._write()
            if self._buffered() or drive(self._bell.wait(until, self._sock.fileno())):
                data = self._read()
                if data is not None:
                    self.fed(data)
        except (Ended, OSError) as error:
            self.drop(EngineUnavailable(f"{self.where}: {reason(error)}", sent=True))

    def _buffered(self) -> bool:
        """Return whether bytes were received that have not been read, so that no wait sees them."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def _read(self) -> bytes | None:
        """Read what has arrived. None: only a part of a TLS record, or one without data of ours.
        To wait for the rest would keep the thread from writing.
        """
        if not isinstance(self._sock, ssl.SSLSocket):
            return self._sock.recv(PIECE)
        self._sock.settimeout(0.0)
        try:
            return self._sock.recv(PIECE)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        finally:
            self._sock.settimeout(IO)

    def _write(self) -> None:
        queue = self._queue
        while queue:
            message = queue.popleft()
            if message is None:
                self._socket.ping()
            else:
                self._socket.send(message)
        out = self._socket.out()
        if out:
            self._sock.sendall(out)


class ThreadTransport(Transport):
    """The connection of a blocking client."""

    def _begin(self, opening: Opening) -> None:
        try:
            _thread.start_new_thread(self._run, (opening,))
        except RuntimeError as error:
            self._openings.pop(None, None)
            opening.end(EngineUnavailable(f"no thread for the connection: {error}", sent=False))

    def _run(self, opening: Opening) -> None:
        line = drive(self._open(opening))
        if isinstance(line, ThreadLine):
            line.serve()

    async def _dial(self, place: Place, deadline: float) -> Line:
        address = self._address
        context = address.tls.current() if address.tls else None
        key = address.secret()
        sock = dial(place.host, place.port, deadline, self.now)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(sock)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=place.host)
            wire = WebSocket(
                place.host,
                place.port,
                address.path,
                key,
                secure=context is not None,
                returns=self.identity.epoch > 0,
            )
            line = ThreadLine(self, wire, str(place), sock)
        except BaseException:
            sock.close()
            raise
        line.begin(deadline)
        if line.error is not None:
            line.serve()  # closes it
        return line

    def reset(self) -> None:
        """Forget the connection in a forked child. Its thread exists in the parent only."""
        if self.line is not None:
            self.line.leave_to_parent()
        self.line = None
        self._openings = {}
        self._bell.close()
