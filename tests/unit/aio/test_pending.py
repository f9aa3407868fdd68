"""What an asyncio call returns before it is awaited."""

from __future__ import annotations

import asyncio

import pytest

from lockfast import aio


def test_an_acquisition_without_await_is_neither_true_nor_false() -> None:
    """`if lock.try_acquire():` would enter the body without the lock."""

    async def main() -> None:
        async with aio.connect("memory://") as client:
            lock = client.lock("x")
            async with lock as lease:
                for call in (lock.try_acquire, lock.acquire, lock.holders, lock.queue):
                    with pytest.raises(TypeError, match="write `await` in front"):
                        assert call()
                with pytest.raises(TypeError, match="write `await` in front"):
                    assert lease.wait_lost(0.1)
                with pytest.raises(TypeError, match="write `await` in front"):
                    assert client.lock_all("a", "b").try_acquire()
                with pytest.raises(TypeError, match="write `await` in front"):
                    assert client.rlock("a").try_acquire()

    asyncio.run(main())


def test_an_acquisition_can_be_a_task() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as client:
            lease = await asyncio.create_task(client.lock("x").acquire())
            (busy,) = await asyncio.gather(client.lock("x").try_acquire())
            assert busy is None
            waiting = asyncio.create_task(client.lock("x").acquire())
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async with asyncio.timeout(1.0), asyncio.TaskGroup() as group:
                task = group.create_task(client.lock("x").acquire(timeout=5.0))
                await lease.release()
            await task.result().release()

    asyncio.run(main())
