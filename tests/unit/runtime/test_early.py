"""A timer that goes off early, as uvloop's do: the wait goes on until its time is over."""

from __future__ import annotations

import asyncio

import pytest

import lockfast
from lockfast import aio
from lockfast.runtime.aio import TaskEvent
from lockfast.runtime.threads import ThreadEvent

EARLY = 0.05  # seconds


def _impatient(kind: type[ThreadEvent | TaskEvent], patch: pytest.MonkeyPatch) -> None:
    wait = kind.wait

    async def early(self: ThreadEvent | TaskEvent, until: float | None) -> bool:
        left = None if until is None else until - EARLY
        return await wait(self, left)  # type: ignore[arg-type]  # of the same kind

    patch.setattr(kind, "wait", early)


def test_a_thread_that_is_woken_early_makes_no_second_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _impatient(ThreadEvent, monkeypatch)
    with lockfast.connect("memory://early") as client, lockfast.connect("memory://early") as other:
        with client.lock("x"):
            with pytest.raises(lockfast.NotAcquired) as caught:
                other.lock("x").acquire(timeout=0.2)
            assert caught.value.waited >= 0.2
        with client.lock("x", timeout=1.0):  # nothing of the other is left in the queue
            assert len(client.lock("x").queue()) == 1


def test_a_task_that_is_woken_early_makes_no_second_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    _impatient(TaskEvent, monkeypatch)

    async def main() -> None:
        async with aio.connect("memory://soon") as client, aio.connect("memory://soon") as other:
            async with client.lock("x"):
                with pytest.raises(lockfast.NotAcquired):
                    await other.lock("x").acquire(timeout=0.2)
            async with client.lock("x", timeout=1.0):
                assert len(await client.lock("x").queue()) == 1

    asyncio.run(main())
