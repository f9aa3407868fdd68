"""Starlette and FastAPI: run background work only in the worker that is the leader."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette

from lockfast.aio import AsyncCandidacy, AsyncElection, AsyncLease
from lockfast.errors import LeaseLost, LockfastError

log = logging.getLogger("lockfast")
PAUSE = 1.0  # seconds after which a leader resigns when its work has failed
AGAIN = 5.0  # seconds after which work that has not ended is cancelled again


@asynccontextmanager
async def leading(
    app: Starlette,
    election: AsyncElection,
    work: Callable[[AsyncLease], Coroutine[Any, Any, object]],
    *,
    value: str = "",
) -> AsyncIterator[AsyncCandidacy]:
    """Campaign while the app lives, and run `work` while this worker leads. Use it in the lifespan.

    lockfast cancels `work` when the leadership ends, and again every five seconds until it has
    ended. If `work` raises an exception, the worker resigns, and the next leader starts its `work`.
    If `work` returns, it is not started again while this worker leads. `app.state.leader` is the
    candidacy. Its `lease` is None in workers that do not lead.

    Args:
        app: The application.
        election: The election that all workers take part in.
        work: A coroutine function. It gets the lease.
        value: A text that all clients can read while this worker leads.

    Yields:
        The candidacy.

    Example:
        ::

            async def work(lease):
                while True:
                    print("cleaning up with token", lease.token)
                    await asyncio.sleep(60)

            @asynccontextmanager
            async def lifespan(app):
                async with leading(app, client.election("cleaner", ttl=10), work):
                    yield

            app = Starlette(lifespan=lifespan)
    """
    running: list[asyncio.Task[None]] = []

    async def worked(lease: AsyncLease) -> None:
        try:
            await work(lease)
        except LeaseLost:
            pass  # `work` has noticed the loss before it was cancelled
        except Exception:
            log.exception("the work of the leader of %r failed", election.name)
            await asyncio.sleep(PAUSE)
            with suppress(LockfastError):  # the candidacy logs a loss, or an unreachable engine
                await lease.release()

    def gained(lease: AsyncLease) -> None:
        running.append(asyncio.create_task(worked(lease)))

    async def lost() -> None:
        task = running.pop()
        # A cancellation can be swallowed: `asyncio.wait_for` of Python 3.11 does it if its result
        # arrives at the same time, and redis-py uses it. Then the worker would never shut down.
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=AGAIN)

    async with election.run(gained, lost, value=value) as candidacy:
        app.state.leader = candidacy
        yield candidacy
