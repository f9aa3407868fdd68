"""The stand-in: the thread that renews for an asyncio client whose event loop is blocked."""

from __future__ import annotations

import _thread
import asyncio
import gc
import logging
import time
from collections.abc import Sequence
from typing import Any

import pytest

from lockfast import aio, connect
from lockfast.aio import AsyncClient
from lockfast.claims.stand_in import StandIn
from lockfast.claims.table import Table
from lockfast.core.validity import State
from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.errors import EngineUnavailable, Loss
from lockfast.port import PORT, Ask, Standing
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import Running
from lockfast.runtime.threads import Threads
from lockfast.testing.lab import AsyncLab
from lockfast.url import Target

TTL = 0.6
SOON = 5.0


def block(seconds: float) -> None:
    """Block the event loop."""
    time.sleep(seconds)


def thread_of(client: AsyncClient) -> Running:
    """Return the thread of a client's stand-in."""
    stand_in = client._session.stand_in
    assert stand_in is not None
    assert stand_in._running is not None
    return stand_in._running


async def until_ended(thread: Running, patience: float = SOON) -> None:
    """Wait until a thread has ended."""
    end = time.monotonic() + patience
    while not await thread.ended(0.0):
        assert time.monotonic() < end, "it still runs"
        await asyncio.sleep(0.01)


class Spied(MemoryEngine):
    """A memory engine whose replies a test can delay, and whose renewers it can look at."""

    port = PORT
    memory = Memory()
    block_in_renewal = 0.0
    """For how long the next renewal blocks the loop, before it fails."""
    renewers: list[SpiedRenewer]

    def __init__(self, _target: Target | None, runtime: Threads | Aio) -> None:
        super().__init__(self.memory, runtime.bell())
        self.renewers = []

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        if self.block_in_renewal:
            seconds, self.block_in_renewal = self.block_in_renewal, 0.0
            block(seconds)
            raise EngineUnavailable("its deadline has passed", sent=True)
        return await super().renew(asks, deadline)

    def stand_in(self) -> SpiedRenewer:
        self.renewers.append(SpiedRenewer(self.memory, Threads().bell()))
        return self.renewers[-1]


class SpiedRenewer(MemoryEngine):
    """The engine of a stand-in. It notes what is done with it."""

    closed = was_reset = False
    asked: tuple[Ask, ...] = ()

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        self.asked += tuple(asks)
        return await super().renew(asks, deadline)

    def reset(self) -> None:
        self.was_reset = True

    async def close(self) -> None:
        self.closed = True
        await super().close()


class Deaf(Spied):
    """An engine that cannot be reached by the stand-in."""

    def stand_in(self) -> Any:  # noqa: ANN401  # no renewer
        raise EngineUnavailable("no way there", sent=False)


def engine_of(client: AsyncClient) -> Spied:
    engine = client._session.engine
    assert isinstance(engine, Spied)
    return engine


def test_it_runs_from_the_first_use_to_the_closing_of_its_client() -> None:
    async def play() -> None:
        client = aio.connect("memory://")
        assert client._session.stand_in is None
        async with client.lock("x", ttl=TTL):
            thread = thread_of(client)
            assert thread.started()
            assert not await thread.ended(0.0)
        await client.close()
        assert await thread.ended(0.0)  # `close` has waited for it

    asyncio.run(play())


def test_it_ends_with_a_client_that_is_dropped() -> None:
    async def play() -> None:
        client = aio.connect("memory://")
        async with client.lock("x", ttl=30.0):
            thread = thread_of(client)
        del client
        gc.collect()
        await until_ended(thread, 2.0)  # before it would wake up for a renewal

    asyncio.run(play())


def test_its_engine_is_made_when_the_loop_is_blocked_and_closed_with_the_client() -> None:
    async def play() -> None:
        async with aio.connect(engine=Spied) as client:
            lease = await client.lock("x", ttl=TTL).acquire()
            await asyncio.sleep(TTL)
            engine = engine_of(client)
            assert engine.renewers == []
            for _ in range(2):
                block(1.5 * TTL)
                assert lease.state is State.HELD
                await asyncio.sleep(TTL)
            (renewer,) = engine.renewers
            assert not renewer.closed
        assert renewer.closed

    asyncio.run(play())


def test_threads_and_labs_have_none() -> None:
    with connect("memory://") as client, client.lock("x", ttl=TTL):
        stand_in = client._session.stand_in
        assert stand_in is None or stand_in._running is None

    async def play() -> None:
        async with AsyncLab() as lab:
            lease = await lab.client.lock("x", ttl=TTL).acquire()
            stand_in = lab.client._session.stand_in
            assert stand_in is None or stand_in._running is None
            block(2.0 * TTL)
            assert lease.state is State.LOST

    asyncio.run(play())


