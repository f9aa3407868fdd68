"""The client's contract on leases that nobody keeps: traps 16 and 54 of the documentation.

`lock.acquire()` without a name for what it returns is the idiom of threading and redis-py.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
import warnings

import pytest

from lockfast.core.validity import State
from lockfast.testing.contract.client.times import LONG, TTL
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyLease,
    AnyMultiLease,
    AnyRLease,
    acquire,
    close,
    queue,
    release,
    try_acquire,
    wait_lost,
    within,
)


class DroppedContract(Contract):
    """A lease that nobody has any more ends by itself, with a warning."""

    @driven
    async def test_trap_54_a_dropped_lease_ends_with_its_ttl_and_is_not_resigned(
        self, stage: Stage
    ) -> None:
        client, way = stage.shaky_client()
        other, ttl = stage.client().lock("x", ttl=LONG), TTL
        await release(await acquire(other))  # connected: that may take longer than the ttl
        kept = await acquire(client.lock("kept", ttl=ttl))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began = time.monotonic()
            await acquire(client.lock("x", ttl=ttl))  # no collector: nothing goes round in a circle
            # Not released by a finalizer: whoever dropped it may still be at work under it.
            assert await try_acquire(other) is None
            following = await acquire(other, ttl + stage.bench.lag + 2.0)
            assert time.monotonic() - began > 0.9 * ttl
        said = [str(each.message) for each in caught if each.category is RuntimeWarning]
        assert [each for each in said if "'x' was dropped without release()" in each], said
        kept.ensure_held()
        await release(kept)
        await release(following)
        await close(client)
        assert way.resigned == [kept.id]

    @driven
    async def test_trap_54_a_warning_that_is_an_error_does_not_stop_the_renewals(
        self,
        stage: Stage,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        client, ttl = stage.client(), TTL
        kept = await acquire(client.lock("kept", ttl=ttl))
        raised = []  # with its traceback, and so with the lease itself
        monkeypatch.setattr(sys, "unraisablehook", lambda what: raised.append(what.exc_value))
        with warnings.catch_warnings(), caplog.at_level(logging.INFO, "lockfast"):
            warnings.simplefilter("error", RuntimeWarning)
            await acquire(client.lock("x", ttl=ttl))
            other = stage.client().lock("x", ttl=LONG)
            await release(await acquire(other, ttl + stage.bench.lag + 2.0))
            assert not await wait_lost(kept, 0.1)  # longer than the ttl, with the wait above
        assert [type(each) for each in raised] == [RuntimeWarning]
        assert "'x' was dropped without release()" in caplog.text
        assert "stumbled" not in caplog.text
        assert kept.state is State.HELD
        assert await queue(client.lock("x")) == []
        await release(kept)

    @driven
    async def test_every_dropped_lease_is_warned_of_and_logged(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = stage.client()
        with caplog.at_level(logging.WARNING, "lockfast"):
            for name in "ab":
                with pytest.warns(RuntimeWarning, match=f"'{name}' was dropped without release"):
                    await acquire(client.lock(name, ttl=LONG))
        said = [each for each in caplog.records if "was dropped" in each.getMessage()]
        assert [each.levelname for each in said] == ["WARNING", "WARNING"]

    @driven
    async def test_nothing_is_said_of_a_lease_that_was_released_lost_or_kept_by_its_block(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def body(_lease: AnyLease | AnyMultiLease | AnyRLease) -> None:
            pass

        async def again(_lease: AnyRLease) -> None:
            await within(client.rlock("r", ttl=LONG), body)

        client = stage.client()
        with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
            warnings.simplefilter("always")
            await release(await acquire(client.lock("x", ttl=LONG)))
            await release(await acquire(client.lock_all("x", "y", ttl=LONG)))
            await release(await acquire(client.rlock("x", ttl=LONG)))
            await within(client.lock("x", ttl=LONG), body)
            await within(client.lock_all("x", "y", ttl=LONG), body)
            await within(client.rlock("r", ttl=LONG), again)
            lost = await acquire(client.lock("lost", ttl=LONG))
            lost.fenced()
            del lost
            closed = await acquire(client.lock("closed", ttl=LONG))
            await close(client)
            del closed
            gc.collect()
        said = [str(each.message) for each in caught] + caplog.messages
        assert [each for each in said if "dropped" in each] == []

    @driven
    async def test_a_lock_has_no_release_and_says_what_has(self, stage: Stage) -> None:
        with pytest.raises(TypeError, match=r"'x' has no release.*lease = lock.acquire\(\)"):
            stage.client().lock("x").release()
