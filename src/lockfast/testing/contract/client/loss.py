"""The client's contract on renewal and loss: the client renews leases, and reports every loss."""

from __future__ import annotations

import contextvars
import time

import pytest

from lockfast.core.validity import State
from lockfast.errors import EngineUnavailable, LeaseLost, Loss
from lockfast.port import Ask, Shape
from lockfast.testing.contract.client.times import SLACK
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyLease,
    AnyRLease,
    acquire,
    queue,
    release,
    try_acquire,
    wait_lost,
    within,
)

SHORT = 0.6


async def broken(stage: Stage, lease: AnyLease | AnyRLease) -> None:
    """Break a lease, as an operator does: let the engine remove the claim by its id."""
    ask = Ask(lease.id, Shape(lease.name, SHORT), True, stage.bench.now() + SHORT, b"")  # noqa: FBT003  # by position, as the port has it
    actor = stage.actor()
    assert await actor.resign(ask) == [True]


async def reason(lease: AnyLease) -> Loss:
    """Return the reason of a loss, which the lease and both of its errors must give (trap 18)."""
    with pytest.raises(LeaseLost) as held:
        lease.ensure_held()
    with pytest.raises(LeaseLost) as released:
        await release(lease)
    assert held.value.reason is released.value.reason is lease.loss
    assert held.value.reason.value in str(held.value)
    return held.value.reason


class LossContract(Contract):
    """Leases that are broken, and leases that cannot be renewed."""

    @driven
    async def test_a_try_that_found_it_busy_gives_up_a_copy_that_is_still_on_its_way(
        self, stage: Stage
    ) -> None:
        lease = await acquire(stage.client().lock("x"))
        client, way = stage.shaky_client()
        way.held_claims = 1
        assert await try_acquire(client.lock("x")) is None  # the second copy was answered
        await stage.mode.sleep(SHORT)  # meanwhile the heart resigns the claim
        await release(lease)
        assert await way.deliver(stage.bench.now() + SLACK) == [None]
        assert await queue(client.lock("x")) == []

    @driven
    async def test_a_broken_lease_is_lost_and_says_so_once(self, stage: Stage) -> None:
        lease = await acquire(stage.client().lock("x", ttl=SHORT))
        await broken(stage, lease)
        assert await wait_lost(lease, SLACK)
        assert (lease.state, lease.loss) == (State.LOST, Loss.GONE)
        with pytest.raises(LeaseLost, match="'x'") as caught:
            lease.ensure_held()
        assert (caught.value.reason, caught.value.ticket) == (Loss.GONE, lease.ticket)
        assert await reason(lease) is Loss.GONE
        await release(lease)
        assert lease.state is State.LOST  # and not RELEASED

    @driven
    async def test_a_release_that_finds_nothing_says_that_the_lease_was_lost(
        self, stage: Stage
    ) -> None:
        lease = await acquire(stage.client().lock("x", ttl=30.0))
        await broken(stage, lease)
        with pytest.raises(LeaseLost):
            await release(lease)
        assert lease.state is State.LOST
        await release(lease)

    @driven
    async def test_a_lost_lease_neither_keeps_nor_frees_its_successor(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=SHORT))
        await broken(stage, lease)
        following = await acquire(other.lock("x", ttl=30.0), 5)
        assert await wait_lost(lease, SLACK)
        with pytest.raises(LeaseLost):
            await release(lease)
        following.ensure_held()
        assert [holder.id for holder in await queue(client.lock("x"))] == [following.id]
        await release(following)

    @driven
    async def test_callbacks_run_once_in_the_context_of_the_acquisition(self, stage: Stage) -> None:
        variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")
        seen: list[str] = []

        def bad() -> None:
            seen.append("bad")
            raise RuntimeError("one bad callback must not keep the next from being told")

        async def hold() -> AnyLease:
            variable.set("of the acquisition")
            lease = await acquire(stage.client().lock("x", ttl=SHORT))
            variable.set("of a later time")
            return lease

        lease = await stage.mode.start(hold()).result()
        variable.set("of somebody else")
        lease.on_lost(bad)
        lease.on_lost(lambda: seen.append(variable.get()))
        await broken(stage, lease)
        await stage.mode.until(lambda: len(seen) == 2, "both callbacks", SLACK)
        lease.on_lost(lambda: seen.append("late"))  # registered after the loss
        await stage.mode.until(lambda: len(seen) == 3, "the late callback", SLACK)
        assert seen == ["bad", "of the acquisition", "late"]

    @driven
    async def test_a_release_is_no_loss(self, stage: Stage) -> None:
        lease = await acquire(stage.client().lock("x", ttl=SHORT))
        seen: list[str] = []
        lease.on_lost(lambda: seen.append("lost"))
        job = stage.mode.start(wait_lost(lease, SLACK))
        await release(lease)
        assert await job.result()  # a release ends the wait too
        await stage.mode.sleep(SHORT)
        assert seen == []

    @driven
    async def test_a_wait_for_the_loss_ends_at_its_timeout(self, stage: Stage) -> None:
        lease = await acquire(stage.client().lock("x", ttl=30.0))
        began = time.monotonic()
        assert not await wait_lost(lease, 0.2)
        assert 0.19 <= time.monotonic() - began < SLACK
        await release(lease)

    @driven
    async def test_the_loss_does_not_mask_the_bodys_error(self, stage: Stage) -> None:
        lock = stage.client().lock("x", ttl=30.0)

        async def fail(lease: AnyLease) -> None:
            await broken(stage, lease)
            raise KeyError(lease.name)

        with pytest.raises(KeyError) as caught:
            await within(lock, fail)
        assert "release failed" in "".join(caught.value.__notes__)


