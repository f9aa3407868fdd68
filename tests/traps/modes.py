"""One face for both modes: an asyncio client in a loop of its own, used as a blocking one is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from lockfast import Holder, Loss, State, aio

T = TypeVar("T")
_PATIENCE = 30.0


class Lease(Protocol):
    """What a test asks of a lease, whatever its mode."""

    @property
    def id(self) -> str: ...
    @property
    def token(self) -> int: ...
    @property
    def state(self) -> State: ...
    @property
    def loss(self) -> Loss | None: ...
    @property
    def remaining(self) -> float: ...
    def ensure_held(self) -> None: ...
    def on_lost(self, callback: Callable[[], object]) -> None: ...
    def release(self) -> None: ...
    def wait_lost(self, timeout: float | None = None) -> bool: ...


class Lock(Protocol):
    """What a test asks of a lock."""

    def acquire(self, *, timeout: float | None = None) -> Lease: ...
    def try_acquire(self) -> Lease | None: ...
    def queue(self) -> list[Holder]: ...


class Client(Protocol):
    """What a test asks of a client."""

    def lock(self, name: str, *, ttl: float = 30.0) -> Lock: ...


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run(asyncio.sleep(0))  # closed transports tell their sockets' end in the next turn
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine as a task of its own, and block until it is done."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    def connect(self, url: str) -> LoopClient:
        """Make a client that lives in this loop."""
        return LoopClient(self, aio.connect(url))


class LoopLease:
    """An `AsyncLease`. What needs no I/O is asked of it directly: it must not need the loop."""

    def __init__(self, loop: Loop, lease: aio.AsyncLease) -> None:
        self._loop = loop
        self._lease = lease
        self.ensure_held = lease.ensure_held
        self.on_lost = lease.on_lost

    @property
    def id(self) -> str:
        return self._lease.id

    @property
    def token(self) -> int:
        return self._lease.token

    @property
    def state(self) -> State:
        return self._lease.state

    @property
    def loss(self) -> Loss | None:
        return self._lease.loss

    @property
    def remaining(self) -> float:
        return self._lease.remaining

    def release(self) -> None:
        self._loop.run(self._lease.release())

    def wait_lost(self, timeout: float | None = None) -> bool:
        return self._loop.run(self._lease.wait_lost(timeout))


class LoopLock:
    """An `AsyncLock`."""

    def __init__(self, loop: Loop, lock: aio.AsyncLock) -> None:
        self._loop = loop
        self._lock = lock

    def acquire(self, *, timeout: float | None = None) -> LoopLease:
        async def work() -> aio.AsyncLease:
            return await self._lock.acquire(timeout=timeout)

        return LoopLease(self._loop, self._loop.run(work()))

    def try_acquire(self) -> LoopLease | None:
        lease = self._loop.run(self._lock.try_acquire())
        return None if lease is None else LoopLease(self._loop, lease)

    def queue(self) -> list[Holder]:
        return self._loop.run(self._lock.queue())


class LoopClient:
    """An `AsyncClient`."""

    def __init__(self, loop: Loop, client: aio.AsyncClient) -> None:
        self._loop = loop
        self._client = client

    def lock(self, name: str, *, ttl: float = 30.0) -> LoopLock:
        return LoopLock(self._loop, self._client.lock(name, ttl=ttl))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.run(self._client.close())
