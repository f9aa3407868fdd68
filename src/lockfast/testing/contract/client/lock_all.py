"""The client's contract on `lock_all`: all or nothing, lost together, and never a deadlock."""

from __future__ import annotations

import random
import time
import warnings

import pytest

from lockfast.core.validity import State
from lockfast.errors import (
    Deadlock,
    LeaseLost,
    Loss,
    NotAcquired,
)
from lockfast.port import Standing
from lockfast.testing.contract.client.loss import broken
from lockfast.testing.contract.client.times import LONG, SLACK
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyClient,
    AnyMultiLease,
    acquire,
    close,
    holders,
    queue,
    release,
    try_acquire,
    wait_lost,
    within,
)

NAMES = ("a", "b", "c")


async def free(stage: Stage, *names: str, soon: float = SLACK, but: str = "") -> None:
    """Wait until no claim is left on these names, except the one with the id `but`."""
    client = stage.client()
    end = time.monotonic() + soon
    for name in names:
        while left := [each for each in await queue(client.lock(name)) if each.id != but]:
            assert time.monotonic() < end, left
            await stage.mode.sleep(0.01)


class TogetherContract(Contract):
    """Several locks that are acquired as one. The engine needs no queue."""

    @driven
    async def test_all_are_taken_in_the_order_of_their_names_and_each_once(
        self, stage: Stage
    ) -> None:
        client, other = stage.client(), stage.client()
        lock = client.lock_all("b", "a", "c", "a", ttl=LONG, purpose="a transfer")
        assert lock.names == ["a", "b", "c"]
        lease = await acquire(lock)
        assert list(lease.tokens) == ["a", "b", "c"]
        assert (lease.state, lease.loss) == (State.HELD, None)
        assert 0 < lease.remaining <= LONG
        for name in NAMES:
            (holder,) = await holders(other.lock(name))
            assert (holder.ticket, holder.who.purpose) == (lease.tokens[name], "a transfer")
            assert lease.leases[name].id == holder.id
            assert await try_acquire(other.lock(name, ttl=LONG)) is None
        await release(lease)
        assert lease.state is State.RELEASED
        await release(lease)
        again = await acquire(other.lock_all(*NAMES, ttl=LONG), 5)
        assert all(again.tokens[name] > lease.tokens[name] for name in NAMES)
        await release(again)

    @driven
    async def test_if_one_is_busy_none_is_taken(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("b", ttl=LONG, purpose="in the way"))
        began = time.monotonic()
        assert await try_acquire(other.lock_all(*NAMES, ttl=LONG)) is None
        assert time.monotonic() - began < 2
        await free(stage, "a", "c")
        with pytest.raises(NotAcquired, match=r"'b'.*in the way") as caught:
            await acquire(other.lock_all(*NAMES, ttl=LONG), 0.3)
        assert caught.value.waited >= 0.29
        await free(stage, "a", "c")
        lease.ensure_held()
        await release(lease)
        await free(stage, "b")

    @driven
    async def test_a_wait_for_all_ends_when_the_last_is_released(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        leases = [await acquire(client.lock(name, ttl=LONG)) for name in ("a", "c")]
        job = stage.mode.start(acquire(other.lock_all(*NAMES, ttl=LONG), 20))
        await stage.mode.sleep(0.05)
        for lease in leases:
            assert not job.done()
            await release(lease)
        await release(await job.result())
        await free(stage, *NAMES)

    @driven
    async def test_one_loss_is_the_loss_of_all(self, stage: Stage) -> None:
        ttl = 2 * stage.brief  # time enough for a slow renewal, or the reason would be another
        lease = await acquire(stage.client().lock_all(*NAMES, ttl=ttl))
        told: list[str] = []
        lease.on_lost(lambda: told.append("lost"))
        await broken(stage, lease.leases["b"])
        assert await wait_lost(lease, ttl + SLACK)
        assert (lease.state, lease.loss, lease.remaining) == (State.LOST, Loss.GONE, 0)
        with pytest.raises(LeaseLost, match="'b'"):
            lease.ensure_held()
        await stage.mode.until(lambda: told, "the callback", SLACK)
        with pytest.raises(LeaseLost, match="'b'"):
            await release(lease)
        await release(lease)
        assert lease.state is State.LOST
        assert told == ["lost"]
        await free(stage, *NAMES)  # the release has removed the other claims too

    @driven
    async def test_a_body_that_outlives_one_of_its_leases_is_told(self, stage: Stage) -> None:
        async def body(lease: AnyMultiLease) -> None:
            await broken(stage, lease.leases["c"])
            await stage.mode.until(lambda: lease.state is State.LOST, "the loss", SLACK)
            await stage.mode.sleep(0.05)  # in asyncio this is cancelled

        with pytest.raises(LeaseLost, match="'c'"):
            await within(stage.client().lock_all(*NAMES, ttl=2 * stage.brief), body)
        await free(stage, *NAMES)

    @driven
    async def test_a_body_releases_all_and_its_error_is_not_masked(self, stage: Stage) -> None:
        async def fail(lease: AnyMultiLease) -> None:
            raise KeyError(*lease.tokens)

        with pytest.raises(KeyError):
            await within(stage.client().lock_all(*NAMES, ttl=LONG), fail)
        await free(stage, *NAMES)

    @driven
    async def test_what_the_caller_holds_already_is_a_deadlock_and_no_wait(
        self, stage: Stage
    ) -> None:
        client = stage.client()
        lease = await acquire(client.lock("b", ttl=LONG))
        with pytest.raises(Deadlock, match="already holds 'b'"):
            await acquire(client.lock_all(*NAMES, ttl=LONG))
        await free(stage, "a", "c")
        lease.ensure_held()
        await release(lease)

    @driven
    async def test_everybody_who_takes_several_gets_them_whatever_the_order_of_names(
        self, stage: Stage
    ) -> None:
        chance = random.Random(7)  # noqa: S311  # the same each time
        clients = [stage.client(deadlock_after=None) for _ in range(3)]
        names = [f"x {number}" for number in range(5)]
        inside: list[str] = []

        async def work(client: AnyClient, plans: list[list[str]]) -> None:
            for plan in plans:

                async def body(lease: AnyMultiLease) -> None:
                    assert not set(lease.tokens) & set(inside)
                    inside.extend(lease.tokens)
                    await stage.mode.sleep(0.0005)
                    for name in lease.tokens:
                        inside.remove(name)

                await within(client.lock_all(*plan, ttl=LONG), body)

        plans = [[chance.sample(names, chance.randint(1, 4)) for _ in range(3)] for _ in range(9)]
        jobs = [work(clients[number % 3], plan) for number, plan in enumerate(plans)]
        await stage.mode.together(*jobs)
        await free(stage, *names)

    @driven
    async def test_claims_that_are_sent_together_stand_alone_and_may_be_sent_again(
        self, stage: Stage
    ) -> None:
        actor = stage.actor()
        ask = actor.ask("b")
        asks = [actor.ask(name, queue=False) for name in NAMES]
        await actor.claim(ask)
        first, second, third = await actor.engine.claim_all(asks, actor.deadline)
        assert isinstance(first, Standing)
        assert isinstance(third, Standing)
        assert first.granted
        assert third.granted
        assert isinstance(second, Standing)  # its refusal does not affect the others
        assert (second.granted, second.ticket) == (False, 0)
        again = await actor.engine.claim_all(asks, actor.deadline)
        assert [each.ticket for each in again if isinstance(each, Standing)] == [
            first.ticket,
            0,
            third.ticket,
        ]

    @driven
    async def test_several_that_were_dropped_warn_once_and_end_by_themselves(
        self, stage: Stage
    ) -> None:
        ttl = 1.5 * stage.brief
        client, other = stage.client(), stage.client()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lease = await acquire(client.lock_all(*NAMES, ttl=ttl))
            del lease
            assert await try_acquire(other.lock("b", ttl=LONG)) is None
            following = await acquire(other.lock_all(*NAMES, ttl=LONG), ttl + SLACK)
            await release(following)
        said = [str(each.message) for each in caught if each.category is RuntimeWarning]
        assert len([each for each in said if "'a', 'b', 'c' was dropped" in each]) == 1, said
        assert len(said) == 1

    @driven
    async def test_closing_a_client_releases_all(self, stage: Stage) -> None:
        client = stage.client()
        lease = await acquire(client.lock_all(*NAMES, ttl=LONG))
        await close(client)
        assert lease.state is State.RELEASED
        await free(stage, *NAMES, soon=1.0)
