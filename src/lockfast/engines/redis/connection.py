"""A connection of the blocking transport: a non-blocking socket, its parser, and poll.

A deadline holds for a whole exchange. The kernel's own timeouts (SO_RCVTIMEO) would start again
after every signal and every byte that arrives, and gevent's sockets do not support them.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.reply_parser import MISSING, Parser
from lockfast.engines.redis.transport import IO, Address
from lockfast.engines.sockets import dial, keep_alive
from lockfast.runtime.base import Clock

PUSH = hiredis.PushNotification
LEAST = 0.01  # seconds that every exchange has, whatever its deadline: less would be no attempt
GRACE = 0.25  # seconds after a deadline in which data that has already arrived may still be read
USUAL = 4096  # bytes for a reply: longer ones take another read, and more memory costs time


class Connection:
    """One socket and its parser."""

    __slots__ = (
        "_feed",
        "_gets",
        "_now",
        "_poll",
        "_reader",
        "_recv",
        "_send",
        "address",
        "hears",
        "one",
        "pushes",
        "sock",
        "used",
    )

    one: Callable[[bytes, float], Any]
    """Send a command and return its reply before a deadline. This is the hot path."""

    def __init__(
        self, address: Address, tls: ssl.SSLContext | None, deadline: float, clock: Clock
    ) -> None:
        """Connect to a server, without a login."""
        self.address = address
        self.hears = False
        """Whether it has subscribed to a channel."""
        self.pushes: list[bytes] = []
        self.used = 0.0
        self._now = clock
        self._reader = Parser()
        self._gets, self._feed = self._reader.gets, self._reader.feed
        sock = dial(address.host, address.port, deadline, clock)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(sock)
            self.sock = tls.wrap_socket(sock, server_hostname=address.host) if tls else sock
        except BaseException:
            sock.close()
            raise
        self.sock.settimeout(0.0)
        self._send, self._recv = self.sock.send, self.sock.recv
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLIN)
        self._poll = poll.poll
        self.one = self._one_slowly if tls else self._one

    def _one(self, packet: bytes, deadline: float) -> Any:
        try:
            sent = self._send(packet)
        except BlockingIOError:
            sent = 0
        if sent != len(packet):
            self._write(packet[sent:], deadline)
        left = deadline - self._now()
        if not self._poll(left * 1000 if left > LEAST else LEAST * 1000):
            raise TimeoutError("no answer in time")
        reply = self._reader.read(self._recv(USUAL))
        if reply is MISSING or type(reply) is PUSH or not self._reader.idle:
            return self._rest(reply, deadline)
        return reply

    def _one_slowly(self, packet: bytes, deadline: float) -> Any:
        self._write(packet, deadline)
        return self._rest(MISSING, deadline)

    def _rest(self, reply: Any, deadline: float) -> Any:
        """Return the reply after reading the rest of it. Only pushes may follow it."""
        if reply is MISSING or type(reply) is PUSH:
            if type(reply) is PUSH:
                self._take(reply)
            reply = self._read(deadline)
        self.parse()
        return reply

    def exchange(self, packet: bytes, count: int, deadline: float) -> list[Any]:
        """Send packed commands, and return their `count` replies."""
        now = self._now()
        deadline = min(max(deadline, now + LEAST), now + IO)
        self._write(packet, deadline)
        return [self._read(deadline) for _ in range(count)]

    def change(self, changes: Sequence[Change], deadline: float) -> list[hiredis.ReplyError | None]:
        """Subscribe to channels, or no longer. Return for each command None or its error reply."""
        self._write(b"".join(change.packet() for change in changes), deadline)
        return [self._changed(change, deadline) for change in changes]

    def _changed(self, change: Change, deadline: float) -> hiredis.ReplyError | None:
        while not change.done:
            reply = self._next(deadline)
            if type(reply) is not PUSH:
                if self._refuses(reply):
                    return reply  # type: ignore[no-any-return]  # an error reply
            elif change.confirm(reply):
                self.hears = True
            else:
                self._take(reply)
        return None

    def _refuses(self, reply: Any) -> bool:
        """Return whether a reply is the error for a subscription. Raise for any other reply."""
        if isinstance(reply, hiredis.ReplyError):
            return True
        raise hiredis.ProtocolError("an answer to nothing")

    def _write(self, packet: bytes, deadline: float) -> None:
        while packet:
            try:
                packet = packet[self._send(packet) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT, deadline)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, deadline)

    def _read(self, deadline: float) -> Any:
        while type(reply := self._next(deadline)) is PUSH:
            self._take(reply)
        return reply

    def _next(self, deadline: float) -> Any:
        """Read one reply or push."""
        while (reply := self._gets()) is MISSING:
            self._fill(deadline)
        return reply

    def _fill(self, deadline: float) -> None:
        """Read data that has arrived, or wait for it. Arriving bytes do not extend the deadline."""
        while True:
            late = self._now() - deadline
            if late > GRACE:
                raise TimeoutError("no answer in time")
            if late >= 0.0:
                self._wait(select.POLLIN, deadline)
            try:
                data = self._recv(max(65536, self._reader.unfinished))
            except (BlockingIOError, ssl.SSLWantReadError):
                self._wait(select.POLLIN, deadline)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, deadline)
            else:
                if not data:
                    raise ConnectionResetError("the server closed the connection")
                self._feed(data)
                return

    def _wait(self, event: int, deadline: float) -> None:
        """Wait until the socket is ready. After a signal, poll continues with the time left."""
        poll = select.poll()
        poll.register(self.sock.fileno(), event)
        left = deadline - self._now()
        if not poll.poll(max(left, 0.0) * 1000):
            raise TimeoutError("no answer in time")

    def _take(self, push: list[Any]) -> None:
        if not self.hears:
            return  # it has subscribed to nothing, and nobody would ever read `pushes`
        if push[:1] == [b"message"] and len(push) > 2 and type(push[2]) is bytes:  # noqa: PLR2004  # a channel and a text
            self.pushes.append(push[2])

    def drain(self) -> None:
        """Read and parse data after poll has found the socket readable."""
        try:
            data = self._recv(65536)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return  # only a part of a TLS record has arrived
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._feed(data)
        self.parse()

    def parse(self) -> None:
        """Move pushes from the parser to `pushes`. One may have arrived in one read with a reply.

        Raise ProtocolError for a reply without a request: the next request would take it for its
        own.
        """
        while (reply := self._gets()) is not MISSING:
            if type(reply) is not PUSH:
                raise hiredis.ProtocolError("an answer to nothing")
            self._take(reply)

    def readable(self) -> bool:
        """Return whether poll reports data. On an idle connection, this means that it has ended."""
        return bool(self._poll(0))

    def pending(self) -> bool:
        """Return whether bytes wait inside TLS, where poll does not see them."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0
