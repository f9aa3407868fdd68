"""A connection of a bundle. It can send while replies to earlier requests are still due."""

from __future__ import annotations

import contextlib
import ssl
from typing import Any

import hiredis

from lockfast.engines.redis.connection import PUSH, Connection
from lockfast.engines.redis.reply_parser import MISSING
from lockfast.engines.redis.transport import Address
from lockfast.runtime.base import Clock

OPENING = 0.5  # seconds for opening a connection to a node
READING = 0.05  # seconds for a node to read a request that does not fit into the socket's buffer


class Line(Connection):
    """A connection that may owe replies: `owed` counts those that are still due."""

    __slots__ = ("fd", "opened", "owed", "since", "skipped", "tls")

    def __init__(
        self, address: Address, tls: ssl.SSLContext | None, deadline: float, clock: Clock
    ) -> None:
        """Connect to a node, without a login. The connection owes nothing yet."""
        super().__init__(address, tls, deadline, clock)
        self.tls = tls is not None
        self.fd = self.sock.fileno()
        self.opened = clock()
        self.owed = 0
        self.since = 0.0
        self.skipped: list[Any] = []
        """Late replies that arrived while the heart was listening on this connection."""

    def put(self, packet: bytes) -> None:
        """Write a request, or raise TimeoutError if the node does not read it in time."""
        if not self.tls:
            with contextlib.suppress(BlockingIOError):
                packet = packet[self._send(packet) :]
        if packet:
            self._write(packet, self._now() + READING)

    def collect(self, replies: list[Any], count: int) -> list[Any]:
        """Read the replies that have arrived. The last `count` that are owed answer this request,
        and are added to `replies`. Return those that answer earlier requests.
        """
        late: list[Any] = []
        gets = self._gets
        while True:
            data = self.sock.recv(max(65536, self._reader.unfinished))
            if not data:
                raise ConnectionResetError("the node closed the connection")
            self._feed(data)
            while (reply := gets()) is not MISSING:
                if type(reply) is PUSH:
                    self._take(reply)
                    continue
                if not self.owed:
                    raise hiredis.ProtocolError("an answer to nothing")
                (replies if self.owed <= count - len(replies) else late).append(reply)
                self.owed -= 1
            if not self.tls or not self.pending():
                return late

    def parse(self) -> None:
        """Move pushes from the parser to `pushes`, and replies that were owed to `skipped`."""
        while (reply := self._gets()) is not MISSING:
            if type(reply) is PUSH:
                self._take(reply)
            elif self.owed:
                self._skip(reply)
            else:
                raise hiredis.ProtocolError("an answer to nothing")

    def _refuses(self, reply: Any) -> bool:
        """Skip a reply that was owed, since late ones may come before the confirmation."""
        if not self.owed:
            return super()._refuses(reply)
        self._skip(reply)
        return False

    def _skip(self, reply: Any) -> None:
        self.owed -= 1
        if type(reply) is list:
            self.skipped.append(reply)
