"""Events of a task that are set in another thread."""

from __future__ import annotations

import asyncio

import lockfast
from lockfast import aio
from lockfast.runtime.aio import TaskEvent
from lockfast.runtime.base import now


def test_a_lease_that_a_guard_finds_stale_in_another_thread_wakes_who_waits_for_its_loss() -> None:
    """asyncio's debug mode raises where a loop is touched from another thread."""

    async def main() -> None:
        async with aio.connect("memory://events") as client:
            lease = await client.lock("x").acquire()
            waiting = asyncio.create_task(lease.wait_lost(timeout=5.0))
            await asyncio.sleep(0)
            await asyncio.to_thread(lease.fenced)
            assert await waiting
            assert lease.state is lockfast.State.LOST

    asyncio.run(main(), debug=True)


def test_an_event_of_a_loop_that_has_ended_is_set_in_vain() -> None:
    async def make() -> TaskEvent:
        return TaskEvent(asyncio.get_running_loop(), now)

    asyncio.run(make()).set()
