"""The client's contract on leases: acquire, release, who holds it, and what closing does."""

from __future__ import annotations

import os
import socket
import time

import pytest

from lockfast.core.validity import State
from lockfast.errors import ClientClosed, Deadlock, LeaseLost, Loss, NotAcquired
from lockfast.testing.contract.client.times import LONG
from lockfast.testing.contract.port.names import HOSTILE, REFUSED
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyLease,
    acquire,
    close,
    holders,
    queue,
    release,
    try_acquire,
    within,
)


class LeaseContract(Contract):
    """A lease: acquire, wait, release, list the queue, close the client."""

    @driven
    async def test_a_lock_is_acquired_and_released(self, stage: Stage) -> None:
        lock = stage.client().lock("x", ttl=LONG)
        lease = await acquire(lock)
        assert (lease.name, lease.state, lease.loss) == ("x", State.HELD, None)
        assert 0 < lease.remaining <= LONG
        lease.ensure_held()
        await release(lease)
        assert (lease.state, lease.loss) == (State.RELEASED, Loss.RELEASED)
        assert lease.remaining == 0
        assert await queue(lock) == []

    @driven
    async def test_every_holder_has_a_higher_token_than_the_one_before(self, stage: Stage) -> None:
        locks = [stage.client().lock("x", ttl=LONG) for _ in range(3)]
        tokens = []
        for lock in locks * 5:
            lease = await acquire(lock, 5)
            tokens.append(lease.token)
            await release(lease)
        assert tokens == sorted(set(tokens))

    @driven
    async def test_an_attempt_gives_a_lease_or_none_at_once(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await try_acquire(client.lock("x", ttl=LONG))
        assert lease is not None
        for each in (client, other):
            began = time.monotonic()
            assert await try_acquire(each.lock("x", ttl=LONG)) is None
            assert time.monotonic() - began < 2
        assert [holder.id for holder in await queue(client.lock("x"))] == [lease.id]
        await release(lease)
        again = await try_acquire(other.lock("x", ttl=LONG))
        assert again is not None
        await release(again)

    @driven
    async def test_trap_08_a_wait_that_ends_names_the_holder_and_leaves_the_queue(
        self, stage: Stage
    ) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=LONG, purpose="month's end"))
        lock = other.lock("x", ttl=LONG)
        assert await try_acquire(lock) is None  # connected: that may take longer
        began = time.monotonic()
        with pytest.raises(NotAcquired, match=f"month's end.*pid {os.getpid()}") as caught:
            await acquire(lock, 0.5)
        assert 0.5 <= time.monotonic() - began < 1.5  # neither 0 nor for ever (trap 8)
        assert isinstance(caught.value, TimeoutError)
        assert 0.5 <= caught.value.waited < 1.5
        await self.eventually_alone(stage, lease.id)
        await release(lease)

    async def eventually_alone(self, stage: Stage, id_: str) -> None:
        """Wait until the claim with this id is the only one on x."""
        lock = stage.client().lock("x", ttl=LONG)
        end = time.monotonic() + 5
        while [holder.id for holder in await queue(lock)] != [id_]:
            assert time.monotonic() < end, await queue(lock)
            await stage.mode.sleep(0.01)

    @driven
    async def test_a_release_lets_the_next_in_long_before_the_ttl(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=LONG))
        job = stage.mode.start(acquire(other.lock("x", ttl=LONG), 20))
        await self.until_waiting(stage, 2)
        assert not job.done()
        began = time.monotonic()
        await release(lease)
        after = await job.result()
        assert time.monotonic() - began < 2
        assert after.token > lease.token
        await release(after)

    async def until_waiting(self, stage: Stage, count: int, name: str = "x") -> None:
        """Wait until a name has `count` claims, holders included."""
        lock = stage.client().lock(name, ttl=LONG)
        end = time.monotonic() + 10
        while len(await queue(lock)) != count:
            assert time.monotonic() < end, await queue(lock)
            await stage.mode.sleep(0.01)

    @driven
    async def test_a_second_release_does_nothing(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=LONG))
        await release(lease)
        following = await acquire(other.lock("x", ttl=LONG), 5)
        await release(lease)
        following.ensure_held()
        assert [holder.id for holder in await holders(client.lock("x"))] == [following.id]
        await release(following)

    @driven
    async def test_a_lease_is_released_from_another_thread_or_task(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await stage.mode.start(acquire(client.lock("x", ttl=LONG))).result()
        await stage.mode.start(release(lease)).result()  # neither is the first one's (trap 4)
        assert lease.state is State.RELEASED
        again = await try_acquire(other.lock("x", ttl=LONG))
        assert again is not None
        await release(again)

    @driven
    async def test_who_holds_it_and_who_waits_is_told_in_words(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=LONG, purpose="nightly"))
        job = stage.mode.start(acquire(other.lock("x", ttl=LONG, purpose="manual"), 20))
        await self.until_waiting(stage, 2)
        (holder,) = await holders(other.lock("x"))
        assert (holder.id, holder.ticket, holder.granted) == (lease.id, lease.ticket, True)
        assert (holder.who.pid, holder.who.host) == (os.getpid(), socket.gethostname())
        assert holder.who.purpose == "nightly"
        assert abs(holder.who.since - time.time()) < 60
        assert [each.who.purpose for each in await queue(client.lock("x"))] == ["nightly", "manual"]
        await release(lease)
        await release(await job.result())

    @driven
    async def test_waiting_for_oneself_raises_instead_of_waiting_for_ever(
        self, stage: Stage
    ) -> None:
        client = stage.client()
        lock = client.lock("x", ttl=LONG)
        lease = await acquire(lock)
        with pytest.raises(Deadlock, match="already holds"):
            await acquire(lock)
        with pytest.raises(NotAcquired):
            await acquire(lock, 0.1)
        lease.ensure_held()
        await self.eventually_alone(stage, lease.id)
        job = stage.mode.start(acquire(lock))  # another thread or task may wait
        await self.until_waiting(stage, 2)
        await release(lease)
        await release(await job.result())

    @driven
    async def test_one_lock_object_in_with_statements_of_many(self, stage: Stage) -> None:
        lock = stage.client().lock("x", ttl=LONG)
        inside: list[int] = []
        tokens: list[int] = []

        async def body(lease: AnyLease) -> None:
            inside.append(lease.token)
            await stage.mode.sleep(0.002)
            assert inside == [lease.token]
            tokens.append(inside.pop())

        await stage.mode.together(*(within(lock, body) for _ in range(10)))
        assert tokens == sorted(set(tokens))
        assert await queue(lock) == []

    @driven
    async def test_an_error_of_the_body_is_not_masked_and_releases(self, stage: Stage) -> None:
        lock = stage.client().lock("x", ttl=LONG)

        async def fail(lease: AnyLease) -> None:
            raise KeyError(lease.name)

        with pytest.raises(KeyError, match="x"):
            await within(lock, fail)
        assert await queue(lock) == []

    @driven
    async def test_closing_a_client_releases_what_it_holds(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        leases = [await acquire(client.lock(f"x {n}", ttl=LONG)) for n in range(3)]
        await close(client)
        assert [lease.state for lease in leases] == [State.RELEASED] * 3
        for number in range(3):
            lease = await try_acquire(other.lock(f"x {number}", ttl=LONG))
            assert lease is not None
            await release(lease)
        with pytest.raises(ClientClosed):
            await acquire(client.lock("x"))
        with pytest.raises(LeaseLost):
            leases[0].ensure_held()
        await release(leases[0])
        await close(client)

    @driven
    async def test_closing_a_client_ends_its_waits(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=LONG))
        job = stage.mode.start(acquire(other.lock("x", ttl=LONG)))
        await self.until_waiting(stage, 2)
        await close(other)
        with pytest.raises(ClientClosed):
            await job.result()
        assert [holder.id for holder in await queue(client.lock("x"))] == [lease.id]
        await release(lease)

    @driven
    async def test_closing_a_client_gives_up_what_it_has_just_asked_for(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        lock = stage.client().lock("x", ttl=LONG)
        lease = await acquire(lock)
        closed: list[bool] = []

        async def linger() -> None:
            await stage.mode.until(lambda: closed, "the client is closed")

        way.before_claimed = linger
        job = stage.mode.start(acquire(client.lock("x", ttl=LONG)))
        await self.until_waiting(stage, 2)
        await close(client)
        closed.append(True)
        with pytest.raises(ClientClosed):
            await job.result()
        assert [holder.id for holder in await queue(lock)] == [lease.id]
        await release(lease)

    @driven
    async def test_hostile_names_are_locks_of_their_own(self, stage: Stage) -> None:
        client = stage.client()
        leases = []
        for name in HOSTILE:
            lease = await try_acquire(client.lock(name, ttl=LONG))
            assert lease is not None, name
            leases.append(lease)
            assert await try_acquire(client.lock(name, ttl=LONG)) is None, name
            assert [holder.id for holder in await holders(client.lock(name))] == [lease.id]
        for lease in leases:
            await release(lease)

    @pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
    @driven
    async def test_what_is_no_name_is_no_lock(self, stage: Stage, name: str) -> None:
        with pytest.raises(ValueError, match="name"):
            stage.client().lock(name)
