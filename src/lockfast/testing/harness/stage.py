"""A stage: one bench in one mode for one test, and the actors on it."""

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
from lockfast.port import Ask, Engine, Entry, Shape, Standing, Wake
from lockfast.testing.harness.bench import Bench, made
from lockfast.testing.harness.faults import Shaky
from lockfast.testing.harness.mode import MODES, PATIENCE, Mode

P = ParamSpec("P")
S = TypeVar("S")
Renewed = list[Standing | Exception | None]


class Actor:
    """One client at the port: an engine of its own, and ids that name it."""

    def __init__(self, engine: Engine, bench: Bench) -> None:
        """Begin without a claim."""
        self.engine = engine
        self._bench = bench
        self._prefix = secrets.token_hex(11)
        self._numbers = count()

    def ask(  # noqa: PLR0913  # each is one independent part of a claim
        self,
        name: str = "x",
        *,
        ttl: float = 5,
        capacity: int = 1,
        weight: int = 1,
        queue: bool = True,
        payload: bytes = b"",
        late: float = 0.0,
    ) -> Ask:
        """Make a claim that was never sent, or one that is late. Times are in the bench's units."""
        shape = Shape(name, ttl * self._bench.unit, capacity, weight)
        return Ask(
            id=f"{self._prefix}{next(self._numbers):010x}",
            shape=shape,
            queue=queue,
            not_after=self._bench.now() + (-late * self._bench.unit if late else shape.wait_ttl),
            payload=payload,
        )

    @property
    def deadline(self) -> float:
        """A deadline that only an engine in trouble reaches."""
        return self._bench.now() + 5.0

    async def claim(self, ask: Ask) -> Standing:
        """Send a claim, or the same one again, that must not be dead."""
        standing = await self.engine.claim(ask, self.deadline)
        assert standing is not None, f"the claim on {ask.shape.name!r} is dead"
        return standing

    async def is_dead(self, ask: Ask) -> bool:
        """Send a claim, and tell whether the engine refused its id."""
        return await self.engine.claim(ask, self.deadline) is None

    async def renew(self, *asks: Ask) -> Renewed:
        """Renew, all in one call."""
        return await self.engine.renew(asks, self.deadline)

    async def renew_one(self, ask: Ask) -> Standing:
        """Renew a claim that must be there."""
        (standing,) = await self.renew(ask)
        assert isinstance(standing, Standing), f"not a standing: {standing!r}"
        return standing

    async def resign(self, *asks: Ask, doubt: bool = False) -> list[bool]:
        """Resign, all in one call."""
        return await self.engine.resign(asks, self.deadline, doubt=doubt)

    async def entries(self, name: str) -> list[Entry]:
        """Inspect one name."""
        page = await self.engine.inspect(name, None, exact=True)
        assert page.cursor is None, "one name is one page"
        return page.entries

    async def every(self, prefix: str) -> list[Entry]:
        """Inspect all names with a prefix, page by page. A page may show a claim again."""
        page = await self.engine.inspect(prefix, None, exact=False)
        entries = {entry.id: entry for entry in page.entries}
        while page.cursor is not None:
            page = await self.engine.inspect(prefix, page.cursor, exact=False)
            entries |= {entry.id: entry for entry in page.entries}
        return list(entries.values())

    async def attend(self) -> None:
        """Listen until pushes flow. A client is heard of with its first claim."""
        scratch = self.ask(f"attending {self._prefix}")
        await self.claim(scratch)
        await self.resign(scratch)
        for _ in range(200):
            if any(not wake.id for wake in await self.engine.listen(self._bench.now() + 0.1)):
                return
        raise EngineUnavailable("pushes do not flow", sent=False)

    async def wakes(self, ids: int) -> list[Wake]:
        """Listen until that many claims were pushed; with 0, only to what is there or near."""
        heard: list[Wake] = []
        end = self._bench.now() + (PATIENCE if ids else 0.1)
        while len({wake.id for wake in heard}) < max(ids, 1) and self._bench.now() < end:
            heard += [wake for wake in await self.engine.listen(end) if wake.id]
        return heard


class Stage:
    """Where one test plays."""

    def __init__(self, bench: Bench, mode: Mode) -> None:
        """Begin empty."""
        self.bench = bench
        self.mode = mode
        self._actors: list[Actor] = []
        self._clients: list[Client | AsyncClient] = []
        bench.wipe()

    def actor(self) -> Actor:
        """Open an engine."""
        actor = Actor(self.bench.open(self.mode.runtime(self.bench.now)), self.bench)
        self._actors.append(actor)
        return actor

    def client(self, *, deadlock_after: float | None = DEADLOCK) -> Client | AsyncClient:
        """Make a client, in real time."""
        client = self.bench.client(self.mode)
        client._session.deadlock_after = deadlock_after  # noqa: SLF001  # a bench knows no options
        self._clients.append(client)
        return client

    @property
    def brief(self) -> float:
        """A ttl in seconds that is worth waiting for: the shortest that the engine can do well."""
        return max(0.6, 0.6 * self.bench.unit)

    def shaky_client(self) -> tuple[Client | AsyncClient, Shaky]:
        """Make a client, and the way to its engine, which a test can cut."""
        way = Shaky(self.mode.sleep)
        client = made(self.mode, lambda runtime: way.to(self.bench.open(runtime)))
        self._clients.append(client)
        return client, way

    async def advance(self, units: float) -> None:
        """Let time pass, for the engine and for this process."""
        seconds = units * self.bench.unit
        if self.bench.move(seconds):
            self.bench.ahead += seconds
        else:
            await self.mode.sleep(seconds)

    def units(self, seconds: float) -> float:
        """Count seconds in the bench's units."""
        return seconds / self.bench.unit

    async def clear(self) -> None:
        """Close everything that was opened."""
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
    """Make a test of a coroutine: it runs in the mode of its stage."""

    @wraps(test)
    def call(self: S, stage: Stage, *args: P.args, **kwargs: P.kwargs) -> None:
        stage.mode.run(test(self, stage, *args, **kwargs))

    return cast("Callable[Concatenate[S, Stage, P], None]", call)  # pytest passes it by name


def only(mode: str) -> pytest.MarkDecorator:
    """Run a test in one mode: threads cannot be cancelled, and asyncio has no blocking call."""
    return pytest.mark.parametrize("stage", [mode], indirect=True)


class Contract:
    """What all parts of the contract need: a fixture `bench`, which the test module brings."""

    @pytest.fixture(params=sorted(MODES))
    def stage(self, request: pytest.FixtureRequest, bench: Bench) -> Iterator[Stage]:
        """Set the stage in each mode."""
        mode = MODES[request.param]()
        stage = Stage(bench, mode)
        yield stage
        mode.run(stage.clear())
        mode.close()
