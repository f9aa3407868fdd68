"""How a replica reaches the database: the port, with a network between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

from lockfast.errors import EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import EVERYONE, Ask, Page, Standing, Wake, everyone_of
from lockfast.runtime.aio import Aio
from tests.robustness.simulation.storms.database import EPOCH, Database, Queues
from tests.robustness.simulation.storms.machine import Machine

R = TypeVar("R")
WAY = 0.0002  # seconds to the database, at least
PATIENCE = 5.0  # seconds for an answer to who looks at a queue
AGAIN = 0.5  # seconds within which a connection to a database that is back is made


class Access:
    """The engine of one replica."""

    batch = 64

    def __init__(self, machine: Machine, database: Database, rng: Random) -> None:
        self._machine = machine
        self._database = database
        self._rng = rng
        self._world = machine._world
        self._bell = Aio(machine.time).bell()
        self._pushes: list[Wake] = [EVERYONE]
        self._heard: dict[str, None] = {}
        self._under_way: dict[asyncio.Future[Any], None] = {}
        self._known = False
        """Whether a reply has told the database's time."""
        self._connected = database.up
        database.accesses[self] = None

    def _way(self) -> float:
        return WAY * (1.0 + self._rng.random())

    async def _call(self, cost: float, work: Callable[[float], R], deadline: float) -> R:
        """Have the database do something."""
        database, machine = self._database, self._machine
        if not self._connected:
            raise EngineUnavailable("no connection to the database", sent=False)
        future: asyncio.Future[R] = machine.create_future()
        life = database.life

        def execute() -> None:
            database.machine.charge(cost)
            result = work(database.clock())
            database.push()
            self._world.at(database.machine.free + self._way(), machine.call_soon, settle, result)

        def settle(result: R) -> None:
            if not future.done():
                self._known = True
                future.set_result(result)

        def fail(sent: bool = True) -> None:  # noqa: FBT001, FBT002  # a callback
            if not future.done():
                future.set_exception(EngineUnavailable("no answer in time", sent=sent))

        def arrive() -> None:
            if database.up and database.life == life:
                database.machine.call_soon(execute)

        self._world.at(machine.free + self._way(), arrive)
        timer = machine.call_later(max(deadline - machine.time(), 0.0), fail)
        self._under_way[future] = None
        try:
            return await future
        finally:
            timer.cancel()
            self._under_way.pop(future, None)

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        (standing,) = await self._each((ask,), Queues.claim, deadline)
        return standing  # type: ignore[no-any-return]

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        return await self._each(asks, Queues.claim, deadline)

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        return await self._each(asks, Queues.renew, deadline)

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        return await self._each(asks, partial(Queues.resign, doubt=doubt), deadline)

    async def _each(
        self, asks: Sequence[Ask], work: Callable[[Queues, Ask, float], R], deadline: float
    ) -> list[Any]:
        database = self._database
        return await self._call(
            database.cost * len(asks),
            lambda now: [work(database.queues, ask, now) for ask in asks],
            deadline,
        )

    def abandon(self, asks: Sequence[Ask]) -> None:
        raise NotImplementedError  # a replica abandons nothing

    def hear(self, client: str, *, on: bool) -> None:
        listeners = self._database.listeners
        if on:
            self._heard[client] = None
            if self._connected:
                self._world.at(self._machine.free + self._way(), self._subscribe, client)
        elif client in self._heard:
            del self._heard[client]
            hearing = listeners.get(client)
            if hearing is not None:
                hearing.pop(self, None)
                if not hearing:
                    del listeners[client]

    def _subscribe(self, client: str) -> None:
        if client in self._heard and self._connected and not self._machine.dead:
            self._database.listeners.setdefault(client, {})[self] = None
            self.pushed(everyone_of(client))

    def pushed(self, wake: Wake) -> None:
        """Carry a push from the database."""
        at = self._database.machine.free + self._way()
        self._world.at(at, self._machine.call_soon, self._woken, wake)

    def _woken(self, wake: Wake) -> None:
        self._pushes.append(wake)
        self._bell.ring()

    def cut_off(self) -> None:
        """Lose the connection, because the database has ended."""
        self._connected = False
        for future in list(self._under_way):
            self._world.at(self._world.now + self._way(), self._machine.call_soon, _fail, future)

    def restored(self) -> None:
        """Connect again, soon."""
        at = self._world.now + AGAIN * self._rng.random()
        self._world.at(at, self._machine.call_soon, self._connect, self._database.life)

    def _connect(self, life: int) -> None:
        database = self._database
        if database.up and database.life == life and not self._connected:
            self._connected = True
            for client in self._heard:
                database.listeners.setdefault(client, {})[self] = None
            self._woken(EVERYONE)

    async def listen(self, deadline: float | None) -> list[Wake]:
        if not self._pushes:
            await self._bell.wait(deadline)
        pushes, self._pushes = self._pushes, []
        return pushes

    def rouse(self) -> None:
        self._bell.ring()

    def time(self, name: str) -> float | None:
        del name
        return EPOCH + self._machine.time() if self._known else None

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        del names, cursor, exact
        deadline = self._machine.time() + PATIENCE
        return await self._call(
            self._database.cost, lambda _: Page([], None), deadline
        )  # only the time counts

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        raise NotImplementedError  # nobody breaks anything

    async def records(self, name: str, deadline: float) -> list[bytes]:
        del name
        return await self._call(self._database.cost, lambda _: [], deadline)

    async def guarantees(self, deadline: float) -> Guarantees:
        raise NotImplementedError  # nobody asks

    def reset(self) -> None:
        """Nothing is forked."""

    async def close(self) -> None:
        self.leave()

    def leave(self) -> None:
        """Lose the connection, because the replica has ended."""
        self._connected = False
        self._database.accesses.pop(self, None)
        for client in list(self._heard):
            self.hear(client, on=False)


def _fail(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(EngineUnavailable("the connection has ended", sent=True))
