"""The client's contract on `lock_all`, when requests or replies are lost."""

from __future__ import annotations

import time

import pytest

from lockfast.core.validity import State
from lockfast.errors import EngineUnavailable, KindMismatch, NotAcquired
from lockfast.testing.contract.client.lock_all import NAMES, free
from lockfast.testing.contract.client.times import LONG, SLACK
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import acquire, holders, queue, release


class TogetherFaultContract(Contract):
    """Whatever fails on the way to the engine, no claim stays behind."""

    @driven
    async def test_a_lost_reply_costs_nothing_but_time(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        await release(await acquire(client.lock("elsewhere", ttl=LONG)))
        way.lost_replies = 1
        lease = await acquire(client.lock_all(*NAMES, ttl=LONG), 10)
        for name in NAMES:
            assert [each.id for each in await holders(client.lock(name))] == [lease.leases[name].id]
        way.lost_replies = 1
        await release(lease)  # the second copy finds no claims, because the first removed them
        assert lease.state is State.RELEASED
        await free(stage, *NAMES)

    @driven
    async def test_an_engine_that_is_lost_in_the_middle_leaves_nothing_held(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        blocker = await acquire(stage.client().lock("a", ttl=LONG))
        job = stage.mode.start(acquire(client.lock_all(*NAMES, ttl=LONG), 2.0))
        await self.until_waiting(stage)
        way.after_claim = lambda: setattr(way, "cut", True)  # b is granted, but the reply is lost
        way.lost_replies = 1
        await release(blocker)
        with pytest.raises((EngineUnavailable, NotAcquired)):
            await job.result()
        way.after_claim = None
        way.cut = False
        await free(stage, *NAMES)

    async def until_waiting(self, stage: Stage) -> None:
        """Wait until a claim waits for a."""
        client = stage.client()
        end = time.monotonic() + SLACK
        while len(await queue(client.lock("a"))) < 2:
            assert time.monotonic() < end
            await stage.mode.sleep(0.01)

    @driven
    async def test_a_release_of_all_that_failed_can_be_tried_again(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        lease = await acquire(client.lock_all(*NAMES, ttl=stage.brief))
        way.cut = True
        began = time.monotonic()
        with pytest.raises(EngineUnavailable):
            await release(lease)
        assert time.monotonic() - began < stage.brief + SLACK  # one deadline for all, not one each
        way.cut = False
        await release(lease)
        await free(stage, *NAMES)

    @driven
    async def test_an_engine_that_cannot_be_reached_is_an_error_and_leaves_nothing(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        way.lost_replies = 1_000_000
        with pytest.raises(EngineUnavailable):
            await acquire(client.lock_all(*NAMES, ttl=LONG), 0.3)
        way.lost_replies = 0
        await free(stage, *NAMES)


class TogetherMismatchContract(Contract):
    """`lock_all` beside other kinds of locks, for engines that have them."""

    @driven
    async def test_a_name_that_is_another_kind_of_lock_is_refused_and_none_is_taken(
        self, stage: Stage
    ) -> None:
        client, other = stage.client(), stage.client()
        blocker = await acquire(other.lock("a", ttl=LONG))
        reader = await acquire(other.rwlock("b", ttl=LONG).read())
        began = time.monotonic()
        with pytest.raises(KindMismatch, match="'b'"):  # without waiting for a
            await acquire(client.lock_all(*NAMES, ttl=LONG), 20)
        assert time.monotonic() - began < SLACK
        await free(stage, "c")
        await release(reader)
        await release(blocker)
