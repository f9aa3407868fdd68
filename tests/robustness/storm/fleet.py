"""Thousands of clients in a few processes. Each holds a lease, or waits for one that another holds.

A client counts when it begins to connect to which replica, and when that one has greeted it. Times
are of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from benchmarks.workers import Main, answer, orders, worker
from lockfast import EngineUnavailable, LockfastError, NotAcquired, State, aio
from lockfast.claims.session import Session
from lockfast.engines.remote.aio import AioTransport
from lockfast.engines.remote.line import Line
from lockfast.engines.remote.url import Place

PROCESSES = 4
AT_ONCE = 50  # clients of a process that begin at the same time, unless the storm is that they do
PATIENCE = 240.0  # seconds
QUEUE = 10  # waiters for one lease
WAITERS = 10  # one client of so many waits
LONGEST = 600.0  # seconds that a waiter waits


class Share(NamedTuple):
    """What one process holds."""

    url: str
    clients: int
    ttl: float
    number: int


class Tally(NamedTuple):
    """What the clients of a process have seen since the storm began."""

    dials: list[tuple[float, int]]
    """When each attempt to connect began, and to which port."""
    greeted: list[float]
    """When a replica greeted a client."""
    connected: int
    lost: int
    """Leases that their holders do not hold any more."""
    granted: int
    """Waiters that were granted their lock before its holder released it."""
    failed: list[str]
    """The errors of waiters."""


class Order(NamedTuple):
    """How waiters were granted their locks in the end."""

    granted: int
    moved: int
    """Waiters that have lost their place: their token is not the ticket that they had before."""
    unfair: int
    """Waiters that were granted a lock before one that had come earlier."""


class Asked(NamedTuple):
    """How the acquisitions of a process ended that began at the same time."""

    granted: list[float]
    """Seconds that each took that was granted its lock."""
    told: list[float]
    """Seconds after which each was told that there is no lock in time."""
    errors: list[float]
    """Seconds after which each ended with another error."""
    failed: list[str]
    """Those errors."""
    tokens: list[tuple[float, int]]
    """When each lock was granted, and its token."""


class Fleet:
    """The processes, as their parent sees them."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._pipes = pipes

    def do(self, what: str, *more: object) -> list[Any]:
        """Have all processes do something at the same time, and return their answers."""
        for pipe in self._pipes:
            pipe.send((what, *more))
        return [answer(pipe, PATIENCE) for pipe in self._pipes]

    def tally(self) -> Tally:
        """Return what all clients have seen."""
        found: list[Tally] = self.do("tally")
        return Tally(
            sorted(each for one in found for each in one.dials),
            sorted(each for one in found for each in one.greeted),
            sum(one.connected for one in found),
            sum(one.lost for one in found),
            sum(one.granted for one in found),
            [each for one in found for each in one.failed],
        )

    def order(self) -> Order:
        """Release what waiters wait for, and return how they were granted it."""
        found: list[Order] = self.do("order")
        return Order(*(sum(each) for each in zip(*found, strict=True)))

    def asked(self, name: str, timeout: float) -> Asked:
        """Have all clients acquire a lock at the same moment, and release it if it is the same one
        for all, with this name. Otherwise each has its own.
        """
        found: list[Asked] = self.do("ask", name, time.monotonic() + 1.0, timeout)
        return Asked(
            [each for one in found for each in one.granted],
            [each for one in found for each in one.told],
            [each for one in found for each in one.errors],
            [each for one in found for each in one.failed],
            sorted(each for one in found for each in one.tokens),
        )


