"""The client's contract on decorated functions, and on locks that stay taken with `at_least`."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lockfast.aio import AsyncClient
from lockfast.blocking.client import Client
from lockfast.core.validity import State
from lockfast.errors import Deadlock, LeaseLost, Loss, NotAcquired
from lockfast.testing.contract.client.lock_all import free
from lockfast.testing.contract.client.loss import broken
from lockfast.testing.contract.client.times import LONG, SLACK
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyClient,
    AnyLease,
    acquire,
    close,
    holders,
    queue,
    release,
    try_acquire,
    wait_lost,
)

Work = Callable[[str, AnyLease], Coroutine[Any, Any, str]]
Paying = Callable[[str], Coroutine[Any, Any, str | None]]


def decorated(client: AnyClient, work: Work, **options: Any) -> Paying:  # noqa: ANN401  # of `lock`
    """Decorate a function of the client's mode, and return it as a coroutine function."""
    decorate: Any = client.lock("pay:{order}", **options)
    if isinstance(client, AsyncClient):

        async def pay_soon(order: str, lease: Any = None) -> str:  # noqa: ANN401  # injected
            return await work(order, lease)

        soon: Paying = decorate(pay_soon)
        return soon

    def pay(order: str, lease: Any = None) -> str:  # noqa: ANN401  # injected
        coroutine = work(order, lease)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return str(stop.value)
        raise AssertionError("it suspended")

    now: Callable[[str], str | None] = decorate(pay)

    async def paying(order: str) -> str | None:
        return now(order)

    return paying


