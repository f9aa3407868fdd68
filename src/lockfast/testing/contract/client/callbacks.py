"""The client's contract on callbacks: trap 16 of the documentation, and what they may not do.

They run in the heart, which renews all leases: whatever one does, the others are renewed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockfast.blocking.client import Client, Lease
from lockfast.core.validity import State
from lockfast.errors import Deadlock
from lockfast.testing.contract.client.loss import broken
from lockfast.testing.contract.client.times import LONG, SOON, TTL
from lockfast.testing.harness.stage import Contract, Stage, driven, only
from lockfast.testing.harness.verbs import acquire, release, wait_lost


class CallbackContract(Contract):
    """What a callback does costs no other lease."""

    @driven
    async def test_trap_16_callbacks_that_fail_do_not_stop_the_renewals(self, stage: Stage) -> None:
        client, ttl = stage.client(), TTL
        told: list[str] = []

        def failing(error: type[BaseException]) -> Callable[[], None]:
            def fail() -> None:
                told.append(error.__name__)
                raise error

            return fail

        kept, lost = [await acquire(client.lock(name, ttl=ttl)) for name in ("kept", "x")]
        lost.on_lost(failing(ValueError))
        lost.on_lost(failing(SystemExit))
        lost.on_lost(lambda: told.append("next"))
        await broken(stage, lost)
        await stage.mode.until(lambda: "next" in told, "the next callback was called", SOON)
        assert told == ["ValueError", "SystemExit", "next"]
        assert not await wait_lost(kept, ttl + 0.1)
        kept.ensure_held()
        assert kept.state is State.HELD
        await release(kept)

    @only("threads")
    @driven
    async def test_waiting_in_a_callback_raises_and_costs_no_other_lease(
        self, stage: Stage
    ) -> None:
        """The wait would never end: the heart brings the grant or the loss, and would itself wait.

        In asyncio nobody can wait in a callback, which is a plain function.
        """
        client, ttl = stage.client(), TTL
        assert isinstance(client, Client)
        kept, lease = [client.lock(name, ttl=ttl).acquire() for name in ("kept", "x")]
        said: list[str] = []
        waits: list[Callable[[], object]] = [
            lambda: client.lock("x", ttl=ttl).acquire(),
            lambda: client.lock_all("x", "y", ttl=ttl).acquire(),
            lambda: client.rlock("x", ttl=ttl).acquire(timeout=60.0),
            kept.wait_lost,
        ]

        def refused(wait: Callable[[], object]) -> Callable[[], None]:
            def callback() -> None:
                with pytest.raises(Deadlock) as caught:
                    wait()
                said.append(str(caught.value))

            return callback

        for wait in waits:
            lease.on_lost(refused(wait))
        lease.fenced()
        await stage.mode.until(lambda: len(said) == len(waits), "the callbacks", SOON)
        assert all("in a callback of lockfast" in each for each in said), said
        assert not kept.wait_lost(ttl + 0.1)
        kept.release()

    @only("threads")
    @driven
    async def test_a_callback_may_try_a_lock_and_release_one(self, stage: Stage) -> None:
        client = stage.client()
        assert isinstance(client, Client)
        other, lease = [client.lock(name, ttl=LONG).acquire() for name in ("other", "x")]
        got: list[Lease | None] = []

        def callback() -> None:
            other.release()
            got.append(client.lock("free", ttl=LONG).try_acquire())

        lease.on_lost(callback)
        lease.fenced()
        await stage.mode.until(lambda: got, "the callback", SOON)
        assert got[0] is not None
        got[0].release()
        assert other.state is State.RELEASED
