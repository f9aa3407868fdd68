"""The client's contract on the bodies of `with`: traps 6, 7 and 22 of the documentation."""

from __future__ import annotations

import time

import pytest

from lockfast.errors import EngineUnavailable, LeaseLost, NotAcquired
from lockfast.testing.contract.client.loss import broken
from lockfast.testing.contract.client.times import LONG, SLACK, SOON
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyLease,
    acquire,
    release,
    wait_lost,
    within,
    within_acquired,
    within_tried,
)


class BodyError(Exception):
    """What goes wrong in a body."""


async def never(_lease: AnyLease) -> None:
    """Be a body that must not run."""
    pytest.fail("the body runs")


class WithContract(Contract):
    """A body runs with the lock or not at all, and its own error is what its caller sees."""

    @driven
    async def test_trap_06_the_body_does_not_run_without_the_lock(self, stage: Stage) -> None:
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=LONG))
        for each in (client, stage.client()):
            await release(await acquire(each.lock("warm", ttl=LONG)))  # it may take longer
            lock = each.lock("x", ttl=LONG, timeout=0.5)
            with pytest.raises(NotAcquired):
                await within(lock, never)
            with pytest.raises(NotAcquired):
                await within_acquired(lock, 0.5, never)
            with pytest.raises(TypeError):
                await within_tried(lock, never)
        await release(lease)

    @driven
    async def test_trap_06_the_body_does_not_run_when_the_engine_is_gone(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        lock = client.lock("x", ttl=LONG, timeout=0.1)
        way.cut = True
        with pytest.raises(EngineUnavailable):
            await within(lock, never)
        way.cut, way.silent = False, True
        with pytest.raises(EngineUnavailable):
            await within(lock, never)
        way.silent = False

    @driven
    async def test_trap_06_the_body_does_not_run_under_a_lease_that_is_lost_already(
        self, stage: Stage
    ) -> None:
        lease = await acquire(stage.client().lock("x", ttl=stage.brief))
        await broken(stage, lease)
        assert await wait_lost(lease, SOON)
        with pytest.raises(LeaseLost):
            await within(lease, never)

    @driven
    async def test_trap_07_a_failed_release_does_not_mask_the_bodys_error(
        self, stage: Stage
    ) -> None:
        sound = stage.client()
        shaky, way = stage.shaky_client()
        entered: list[str] = []

        async def lose(lease: AnyLease) -> None:
            await broken(stage, lease)
            raise BodyError

        async def cut_off(lease: AnyLease) -> None:
            entered.append(lease.name)
            await stage.mode.until(lambda: len(entered) == 2, "both are inside", SLACK)
            way.silent = True
            raise BodyError

        async def noted(number: int) -> str:
            client, body = (sound, lose) if number < 2 else (shaky, cut_off)
            # A lease that is broken must not be lost before its body has ended.
            lock = client.lock(f"x {number}", ttl=LONG if number < 2 else stage.brief)
            form = within_acquired(lock, SOON, body) if number % 2 else within(lock, body)
            with pytest.raises(BodyError) as caught:
                await form
            return "".join(caught.value.__notes__)

        for notes in await stage.mode.together(*(noted(number) for number in range(4))):
            assert "the release failed too" in notes
        way.silent = False

    @driven
    async def test_trap_07_a_body_that_went_well_hears_of_the_failed_release(
        self, stage: Stage
    ) -> None:
        async def lose(lease: AnyLease) -> None:
            await broken(stage, lease)

        lock = stage.client().lock("x", ttl=LONG)
        with pytest.raises(LeaseLost):
            await within(lock, lose)
        with pytest.raises(LeaseLost):
            await within_acquired(lock, SOON, lose)

    @driven
    async def test_trap_22_a_loop_that_asks_is_stopped(self, stage: Stage) -> None:
        told: list[float] = []
        began: list[float] = []

        async def body(lease: AnyLease) -> None:
            lease.on_lost(lambda: told.append(time.monotonic()))
            began.append(time.monotonic())
            await broken(stage, lease)
            began[0] = time.monotonic()  # the one who broke it may have had to connect
            while time.monotonic() < began[0] + 10:
                lease.ensure_held()

        with pytest.raises(LeaseLost):
            await within(stage.client().lock("x", ttl=stage.brief), body)
        assert time.monotonic() - began[0] < stage.brief + 0.5
        await stage.mode.until(lambda: told, "the callback", SOON)

    @driven
    async def test_trap_22_whoever_waits_for_the_loss_is_told(self, stage: Stage) -> None:
        lease = await acquire(stage.client().lock("x", ttl=stage.brief))
        told: list[str] = []
        lease.on_lost(lambda: told.append("first"))
        job = stage.mode.start(wait_lost(lease, 10))
        assert not await wait_lost(lease, 0.1)
        await broken(stage, lease)
        assert await job.result(SOON)
        await stage.mode.until(lambda: told == ["first"], "the callback", SOON)
        lease.on_lost(lambda: told.append("late"))
        await stage.mode.until(lambda: told == ["first", "late"], "who asks later is told", SOON)