class DecoratorContract(Contract):
    """A lock as a decorator. The engine needs no queue."""

    @driven
    async def test_a_call_runs_under_the_lock_that_its_arguments_name(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()

        async def work(order: str, lease: AnyLease) -> str:
            assert (lease.name, lease.state) == (f"pay:{order}", State.HELD)
            assert [each.id for each in await holders(other.lock(f"pay:{order}"))] == [lease.id]
            return f"paid {order}"

        pay = decorated(client, work, ttl=LONG)
        assert await pay("4") == "paid 4"
        assert await stage.mode.together(pay("5"), pay("6")) == ["paid 5", "paid 6"]
        await free(stage, "pay:4", "pay:5", "pay:6")

    @driven
    async def test_calls_for_one_thing_exclude_each_other(self, stage: Stage) -> None:
        inside: list[str] = []

        async def work(order: str, _lease: AnyLease) -> str:
            inside.append(order)
            await stage.mode.sleep(0.002)
            assert inside == [order]
            return inside.pop()

        pay = decorated(stage.client(), work, ttl=LONG)
        assert await stage.mode.together(*(pay("7") for _ in range(8))) == ["7"] * 8

    @driven
    async def test_a_busy_lock_is_skipped_or_raises_or_is_waited_for(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()

        async def work(order: str, _lease: AnyLease) -> str:
            return f"paid {order}"

        async def fail(_order: str, _lease: AnyLease) -> str:
            raise NotAcquired("another lock", 1.0, "somebody")

        lease = await acquire(other.lock("pay:7", ttl=LONG))
        skip = decorated(client, work, ttl=LONG, on_busy="skip")
        assert (await skip("7"), await skip("8")) == (None, "paid 8")
        with pytest.raises(NotAcquired):
            await decorated(client, work, ttl=LONG, on_busy="raise")("7")
        began = time.monotonic()
        with pytest.raises(NotAcquired):
            await decorated(client, work, ttl=LONG, timeout=0.2)("7")
        assert await decorated(client, work, ttl=LONG, timeout=0.2, on_busy="skip")("7") is None
        assert time.monotonic() - began >= 0.4  # both calls waited for their timeout
        job = stage.mode.start(decorated(client, work, ttl=LONG)("7"))
        await stage.mode.sleep(0.02)
        await release(lease)
        assert await job.result() == "paid 7"
        with pytest.raises(NotAcquired, match="another lock"):  # the body raised it: no skip
            await decorated(client, fail, ttl=LONG, on_busy="skip")("7")
        with pytest.raises(ValueError, match="on_busy"):
            client.lock("x", on_busy="ignore")  # type: ignore[call-overload]  # what a user may try

    @driven
    async def test_a_function_that_calls_itself_is_told(self, stage: Stage) -> None:
        client = stage.client()

        async def work(order: str, _lease: AnyLease) -> str:
            return str(await pay(order))

        pay = decorated(client, work, ttl=LONG)
        with pytest.raises(Deadlock, match="already holds"):
            await pay("7")
        await free(stage, "pay:7")

    def test_a_function_of_the_other_mode_is_refused(self, stage: Stage) -> None:
        client = stage.client()

        async def soon() -> None:
            pass

        def now() -> None:
            pass

        def some() -> Any:  # noqa: ANN401  # a generator
            yield

        wrong: Any = soon if isinstance(client, Client) else now
        with pytest.raises(TypeError, match="connect"):
            client.lock("x")(wrong)
        generator: Any = some
        with pytest.raises(TypeError):
            client.lock("x")(generator)


class LingerContract(Contract):
    """`at_least`: a lock stays taken for that long, however soon it is released."""

    @driven
    async def test_a_lock_stays_taken_for_the_time_that_was_asked_for(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        began = time.monotonic()
        lease = await acquire(client.lock("x", ttl=LONG, at_least=0.4))
        waiting = stage.mode.start(wait_lost(lease, SLACK))
        await release(lease)
        assert lease.state is State.RELEASED
        assert await waiting.result()
        await release(lease)  # a second release does not free the lock sooner
        assert await try_acquire(other.lock("x", ttl=LONG)) is None
        following = await acquire(other.lock("x", ttl=LONG), SLACK)
        assert time.monotonic() - began >= 0.4
        await release(following)

    @driven
    async def test_whoever_holds_longer_than_that_gives_it_back_at_once(self, stage: Stage) -> None:
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=LONG, at_least=0.05))
        await stage.mode.sleep(0.06)
        await release(lease)
        assert await queue(client.lock("x")) == []

    @driven
    async def test_it_stays_when_it_was_granted_to_a_waiter_and_its_client_is_gone(
        self, stage: Stage
    ) -> None:
        # A claim that was granted while it waited has only the waiter's remaining time. The client
        # must renew it before it leaves the claim to expire.
        ttl = 1.5 * stage.brief
        client, other = stage.client(), stage.client()
        first = await acquire(other.lock("x", ttl=LONG))
        job = stage.mode.start(acquire(client.lock("x", ttl=ttl, at_least=ttl), 20))
        await self.until_two(stage)
        await stage.mode.sleep(ttl / 4)  # so that less than a ttl is left from its last renewal
        await release(first)
        lease = await job.result()
        granted = time.monotonic()
        await release(lease)
        await close(client)
        following = await acquire(other.lock("x", ttl=LONG), ttl + SLACK)
        assert time.monotonic() - granted > 0.93 * ttl
        await release(following)

    async def until_two(self, stage: Stage) -> None:
        """Wait until x has two claims: a holder and a waiter."""
        lock = stage.client().lock("x")
        end = time.monotonic() + SLACK
        while len(await queue(lock)) != 2:
            assert time.monotonic() < end
            await stage.mode.sleep(0.01)

    @driven
    async def test_a_lease_that_was_lost_does_not_linger(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=LONG, at_least=LONG))
        await broken(stage, lease)
        lease.fenced()
        assert (lease.state, lease.loss) == (State.LOST, Loss.FENCED)
        with pytest.raises(LeaseLost):
            await release(lease)
        await release(await acquire(other.lock("x", ttl=LONG), SLACK))

    @driven
    async def test_its_time_is_not_longer_than_the_ttl(self, stage: Stage) -> None:
        with pytest.raises(ValueError, match="at_least"):
            stage.client().lock("x", ttl=1.0, at_least=1.5)
