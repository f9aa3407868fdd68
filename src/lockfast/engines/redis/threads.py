"""The blocking transport: one connection per thread with a request, and one for the heart."""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  # Ctrl-C while getaddrinfo imports it would break it
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import hiredis

from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.connection import Connection
from lockfast.engines.redis.transport import DOUBT, FRESH, IO, PING, Address, Login
from lockfast.engines.server_clock import ServerClock
from lockfast.engines.sockets import reason
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.runtime.base import Clock
from lockfast.runtime.threads import ThreadBell

C = TypeVar("C", bound=Connection)


class Kept(Connection):
    """A connection with the shelf to which it returns when nobody uses it."""

    __slots__ = ("shelf",)

    shelf: Shelf


class Shelf(list[Kept]):
    """The idle connections to one server. Once retired, it closes those that are put back."""

    def retire(self) -> None:
        """Close all connections, and those that other threads put back later."""
        self.append = _closed  # type: ignore[method-assign]  # no cost for a shelf in use
        while self:
            with contextlib.suppress(IndexError):  # another thread took the last one
                self.pop().sock.close()


def _closed(connection: Kept) -> None:
    connection.sock.close()


def _from_outside(error: BaseException) -> bool:
    """Return whether the network or the server's reply caused an error, which may be any type."""
    return isinstance(error, Exception) and not isinstance(error, EngineError)


def opened(  # noqa: PLR0913, PLR0917  # what a connection and its login need
    kind: type[C],
    address: Address,
    login: Login,
    deadline: float,
    clock: Clock,
    trouble: Callable[[], object] = bool,
) -> tuple[C, ServerClock]:
    """Connect and log in. Return the connection and the server's clock. `trouble` is called if the
    server cannot be reached.
    """
    connection = None
    try:
        soon = clock() + min(max(deadline - clock(), 0.05), IO)
        connection = kind(address, login.context(), soon, clock)
        greeting = login.greeting(address)
        replies = connection.exchange(b"".join(greeting), len(greeting), soon)
        told = login.welcome(address, replies, clock())
    except BaseException as error:
        if connection is not None:
            connection.sock.close()
        if _from_outside(error):
            trouble()
            raise EngineUnavailable(
                f"no connection to Redis at {address}: {reason(error)}", sent=False
            ) from error
        raise
    connection.used = clock()
    return connection, told


async def heard(
    hearts: dict[Address, C], address: Address, bell: ThreadBell, deadline: float | None
) -> list[bytes]:
    """Wait in poll for messages on one of the heart's connections, or for the bell."""
    ear = hearts[address]
    try:
        ear.parse()
        if not ear.pushes and (ear.pending() or await bell.wait(deadline, ear.sock.fileno())):
            ear.drain()
    except Exception as error:
        del hearts[address]
        ear.sock.close()
        raise EngineUnavailable(f"Redis at {address}: {reason(error)}", sent=False) from error
    pushes, ear.pushes = ear.pushes, []
    return pushes


