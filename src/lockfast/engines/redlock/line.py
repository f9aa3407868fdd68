"""One connection of a bundle: it never blocks, and it may owe replies."""

from __future__ import annotations

import select
import ssl
from typing import Any

import hiredis

from lockfast.engines.redis.keys import command
from lockfast.engines.redis.threads import Connection
from lockfast.engines.redis.wire import MISSING, failure

OPENING = 0.5  # seconds for a connection to a node of which nothing bad is known
READING = 0.05  # seconds for a node to read a request that does not fit into its buffer


class Line(Connection):
    """A connection that may owe replies."""

    __slots__ = ("fd", "opened", "owed", "since", "tls")

    def begin(self, now: float) -> None:
        """Never block from now on. TLS may need several reads for one record: bounded instead."""
        self.tls = isinstance(self.sock, ssl.SSLSocket)
        self.sock.settimeout(OPENING if self.tls else 0.0)
        self.fd = self.sock.fileno()
        self.opened = now
        self.owed = 0
        self.since = 0.0

    def send(self, packet: bytes) -> None:
        """Write the rest of a large request, or give up on a node that reads nothing."""
        while packet:
            poll = select.poll()
            poll.register(self.fd, select.POLLOUT)
            if not poll.poll(READING * 1000):
                raise TimeoutError("it reads nothing")
            packet = packet[self.sock.send(packet) :]

    def collect(self, replies: list[Any], count: int) -> list[Any]:
        """Read what has come: the last `count` of what is owed belong to this request.

        Give back what was owed from before.
        """
        late: list[Any] = []
        gets = self._gets
        while True:
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionResetError("the node closed the connection")
            self._feed(data)
            while (reply := gets()) is not MISSING:
                if type(reply) is hiredis.PushNotification:
                    self._take(reply)
                    continue
                (replies if self.owed <= count - len(replies) else late).append(reply)
                self.owed -= 1
            if not self.tls or not self.pending():
                return late

    def parse(self) -> None:
        """Take pushes out of the parser, and skip what was owed."""
        while (reply := self._gets()) is not MISSING:
            if type(reply) is hiredis.PushNotification:
                self._take(reply)
            else:
                self.owed -= 1

    def subscribe(self, channel: str, seconds: float) -> None:
        """Subscribe; the confirmation is itself a push, and late replies may come before it."""
        self.sock.settimeout(seconds)
        self.sock.sendall(command("SUBSCRIBE", channel))
        while self.channel is None:
            reply = self._gets()
            if reply is MISSING:
                data = self.sock.recv(65536)
                if not data:
                    raise ConnectionResetError("the node closed the connection")
                self._feed(data)
            elif type(reply) is hiredis.PushNotification:
                if reply[0] == b"subscribe":
                    self.channel = channel
                else:
                    self._take(reply)
            elif self.owed:
                self.owed -= 1
            else:
                self.sock.settimeout(OPENING if self.tls else 0.0)
                raise failure(reply, self.address)
        self.sock.settimeout(OPENING if self.tls else 0.0)
