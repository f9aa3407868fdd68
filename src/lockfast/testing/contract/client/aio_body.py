"""The client's contract on `async with` bodies: a loss cancels them, as `asyncio.timeout` does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from lockfast.aio import AsyncClient, AsyncLease
from lockfast.errors import LeaseLost, Loss, WrongLoop
from lockfast.testing.contract.client.loss import SHORT, broken
from lockfast.testing.contract.client.times import SLACK
from lockfast.testing.harness.bench import Bench
from lockfast.testing.harness.mode import Tasked
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import queue


def _client(stage: Stage) -> AsyncClient:
    client = stage.client()
    assert isinstance(client, AsyncClient)
    return client


async def _until_waiting(client: AsyncClient, count: int) -> None:
    async with asyncio.timeout(SLACK):
        while len(await client.lock("x").queue()) != count:  # noqa: ASYNC110  # the engine sets no event
            await asyncio.sleep(0.01)


class BodyContract(Contract):
    """The body of `async with`. Only asyncio has this, because a thread cannot be cancelled."""

    @pytest.fixture
    def stage(self, bench: Bench) -> Iterator[Stage]:
        """Yield a stage for asyncio."""
        mode = Tasked()
        stage = Stage(bench, mode)
        yield stage
        mode.run(stage.clear())
        mode.close()

    @pytest.mark.parametrize("fault", [Loss.GONE, Loss.UNREACHABLE], ids=["gone", "unreachable"])
    @driven
    async def test_trap_22_a_loss_cancels_the_body_and_raises(
        self, stage: Stage, fault: Loss
    ) -> None:
        client, way = stage.shaky_client()
        assert isinstance(client, AsyncClient)
        locks = [client.lock(f"x {number}", ttl=1.0) for number in range(3)]
        entered: list[str] = []
        after: list[str] = []
        struck: list[float] = []

        async def body(lease: AsyncLease) -> None:
            entered.append(lease.name)
            await stage.mode.until(lambda: len(entered) == len(locks), "all are inside", SLACK)
            struck.append(time.monotonic())
            if fault is Loss.GONE:
                await broken(stage, lease)
                struck.append(time.monotonic())  # the one who broke it may have had to connect
            else:
                way.silent = True
            await asyncio.sleep(SHORT + SLACK)
            after.append(lease.name)

        async def with_lock() -> None:
            async with locks[0] as lease:
                await body(lease)

        async def with_acquisition() -> None:
            async with locks[1].acquire() as lease:
                await body(lease)

        async def with_lease() -> None:
            async with await locks[2].acquire() as lease:
                await body(lease)

        async def cancelled(form: Callable[[], Coroutine[Any, Any, None]]) -> Loss:
            task = asyncio.current_task()
            assert task is not None
            with pytest.raises(LeaseLost) as caught:
                await form()
            assert task.cancelling() == 0  # the rest of the task goes on undisturbed
            await asyncio.sleep(0)
            return caught.value.reason

        forms = (with_lock, with_acquisition, with_lease)
        reasons = await stage.mode.together(*(cancelled(form) for form in forms))
        assert time.monotonic() - max(struck) < 2.0
        assert reasons == [fault] * len(forms)
        assert after == []
        way.silent = False

    @driven
    async def test_a_body_that_goes_on_regardless_learns_at_its_end(self, stage: Stage) -> None:
        client = _client(stage)
        with pytest.raises(LeaseLost):
            async with client.lock("x", ttl=30.0) as lease:
                await broken(stage, lease)

    @driven
    async def test_an_outer_timeout_stays_a_timeout(self, stage: Stage) -> None:
        client = _client(stage)

        async def hold() -> None:
            async with asyncio.timeout(None) as limit, client.lock("x", ttl=30.0):
                limit.reschedule(asyncio.get_running_loop().time() + 0.1)
                await asyncio.sleep(SLACK)

        with pytest.raises(TimeoutError):
            await hold()
        assert await client.lock("x").queue() == []
        async with client.lock("x", ttl=30.0):  # the task can acquire the lock again
            await asyncio.sleep(0)

    @driven
    async def test_an_inner_timeout_stays_a_timeout_though_the_lease_is_lost_later(
        self, stage: Stage
    ) -> None:
        client = _client(stage)

        async def hold() -> None:
            async with client.lock("x", ttl=SHORT) as lease:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(asyncio.sleep(SLACK), 0.01)
                await broken(stage, lease)
                await asyncio.sleep(SHORT + SLACK)

        with pytest.raises(LeaseLost):
            await hold()

    @driven
    async def test_a_loss_inside_a_timeout_is_a_loss(self, stage: Stage) -> None:
        client = _client(stage)

        async def hold() -> None:
            async with asyncio.timeout(SHORT + SLACK), client.lock("x", ttl=SHORT) as lease:
                await broken(stage, lease)
                await asyncio.sleep(SHORT + 2 * SLACK)

        with pytest.raises(LeaseLost):
            await hold()

    @driven
    async def test_a_failing_sibling_cancels_the_body_and_is_the_error(self, stage: Stage) -> None:
        client = _client(stage)
        ended: list[BaseException] = []
        entered = asyncio.Event()

        async def hold() -> None:
            try:
                async with client.lock("x", ttl=30.0):
                    entered.set()
                    await asyncio.sleep(SLACK)
            except BaseException as error:
                ended.append(error)
                raise

        async def fail() -> None:
            await entered.wait()
            raise KeyError("a sibling")

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(hold())
                group.create_task(fail())

        with pytest.raises(ExceptionGroup) as caught:
            await both()
        assert [type(error) for error in caught.value.exceptions] == [KeyError]
        assert [type(error) for error in ended] == [asyncio.CancelledError]
        assert await client.lock("x").queue() == []

    @driven
    async def test_a_loss_in_a_task_group_is_that_groups_error(self, stage: Stage) -> None:
        client = _client(stage)

        async def hold() -> None:
            async with client.lock("x", ttl=SHORT) as lease:
                await broken(stage, lease)
                await asyncio.sleep(SHORT + SLACK)

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(hold())
                group.create_task(asyncio.sleep(SHORT + SLACK))

        with pytest.raises(ExceptionGroup) as caught:
            await both()
        assert [type(error) for error in caught.value.exceptions] == [LeaseLost]

    @driven
    async def test_a_cancellation_from_outside_beside_a_loss_stays_a_cancellation(
        self, stage: Stage
    ) -> None:
        client = _client(stage)
        entered = asyncio.Event()

        async def hold() -> None:
            async with client.lock("x", ttl=SHORT) as lease:
                task = asyncio.current_task()
                assert task is not None
                lease.on_lost(task.cancel)  # called right after lockfast's own cancellation
                await broken(stage, lease)
                entered.set()
                await asyncio.sleep(SHORT + SLACK)

        task = asyncio.create_task(hold())
        await entered.wait()
        await asyncio.wait([task], timeout=SHORT + SLACK)
        assert task.cancelled()

    @driven
    async def test_a_cancelled_wait_leaves_the_queue(self, stage: Stage) -> None:
        client, other = _client(stage), _client(stage)
        async with client.lock("x", ttl=30.0):
            task = asyncio.create_task(other.lock("x", ttl=30.0).acquire(timeout=None).__aenter__())
            await _until_waiting(client, 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await _until_waiting(client, 1)

    @driven
    async def test_a_task_cancelled_at_any_moment_of_acquiring_leaves_no_orphan(
        self, stage: Stage
    ) -> None:
        client = _client(stage)
        lock = client.lock("x", ttl=30.0)

        async def once() -> None:
            async with lock:
                pass

        for turns in range(12):
            task = asyncio.create_task(once())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await _until_waiting(client, 0)
        assert await queue(lock) == []

    def test_a_second_loop_is_refused_with_an_explanation(self, stage: Stage) -> None:
        client = _client(stage)

        async def once() -> None:
            async with client.lock("x", ttl=30.0):
                pass

        stage.mode.run(once())
        with pytest.raises(WrongLoop, match="one client per loop"):
            asyncio.run(once())
