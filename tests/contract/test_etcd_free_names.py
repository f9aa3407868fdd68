"""Claims of a batch on etcd, after batches whose names were free: all are put, or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockfast.engines.etcd.claim_batch import LUCKY, MOST_FREE
from lockfast.engines.etcd.messages import TXN
from lockfast.errors import EngineUnavailable
from lockfast.port import Ask, Standing
from lockfast.testing.harness.roaming import again
from lockfast.testing.harness.stage import Actor, Stage
from tests.contract.benches import EtcdBench
from tests.contract.etcd_requests import Requests, waiters_lease
from tests.contract.test_etcd_replicas import first
from tests.servers import EtcdCluster

NUMBER = 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def bench(cluster: EtcdCluster) -> EtcdBench:
    cluster.wipe()
    return EtcdBench(cluster)


async def made(actor: Actor, asks: list[Ask]) -> list[Any]:
    return await actor.engine.claim_all(asks, actor.deadline)


async def lucky(stage: Stage) -> Actor:
    """Return a client with sessions, whose last batches had names that were free."""
    actor = stage.actor()
    for number in range(LUCKY):
        await made(actor, [actor.ask(f"warm {number} {each}", ttl=60) for each in range(2)])
    return actor


def asks_of(actor: Actor, number: int = NUMBER, **sizes: Any) -> list[Ask]:  # noqa: ANN401  # as Actor.ask
    return [actor.ask(f"name {place}", ttl=60, **sizes) for place in range(number)]


def test_names_that_are_free_take_one_request_that_is_half_as_large(stage: Stage) -> None:
    async def play() -> None:
        actor, other = await lucky(stage), stage.actor()
        asks = asks_of(actor)
        with Requests(actor) as requests:
            said = await made(actor, asks)
        assert requests.sent == [TXN]
        for ask, each in zip(asks, said, strict=True):
            assert each.granted
            assert each.left > 19
            (entry,) = await actor.entries(ask.shape.name)
            assert (entry.id, entry.ticket) == (ask.id, each.ticket)
        await waiters_lease(other)
        with Requests(other) as larger:
            await made(other, [other.ask(f"other {n}", ttl=60) for n in range(NUMBER)])
        assert len(requests.of_claims[0]) < 0.6 * len(larger.of_claims[0])

    stage.mode.run(play())


def test_as_many_as_etcd_accepts_are_put(stage: Stage) -> None:
    """With a lease for each, and one for waiters, which are conditions too."""

    async def play() -> None:
        actor = await lucky(stage)
        await waiters_lease(actor)
        ttls = [30 + place for place in range(MOST_FREE)]
        for ttl in ttls:  # the leases are granted here
            await actor.claim(actor.ask(f"warm {ttl}", ttl=ttl))
        asks = [actor.ask(f"name {ttl}", ttl=ttl) for ttl in ttls]
        with Requests(actor) as requests:
            said = await made(actor, asks)
        assert requests.sent == [TXN]
        assert all(each.granted for each in said)
        assert 4 * MOST_FREE + 1 <= 128

    stage.mode.run(play())


def test_one_name_that_is_taken_leaves_the_others_for_the_next_request(stage: Stage) -> None:
    async def play() -> None:
        holder, actor = stage.actor(), await lucky(stage)
        held = holder.ask("name 3", ttl=60)
        await holder.claim(held)
        asks = asks_of(actor, queue=False)
        with Requests(actor) as requests:
            said = await made(actor, asks)
        assert requests.sent == [TXN] * 2
        assert [each.granted for each in said] == [place != 3 for place in range(NUMBER)]
        assert said[3].blocker.id == held.id
        with Requests(actor) as requests:  # it has learned that names are not always free
            await made(actor, [actor.ask(f"name {place}", ttl=60, queue=False) for place in (3, 4)])
        assert requests.sent == [TXN]

    stage.mode.run(play())


def test_a_claim_with_a_tombstone_is_not_put_and_the_others_are(stage: Stage) -> None:
    async def play() -> None:
        old, new = await lucky(stage), stage.actor()
        asks = [first(old, f"name {place}", ttl=60) for place in range(3)]
        assert await new.resign(again(asks[1], None, 2), doubt=True) == [False]
        said = await made(old, asks)
        assert [isinstance(each, Standing) for each in said] == [True, False, True]
        assert await old.entries(asks[1].shape.name) == []

    stage.mode.run(play())


def test_a_gate_that_has_moved_costs_one_more_request(stage: Stage) -> None:
    async def play() -> None:
        actor = await lucky(stage)
        for session in actor.engine._sessions:  # type: ignore[attr-defined]
            session.gate -= 1  # as it was before another thread has moved it
        with Requests(actor) as requests:
            said = await made(actor, asks_of(actor))
        assert requests.sent == [TXN] * 2
        assert all(each.granted for each in said)

    stage.mode.run(play())


def test_a_reply_that_is_lost_leaves_every_claim_in_doubt(stage: Stage) -> None:
    async def play() -> None:
        actor = await lucky(stage)
        asks = asks_of(actor)
        with Requests(actor, lost=1), pytest.raises(EngineUnavailable) as caught:
            await made(actor, asks)
        assert caught.value.sent
        again = await made(actor, asks[1:])
        assert all(each.granted for each in again)
        await actor.resign(*asks, doubt=True)
        assert await actor.every("name") == []

    stage.mode.run(play())


def test_a_reply_that_cannot_be_read_leaves_every_claim_in_doubt(stage: Stage) -> None:
    async def play() -> None:
        actor = await lucky(stage)
        asks = asks_of(actor)
        with Requests(actor, spoilt=1), pytest.raises(EngineUnavailable) as caught:
            await made(actor, asks)
        assert caught.value.sent
        await actor.resign(*asks, doubt=True)  # which moves the gate, as the copies count
        assert await actor.every("name") == []

    stage.mode.run(play())