@contextmanager
def fleet(url: str, clients: int, ttl: float) -> Iterator[Fleet]:
    """Start the processes. Their clients are made, and have not connected."""
    main: Main = _main
    with ExitStack() as stack:
        yield Fleet(
            [
                stack.enter_context(worker(main, Share(url, clients // PROCESSES, ttl, number)))
                for number in range(PROCESSES)
            ]
        )


# --- what the processes do ----------------------------------------------------------------------


def _main(pipe: Connection, share: Share) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Each of thousands would warn of the same.
    logging.getLogger("lockfast").setLevel(logging.CRITICAL)
    # This process stands for thousands. Their garbage is collected at one moment here, and all of
    # them would stand still for a second, on connections that are just being made.
    gc.disable()
    asyncio.run(_Members(share).run(pipe))


class _Members:
    """The clients of one process."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._clients = [aio.connect(share.url) for _ in range(share.clients)]
        self._leases: dict[int, aio.AsyncLease] = {}
        self._waiting: dict[int, asyncio.Task[aio.AsyncLease]] = {}
        self._transports: dict[AioTransport, None] = {}
        self._tickets: dict[int, int] = {}
        self._dials: list[tuple[float, int]] = []
        self._greeted: list[float] = []
        self._count()

    def _count(self) -> None:
        dial = AioTransport._dial

        async def counted(transport: AioTransport, place: Place, deadline: float) -> Line:
            self._transports[transport] = None
            self._dials.append((time.monotonic(), place.port))
            line = await dial(transport, place, deadline)
            if line.error is None:
                self._greeted.append(time.monotonic())
            return line

        # The thread of each, thousands in one process, would only take the processor from the loop.
        Session._begin_standing_in = lambda *_: None  # type: ignore[method-assign]
        AioTransport._dial = counted  # type: ignore[method-assign,assignment]

    async def run(self, pipe: Connection) -> None:
        commands = orders(pipe)
        while (command := await asyncio.to_thread(next, commands, None)) is not None:
            what, *more = command
            pipe.send(await getattr(self, what)(*more))
        # Not closed one by one: what they hold ends with the engine of this storm.

    async def hold(self) -> int:
        """Acquire a lease with each client, except for those that wait for one of them."""
        count = self._share.clients
        waiters = count // WAITERS
        places = iter(range(waiters, count))

        async def some() -> None:
            for place in places:
                lock = self._clients[place].lock(self._name(place), ttl=self._share.ttl)
                while place not in self._leases:
                    # Before the storm: a busy machine may take its time.
                    with contextlib.suppress(EngineUnavailable):
                        self._leases[place] = await lock.acquire(timeout=60)

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        for place in range(waiters):
            name = self._name(waiters + place // QUEUE)
            lock = self._clients[place].lock(name, ttl=self._share.ttl)
            self._waiting[place] = asyncio.create_task(lock.acquire(timeout=LONGEST))
            while not self._ticket(place):  # noqa: ASYNC110  # so that the queue is in the order of the places
                await asyncio.sleep(0.002)
        return len(self._leases)

    async def mark(self) -> None:
        """Forget what was counted, and note the places of the waiters: the storm begins."""
        self._tickets = {place: self._ticket(place) for place in self._waiting}
        self._dials.clear()
        self._greeted.clear()

    async def connected(self) -> int:
        """Count the clients that have a connection."""
        lines = [each.line for each in self._transports]
        return sum(line is not None and line.usable for line in lines)

    async def tally(self) -> Tally:
        done = [task for task in self._waiting.values() if task.done()]
        errors = [str(task.exception())[:200] for task in done if task.exception() is not None]
        return Tally(
            list(self._dials),
            list(self._greeted),
            await self.connected(),
            sum(lease.state in {State.LOST, State.RELEASED} for lease in self._leases.values()),
            len(done) - len(errors),
            errors,
        )

    async def order(self) -> Order:
        waiters = self._share.clients // WAITERS
        counts: Counter[str] = Counter()

        async def queue(places: list[int]) -> None:
            """Release a lock again and again, and look who gets it."""
            with contextlib.suppress(LockfastError):
                await self._leases[waiters + places[0] // QUEUE].release()
            left = {self._waiting[place]: place for place in places}
            while left:
                done, _ = await asyncio.wait(
                    left, timeout=60.0, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    return
                for task in done:
                    place = left.pop(task)
                    if task.exception() is None:
                        lease = task.result()
                        counts["granted"] += 1
                        counts["moved"] += lease.token != self._tickets.get(place, lease.token)
                        counts["unfair"] += any(other < place for other in left.values())
                        with contextlib.suppress(LockfastError):
                            await lease.release()

        parts = [
            list(range(begin, min(begin + QUEUE, waiters))) for begin in range(0, waiters, QUEUE)
        ]
        await asyncio.gather(*map(queue, parts))
        return Order(counts["granted"], counts["moved"], counts["unfair"])

    async def ask(self, name: str, begin: float, timeout: float) -> Asked:
        """Acquire a lock with all clients at the same moment."""
        granted: list[float] = []
        told: list[float] = []
        tokens: list[tuple[float, int]] = []
        errors: list[float] = []
        failed: list[str] = []

        async def one(place: int) -> None:
            lock = self._clients[place].lock(name or self._name(place), ttl=self._share.ttl)
            began = time.monotonic()
            try:
                lease = await lock.acquire(timeout=timeout)
            except NotAcquired:
                told.append(time.monotonic() - began)
            except LockfastError as error:
                errors.append(time.monotonic() - began)
                failed.append(type(error).__name__)
            else:
                granted.append(time.monotonic() - began)
                tokens.append((time.monotonic(), lease.token))
                if name:
                    await lease.release()
                else:
                    self._leases[place] = lease

        await asyncio.sleep(begin - time.monotonic())
        await asyncio.gather(*map(one, range(self._share.clients)))
        return Asked(granted, told, errors, failed, tokens)

    def _name(self, place: int) -> str:
        return f"storm {self._share.number} {place}"

    def _ticket(self, place: int) -> int:
        """Return the ticket of a client's only claim, 0 if it has none."""
        return max((claim.ticket for claim in self._clients[place]._session.table.all()), default=0)
