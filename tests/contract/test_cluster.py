"""Cluster: names spread over the nodes, slots that move, and a heart that keeps leases on all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from lockfast.core.validity import State
from lockfast.engines.redis.keys import keys, slot
from lockfast.errors import EngineUnavailable
from lockfast.testing import Stage
from lockfast.testing.harness.verbs import acquire, queue, release, try_acquire
from tests.contract.benches import RedisBench
from tests.servers import Cluster, ServerClock

HUNDRED = 100


@pytest.fixture(scope="module")
def clock() -> ServerClock:
    """The clock of one node: no two of them need to agree."""
    return ServerClock()


@pytest.fixture(scope="module")
def servers(clock: ServerClock) -> Iterator[Cluster]:
    with Cluster(odd=clock.env) as servers:
        yield servers


@pytest.fixture
def bench(servers: Cluster) -> RedisBench:
    return RedisBench(servers.url, *servers.nodes)


def _slot(name: str) -> int:
    return slot(keys(name).bucket)


def test_a_names_keys_are_in_the_slot_that_the_client_counts_on(
    servers: Cluster, stage: Stage
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        names = ["x", "{a}b", "}{", "a{b}c{d}"]
        leases = [await acquire(client.lock(name, ttl=30.0)) for name in names]
        for name in names:
            assert await try_acquire(other.lock(name, ttl=30.0)) is None
            found = servers.owner(_slot(name)).command("CLUSTER", "COUNTKEYSINSLOT", _slot(name))
            assert isinstance(found, int)
            assert found >= 2  # the lock and the bucket's counter
        for lease in leases:
            await release(lease)

    stage.mode.run(play())


def test_a_hundred_leases_over_all_nodes_are_kept_by_the_heart(
    servers: Cluster, stage: Stage
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        names = [f"job {number}" for number in range(HUNDRED)]
        spread = Counter(servers.owner(_slot(name)).port for name in names[:30])
        assert len(spread) == 3
        leases = [await acquire(client.lock(name, ttl=1.0)) for name in names]
        await stage.mode.sleep(2.5)
        assert [lease.state for lease in leases] == [State.HELD] * HUNDRED
        assert await try_acquire(other.lock(names[7], ttl=1.0)) is None
        shown = await stage.actor().every("job ")
        assert sorted(entry.name for entry in shown) == sorted(names)
        for lease in leases:
            await release(lease)

    stage.mode.run(play())


def test_a_push_comes_from_whichever_node_the_lock_is_on(servers: Cluster, stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        names = {servers.owner(_slot(f"n {n}")).port: f"n {n}" for n in range(50)}
        assert len(names) == 3
        for name in names.values():
            lease = await acquire(client.lock(name, ttl=30.0))
            job = stage.mode.start(acquire(other.lock(name, ttl=30.0), 20))
            while len(await queue(client.lock(name))) != 2:
                await stage.mode.sleep(0.01)
            began = time.monotonic()
            await release(lease)
            await release(await job.result())
            assert time.monotonic() - began < 2

    stage.mode.run(play())


def test_a_slot_that_has_moved_is_followed(servers: Cluster, stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        held = await acquire(client.lock("moving", ttl=3.0))
        stale = stage.client()
        await release(await acquire(stale.lock("moving too", ttl=3.0), 5))  # it has the old map
        servers.move_slot(_slot("moving"))  # MOVED from now on
        assert await try_acquire(other.lock("moving", ttl=3.0)) is None
        assert await try_acquire(stale.lock("moving", ttl=3.0)) is None
        job = stage.mode.start(acquire(stale.lock("moving", ttl=3.0), 20))
        await stage.mode.sleep(3.5)
        assert held.state is State.HELD
        assert not job.done()
        await release(held)
        following = await job.result()
        assert following.token > held.token
        await release(following)

    stage.mode.run(play())


def test_a_claim_that_follows_a_move_is_too_late_by_the_clock_of_the_new_node(
    servers: Cluster, clock: ServerClock, stage: Stage
) -> None:
    async def play() -> None:
        actor, odd = stage.actor(), servers.nodes[-1]
        if servers.owner(_slot("followed")) is odd:
            servers.move_slot(_slot("followed"), servers.nodes[0])
        first = actor.ask("followed")
        await actor.claim(first)  # it has the map, and the clock of one node
        await actor.resign(first)
        servers.move_slot(_slot("followed"), odd)
        clock.advance(-3600.0)
        try:
            assert await actor.is_dead(actor.ask("followed", late=1))
            timely = actor.ask("followed")
            assert (await actor.claim(timely)).granted
            await actor.resign(timely)
        finally:
            clock.advance(3600.0)

    stage.mode.run(play())


def test_tokens_increase_across_a_move(servers: Cluster, stage: Stage) -> None:
    async def play() -> None:
        client = stage.client()
        tokens = []
        for _ in range(3):
            lease = await acquire(client.lock("wandering", ttl=5.0), 10)
            tokens.append(lease.token)
            await release(lease)
            servers.move_slot(_slot("wandering"))
        assert tokens == sorted(set(tokens))

    stage.mode.run(play())


def test_a_free_name_in_a_slot_on_the_move_is_had_when_the_move_ends(
    servers: Cluster, stage: Stage
) -> None:
    # The bucket's counter is at the source and the lock is nowhere: TRYAGAIN until it is over.
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("busy", ttl=5.0)))
        move = servers.begin_move(_slot("busy"))
        began = time.monotonic()
        job = stage.mode.start(acquire(client.lock("busy", ttl=5.0), 10))
        await stage.mode.sleep(0.5)
        assert not job.done()
        move.move_keys(*move.keys())  # the counter is at the target: ASK, and there TRYAGAIN
        await stage.mode.sleep(0.3)
        assert not job.done()
        move.finish()
        lease = await job.result()
        assert time.monotonic() - began < 5
        await release(lease)

    stage.mode.run(play())


def test_a_move_that_takes_longer_than_the_wait_is_told_at_the_deadline(
    servers: Cluster, stage: Stage
) -> None:
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("stuck", ttl=5.0)))
        move = servers.begin_move(_slot("stuck"))
        try:
            began = time.monotonic()
            with pytest.raises(EngineUnavailable, match="TRYAGAIN"):
                await acquire(client.lock("stuck", ttl=5.0), 1.5)
            assert 1.0 < time.monotonic() - began < 4
        finally:
            move.finish()
        await release(await acquire(client.lock("stuck", ttl=5.0), 5))

    stage.mode.run(play())


def test_leases_survive_the_move_of_their_slot(servers: Cluster, stage: Stage) -> None:
    async def play() -> None:
        client = stage.client()
        lone = await acquire(client.lock("lone", ttl=3.0))
        shared = await acquire(client.lock("shared", ttl=3.0))
        job = stage.mode.start(acquire(stage.client().lock("shared", ttl=3.0), 20))
        while len(await queue(client.lock("shared"))) != 2:
            await stage.mode.sleep(0.01)
        for name in ("lone", "shared"):
            move = servers.begin_move(_slot(name))
            await stage.mode.sleep(0.3)
            move.move_keys(*move.keys())
            await stage.mode.sleep(0.3)
            move.finish()
        await stage.mode.sleep(3.5)
        assert (lone.state, shared.state) == (State.HELD, State.HELD)
        await release(lone)
        await release(shared)
        await release(await job.result())

    stage.mode.run(play())


def test_a_lease_is_kept_for_as_long_as_its_slot_moves(servers: Cluster, stage: Stage) -> None:
    """Its queue's keys are absent: TRYAGAIN for longer than its ttl, at both nodes."""

    async def play() -> None:
        client = stage.client()
        lease = await acquire(client.lock("endless", ttl=2.5))
        move = servers.begin_move(_slot("endless"))
        try:
            await stage.mode.sleep(3.2)
            assert lease.state is State.HELD
            move.move_keys(*move.keys())
            await stage.mode.sleep(3.2)
            assert lease.state is State.HELD
        finally:
            move.finish()
        await stage.mode.sleep(0.9)
        await release(lease)

    stage.mode.run(play())
