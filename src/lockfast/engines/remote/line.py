"""A line: one connection to a replica, with the requests that are under way on it.

A client has one line at a time. Claims may be bound to the replica's own session with the engine,
so a renewal has to reach the replica that made the claim, and a load balancer could send a second
connection to another one.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from itertools import count
from typing import Protocol

from lockfast.engines.remote import messages
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.messages import (
    Failed,
    Goaway,
    Hello,
    Malformed,
    Said,
    Welcome,
    Woken,
)
from lockfast.engines.remote.websocket import LONGEST_AFTER, Ended, WebSocket
from lockfast.engines.server_clock import ServerClock
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Wake
from lockfast.runtime.base import Clock, Event

UNITS = 10**6  # in a second: the resolution of the engine's clock here
SPREAD = 1.0
"""Seconds over which the clients of a replica that asks them to leave connect to others, at least.
It still works, so nobody waits for it."""
LONGEST_SPREAD = 30.0  # seconds, whatever a replica says
UNABLE = (
    "the replica cannot release locks when a client disconnects, because it runs an earlier "
    "version of lockfast, or its engine cannot do that: upgrade it, or remove on_disconnect from "
    "the URL"
)
Answer = messages.Said | messages.Gone | messages.Done | messages.Recorded | messages.Page
Result = Answer | messages.Promised | messages.Signed | EngineError


class Message(Protocol):
    """A request that has a number."""

    n: int


class Pending:
    """A request under way. Its caller waits for the event."""

    __slots__ = ("deadline", "event", "result")

    def __init__(self, event: Event) -> None:
        """Wait for a reply."""
        self.event = event
        self.deadline: float | None = None
        """When the line wakes the caller. None: the caller has a timer of its own."""
        self.result: Result | None = None

    def settle(self, result: Result) -> None:
        """Wake the caller with the reply, or with the reason why there is none."""
        self.result = result
        self.event.set()


class Owner(Protocol):
    """The transport that a line belongs to."""

    identity: Identity
    now: Clock
    hears: bool
    """Whether the replica is to send wakes."""
    on_disconnect: float
    """Above 0: the replica must be one that can end claims with their connection."""

    def event(self) -> Event:
        """Make a one-shot event."""
        ...

    def woken(self, wakes: list[Wake]) -> None:
        """Pass wakes on to the heart. With none, wake the heart, because the line has changed."""
        ...


class Line(ABC):
    """A connection to a replica. Subclasses move the bytes, for threads or for asyncio."""

    def __init__(self, owner: Owner, socket: WebSocket, where: str) -> None:
        """Begin a connection. Its greeting makes all earlier ones of this client outdated."""
        self.epoch = 0
        self.where = where
        self.ready = owner.event()
        """Is set when the replica has greeted, or when the connection has ended."""
        self.welcome: Welcome | None = None
        self.told: ServerClock | None = None
        """The engine's clock, if the replica has told it in its greeting."""
        self.error: EngineError | None = None
        """Why it has ended."""
        self.received = owner.now()
        """When the last byte arrived."""
        self.spread: float | None = None
        """Over how many seconds the clients of this replica connect again, if it has said so."""
        self.moving: float | None = None
        """When to connect to another replica, because this one has asked for it, or has ended."""
        self.doubted: float | None = None
        """When a request was given up that had no answer, and nothing else had arrived since."""
        self._owner = owner
        self._socket = socket
        self._greeted = False
        self._numbers = count(1)
        self._pending: dict[int, Pending] = {}

    @property
    def usable(self) -> bool:
        """Whether requests can be sent."""
        return self.welcome is not None and self.error is None and not self.outdated

    @property
    def outdated(self) -> bool:
        """Whether the client has greeted on another connection since."""
        return self._greeted and self.epoch != self._owner.identity.epoch

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._pending

    @abstractmethod
    def post(self, message: bytes) -> None:
        """Send a message. Never blocks and never raises."""

    @abstractmethod
    def probe(self) -> None:
        """Send a ping. Never blocks and never raises."""

    @abstractmethod
    async def answered(self, pending: Pending, deadline: float) -> bool:
        """Wait for the reply to a request until the deadline, and return whether it came."""

    @abstractmethod
    def shut(self) -> None:
        """Close the socket."""

    @abstractmethod
    def leave_to_parent(self) -> None:
        """Close this process's copy of the socket, after a fork. The connection would otherwise
        outlive the parent, and claims that end with it would too.
        """

    def ask(self, request: Message, pending: Pending) -> int:
        """Send a request, and return its number."""
        number = request.n = next(self._numbers)
        self._pending[number] = pending
        self.post(messages.encode(request))
        if self.error is not None:  # it may have ended before the request was among those to fail
            self.forget(number)
            pending.settle(EngineUnavailable(self.error.message, sent=True))
        return number

    def forget(self, number: int) -> None:
        """Ignore the reply to a request, because its caller has left."""
        self._pending.pop(number, None)

    def doubt(self) -> None:
        """Send a ping, because a request was given up and nothing has arrived since it was sent."""
        if self.doubted is None:
            self.doubted = self._owner.now()
            self.probe()

    def move_later(self) -> None:
        """Note that the replica is to be left, at a random moment."""
        self.moving = self._owner.now() + max(self.spread or 0.0, SPREAD) * random.random()  # noqa: S311  # not a secret

    def fed(self, data: bytes) -> None:
        """Handle bytes of the replica. b"" is the end. Any error ends the connection."""
        self.received = self._owner.now()
        if self.outdated:  # its replies may say that a claim is gone which has moved since
            self.drop(EngineUnavailable("another connection has replaced this one", sent=True))
            return
        try:
            for frame in self._socket.receive(data):
                self._take(messages.reply(frame))
            if self._socket.open and not self._greeted:
                self._greet()
        except (Ended, Malformed) as error:
            self.drop(EngineUnavailable(f"{self.where}: {error}", sent=True))
        except EngineRefused as error:
            self.drop(EngineRefused(f"{self.where}: {error.message}"))
        except EngineUnavailable as error:
            text = f"{self.where}: {error.message}"
            self.drop(EngineUnavailable(text, sent=error.sent, after=error.after))
        except Exception as error:  # noqa: BLE001  # the library raises many types, and bytes cause them
            text = f"{self.where}: not a WebSocket of lockfast: {str(error)[:200]}"
            self.drop(EngineUnavailable(text, sent=True))

    def _greet(self) -> None:
        owner = self._owner
        self.epoch, self._greeted = owner.identity.next_epoch(), True
        hello = Hello(messages.VERSION, owner.identity.secret, self.epoch, owner.hears)
        self.post(messages.encode(hello))

    def _take(self, reply: messages.Reply) -> None:
        if isinstance(reply, Woken):
            self._owner.woken([Wake(reply.id, granted=reply.granted, floor=reply.floor)])
        elif isinstance(reply, Welcome):
            self._welcomed(reply)
        elif isinstance(reply, Goaway):
            self.move_later()
            self._owner.woken([])
        elif isinstance(reply, Failed):
            if not reply.n:
                raise EngineRefused(reply.fault.why)
            self._settle(reply.n, failure(self.where, reply.fault))
        else:
            if isinstance(reply, Said) and reply.spread is not None:
                self.spread = min(reply.spread, LONGEST_SPREAD)
            self._settle(reply.n, reply)

    def _settle(self, number: int, result: Result) -> None:
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending.settle(result)

    def _welcomed(self, welcome: Welcome) -> None:
        if welcome.v != messages.VERSION or welcome.client != self._owner.identity.client:
            raise EngineRefused("the replica has not understood the greeting")
        if self._owner.on_disconnect and not welcome.on_disconnect:
            # Not even for a moment: it would not tell the engine that the claims are its own now,
            # and the replica before it would remove them.
            raise EngineRefused(UNABLE)
        self._owner.identity.moves = welcome.moves
        if welcome.spread is not None:
            self.spread = min(welcome.spread, LONGEST_SPREAD)
        if welcome.now is not None:
            self.told = ServerClock(int(welcome.now * UNITS), self.received, UNITS)
        self.welcome = welcome
        self.ready.set()

    def drop(self, error: EngineError) -> None:
        """End the connection, and fail the requests under way, whose outcome is unknown."""
        if self.error is not None:
            return
        self.error = error
        if self.moving is None and self.spread is not None:
            # All clients of a replica that dies notice it at the same moment. A late moment is more
            # likely than an early one (the square root), because renewals that are due bring many
            # clients back early: together, about as many come in each second.
            self.moving = self._owner.now() + self.spread * random.random() ** 0.5  # noqa: S311  # not a secret
        self.shut()
        pending, self._pending = self._pending, {}
        for each in list(pending.values()):
            each.settle(EngineUnavailable(error.message, sent=True))
        self.ready.set()
        if self.welcome is not None:  # else it would cut short the pause after a failed attempt
            self._owner.woken([])


def failure(where: str, fault: messages.Fault) -> EngineError:
    """Return the error for a request that failed as a whole."""
    if fault.kind == "unavailable":
        after = min(fault.after, LONGEST_AFTER)
        return EngineUnavailable(f"{where}: {fault.why}", sent=fault.sent, after=after)
    return EngineRefused(f"{where}: {fault.why}")
