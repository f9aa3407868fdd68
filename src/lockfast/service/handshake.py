"""Takes new connections: with TLS if there is a certificate, and within a time limit.

Until the WebSocket handshake is over, anybody may be at the other end. Such a connection ends
after `LIMIT` seconds, counted from the beginning, and there are at most `MOST` of them. After that,
`wire` limits the time to the client's greeting.

It accepts them itself, because `create_server` tells nobody about a connection before its TLS
handshake is over.
"""

from __future__ import annotations

import asyncio
import logging
import re
import select
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress

log = logging.getLogger("lockfast")
LIMIT = 10.0  # seconds from the beginning of a connection to the end of its handshake
MOST = 2_048  # connections whose handshake is not over
SLOW = 2.0
"""Seconds after which a connection may be ended to make room. If all are younger, thousands of
clients connect at once, and a new one waits in the system's backlog: if the oldest ones ended
instead, which are the nearest to their greeting, no client would ever get in."""
PAUSE = 0.02  # seconds until it looks again whether there is room
CLOSING = 2.0  # seconds for a client to answer the end of TLS
FAILED = 1.0  # seconds to wait when no connection can be accepted, because all descriptors are used
TURN = 64  # connections, before it is the turn of others
LEFT = getattr(select, "POLLRDHUP", 0)  # Linux has it
HEAD = 4_096  # bytes in which a WebSocket's handshake says that it is one
UPGRADE = re.compile(rb"\r\nupgrade:[ \t]*websocket", re.IGNORECASE)


class Arrival:
    """A connection whose handshake is not over."""

    def __init__(self, among: dict[Arrival, None], sock: socket.socket) -> None:
        """Limit its time."""
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        self.transport: asyncio.Transport | None = None
        """None: its TLS handshake is not over."""
        self._sock = sock
        self._among = among
        self._timer = loop.call_later(LIMIT, self.end)
        among[self] = None

    def done(self) -> None:
        """Stop the limit: the handshake is over, or the client is gone."""
        self._timer.cancel()
        self._among.pop(self, None)

    def end(self) -> None:
        """End the connection."""
        self.done()
        if self.transport is not None:
            self.transport.abort()
        else:
            with suppress(OSError):  # the client has already left
                self._sock.shutdown(socket.SHUT_RDWR)


class Entrance:
    """Accepts connections, and knows those whose handshake is not over."""

    def __init__(
        self, make: Callable[[Arrival], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        """Accept nothing yet. `make`: makes the protocol of a connection."""
        self._make = make
        self.tls = tls
        """For the connections from now on."""
        self._arrivals: dict[Arrival, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: list[asyncio.Task[None]] = []

    def open(self, sockets: list[socket.socket]) -> None:
        """Accept connections at these sockets."""
        for each in sockets:
            each.settimeout(0.0)
            self._accepting.append(asyncio.ensure_future(self._accept(each)))

    def close(self) -> None:
        """Accept nothing more, and end all connections whose handshake is not over."""
        for task in self._accepting:
            task.cancel()
        for arrival in list(self._arrivals):
            arrival.end()

    async def _accept(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        accepted = 0
        while True:
            try:
                await self._room()
                connection, _ = await loop.sock_accept(sock)
            except ConnectionError:  # it has ended in the backlog
                continue
            except OSError as error:
                log.warning("no connection can be accepted: %s", error)
                await asyncio.sleep(FAILED)
                continue
            if _has_left(connection, secure=self.tls is not None):
                connection.close()
            else:
                self._start(self._take(connection))
            accepted += 1
            if not accepted % TURN:  # `sock_accept` does not suspend while connections wait
                await asyncio.sleep(0)

    async def _room(self) -> None:
        """Wait until one more connection may be accepted."""
        while len(self._arrivals) >= MOST:
            oldest = next(iter(self._arrivals))
            if asyncio.get_running_loop().time() - oldest.began >= SLOW:
                oldest.end()
            else:
                await asyncio.sleep(PAUSE)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, connection: socket.socket) -> None:
        connection.settimeout(0.0)
        arrival = Arrival(self._arrivals, connection)
        limits = {"ssl_handshake_timeout": LIMIT, "ssl_shutdown_timeout": CLOSING}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(arrival),
                connection,
                ssl=self.tls,
                **(limits if self.tls is not None else {}),
            )
        except OSError:  # it speaks no TLS, or does not trust the certificate
            arrival.done()
            connection.close()


def _has_left(connection: socket.socket, *, secure: bool) -> bool:
    """Return whether the client has closed a connection while it waited in the system's backlog.

    When a whole fleet connects, the backlog is longer than the patience of a client. A handshake
    for one that has left is as much work as any other one, and makes those that follow wait until
    they leave too: then nobody gets in. A client that sends a request of HTTP may close its own
    direction after that, and still read the answer.
    """
    poll = select.poll()
    poll.register(connection, LEFT)
    if not poll.poll(0):
        return False
    try:
        head = connection.recv(HEAD, socket.MSG_PEEK)
    except OSError:
        return True
    return secure or not head or UPGRADE.search(head) is not None