class ThreadTransport:
    """The connections of a blocking client."""

    def __init__(self, login: Login, clock: Clock) -> None:
        """Create a transport without connections."""
        self._login = login
        self._now = clock
        self.trouble: Callable[[], object] = bool
        self._begin()

    def _begin(self) -> None:
        self.clocks: dict[Address, ServerClock] = {}
        self._idle: dict[Address, Shelf] = {}
        self._hearts: dict[Address, Kept] = {}
        self._shed: set[Address] = set()
        """Servers to which the heart must connect again. Only the heart closes its connections."""
        self._bell = ThreadBell(self._now)

    def _open(self, address: Address, deadline: float) -> Kept:
        shelf = self._idle.setdefault(address, Shelf())  # first: `forget` may retire it meanwhile
        connection, self.clocks[address] = opened(
            Kept, address, self._login, deadline, self._now, self.trouble
        )
        connection.shelf = shelf
        return connection

    def _take(self, address: Address, deadline: float) -> Kept:
        """Return an idle connection, or open one."""
        try:
            return self._idle[address].pop()
        except LookupError:  # there is none, or another thread took it
            return self._open(address, deadline)

    def _tried(self, connection: Kept, deadline: float) -> Kept:
        """Return a connection that was idle for long if it answers a PING, else a new one.

        Losing a PING does no harm, but the outcome of a lost claim or release is unknown.
        """
        seconds = min(max((deadline - self._now()) / 3, 0.05), DOUBT)
        try:
            if not connection.hears and connection.readable():
                raise ConnectionResetError("the connection ended while it was idle")
            connection.exchange(PING, 1, self._now() + seconds)
        except BaseException as error:
            connection.sock.close()
            if not _from_outside(error):
                raise
        else:
            return connection
        self._clear(connection)
        return self._open(connection.address, deadline)

    def _clear(self, connection: Kept) -> None:
        """Close all idle connections to a server, since what ended one has ended the others."""
        if self._idle.get(connection.address) is connection.shelf:
            self._idle[connection.address] = Shelf()
        connection.shelf.retire()

    async def call(self, address: Address, packet: bytes, deadline: float) -> Any:
        """Send one command and return its reply."""
        try:
            connection = self._idle[address].pop()  # as in `_take`, without the cost of calling it
        except LookupError:
            connection = self._open(address, deadline)
        now = self._now()
        if now - connection.used > FRESH:
            connection = self._tried(connection, deadline)
            now = self._now()
        connection.used = now
        try:
            reply = connection.one(packet, deadline)
        except BaseException as error:
            self._break(connection, error)
            raise
        connection.shelf.append(connection)
        return reply

    async def pipeline(
        self, address: Address, packets: Sequence[bytes], deadline: float, *, heart: bool
    ) -> list[Any]:
        """Send commands together and return their replies."""
        if heart:
            self._shake_off()
        ours = self._hearts.pop(address, None) if heart else None
        connection = ours or self._take(address, deadline)
        if self._now() - connection.used > FRESH:
            connection = self._tried(connection, deadline)
        connection.used = self._now()
        try:
            replies = connection.exchange(b"".join(packets), len(packets), deadline)
        except BaseException as error:
            self._break(connection, error)
            raise
        if heart:
            self._hearts[address] = connection
        else:
            connection.shelf.append(connection)
        return replies

    def _break(self, connection: Kept, error: BaseException) -> None:
        """Close a connection after a failed exchange, since its next reply may belong to an old
        request. Raise `EngineUnavailable` if the network or the server caused the failure.
        """
        connection.sock.close()
        if _from_outside(error):
            # A timeout does not mean that connections ended: the heart has little time to wait.
            if not isinstance(error, TimeoutError):
                self._clear(connection)
            self.trouble()
            raise EngineUnavailable(
                f"Redis at {connection.address}: {reason(error)}", sent=True
            ) from error

    def forget(self, address: Address) -> None:
        """Close the connections to a server, since its name may lead to another server now."""
        shelf = self._idle.pop(address, None)
        if shelf is not None:
            shelf.retire()
        self._shed.add(address)
        self._bell.ring()

    def _shake_off(self) -> None:
        """Close the heart's connections to servers for which `forget` was called."""
        while self._shed:
            connection = self._hearts.pop(self._shed.pop(), None)
            if connection is not None:
                connection.sock.close()

    def post(self, address: Address, packet: bytes) -> None:
        """Do nothing, since a blocking send has no time limit. The heart will send the command."""

    async def ear(self, address: Address, deadline: float) -> Kept:
        """Return the heart's connection, on which messages arrive. Open it if there is none."""
        self._shake_off()
        ear = self._hearts.get(address)
        if ear is None:
            ear = self._hearts[address] = self._open(address, deadline)
        return ear

    async def change(
        self, ear: Kept, changes: Sequence[Change], deadline: float
    ) -> list[hiredis.ReplyError | None]:
        """Change what the heart's connection subscribes to. Return for each None or its error."""
        del self._hearts[ear.address]
        try:
            answers = ear.change(changes, deadline)
        except BaseException as error:
            self._break(ear, error)
            raise
        self._hearts[ear.address] = ear
        return answers

    async def listen(self, address: Address, deadline: float | None) -> list[bytes]:
        """Wait in poll for messages on the heart's connection, or for the bell."""
        return await heard(self._hearts, address, self._bell, deadline)

    async def pause(self, deadline: float | None) -> None:
        """Wait until the bell rings or the deadline passes."""
        await self._bell.wait(deadline)

    def rouse(self) -> None:
        """Ring the bell, which ends `listen` or `pause`."""
        self._bell.ring()

    def reset(self) -> None:
        """Start again in a forked child. Closing its descriptors sends nothing to the servers."""
        self._drop()
        self._begin()

    def _drop(self) -> None:
        connections = [c for idle in self._idle.values() for c in idle]
        for connection in [*connections, *self._hearts.values()]:
            connection.sock.close()
        self._idle.clear()
        self._hearts.clear()
        self._bell.close()

    async def close(self) -> None:
        """Close all connections."""
        self._drop()
