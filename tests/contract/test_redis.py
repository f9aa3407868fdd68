"""The contract on Redis, standalone: all of it, in both modes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.engines.redis.keys import keys
from lockfast.errors import EngineRefused
from lockfast.port import LONGEST_WAIT, Ask, Shape, Standing
from lockfast.testing import (
    BodyContract,
    ClientContract,
    ClockContract,
    Contract,
    DepartureContract,
    DepartureQueueContract,
    DeposedContract,
    FixedTimeContract,
    MachineContract,
    ManyReadersContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ReplicaContract,
    ReplicaMachineContract,
    ReplicaQueueContract,
    ShapeContract,
    Stage,
    driven,
)
from tests.contract.benches import RedisBench, server_of
from tests.servers import Redis, ServerClock
from tests.servers.node import rows


@pytest.fixture(scope="module")
def bench() -> Iterator[RedisBench]:
    clock = ServerClock()
    with Redis(env=clock.env) as server:
        yield RedisBench(server.url, server, clock=clock)


class TestPort(PortContract):
    pass


class TestReplicas(
    ReplicaContract, ReplicaQueueContract, DepartureContract, DepartureQueueContract
):
    pass


class TestClock(ClockContract):
    pass


class TestFixedTimes(FixedTimeContract):
    pass


class TestMachine(MachineContract):
    pass


class TestReplicaMachine(ReplicaMachineContract):
    pass


class TestClient(ClientContract):
    pass


class TestShapes(ShapeContract):
    pass


class TestQueueShapes(QueueShapeContract):
    pass


class TestManyReaders(ManyReadersContract):
    pass


class TestDeposed(DeposedContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass


class TestKeys(Contract):
    @driven
    async def test_one_bad_claim_fails_alone(self, stage: Stage) -> None:
        actor, server = stage.actor(), server_of(stage)
        asks = [actor.ask(name) for name in ("a", "bad", "c")]
        for ask in asks:
            await actor.claim(ask)
        lock = _tag("bad") + b"=bad"
        server.command("DEL", lock)
        server.command("RPUSH", lock, "not a lock")
        first, bad, last = await actor.renew(*asks)
        assert isinstance(first, Standing)
        assert isinstance(bad, Exception)
        assert isinstance(last, Standing)
        answers = await actor.resign(*asks)
        assert isinstance(answers[1], EngineRefused)
        assert answers[::2] == [True, True]

    @driven
    async def test_half_a_queue_that_was_deleted_by_hand_is_no_queue(self, stage: Stage) -> None:
        actor, server = stage.actor(), server_of(stage)
        asks = [actor.ask() for _ in range(3)]
        for ask in asks:
            await actor.claim(ask)
        server.command("DEL", _tag("x") + b"#x")
        assert await actor.renew(*asks) == [None, None, None]
        assert (await actor.claim(actor.ask())).granted

    @driven
    async def test_a_lock_leaves_nothing_but_the_counter_of_its_bucket(self, stage: Stage) -> None:
        actor, server = stage.actor(), server_of(stage)
        pairs = [(actor.ask(f"name {n}"), actor.ask(f"name {n}")) for n in range(20)]
        for holder, waiter in pairs:
            await actor.claim(holder)
            await actor.claim(waiter)
            await actor.resign(holder, waiter)
        left = {each for each in rows(server.command("KEYS", "*")) if isinstance(each, bytes)}
        assert left == {_tag(holder.shape.name) for holder, _ in pairs}

    @driven
    async def test_a_tombstone_does_not_stay_for_ever(self, stage: Stage) -> None:
        actor, server = stage.actor(), server_of(stage)
        await actor.resign(actor.ask(ttl=5), doubt=True)
        (tomb,) = rows(server.command("KEYS", "*"))
        assert isinstance(tomb, bytes)
        left = server.command("PTTL", tomb)
        assert isinstance(left, int)
        assert 5_000 < left <= 6_100

    @driven
    async def test_a_break_leaves_a_tombstone_by_the_servers_clock_whatever_its_sender_knows(
        self, stage: Stage
    ) -> None:
        holder, breaker, server = stage.actor(), stage.actor(), server_of(stage)
        mine = holder.ask(ttl=30)
        await holder.claim(mine)
        await breaker.claim(breaker.ask("another"))  # from here on it knows the server's clock
        stage.bench.move(3600)  # the server's alone: a break by what was known would leave nothing
        try:
            shape = Shape("x", LONGEST_WAIT)
            broken = Ask(mine.id, shape, True, stage.bench.now() + LONGEST_WAIT, b"")  # noqa: FBT003  # queue
            assert await breaker.resign(broken, doubt=True) == [False]  # an hour has ended it
            left = server.command("PTTL", _tag("x") + b"!" + mine.id.encode())
            assert isinstance(left, int)
            assert 10_500 < left <= 11_100
        finally:
            stage.bench.rewind(3600)

    @driven
    async def test_a_lease_is_believed_for_less_than_the_milliseconds_that_redis_counts(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=5.0509)  # Redis is told 5050 ms, and may end it a millisecond early
        assert (await actor.claim(ask)).left <= 5.049
        assert (await actor.claim(ask)).left <= 5.049  # as a standing: it was there already
        assert (await actor.renew_one(ask)).left <= 5.049
        await actor.claim(actor.ask(ttl=5.0509))
        assert (await actor.renew_one(ask)).left <= 5.049  # in a queue

    @driven
    async def test_nobody_shortens_a_tombstone(self, stage: Stage) -> None:
        actor, server = stage.actor(), server_of(stage)
        ask = actor.ask(ttl=9)
        await actor.resign(ask, doubt=True)
        short = Ask(ask.id, Shape("x", 1.0), True, stage.bench.now(), b"")  # noqa: FBT003  # queue
        await actor.resign(short, doubt=True)
        left = server.command("PTTL", _tag("x") + b"!" + ask.id.encode())
        assert isinstance(left, int)
        assert 9_000 < left <= 10_100

    @driven
    async def test_every_key_of_a_queue_ends_by_itself(self, stage: Stage) -> None:
        actor, server = stage.actor(), server_of(stage)
        for _ in range(3):
            await actor.claim(actor.ask(ttl=5))
        names = [n for n in rows(server.command("KEYS", "*=x")) if isinstance(n, bytes)]
        names += [n for n in rows(server.command("KEYS", "*[>#]x")) if isinstance(n, bytes)]
        assert len(names) == 3
        for name in names:
            left = server.command("PTTL", name)
            assert isinstance(left, int)
            assert 0 < left <= 60_000


def _tag(name: str) -> bytes:
    return f"lockfast:{{{keys(name).bucket}}}".encode()
