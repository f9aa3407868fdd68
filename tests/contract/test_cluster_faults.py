"""A cluster in trouble: one shard that stands still or is gone must cost nothing on the others."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lockfast.core.validity import State
from lockfast.engines.redis.keys import keys, slot
from lockfast.errors import EngineUnavailable
from lockfast.testing import Stage
from lockfast.testing.harness.verbs import acquire, queue, release
from tests.contract.benches import RedisBench
from tests.servers import Cluster, Redis


@pytest.fixture(scope="module")
def servers() -> Iterator[Cluster]:
    with Cluster() as servers:
        for node in servers.nodes:
            node.command("CONFIG", "SET", "cluster-require-full-coverage", "no")
        yield servers


@pytest.fixture
def bench(servers: Cluster) -> RedisBench:
    return RedisBench(servers.url, *servers.nodes)


def _owner(servers: Cluster, name: str) -> Redis:
    return servers.owner(slot(keys(name).bucket))


def _names(servers: Cluster, count: int) -> dict[str, Redis]:
    return {name: _owner(servers, name) for name in (f"job {n}" for n in range(count))}


def test_leases_on_other_shards_are_kept_while_one_stands_still(
    servers: Cluster, stage: Stage
) -> None:
    async def play() -> None:
        client = stage.client()
        owners = _names(servers, 12)
        assert len(set(owners.values())) == 3
        leases = {name: await acquire(client.lock(name, ttl=2.0)) for name in owners}
        stopped = servers.nodes[0]  # it is asked first, and for the slots
        stopped.pause()
        try:
            began = time.monotonic()
            while time.monotonic() - began < 5.0:
                await stage.mode.sleep(0.05)
                for name, lease in leases.items():
                    if owners[name] is not stopped:
                        assert lease.state is not State.LOST, name
        finally:
            stopped.resume()
        for name, lease in leases.items():
            if owners[name] is not stopped:
                await release(lease)
        servers.wait_ok()

    stage.mode.run(play())


def test_claims_on_other_shards_are_resigned_though_one_stands_still(
    servers: Cluster, stage: Stage
) -> None:
    async def play() -> None:
        actor = stage.actor()
        owners = _names(servers, 9)
        asks = [actor.ask(name, ttl=120) for name in owners]
        for ask in asks:
            await actor.claim(ask)
        stopped = servers.nodes[0]
        stopped.pause()
        try:
            answers = await actor.engine.resign(asks, stage.bench.now() + 1.5, doubt=True)
            for (name, owner), answer in zip(owners.items(), answers, strict=True):
                if owner is stopped:
                    assert isinstance(answer, EngineUnavailable), name
                else:
                    assert answer is True, name
                    assert await actor.entries(name) == []
        finally:
            stopped.resume()
        servers.wait_ok()

    stage.mode.run(play())


def test_a_waiter_is_told_at_once_though_the_node_that_it_listened_to_stands_still(
    servers: Cluster, stage: Stage
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        ear = _first_ear(servers)
        name = next(n for n, owner in _names(servers, 30).items() if owner is not ear)
        # What it holds there is what tells the heart that the node stands still.
        near = next(n for n, owner in _names(servers, 30).items() if owner is ear)
        there = await acquire(other.lock(near, ttl=2.0))
        lease = await acquire(client.lock(name, ttl=30.0))
        job = stage.mode.start(acquire(other.lock(name, ttl=30.0), 20))
        while len(await queue(client.lock(name))) != 2:
            await stage.mode.sleep(0.01)
        ear.pause()
        try:
            await stage.mode.sleep(2.5)
            began = time.monotonic()
            await release(lease)
            following = await job.result()
            assert time.monotonic() - began < 1.0
            await release(following)
        finally:
            ear.resume()
        del there
        servers.wait_ok()

    stage.mode.run(play())


def _first_ear(servers: Cluster) -> Redis:
    """The node that a client listens to as long as all answer: the first by its address."""
    return min(servers.nodes, key=lambda node: (node.host, node.port))


def test_nodes_that_do_not_tell_their_host_are_found(servers: Cluster, stage: Stage) -> None:
    """Behind a NAT or in containers: CLUSTER SLOTS shows null for the host, and MOVED nothing."""

    async def play() -> None:
        client = stage.client()
        for name in _names(servers, 9):
            await release(await acquire(client.lock(name, ttl=5.0), 5))
        known = next(iter(_names(servers, 1)))
        servers.move_slot(slot(keys(known).bucket))  # MOVED
        await release(await acquire(client.lock(known, ttl=5.0), 5))

    setting = "cluster-preferred-endpoint-type"
    for node in servers.nodes:
        node.command("CONFIG", "SET", setting, "unknown-endpoint")
    try:
        stage.mode.run(play())
    finally:
        for node in servers.nodes:
            node.command("CONFIG", "SET", setting, "ip")
