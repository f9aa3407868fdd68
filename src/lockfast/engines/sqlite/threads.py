"""The blocking transport: the calling thread uses the database itself."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.pushes import before
from lockfast.engines.sqlite.transport import T, Transport
from lockfast.port import Wake


class ThreadTransport(Transport):
    """Runs each job in the thread that asks for it. The heart's thread looks for grants."""

    async def run(self, job: Callable[[], T], deadline: float, *, urgent: bool = False) -> T:
        """Run the job. `Store.run` keeps the deadline."""
        del deadline, urgent
        return job()

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep until a push, a `rouse` or the deadline. Look for grants while a claim waits."""
        listener = self.listener
        while not listener.interrupted():
            pause = listener.pause()
            soon = None if pause is None else self._now() + pause
            await listener.bell.wait(deadline if soon is None else before(deadline, soon))
            if soon is not None and self._now() >= soon and listener.look(self.store):
                break
            if deadline is not None and self._now() >= deadline:
                break
        return listener.take()

    async def close(self) -> None:
        """Close the connection."""
        self.store.close()
        self.listener.bell.close()