class FaultContract(Contract):
    """What a client does while it cannot reach its engine."""

    @driven
    async def test_a_failed_renewal_is_jeopardy_and_the_next_one_heals_it(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        lease = await acquire(client.lock("x", ttl=3.0))
        way.cut = True
        await stage.mode.until(lambda: lease.state is not State.HELD, "jeopardy", SLACK)
        assert lease.state is State.JEOPARDY
        lease.ensure_held()  # a renewal without an answer is not a loss
        way.cut = False
        await stage.mode.until(lambda: lease.state is State.HELD, "held again", SLACK)
        await release(lease)

    @driven
    async def test_a_lease_that_cannot_be_renewed_is_lost_before_the_engine_drops_it(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        lease = await acquire(client.lock("x", ttl=SHORT))
        told: list[float] = []
        lease.on_lost(lambda: told.append(time.monotonic()))
        way.cut = True
        following = await acquire(stage.client().lock("x", ttl=SHORT), SHORT + SLACK)
        assert lease.state is State.LOST
        assert lease.loss is Loss.UNREACHABLE
        await stage.mode.until(lambda: told, "the callback", SLACK)
        way.cut = False
        await stage.mode.sleep(SHORT)
        assert lease.state is State.LOST  # a late success does not revive the lease
        following.ensure_held()
        await release(following)
        with pytest.raises(LeaseLost):
            await release(lease)

    @driven
    async def test_trap_17_and_18_a_lease_that_is_lost_in_silence_is_unreachable_for_ever(
        self, stage: Stage
    ) -> None:
        ttl = 1.0  # so that a renewal fails in time, also where the machine is busy
        (client, way), (muted, other) = stage.shaky_client(), stage.shaky_client()
        lease = await acquire(client.lock("x", ttl=ttl))
        renewed = await acquire(muted.lock("y", ttl=ttl))
        way.silent = True
        other.mute = True  # the renewals arrive, and their answers do not
        for each in (lease, renewed):  # told when it ends, not when a network's timeout is over
            assert await wait_lost(each, ttl + 0.5)
        way.silent = other.mute = False
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            assert lease.state is renewed.state is State.LOST
            await stage.mode.sleep(0.005)
        for each in (lease, renewed):
            assert await reason(each) is Loss.UNREACHABLE

    @driven
    async def test_a_renewal_that_is_answered_too_late_revives_nothing(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        answered: list[float] = []

        async def linger() -> None:
            await stage.mode.sleep(0.8 * ttl)
            answered.append(time.monotonic())

        ttl = 1.5  # renewed after 0.5 s, answered after 1.7 s, when the first 1.5 s are over
        lease = await acquire(client.lock("x", ttl=ttl))
        way.before_renewed = linger
        await stage.mode.until(lambda: answered, "the answer", SLACK)
        way.before_renewed = None
        await stage.mode.sleep(0.02)
        assert lease.state is State.LOST
        with pytest.raises(LeaseLost):
            await release(lease)

    @driven
    async def test_a_reply_that_was_lost_does_not_cost_the_claim(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        way.lost_replies = 1
        began = time.monotonic()
        lease = await acquire(client.lock("x", ttl=30.0), 10)
        assert time.monotonic() - began < SLACK
        assert [each.id for each in await queue(client.lock("x"))] == [lease.id]
        way.lost_replies = 1
        await release(lease)  # the second copy finds nothing, because the first removed the claim
        assert lease.state is State.RELEASED
        assert await queue(client.lock("x")) == []

    @driven
    async def test_a_release_that_failed_can_be_tried_again(self, stage: Stage) -> None:
        (client, way), (silenced, other) = stage.shaky_client(), stage.shaky_client()
        lease = await acquire(client.lock("x", ttl=1.0))
        another = await acquire(silenced.lock("y", ttl=1.0))
        way.cut = other.silent = True
        # At once: a release gives up only when the lease would have ended by itself.
        for job in [stage.mode.start(release(each)) for each in (lease, another)]:
            with pytest.raises(EngineUnavailable):
                await job.result()
        way.cut = other.silent = False
        await release(lease)
        await release(another)
        assert await queue(stage.client().lock("x")) == []
        assert await queue(stage.client().lock("y")) == []

    @driven
    async def test_an_acquisition_that_failed_leaves_nothing_behind(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        way.lost_replies = 1_000_000
        with pytest.raises(EngineUnavailable):
            await acquire(client.lock("x", ttl=30.0), 0.3)
        way.lost_replies = 0
        lease = await acquire(stage.client().lock("x", ttl=30.0), SLACK)
        await release(lease)
