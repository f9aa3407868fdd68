"""Clients of a replica without a network, and an engine that a test can hold up."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import count
from typing import Any, ParamSpec, TypeVar

from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.engines.remote import messages
from lockfast.engines.remote.identity import client_of, new_secret
from lockfast.engines.remote.messages import Asked, Claim, Hello, Reply, Said, Welcome
from lockfast.port import Ask, Page, Standing
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.service.replica import Replica
from lockfast.testing.harness.faults import Shaky

P = ParamSpec("P")
T = TypeVar("T")
SUFFIXES = count(1)


def in_loop(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        async def within() -> T:
            async with asyncio.timeout(20):
                return await test(*args, **kwargs)

        return asyncio.run(within())

    return run


class Held(Shaky):
    """A memory engine that notes its calls. A test can hold the calls up, and hide the clock."""

    bound = False  # as if the memory were on a server

    def __init__(self, memory: Memory | None = None) -> None:
        super().__init__()
        self.memory = memory or Memory()
        self.calls: list[tuple[str, list[str]]] = []
        """The method, and the names (of claims) or ids (of renewals, resignations) of each call."""
        self.asks: list[Ask] = []
        self.deadlines: list[float] = []
        self.holding: set[str] = set()
        """The methods whose calls do not go on until `let_go`."""
        self.failures: deque[Exception] = deque()
        """The errors of the next calls."""
        self.hidden = False
        """Whether the time is unknown until the next inspection."""
        self.gates: list[asyncio.Event] = []
        """One for each call that was held up, in order."""

    def made(self) -> Held:
        """Make the engine, in the running loop."""
        self.loop = asyncio.get_running_loop()
        return self.to(MemoryEngine(self.memory, Aio().bell()))

    def let_go(self) -> None:
        """Let the calls go on that are held up."""
        self.holding.clear()
        for gate in self.gates:
            gate.set()

    async def _note(self, verb: str, asks: Sequence[Ask], keys: list[str], deadline: float) -> None:
        self.calls.append((verb, keys))
        self.asks += asks
        self.deadlines.append(deadline)
        if verb in self.holding:
            gate = asyncio.Event()
            self.gates.append(gate)
            await gate.wait()
        if self.failures:
            raise self.failures.popleft()

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        await self._note("claim", [ask], [ask.shape.name], deadline)
        return await super().claim(ask, deadline)

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        await self._note("claim", asks, [ask.shape.name for ask in asks], deadline)
        return await super().claim_all(asks, deadline)

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        await self._note("renew", asks, [ask.id for ask in asks], deadline)
        return await super().renew(asks, deadline)

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        verb = "bury" if doubt else "resign"
        await self._note(verb, asks, [ask.id for ask in asks], deadline)
        return await super().resign(asks, deadline, doubt=doubt)

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        await self._note("inspect", [], [names], 0.0)
        found = await super().inspect(names, cursor, exact=exact)
        self.hidden = False
        return found

    def time(self, name: str) -> float | None:
        return None if self.hidden else super().time(name)

    def of(self, verb: str) -> list[list[str]]:
        """Return the names or ids of all calls of a method."""
        return [keys for each, keys in self.calls if each == verb]


class Peer:
    """A client, with one connection to a replica."""

    def __init__(self, replica: Replica, secret: str = "", epoch: int = 1) -> None:
        self.secret = secret or new_secret()
        self.client = client_of(self.secret)
        self.epoch = epoch
        self._ready = asyncio.Event()
        self.connection = replica.connect(self._ready.set)
        self._numbers = count(1)
        self.n = 0

    def greet(self, *, hear: bool = False) -> Welcome:
        """Send `hello`, and return the reply."""
        self.send(Hello(messages.VERSION, self.secret, self.epoch, hear))
        reply = self.read()
        assert isinstance(reply, Welcome)
        return reply

    def send(self, message: messages.Request) -> None:
        """Send a message."""
        self.connection.feed(messages.encode(message))

    def read(self) -> Reply | None:
        """Return the next message of the replica, or None."""
        frame = self.connection.outbox.take()
        if frame is None:
            return None
        self.connection.outbox.sent()
        return messages.reply(frame)

    def all(self) -> list[Reply]:
        """Return all messages of the replica that wait."""
        return list(iter(self.read, None))

    async def next(self) -> Reply:
        """Wait for the next message of the replica."""
        while True:
            reply = self.read()
            if reply is not None:
                return reply
            self._ready.clear()
            await self._ready.wait()

    def new(self, name: str, ttl: float = 30.0, **more: Any) -> Asked:  # noqa: ANN401
        """Return a new claim."""
        more.setdefault("not_after", now() + min(ttl, 10.0))
        return Asked(f"{self.client}{next(SUFFIXES):010x}", name, ttl, **more)

    async def claim(self, *asks: Asked) -> Said:
        """Make claims, and wait for the reply."""
        self.n = next(self._numbers)
        self.send(Claim(self.n, 2.0, list(asks)))
        reply = await self.next()
        assert isinstance(reply, Said)
        assert reply.n == self.n
        return reply


async def settle(times: int = 10) -> None:
    """Let all tasks run that can."""
    for _ in range(times):
        await asyncio.sleep(0)


Test = Callable[[Replica, Held], Awaitable[None]]


def on_a_replica(test: Test) -> Callable[[], None]:
    """Run a test with a replica on a memory engine."""

    @in_loop
    async def run() -> None:
        held = Held()
        replica = Replica(held.made, Aio())
        try:
            await test(replica, held)
        finally:
            held.let_go()
            await replica.close()

    def test_() -> None:
        run()

    test_.__name__ = test.__name__
    return test_


def in_front_of_memory(test: Callable[[Replica], Awaitable[None]]) -> Callable[[], None]:
    """Run a test that does not look at the engine."""

    def scene(replica: Replica, _: Held) -> Awaitable[None]:
        return test(replica)

    return on_a_replica(scene)
