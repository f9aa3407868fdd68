"""The client's contract on how long a wait is: traps 9 and 10 of the documentation."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lockfast.errors import NotAcquired
from lockfast.port import Ask, Shape
from lockfast.testing.contract.client.shared_locks import until_queued
from lockfast.testing.contract.client.times import LONG
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import AnyLease, AnyLock, acquire, queue, release, within

WAIT = 1.5  # seconds that the waits which are measured last
TURNS, TURN = 14, 0.25  # they take more than twice as long as the wait
NO_TTL: list[Any] = [None, "1", True, 0, -1, float("nan"), float("inf")]
NO_TIMEOUT: list[Any] = ["1", True, -1, float("nan")]


async def waited(lock: AnyLock) -> float:
    """Wait in vain, and tell for how many seconds."""
    began = time.monotonic()
    with pytest.raises(NotAcquired):
        await acquire(lock, WAIT)
    return time.monotonic() - began


class PatienceContract(Contract):
    """Times mean what they say."""

    @driven
    async def test_trap_09_a_claim_that_has_to_be_made_again_does_not_restart_the_wait(
        self, stage: Stage
    ) -> None:
        operator, lock = stage.actor(), stage.client().lock("x", ttl=stage.brief)
        await release(await acquire(lock))  # connected: that may take long
        lease = await acquire(stage.client().lock("x", ttl=LONG))
        job = stage.mode.start(waited(lock))
        removed: list[str] = []  # Redlock's waiters come back by the same id
        while not job.done():  # each time, an operator removes the waiter, and not the holder
            for id_ in [each.id for each in await queue(lock) if each.id != lease.id]:
                ask = Ask(id_, Shape("x", LONG), True, stage.bench.now() + LONG, b"")  # noqa: FBT003  # by position, as the port has it
                if await operator.resign(ask) == [True]:
                    removed.append(id_)
            await stage.mode.sleep(0.01)
        assert WAIT <= await job.result() < WAIT + 0.7
        assert len(removed) > 1
        await release(lease)

    @driven
    async def test_trap_10_a_lock_without_an_end_is_refused(self, stage: Stage) -> None:
        client = stage.client()
        for ttl in NO_TTL:
            with pytest.raises((TypeError, ValueError), match="ttl"):
                client.lock("x", ttl=ttl)

    @driven
    async def test_trap_10_a_wait_that_makes_no_sense_is_refused(self, stage: Stage) -> None:
        client = stage.client()
        for timeout in NO_TIMEOUT:
            with pytest.raises((TypeError, ValueError), match="timeout"):
                await acquire(client.lock("x", ttl=LONG), timeout)
            with pytest.raises((TypeError, ValueError), match="timeout"):
                client.lock("x", ttl=LONG, timeout=timeout)
        assert await queue(client.lock("x")) == []


class QueuePatienceContract(Contract):
    """The same in a queue: without one, a waiter may be let in before others that came first."""

    @driven
    async def test_trap_09_hand_overs_and_reconnections_do_not_restart_the_wait(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        ahead = stage.client().lock("x", ttl=LONG, timeout=LONG)
        turns: list[int] = []
        over: list[bool] = []

        async def body(lease: AnyLease) -> None:
            turns.append(lease.token)
            if not over:
                await stage.mode.sleep(TURN)
                way.reconnect()

        await release(await acquire(client.lock("warm", ttl=LONG)))
        lease = await acquire(ahead)
        crowd = [stage.mode.start(within(ahead, body)) for _ in range(TURNS)]
        await until_queued(stage, ahead, TURNS + 1)
        job = stage.mode.start(waited(client.lock("x", ttl=stage.brief)))
        await until_queued(stage, ahead, TURNS + 2)
        await release(lease)
        took = await job.result()
        over.append(True)
        assert WAIT <= took < WAIT + 0.5
        assert 2 <= len(turns) < TURNS
        for each in crowd:
            await each.result()
        assert turns == sorted(set(turns))
