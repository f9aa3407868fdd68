"""A replica of the service: an engine, and the connections of the clients that use it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Self

from lockfast.engines import opener
from lockfast.errors import LockfastError
from lockfast.port import CLOSING, Engine
from lockfast.runtime.aio import Aio
from lockfast.service.caller import ANYBODY, Caller
from lockfast.service.claim_requests import ClaimRequests
from lockfast.service.connection import SLOW, Connection
from lockfast.service.disconnects import Disconnects
from lockfast.service.figures import Figures
from lockfast.service.hearing import Hearing
from lockfast.service.heart import WINDOW, Heart
from lockfast.service.other_requests import OtherRequests
from lockfast.service.overload import Load
from lockfast.service.sign_requests import SignRequests
from lockfast.service.signing import Signing
from lockfast.service.tasks import Tasks
from lockfast.service.watch import Watch
from lockfast.url import parse

log = logging.getLogger("lockfast")
CHECKING = 1.0  # seconds that a check of the engine may take, and for which its result is kept
CHECKED = "lockfast:readyz"  # the name that a check asks about
DENIED, LEAVING = 1008, 1001  # codes of WebSocket's close frame
LONGEST_TIMER = 30 * 86_400.0  # seconds after which a connection with a token ends anyway
POLL = 0.05  # seconds between two looks at whether all clients have left


class Replica:
    """A replica. It keeps no state that matters: everything is in the engine."""

    claims: ClaimRequests
    others: OtherRequests
    signatures: SignRequests
    hearing: Hearing
    disconnects: Disconnects

    def __init__(
        self,
        make: Callable[[], Engine],
        runtime: Aio,
        *,
        window: float = WINDOW,
    ) -> None:
        """Connect to nothing: the first connection opens the engine.

        `make`: makes the engine, without `Batching`. `window`: for how many seconds renewals are
        collected.
        """
        self._make = make
        self._runtime = runtime
        self._window = window
        self.draining = False
        self._engine: Engine | None = None
        self._heart: Heart | None = None
        self._tasks = Tasks()
        self.connections: dict[Connection, None] = {}
        self.leaving: Callable[[], object] = bool
        """Called when the replica begins to drain. It ends what waits without a connection."""
        self.figures = Figures(lambda: len(self.connections), lambda: int(self.load.overloaded))
        self.load = Load(self.figures, lambda: len(self.connections))
        self.watch = Watch(runtime.now, self.figures)
        self.signing: Signing | None = None
        """The keys that sign tokens. None: it signs none."""
        self._expiries: dict[Connection, asyncio.TimerHandle] = {}
        self._checking: asyncio.Future[bool] | None = None
        self._checked = 0.0
        """When the last check of the engine began."""

    @classmethod
    def of(cls, url: str | None) -> Self:
        """Return a replica in front of the engine with this URL. None: LOCKFAST_URL gives it."""
        runtime = Aio()
        return cls(opener(parse(url), runtime), runtime)

    def connect(self, ready: Callable[[], None], caller: Caller = ANYBODY) -> Connection:
        """Add a connection. `ready` is called when it has something to send. `caller`: who has
        connected.
        """
        self.open()
        connection = Connection(self, ready, caller)
        self.connections[connection] = None
        self.figures.accepted.counts[()] += 1
        if caller.usage is not None:
            caller.usage.connections += 1
            if caller.usage.crowded():  # two were accepted at the same moment
                connection.end(SLOW, "this subject has too many connections")
        if caller.expires is not None and not connection.ended:
            left = min(max(caller.expires - time.time(), 0.0), LONGEST_TIMER)
            self._expiries[connection] = asyncio.get_running_loop().call_later(
                left, connection.end, DENIED, "the token has expired: connect with a new one"
            )
        return connection

    def admit(self, again: Callable[[Caller], Caller | None]) -> int:
        """Give each connection the rights that it has now. End those that may not be connected any
        more, and return how many these were.
        """
        ended = 0
        for each in list(self.connections):
            caller = again(each.caller)
            if caller is None:
                each.end(DENIED, "the API key, token or certificate is not valid any more")
                ended += 1
            else:
                if caller.usage is not each.caller.usage:
                    _leave(each.caller)
                    if caller.usage is not None:
                        caller.usage.connections += 1
                each.caller = caller
        return ended

    def left(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        if self.connections.pop(connection, "") is None:
            _leave(connection.caller)
        timer = self._expiries.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def time(self) -> float | None:
        """Return the engine's time, if it is known."""
        return self.open().time(CHECKED)

    def moves(self) -> bool:
        """Return whether clients can take their claims to another replica."""
        return not getattr(self.open(), "bound", False)

    def open(self) -> Engine:
        """Return the engine. The first call opens it."""
        engine = self._engine
        if engine is None:
            self._runtime.enter()
            clock = self._runtime.now
            engine = self._engine = self._make()
            self.hearing = Hearing(engine, self.figures, self.watch.pushed)
            heart = self._heart = Heart(
                engine, self._runtime, self.hearing.route, self.figures, self._window
            )
            self.claims = ClaimRequests(
                engine, heart, self._tasks, clock, self.figures, self.watch, self.load
            )
            self.disconnects = Disconnects(self.claims.depart, clock, self.figures, self.watch)
            self.others = OtherRequests(engine, self._tasks, clock, self.figures, self.watch)
            inspect = partial(engine.inspect, cursor=None, exact=True)
            self.signatures = SignRequests(
                inspect, heart, self._tasks, clock, self.figures, self.watch, lambda: self.signing
            )
            heart.start()
            self.load.waiting = self.claims.waiting
            self.load.start()
        return engine

    async def ready(self) -> bool:
        """Return whether clients should connect here."""
        if self.draining:
            return False
        checking = self._checking
        if checking is None or (checking.done() and self._checked + CHECKING < self._runtime.now()):
            self._checked = self._runtime.now()
            checking = self._checking = asyncio.ensure_future(self._check())
        return await asyncio.shield(checking)

    async def _check(self) -> bool:
        """Return whether the engine answers. One check serves all who ask meanwhile, and for a
        moment afterwards, since any program that can reach the replica may ask.
        """
        try:
            await self.open().records(CHECKED, self._runtime.now() + CHECKING)
        except LockfastError as error:
            log.warning("not ready, because the engine does not answer: %s", error)
            return False
        return True

    def goaway(self) -> None:
        """Accept no more connections, and ask all clients to connect to another replica."""
        self.draining = True
        self.leaving()
        for connection in list(self.connections):
            connection.goaway()

    async def drain(self, seconds: float, hurry: Callable[[], bool] = bool) -> None:
        """Send the clients away, and wait until they have left, or for `seconds`. `hurry` returns
        True if it must not wait any more.
        """
        self.goaway()
        asked = len(self.connections)
        until = self._runtime.now() + seconds
        while self.connections and self._runtime.now() < until and not hurry():  # noqa: ASYNC110
            await asyncio.sleep(POLL)
        cut = len(self.connections)
        self.figures.drained.counts["cut",] += cut
        self.figures.drained.counts["left",] += asked - cut
        if self.connections:
            log.warning("%d clients have not left in time", len(self.connections))

    async def close(self) -> None:
        """End all connections, and close the engine."""
        self.draining = True
        self.leaving()
        for connection in list(self.connections):
            connection.end(LEAVING, "the replica ends")
        self.load.close()
        if self._engine is not None and self._heart is not None:
            self.disconnects.close()
            await self._heart.end(CLOSING)
            await self._tasks.end(CLOSING)
            await self._engine.close()
            self._engine = None
        self.watch.close()


def _leave(caller: Caller) -> None:
    """Count one connection less for a subject."""
    if caller.usage is not None:
        caller.usage.connections -= 1
