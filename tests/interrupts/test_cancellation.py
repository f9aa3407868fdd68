"""Ten thousand cancellations, at random moments of acquire and release, leave nothing behind."""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import lockfast
from lockfast import aio
from tests.servers import Redis, ServerError, wait_until

TTL = 3.0
HEARTBEAT = TTL / 3
FEW = ["few:1", "few:2", "few:3"]
CROWD = 20  # tasks at a time
_PACKAGE = str(Path(lockfast.__file__).parent)


async def plain(lock: aio.AsyncLock) -> None:
    lease = await lock.acquire()
    try:
        await asyncio.sleep(0)
    finally:
        await lease.release()


async def block(lock: aio.AsyncLock) -> None:
    async with lock:
        await asyncio.sleep(0)


async def entered(lock: aio.AsyncLock) -> None:
    async with lock.acquire(timeout=5.0):
        await asyncio.sleep(0)


async def attempt(lock: aio.AsyncLock) -> None:
    lease = await lock.try_acquire()
    if lease is not None:
        await lease.release()


async def many(lock: aio.AsyncLock) -> None:
    client = aio.AsyncClient(lock._session)
    names = FEW if lock.name in FEW else [lock.name, f"{lock.name}.b", f"{lock.name}.c"]
    async with client.lock_all(*names, ttl=TTL):
        await asyncio.sleep(0)


async def many_plain(lock: aio.AsyncLock) -> None:
    client = aio.AsyncClient(lock._session)
    leases = await client.lock_all(lock.name, f"{lock.name}.b", ttl=TTL).acquire(timeout=5.0)
    try:
        await asyncio.sleep(0)
    finally:
        await leases.release()


async def again(lock: aio.AsyncLock) -> None:
    client = aio.AsyncClient(lock._session)
    async with client.rlock(lock.name, ttl=TTL), client.rlock(lock.name, ttl=TTL):
        await asyncio.sleep(0)


Form = Callable[[aio.AsyncLock], Awaitable[None]]
# Which form, on which names, and how many cancellations.
STORMS: list[tuple[Form, list[str], int]] = [
    (plain, [], 1500),
    (block, [], 1500),
    (entered, [], 1000),
    (attempt, [], 1000),
    (plain, FEW, 1500),
    (block, FEW, 1500),
    (entered, FEW, 1000),
    (attempt, FEW, 1000),
]

SHAPES: list[tuple[Form, list[str], int]] = [
    (many, [], 500),
    (many, FEW, 300),
    (many_plain, [], 300),
    (again, [], 500),
    (again, FEW, 300),
]


class Storm:
    """Cancels operations of one form, and remembers where each was hit."""

    def __init__(self, client: aio.AsyncClient, form: Form, names: list[str], count: int) -> None:
        self._client = client
        self._form = form
        self._names = names
        self._left = count
        self._started = 0
        self.hits = 0
        self.inside = 0
        self.scars: dict[str, list[str]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CROWD):
                tasks.create_task(self._row())

    async def _row(self) -> None:
        loop = asyncio.get_running_loop()
        while self.hits < self._left:
            task = loop.create_task(self._operation())
            if random.random() < 0.5:  # noqa: S311  # no secret
                loop.call_later(random.uniform(0.0, 0.01), task.cancel)  # noqa: S311  # no secret
            else:
                self._after(random.randrange(1, 12), task)  # noqa: S311  # no secret
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    def _after(self, turns: int, task: asyncio.Task[None]) -> None:
        """Cancel after so many turns of the loop: between any two steps of the operation."""
        if turns == 0:
            task.cancel()
        elif not task.done():
            asyncio.get_running_loop().call_soon(self._after, turns - 1, task)

    async def _operation(self) -> None:
        self._started += 1
        name = random.choice(self._names) if self._names else f"once:{self._started}"  # noqa: S311  # no secret
        try:
            await self._form(self._client.lock(name, ttl=TTL))
        except asyncio.CancelledError as error:
            if self.hits < self._left:
                self._note(name, error)
            raise

    def _note(self, name: str, error: asyncio.CancelledError) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        self.hits += 1
        self.inside += any(frame.filename.startswith(_PACKAGE) for frame in frames)
        self.scars[name] = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]


async def contend(client: aio.AsyncClient, waits: list[float]) -> None:
    while True:
        began = time.monotonic()
        async with client.lock(random.choice(FEW), ttl=TTL):  # noqa: S311  # no secret
            waits.append(time.monotonic() - began)
            await asyncio.sleep(random.uniform(0.0, 5e-4))  # noqa: S311  # no secret


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as started:
        yield started


def held(server: Redis) -> set[str]:
    """Tell the names that have a claim."""
    keys = server.command("KEYS", "lockfast:{*}=*")
    assert isinstance(keys, list)
    names = {key.decode().partition("=")[2] for key in keys if isinstance(key, bytes)}
    return {name.partition(".")[0] for name in names}


def test_there_are_ten_thousand_cancellations() -> None:
    assert sum(count for _, _, count in STORMS) == 10_000


@pytest.mark.parametrize(
    ("form", "names", "count"),
    STORMS + SHAPES,
    ids=[
        f"{form.__name__} {'contended' if names else 'alone'}" for form, names, _ in STORMS + SHAPES
    ],
)
def test_cancellation_leaves_no_orphan_behind(
    server: Redis, form: Form, names: list[str], count: int
) -> None:
    server.command("FLUSHALL")
    asyncio.run(_weather(server, form, names, count))


async def _weather(server: Redis, form: Form, names: list[str], count: int) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: complaints.append(context)
    )
    waits: list[float] = []
    async with aio.connect(server.url) as client, aio.connect(server.url) as other:
        rival = asyncio.create_task(contend(other, waits))
        storm = Storm(client, form, names, count)
        async with asyncio.timeout(40.0):
            await storm.run()
        rival.cancel()
        await asyncio.wait([rival])
        assert storm.hits == count
        assert storm.inside >= 0.6 * count, "most must hit inside lockfast"

        # Within a heartbeat, nothing is left of what was cancelled.
        with suppress(ServerError):
            await asyncio.to_thread(wait_until, lambda: not held(server), "gone", HEARTBEAT + 0.5)
        orphans = {name: storm.scars.get(name) for name in held(server)}
        assert not orphans, f"{len(orphans)} of {count} left an orphan"
        assert max(waits) < HEARTBEAT + 0.5, "the other client had to wait for an orphan"

        for either in (other, client):
            for name in FEW:
                assert await either.lock(name).queue() == []
                async with either.lock(name, ttl=TTL, timeout=0.0) as lease:
                    lease.ensure_held()
        assert len(client._session.table) == 0
    assert complaints == []


def test_a_client_that_anyio_cancels_leaves_nothing_behind(
    server: Redis,
) -> None:
    async def play() -> list[str]:
        for number in range(60):
            server.command("SCRIPT", "FLUSH")  # so that a resignation takes two round trips
            with anyio.move_on_after(number / 5_000):
                async with aio.connect(server.url) as client:
                    lease = await client.lock(f"kept {number}", ttl=30).acquire()
                    async with client.lock(f"inside {number}", ttl=30):
                        await anyio.sleep(5)
                    await lease.release()
        await asyncio.sleep(2.5)
        async with aio.connect(server.url) as client:
            return [claim.name for claim in await client.inspect("")]

    assert anyio.run(play) == []
