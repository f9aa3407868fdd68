"""The transport: keeps one line to a replica, and sends requests on it.

It is written once, for threads and for asyncio. Subclasses connect, and run `_open` beside callers.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import TypeVar

from lockfast.engines.pushes import CALM, before, patience
from lockfast.engines.remote import advice, messages
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.line import Line, Message, Pending
from lockfast.engines.remote.opening import Opening
from lockfast.engines.remote.url import Address, Place
from lockfast.engines.sockets import reason
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Wake
from lockfast.runtime.base import Runtime

R = TypeVar("R")
IO = 5.0  # seconds after which an attempt to connect is given up
QUICK = 0.5  # seconds that each of several hosts gets at first
MOVING = 1.0  # seconds after which an attempt to leave a replica that still works is given up
QUIET = 0.5  # seconds in which the requests under way may end before the replica is left
LEAST = 0.05  # seconds that an attempt to connect to one host gets at least
CALMEST = 2.0
"""Seconds between two attempts of the heart to connect, at most. With more clients than can be
served in such a time, it is what the replica has said (`Line.spread`)."""
SLOWEST = 8.0
"""How many times longer an attempt to connect may take after others have failed. A replica that a
whole fleet connects to at once is slow. If clients gave up their attempts and began again, it would
spend its time on connections that nobody waits for, and none of them would succeed."""
CROWD = 4.0
"""After a replica has ended, an attempt may take so many times longer for each second over which
its clients are spread, at most SLOWEST times: with 2,000 of them, four seconds for each of several
hosts. With half a second, all left a survivor that had greeted them after one."""
FRESH = 2.0
"""Seconds after which an idle connection may have died without notice: the next request goes with a
ping, which a replica answers at once, also if its engine is slow."""
CLOSED = EngineUnavailable("the client was closed", sent=True)
PONG = 0.25  # seconds for the answer to a ping that follows a request without an answer
DOUBT = 1.0  # seconds that such a ping may take, or a third of the remaining time if that is less
AGAIN = 0.5  # seconds for a second ping, or a third of the remaining time if that is less


class Transport(ABC):
    """The connection of one client to the service."""

    def __init__(self, address: Address, identity: Identity, runtime: Runtime) -> None:
        """Connect to nothing yet."""
        self.identity = identity
        self.now = runtime.now
        self.event = runtime.event
        self._sleep = runtime.sleep
        self.hears = False
        self.line: Line | None = None
        self._address = address
        self.findings = address.findings
        self.on_disconnect = address.on_disconnect
        # In a random order, so that the clients of a fleet are spread over the replicas.
        self._places = random.sample(address.places, len(address.places))
        self._bell = runtime.bell()
        self._wakes: list[Wake] = []
        self._openings: dict[None, Opening] = {}
        self._tuned = True
        self._calm = CALM
        self._slow = 1.0
        """How many times longer than usual the next attempt to connect may take."""
        self._closed = False

    @abstractmethod
    def _begin(self, opening: Opening) -> None:
        """Run `_open` beside the callers."""

    @abstractmethod
    async def _dial(self, place: Place, deadline: float) -> Line:
        """Connect to a replica. Return a line, which may have ended already. Raise OSError if there
        is no connection.
        """

    def woken(self, wakes: list[Wake]) -> None:
        """Keep wakes for `listen`, and end it. Callable from any thread."""
        self._wakes += wakes
        self._bell.ring()

    def hear(self, *, on: bool) -> None:
        """Ask for wakes, or for none. `listen` sends that."""
        if self.hears != on:
            self.hears, self._tuned = on, False
            self._bell.ring()

    async def connected(self, deadline: float) -> Line:
        """Return the line. Connect if there is none."""
        line = self.line
        if line is not None and line.doubted is not None and self.now() > line.doubted + PONG:
            if line.received < line.doubted:
                line.drop(_silent(line))
            line.doubted = None
        if line is None or not line.usable or self._must_move(line):
            line = await self._connected(deadline)
        return line

    async def call(self, request: Message, deadline: float, kind: type[R]) -> R:
        """Send a request, and return its reply, which must be of this kind."""
        line = await self.connected(deadline)
        pending = Pending(self.event())
        number = line.ask(request, pending)
        try:
            await self._wait(line, pending, deadline)
        finally:
            line.forget(number)
        result = pending.result
        if isinstance(result, kind):
            return result
        if isinstance(result, EngineError):
            raise result
        if result is not None:
            line.drop(EngineUnavailable(f"{line.where}: it answers another question", sent=True))
        raise EngineUnavailable(f"{line.where}: no answer in time", sent=True)

    async def _wait(self, line: Line, pending: Pending, deadline: float) -> None:
        """Wait for a reply until the deadline. Drop the line if no byte arrives on it, not even a
        pong.
        """
        sent = self.now()
        if sent - line.received > FRESH:
            # Twice, because this process may itself have stood still during the first time: a
            # client that is too busy would otherwise leave a replica that answers, and connect
            # again, which makes it busier.
            for most in (DOUBT, AGAIN):
                line.probe()
                now = self.now()
                first = now + max(min(most, (deadline - sent) / 3.0), LEAST)
                if await self._came(pending, min(first, deadline)):
                    return
                if line.received >= sent:
                    break
            if line.received < sent:
                line.drop(_silent(line))
            else:
                await self._came(pending, deadline)
        elif not await line.answered(pending, deadline) and line.received < sent:
            # Too early to tell, see `connected`. Its engine may be slow, and it was not asked for a
            # sign of life. If all clients left a replica for that, the others would break down too.
            line.doubt()

    async def _came(self, pending: Pending, until: float) -> bool:
        """Wait for a reply, and return whether it came. May be called again after it did not."""
        if await pending.event.wait(until):
            return True
        pending.event = self.event()
        return pending.result is not None  # it came before the new event was there

    def post(self, message: messages.Request) -> None:
        """Send a request whose reply nobody needs, if there is a line."""
        line = self.line
        if line is not None and line.usable:
            line.post(messages.encode(message))

    def _must_move(self, line: Line) -> bool:
        """Return whether to leave a replica now, because it has asked for that."""
        return line.moving is not None and self.now() >= line.moving

    async def _connected(self, deadline: float) -> Line:
        """Return a line. Callers that need one at the same time share an attempt."""
        while True:
            if self._closed:  # nobody would close another connection
                raise _unsent(CLOSED)
            # While a line works that only asks to be left, callers wait for a new one briefly.
            works = self.line is not None and self.line.usable
            mine = Opening(self.now() + (MOVING if works else IO * self._slow))
            opening = self._openings.setdefault(None, mine)  # one step: one caller begins
            if opening is mine:
                self._begin(opening)
            event = self.event()
            await opening.wait(event, deadline)
            line = self.line
            if line is not None and line.usable:
                return line
            error = opening.error or (line.error if line is not None else None)
            if error is not None:
                raise _unsent(error)
            if self.now() >= deadline:
                raise EngineUnavailable(f"{self._address}: no connection in time", sent=False)
            if self.now() >= opening.due:  # its caller was interrupted before it began
                self._openings.pop(None, None)

    async def _open(self, opening: Opening) -> Line | None:
        """Connect to the first replica that answers, and wake those who wait for that. Return the
        line, also if it has ended: a thread still has to close its socket.
        """
        error: EngineError | None = EngineUnavailable("the connection was given up", sent=False)
        old = self.line
        if old is not None and not old.usable:
            # Another replica takes thousands of clients over, and is slow for a moment.
            self._slow = max(self._slow, min(1.0 + CROWD * (old.spread or 0.0), SLOWEST))
            opening.due = max(opening.due, self.now() + IO * self._slow)
        try:
            if old is not None and old.usable:
                await self._quiet(old)
            line = self.line = await self._first(opening.due)
            if self._closed:  # nobody would close another connection
                line.drop(CLOSED)
            error, self._slow = None, 1.0
            if old is not None:
                old.drop(EngineUnavailable(f"{old.where}: the client has left it", sent=True))
        except EngineError as failure:
            error = failure
            self._slow = min(2.0 * self._slow, SLOWEST)
            if old is not None and old.usable:  # it has asked its clients to leave, and still works
                old.move_later()
        finally:
            self._openings.pop(None, None)
            opening.end(error)
        return self.line if error is None else None

    async def _quiet(self, line: Line) -> None:
        """Wait until no request is under way, for a moment. New ones wait for the new line."""
        until = self.now() + QUIET
        while not line.idle and self.now() < until:
            await self._sleep(LEAST / 5.0)

    async def _first(self, deadline: float) -> Line:
        """Return a line to the first replica that answers.

        Each has a short time first. One that is paused or cut off may accept connections and never
        answer, and leases of a short ttl must not be lost meanwhile. Then each has its share.
        """
        failures: dict[Place, EngineError] = {}
        count = len(self._places)
        rounds = 2 if count > 1 else 1
        for tried, place in enumerate(self._places * rounds):
            now = self.now()
            if now >= deadline:
                break
            share = (deadline - now) / (rounds * count - tried)
            if tried < (rounds - 1) * count:
                share = min(share, QUICK * self._slow)
            line = await self._tried(place, now + max(share, LEAST))
            if isinstance(line, Line):
                # The next connection goes to another replica, if there is one.
                at = self._places.index(place) + 1
                self._places = self._places[at:] + self._places[:at]
                return line
            failures[place] = line
        if failures and all(isinstance(error, EngineRefused) for error in failures.values()):
            raise next(iter(failures.values()))
        text = "; ".join(error.message for error in failures.values())
        waits = [_after(error) for error in failures.values()]
        after = min([wait for wait in waits if wait], default=0.0)
        raise EngineUnavailable(text or "no time to connect", sent=False, after=after)

    async def _tried(self, place: Place, deadline: float) -> Line | EngineError:
        try:
            line = await self._dial(place, deadline)
        except OSError as error:
            text = f"no connection to {place}: {reason(error)}"
            what = advice.for_error(error)
            return EngineUnavailable(f"{text}. {what}" if what else text, sent=False)
        return line if line.error is None else line.error

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for wakes, the bell or the deadline. Connect if there is no line.

        The replica says that wakes may have been missed, once its engine has subscribed.
        """
        line = self.line
        if line is None or not line.usable or self._must_move(line):
            if line is not None and line.usable and not self.hears:
                line.drop(EngineUnavailable(f"{line.where}: the client has left it", sent=True))
            if not self.hears and not self._wakes:  # nothing to hear, so no need for a connection
                await self._bell.wait(deadline)
                return self._taken()
            if line is not None and line.moving is not None and self.now() < line.moving:
                # All clients have lost the replica at the same moment. A renewal that is due, or a
                # caller, connects sooner.
                await self._bell.wait(before(deadline, line.moving))
                return self._taken()
            try:
                await self._connected(patience(deadline, self.now()))
                self._calm = CALM
            except EngineError as error:
                # Longer and longer, because a fleet must not flood a service that cannot answer.
                chance = random.uniform(0.5, 1.0)  # noqa: S311  # not a secret
                pause = max(chance * self._calm, 2.0 * chance * _after(error))
                most = CALMEST if line is None else max(line.spread or 0.0, CALMEST)
                self._calm = min(2.0 * self._calm, most)
                await self._bell.wait(before(deadline, self.now() + pause))
            return self._taken()
        if not self._tuned:
            self._tuned = True
            line.post(messages.encode(messages.Hear(self.hears)))
        if not self._wakes:
            if line.moving is not None:
                # Never the past: a heart that waits for nothing gives the event loop no turn.
                deadline = before(deadline, max(line.moving, self.now()) + LEAST)
            await self._bell.wait(deadline)
        return self._taken()

    def _taken(self) -> list[Wake]:
        wakes, self._wakes = self._wakes, []
        return wakes

    def rouse(self) -> None:
        """End `listen`. Callable from any thread."""
        self._bell.ring()

    async def close(self) -> None:
        """Close the connection."""
        self._closed = True
        if self.line is not None:
            self.line.drop(CLOSED)
        self._bell.close()


def _silent(line: Line) -> EngineUnavailable:
    return EngineUnavailable(f"{line.where}: it does not answer", sent=True)


def _after(error: EngineError) -> float:
    """Return the seconds after which an overloaded replica wants to be asked again."""
    return error.after if isinstance(error, EngineUnavailable) else 0.0


def _unsent(error: EngineError) -> EngineError:
    """Return the error for one of the callers that waited for a connection, and sent nothing."""
    if isinstance(error, EngineUnavailable):
        return EngineUnavailable(error.message, sent=False, after=error.after)
    return EngineRefused(error.message)
