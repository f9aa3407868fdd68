"""Leader election: the holder of a lock is the leader, and its fencing token is the term."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from lockfast.claims import payload
from lockfast.claims.acquire import acquire
from lockfast.claims.payload import LONGEST_VALUE, Who
from lockfast.claims.session import Session
from lockfast.errors import EngineUnavailable
from lockfast.names import size_of
from lockfast.port import Entry, Shape
from lockfast.primitives.lease import LeaseCore
from lockfast.primitives.lock import look
from lockfast.primitives.timeout import checked_at_most, checked_pause, checked_timeout

log = logging.getLogger("lockfast")
L = TypeVar("L", bound=LeaseCore)


class Leader(NamedTuple):
    """The present leader, as every client can see it."""

    term: int
    """The leader's fencing token, higher than that of every earlier leader."""
    value: str
    """The value that the leader publishes."""
    who: Who
    """The leader's host and process."""
    left: float
    """Seconds until the leadership expires, unless the leader renews it."""
    id: str
    """The unique id of this leadership."""


class ElectionCore(Generic[L]):
    """The shared part of sync and async elections. The leader is the holder of the lease."""

    __slots__ = ("_at_most", "_lease_type", "_session", "_shape")

    def __init__(
        self,
        session: Session,
        lease_type: type[L],
        name: str,
        ttl: float,
        at_most: float | None,
    ) -> None:
        """Create the description. Nothing is sent."""
        self._at_most = checked_at_most(at_most)
        self._session = session
        self._lease_type = lease_type
        self._shape = Shape(name, ttl)

    @property
    def name(self) -> str:
        """The name of the election."""
        return self._shape.name

    @property
    def ttl(self) -> float:
        """How long, in seconds, a leader that has crashed remains the leader."""
        return self._shape.ttl

    def __repr__(self) -> str:
        """Show the name."""
        return f"<{type(self).__name__} {self.name!r}>"

    def observe(self, every: float = 1.0) -> Any:  # noqa: ANN401  # each mode has its own type
        """Yield the present leader, and then each new one. While the engine is unreachable, wait.

        Args:
            every: Seconds between two looks at the engine.

        Returns:
            An endless iterator of leaders, by increasing terms. In asyncio, use `async for`.

        Raises:
            TypeError: `every` is not a number.
            ValueError: `every` is not above 0.

        Example:
            ::

                election = client.election("scheduler", ttl=10)
                with election.campaign("10.0.0.5:8000"):
                    for leader in election.observe(every=0.5):
                        print("term", leader.term, "is led by", leader.value)
                        break
        """
        raise NotImplementedError

    def run(
        self,
        on_gain: Callable[[L], object],
        on_lose: Callable[[], object],
        *,
        value: str = "",
    ) -> Any:  # noqa: ANN401  # each mode has its own type
        """Return a candidacy, which campaigns in the background while its `with` block lasts.

        Args:
            on_gain: Called with the lease when this process becomes the leader.
            on_lose: Called when it is not the leader any more, for whatever reason, and also after
                `on_gain` has raised an exception. In asyncio both may be coroutine functions.
            value: A text of at most 1,024 bytes that all clients can read while this process leads.

        Returns:
            The candidacy. Its `lease` is None while this process does not lead.

        Raises:
            TypeError: The value is not a str.
            ValueError: The value is too long.

        Example:
            ::

                def start(lease):
                    print("this process leads, in term", lease.token)

                def stop():
                    print("this process does not lead any more")

                with client.election("scheduler", ttl=10).run(start, stop):
                    print("the rest of the program")
        """
        raise NotImplementedError

    async def _campaign(self, value: str = "", *, timeout: float | None = None) -> L:
        """Wait to become the leader, and return the lease. Release the lease to resign.

        Args:
            value: A text of at most 1,024 bytes that all clients can read while this one leads,
                such as its address.
            timeout: Seconds to wait. None waits for ever.

        Returns:
            The lease. Its token is the term. In asyncio, `await` the call, or use it in
            `async with`.

        Raises:
            NotAcquired: This client did not become the leader in time.
            Deadlock: The wait could never end.
            KindMismatch: The name is in use for another kind of lock.
            GuaranteeMissing: The engine guarantees less than `connect(require=...)` asks for.
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
            TypeError: The value is not a str, or the timeout is not a number.
            ValueError: The value is too long, or the timeout is negative.

        Example:
            ::

                with client.election("scheduler", ttl=10).campaign("10.0.0.5:8000") as lease:
                    while not lease.wait_lost(0.1):
                        print("this process leads, in term", lease.token)
                        break
        """
        checked_value(value)
        wait = checked_timeout(timeout)
        return await acquire(
            self._session,
            self._shape,
            wait,
            "",
            self._lease_type,
            at_most=self._at_most,
            value=value,
        )

    async def _leader(self) -> Leader | None:
        """Ask the engine who leads now.

        Returns:
            The present leader, or None if there is none.

        Raises:
            EngineError: The engine cannot be reached, or it rejects the request.
            ClientClosed: The client was closed.
        """
        entries = await look(self._session, self.name)
        return next((_leader(entry) for entry in entries if entry.granted), None)


class Observer:
    """A stream of leaders, in the order of their terms, found by polling every `every` seconds."""

    def __init__(self, election: ElectionCore[L], session: Session, every: float) -> None:
        """Begin with the present leader."""
        self._election = election
        self._session = session
        self._every = checked_pause(every)
        self._term = 0

    async def following(self) -> Leader:
        """Wait for the next leader and return it. While the engine is unreachable, keep waiting."""
        while True:
            leader = None
            try:
                leader = await self._election._leader()  # noqa: SLF001  # a part of it
            except EngineUnavailable as error:
                log.warning("the leader of %r could not be read: %s", self._election.name, error)
            if leader is not None and leader.term > self._term:
                self._term = leader.term
                return leader
            await self._session.runtime.sleep(self._every)


def checked_value(value: str) -> str:
    """Return the value unchanged. Raise if it is not a str, or longer than 1,024 bytes."""
    if size_of(value, "a leader's value") > LONGEST_VALUE:
        raise ValueError(f"a leader's value must have at most {LONGEST_VALUE} bytes")
    return value


def _leader(entry: Entry) -> Leader:
    raw = entry.payload
    return Leader(entry.ticket, payload.value(raw), payload.read(raw), entry.left, entry.id)
