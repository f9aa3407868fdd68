"""The asyncio transport: a thread uses the database, and the event loop waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lockfast.engines.sqlite.listener import Listener
from lockfast.engines.sqlite.store import Store
from lockfast.engines.sqlite.transport import T, Transport
from lockfast.engines.sqlite.worker import Job, Worker
from lockfast.errors import EngineUnavailable
from lockfast.port import CLOSING, Wake
from lockfast.runtime.base import Clock

GRACE = 0.05  # seconds that the thread has after a deadline to say what happened


class AioTransport(Transport):
    """Runs the jobs of an asyncio client in a thread of its own."""

    def __init__(self, store: Store, listener: Listener, now: Clock) -> None:
        """Bind to the running event loop."""
        super().__init__(store, listener, now)
        self._loop = asyncio.get_running_loop()
        self._worker = Worker(listener.pause, self._look)
        store.meanwhile = self._worker.hurry
        self._closing: Job[None] | None = None

    async def run(self, job: Callable[[], T], deadline: float, *, urgent: bool = False) -> T:
        """Run the job in the thread. If the disk does not answer, give up at the deadline."""
        sent = Job(job, self._loop)
        self._worker.submit(sent, urgent=urgent)
        left = max(deadline - self._now(), 0.0) + GRACE
        timer = self._loop.call_later(left, self._late, sent)
        try:
            return await sent.future
        finally:
            timer.cancel()
            sent.leave()

    def _late(self, job: Job[T]) -> None:
        if not job.future.done():
            words = f"{self.store}: no answer in time"
            job.future.set_exception(EngineUnavailable(words, sent=not job.leave()))

    def _look(self) -> None:
        if self.listener.look(self.store):
            self.listener.bell.ring()

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep until a push, a `rouse` or the deadline."""
        while not self.listener.interrupted():
            await self.listener.bell.wait(deadline)
            if deadline is not None and self._now() >= deadline:
                break
        return self.listener.take()

    async def close(self) -> None:
        """Close the connection, and end the thread."""
        if self._closing is None:  # the heart and its session may both close the engine
            self._closing = Job(self.store.close, self._loop)
            self._worker.submit(self._closing)
            self._worker.stop()
        await asyncio.wait([self._closing.future], timeout=CLOSING)
        self.listener.bell.close()