def test_a_client_that_holds_nothing_does_not_wake_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    watch = Table.watch

    def counted(table: Table) -> tuple[float, float] | None:
        looks.append(time.monotonic())
        return watch(table)

    monkeypatch.setattr(Table, "watch", counted)

    async def play() -> None:
        async with aio.connect("memory://") as client:
            for _ in range(100):
                async with client.lock("x", ttl=TTL):
                    await asyncio.sleep(0)
            assert len(looks) < 10  # not for each acquisition
            await asyncio.sleep(TTL)
            looks.clear()
            await asyncio.sleep(2.0 * TTL)
            assert looks == []

    asyncio.run(play())


def test_a_short_ttl_is_kept_though_it_slept_for_the_sake_of_a_long_one() -> None:
    async def play() -> None:
        async with aio.connect("memory://") as client:
            long = await client.lock("long", ttl=30.0).acquire()
            await asyncio.sleep(0.1)
            short = await client.lock("short", ttl=TTL).acquire()
            block(3.0 * TTL)
            assert (long.state, short.state) == (State.HELD, State.HELD)

    asyncio.run(play())


def test_a_block_in_the_middle_of_a_renewal_costs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        async with aio.connect(engine=Spied) as client:
            lock = await client.lock("long", ttl=30.0).acquire()
            lease = await client.lock("x", ttl=TTL).acquire()
            engine_of(client).block_in_renewal = 3.0 * TTL
            await asyncio.sleep(TTL)
            assert engine_of(client).block_in_renewal == 0.0
            assert (lease.state, lock.state) == (State.HELD, State.HELD)
            await asyncio.sleep(TTL)
            assert lease.state is State.HELD

    asyncio.run(play())
    said = [each.getMessage() for each in caplog.records]
    assert [each for each in said if "the event loop was blocked" in each] == said


def test_a_block_at_the_end_of_a_body_is_reported_though_the_release_comes_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client, client.lock("x", ttl=TTL):
            block(2 * TTL)

    with caplog.at_level(logging.WARNING, "lockfast"):
        asyncio.run(main())
    (said,) = [each.getMessage() for each in caplog.records if "blocked for" in each.getMessage()]
    assert "'x'" in said


def test_only_what_is_held_and_wanted_is_renewed() -> None:
    async def play() -> None:
        async with aio.connect(engine=Spied) as client, aio.connect(engine=Spied) as other:
            taken = await other.lock("taken", ttl=30.0).acquire()
            waiting = asyncio.create_task(client.lock("taken", ttl=TTL).acquire().__aenter__())
            kept = await client.lock("kept", ttl=TTL).acquire()
            over = await client.lock("over", ttl=TTL, at_most=TTL / 10.0).acquire()
            dropped = client.lock("dropped", ttl=TTL)
            lost = await dropped.acquire()
            await asyncio.sleep(TTL / 10.0)
            first = (await client.lock("taken").queue())[1].id
            del lost  # the heart has no time to notice it before the loop is blocked
            block(3.0 * TTL)
            (renewer,) = engine_of(client).renewers
            assert {each.id for each in renewer.asked} == {kept.id}
            assert (kept.state, over.loss) == (State.HELD, Loss.AT_MOST)
            assert await dropped.queue() == []
            await taken.release()
            lease = await asyncio.wait_for(waiting, SOON)
            assert lease.id != first  # its place was lost, and it has queued again

    asyncio.run(play())


def test_the_leases_of_a_loop_that_was_stopped_expire() -> None:
    with asyncio.Runner() as runner:
        client = aio.connect("memory://")

        async def begin() -> aio.AsyncLease:
            return await client.lock("x", ttl=TTL).acquire()

        lease = runner.run(begin())
        block(2.0 * TTL)
        assert (lease.state, lease.loss) == (State.LOST, Loss.EXPIRED)
        runner.run(client.close())


def test_a_loss_is_recorded_at_once_and_announced_by_the_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play() -> None:
        async with aio.connect(engine=Deaf) as client:
            lease = await client.lock("x", ttl=TTL).acquire()
            told: list[int] = []
            lease.on_lost(lambda: told.append(_thread.get_ident()))
            with caplog.at_level(logging.CRITICAL, "lockfast"):  # the stand-in stumbles here
                block(2.0 * TTL)
            assert (lease.state, lease.loss, told) == (State.LOST, Loss.EXPIRED, [])
            await asyncio.sleep(TTL)
            assert told == [_thread.get_ident()]

    asyncio.run(play())


def test_a_forked_child_drops_its_connections_and_starts_another() -> None:
    async def play() -> None:
        async with aio.connect(engine=Spied) as client:
            session = client._session
            lease = await client.lock("x", ttl=TTL).acquire()
            block(1.5 * TTL)
            (renewer,) = engine_of(client).renewers
            thread, first = thread_of(client), session.stand_in
            session.after_fork()  # here the parent's thread is there: it finds itself replaced
            assert renewer.was_reset
            assert session.stand_in is None
            assert lease.loss is Loss.FOREIGN
            first.rouse() if first is not None else pytest.fail("there was none")
            async with client.lock("y", ttl=TTL) as another:
                assert isinstance(session.stand_in, StandIn)
                block(1.5 * TTL)
                assert another.state is State.HELD
            await until_ended(thread)

    asyncio.run(play())
