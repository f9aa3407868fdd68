"""Resignations that share a call to etcd: each is answered by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockfast.engines.etcd.messages import GRANT
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Ask
from lockfast.testing import Stage
from lockfast.testing.harness.stage import Actor
from tests.contract.benches import EtcdBench
from tests.contract.etcd_requests import Requests
from tests.servers import EtcdCluster

PART = 100  # deletions in one transaction


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def bench(cluster: EtcdCluster) -> EtcdBench:
    cluster.wipe()
    return EtcdBench(cluster)


async def held(actor: Actor, number: int) -> list[Ask]:
    asks = [actor.ask(f"name {place}", ttl=60) for place in range(number)]
    assert all(each.granted for each in await actor.engine.claim_all(asks, actor.deadline))  # type: ignore[union-attr]
    return asks


def test_a_part_that_is_not_answered_fails_its_own_claims_only(stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        asks = await held(actor, 2 * PART + 50)
        with Requests(actor, lost=2):
            said = await actor.resign(*asks)
        assert said[:PART] == [True] * PART
        failed = said[PART:]
        assert all(isinstance(each, EngineUnavailable) for each in failed)
        assert [each.sent for each in failed] == [True] * PART + [False] * 50  # type: ignore[union-attr]
        assert len({id(each) for each in failed}) == len(failed)  # each caller raises its own
        assert await actor.resign(*asks) == [False] * 2 * PART + [True] * 50

    stage.mode.run(play())


def test_a_first_part_that_is_not_answered_raises(stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        asks = await held(actor, PART + 50)
        with Requests(actor, lost=1), pytest.raises(EngineUnavailable) as caught:
            await actor.resign(*asks)
        assert caught.value.sent
        assert await actor.resign(*asks) == [False] * PART + [True] * 50

    stage.mode.run(play())


def test_claims_that_need_no_gate_are_resigned_although_etcd_refuses_to_write(
    stage: Stage,
) -> None:
    """A full etcd still deletes. A claim in doubt once failed the resignations beside it."""

    async def play() -> None:
        actor = stage.actor()
        engine: Any = actor.engine
        asks = await held(actor, 3)
        doubted = actor.ask("doubted", ttl=60)
        with Requests(actor, lost=1), pytest.raises(EngineUnavailable):
            await actor.claim(doubted)
        call = engine._transport.call

        async def full(method: str, request: bytes, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
            if b"lockfast/gate/" in request:
                raise EngineRefused("no space")
            reply: bytes = await call(method, request, *args, **kwargs)
            return reply

        engine._transport.call = full
        said = await actor.resign(asks[0], doubted, *asks[1:], doubt=True)
        assert isinstance(said[1], EngineRefused)
        assert [said[0], *said[2:]] == [True] * 3
        with pytest.raises(EngineRefused):
            await actor.resign(doubted, doubt=True)
        engine._transport.call = call
        assert await actor.resign(doubted, doubt=True) == [True]

    stage.mode.run(play())


def test_claims_that_need_no_tombstone_are_resigned_although_etcd_grants_no_lease(
    stage: Stage,
) -> None:
    """A full etcd grants none. A client of the service in doubt failed those beside it."""

    async def play() -> None:
        actor = stage.actor()
        engine: Any = actor.engine
        asks = await held(actor, 2)
        doubted = actor.ask("doubted", ttl=60)
        doubted.epoch = 1
        await actor.claim(doubted)
        call = engine._transport.call

        async def full(method: str, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
            if method == GRANT:
                raise EngineRefused("no space")
            reply: bytes = await call(method, *args, **kwargs)
            return reply

        engine._transport.call = full
        said = await actor.resign(asks[0], doubted, asks[1], doubt=True)
        assert isinstance(said[1], EngineRefused)
        assert [said[0], said[2]] == [True] * 2
        with pytest.raises(EngineRefused):
            await actor.resign(doubted, doubt=True)
        engine._transport.call = call
        assert await actor.resign(doubted, doubt=True) == [True]

    stage.mode.run(play())


def test_the_wakes_of_a_client_that_is_not_heard_are_not_returned(stage: Stage) -> None:
    async def play() -> None:
        holder, waiting = stage.actor(), stage.actor()
        first, second = holder.ask(), waiting.ask()
        await waiting.attend()
        await holder.claim(first)
        assert not (await waiting.claim(second)).granted
        waiting.engine.hear(waiting.client, on=False)
        waiting.engine.hear(holder.client, on=True)
        await holder.resign(first)
        assert await waiting.wakes(0) == []
        assert (await waiting.renew_one(second)).granted

    stage.mode.run(play())


# --- what is remembered of claims that are over ---------------------------------------------------


def test_tombstones_are_not_all_looked_at_each_time_and_do_not_pile_up(stage: Stage) -> None:
    class Counted(dict[str, float]):
        looks = 0

        def items(self) -> Any:  # noqa: ANN401  # as dict.items
            Counted.looks += 1
            return super().items()

    async def play() -> None:
        actor = stage.actor()
        own: Any = actor.engine._own  # type: ignore[attr-defined]
        own.tombs = Counted()
        asks = [actor.ask() for _ in range(3000)]
        for ask in asks:
            own.bury([ask])
        assert len(own.tombs) == len(asks)
        assert Counted.looks < 10
        wire = own._transport
        now = wire.now
        wire.now = lambda: now() + 60.0
        for ask in [actor.ask() for _ in range(4000)]:
            own.bury([ask])
        wire.now = now
        assert own.tombs.keys().isdisjoint(ask.id for ask in asks)

    stage.mode.run(play())


def test_waiters_that_are_over_are_not_watched_if_some_are_not_deleted(stage: Stage) -> None:
    async def play() -> None:
        holder, actor = stage.actor(), stage.actor()
        asks = await held(holder, PART + 10)
        waiting = [actor.ask(ask.shape.name, ttl=60) for ask in asks]
        await actor.engine.claim_all(waiting, actor.deadline)
        engine: Any = actor.engine
        waits, wire = engine._listener._waits, engine._transport
        assert len(waits) == len(asks)
        now = wire.now
        wire.now = lambda: now() + 60.0
        with Requests(actor, lost=2), pytest.raises(EngineUnavailable):
            await engine._places.prune(wire.now() + 5.0)
        assert len(waits) == 0
        await engine._places.prune(wire.now() + 5.0)
        wire.now = now
        assert len(engine._own) == 0

    stage.mode.run(play())
