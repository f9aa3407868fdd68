"""A stage: one bench in one mode for one test, with the actors and clients of the test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from itertools import count
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import pytest

from lockfast.aio import AsyncClient
from lockfast.blocking.client import Client
from lockfast.claims.session import DEADLOCK
from lockfast.errors import EngineUnavailable
from lockfast.port import CLIENT, SHARED, Ask, Engine, Entry, Kind, Shape, Standing, Wake
from lockfast.testing.harness.bench import Bench, made
from lockfast.testing.harness.faults import Shaky
from lockfast.testing.harness.mode import MODES, PATIENCE, Mode

P = ParamSpec("P")
S = TypeVar("S")
Renewed = list[Standing | Exception | None]
ROUNDING = 1e-6
"""Seconds by which a difference of times may be too large: (0.1 + 12.0) - 0.1 may be above 12.0."""


def kind_of(capacity: int) -> Kind:
    """Return the kind of lock that has this capacity. A capacity of 1 stands for a plain lock."""
    return {1: Kind.LOCK, SHARED: Kind.READ_WRITE}.get(capacity, Kind.SEMAPHORE)


class Actor:
    """One client at the level of the port: an engine of its own, and ids with its own prefix.

    The prefix is the engine's `client`, if it has one.
    """

    def __init__(self, engine: Engine, bench: Bench) -> None:
        """Start without a claim."""
        self.engine = engine
        self._bench = bench
        self.client: str = getattr(engine, "client", None) or secrets.token_hex(CLIENT // 2)
        self._numbers = count()

    def ask(  # noqa: PLR0913  # each is one independent part of a claim
        self,
        name: str = "x",
        *,
        ttl: float = 5,
        kind: Kind | None = None,
        capacity: int = 1,
        weight: int = 1,
        queue: bool = True,
        payload: bytes = b"",
        late: float = 0.0,
    ) -> Ask:
        """Return a new claim that was not sent yet. Times are in the bench's units.

        `kind`: without one, the capacity tells it.
        `late`: how long ago the claim's `not_after` passed; 0 for a claim that is in time.
        """
        kind = kind or kind_of(capacity)
        shape = Shape(name, ttl * self._bench.unit, kind, capacity, weight)
        return Ask(
            id=f"{self.client}{next(self._numbers):010x}",
            shape=shape,
            queue=queue,
            not_after=self._bench.now() + (-late * self._bench.unit if late else shape.wait_ttl),
            payload=payload,
        )

    def time(self, name: str = "x") -> float:
        """Return the time of the server that keeps this name. Fail if no reply has told it yet."""
        told = self.engine.time(name)
        assert told is not None, "no reply has told the server's time"
        return told

    def fix(self, ask: Ask, fixed: float) -> None:
        """Fix until when a claim may be applied, by the server's clock: as a client of the service
        does, and then its replica, which sets `not_after`.
        """
        ask.fixed = fixed
        ask.not_after = self._bench.now() + fixed - self.time(ask.shape.name)

    @property
    def deadline(self) -> float:
        """A deadline five seconds from now, which only an engine in trouble reaches."""
        return self._bench.now() + 5.0

    async def claim(self, ask: Ask) -> Standing:
        """Send a claim, or send it again, and return its standing. Fail if its id is dead."""
        standing = await self.engine.claim(ask, self.deadline)
        assert standing is not None, f"the claim on {ask.shape.name!r} is dead"
        return standing

    async def is_dead(self, ask: Ask) -> bool:
        """Send a claim, and return whether the engine treats its id as dead."""
        return await self.engine.claim(ask, self.deadline) is None

    async def renew(self, *asks: Ask) -> Renewed:
        """Renew claims, all in one call."""
        return await self.engine.renew(asks, self.deadline)

    async def renew_one(self, ask: Ask) -> Standing:
        """Renew a claim and return its standing. Fail if the claim is gone."""
        (standing,) = await self.renew(ask)
        assert isinstance(standing, Standing), f"not a standing: {standing!r}"
        return standing

    async def resign(self, *asks: Ask, doubt: bool = False) -> list[bool | Exception]:
        """Resign claims, all in one call, and return for each whether it was there."""
        return await self.engine.resign(asks, self.deadline, doubt=doubt)

    async def learn(self, name: str = "x") -> None:
        """Have the server of a name tell its time: the reply to a renewal always does."""
        assert await self.renew(self.ask(name)) == [None]

    async def entries(self, name: str) -> list[Entry]:
        """Return the live claims on one name."""
        page = await self.engine.inspect(name, None, exact=True)
        assert page.cursor is None, "one name is one page"
        return page.entries

    async def every(self, prefix: str) -> list[Entry]:
        """Return the claims on all names with a prefix, each once. Pages may repeat a claim."""
        page = await self.engine.inspect(prefix, None, exact=False)
        entries = {entry.id: entry for entry in page.entries}
        while page.cursor is not None:
            page = await self.engine.inspect(prefix, page.cursor, exact=False)
            entries |= {entry.id: entry for entry in page.entries}
        return list(entries.values())

    async def attend(self) -> None:
        """Hear this client, and listen until the engine delivers its pushes."""
        await self.attend_to(self.client)

    async def attend_to(self, client: str) -> None:
        """Hear a client, and listen until the engine delivers its pushes."""
        self.engine.hear(client, on=True)
        for _ in range(200):
            wakes = await self.engine.listen(self._bench.now() + 0.1)
            if any(client.startswith(wake.id) for wake in wakes):
                return
        raise EngineUnavailable("pushes do not flow", sent=False)

    async def wakes(self, ids: int) -> list[Wake]:
        """Return pushes, once they concern that many claims. With 0, listen for 0.1 s at most."""
        heard: list[Wake] = []
        end = self._bench.now() + (PATIENCE if ids else 0.1)
        while len({wake.id for wake in heard}) < max(ids, 1) and self._bench.now() < end:
            heard += [wake for wake in await self.engine.listen(end) if len(wake.id) > CLIENT]
        return heard


class Stage:
    """What one test uses: a bench, a mode, and the actors and clients that it opens."""

    def __init__(self, bench: Bench, mode: Mode) -> None:
        """Wipe the engine."""
        self.bench = bench
        self.mode = mode
        self._actors: list[Actor] = []
        self._clients: list[Client | AsyncClient] = []
        bench.wipe()

    def actor(self) -> Actor:
        """Return a new actor, with an engine of its own."""
        actor = Actor(self.bench.open(self.mode.runtime(self.bench.now)), self.bench)
        self._actors.append(actor)
        return actor

    def client(self, *, deadlock_after: float | None = DEADLOCK) -> Client | AsyncClient:
        """Return a new client, which runs in real time."""
        client = self.bench.client(self.mode)
        client._session.deadlock_after = deadlock_after  # noqa: SLF001  # `Bench.client` takes no options
        self._clients.append(client)
        return client

    @property
    def brief(self) -> float:
        """The shortest ttl in seconds that the engine handles well, for tests that wait for it."""
        return max(1.0, 0.6 * self.bench.unit)

    def shaky_client(self) -> tuple[Client | AsyncClient, Shaky]:
        """Make a client, and the way to its engine, which a test can cut."""
        way = Shaky(self.mode.sleep)
        client = made(self.mode, lambda runtime: way.to(self.bench.open(runtime)))
        self._clients.append(client)
        return client, way

    async def advance(self, units: float) -> None:
        """Let time pass, for the engine and for this process. Sleep if no clock can be moved."""
        seconds = units * self.bench.unit
        if self.bench.move(seconds):
            self.bench.ahead += seconds
        else:
            await self.mode.sleep(seconds)

    def units(self, seconds: float) -> float:
        """Convert seconds to the bench's units, without what arithmetic has added."""
        return round(seconds / self.bench.unit, 6)

    async def clear(self) -> None:
        """Close all clients and engines that the test has opened."""
        clients, self._clients = self._clients, []
        for client in clients:
            if isinstance(client, Client):
                client.close()
            else:
                await client.close()
        actors, self._actors = self._actors, []
        for actor in actors:
            await actor.engine.close()


def driven(
    test: Callable[Concatenate[S, Stage, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[S, Stage, P], None]:
    """Turn an async test method into one that pytest can call. It runs in its stage's mode.

    Args:
        test: A coroutine method of a contract. Its first argument is the stage.

    Returns:
        A plain method with the same arguments.
    """

    @wraps(test)
    def call(self: S, stage: Stage, *args: P.args, **kwargs: P.kwargs) -> None:
        stage.mode.run(test(self, stage, *args, **kwargs))

    return cast("Callable[Concatenate[S, Stage, P], None]", call)  # pytest passes `stage` by name


def only(mode: str) -> pytest.MarkDecorator:
    """Run a test in one mode: threads cannot be cancelled, and asyncio has no blocking call."""
    return pytest.mark.parametrize("stage", [mode], indirect=True)


class Contract:
    """The base class of all contracts. The test module must define a fixture `bench`."""

    @pytest.fixture(params=sorted(MODES))
    def stage(self, request: pytest.FixtureRequest, bench: Bench) -> Iterator[Stage]:
        """Yield a stage. Each test runs once in each mode."""
        mode = MODES[request.param]()
        stage = Stage(bench, mode)
        yield stage
        mode.run(stage.clear())
        mode.close()
