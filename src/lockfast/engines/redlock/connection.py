"""One connection of a bundle: it never blocks, and it may owe replies."""

from __future__ import annotations

import contextlib
import ssl
from typing import Any

import hiredis

from lockfast.engines.redis.connection import PUSH, Connection
from lockfast.engines.redis.reply_parser import MISSING

OPENING = 0.5  # seconds for a connection to a node of which nothing bad is known
READING = 0.05  # seconds for a node to read a request that does not fit into its buffer


class Line(Connection):
    """A connection that may owe replies."""

    __slots__ = ("fd", "opened", "owed", "since", "skipped", "tls")

    def begin(self, now: float) -> None:
        """Owe nothing yet."""
        self.tls = isinstance(self.sock, ssl.SSLSocket)
        self.fd = self.sock.fileno()
        self.opened = now
        self.owed = 0
        self.since = 0.0
        self.skipped: list[Any] = []
        """Late replies that came while the heart was listening here."""

    def put(self, packet: bytes) -> None:
        """Write a request, or give up on a node that reads nothing."""
        if not self.tls:
            with contextlib.suppress(BlockingIOError):
                packet = packet[self._send(packet) :]
        if packet:
            self._write(packet, self._now() + READING)

    def collect(self, replies: list[Any], count: int) -> list[Any]:
        """Read what has come: the last `count` of what is owed belong to this request.

        Give back what was owed from before.
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
        """Take pushes out of the parser, and skip what was owed."""
        while (reply := self._gets()) is not MISSING:
            if type(reply) is PUSH:
                self._take(reply)
            elif self.owed:
                self._skip(reply)
            else:
                raise hiredis.ProtocolError("an answer to nothing")

    def _unsubscribed(self, reply: Any) -> None:
        """Skip what was owed: late replies may come before the confirmation."""
        if not self.owed:
            super()._unsubscribed(reply)
        self._skip(reply)

    def _skip(self, reply: Any) -> None:
        self.owed -= 1
        if type(reply) is list:
            self.skipped.append(reply)
