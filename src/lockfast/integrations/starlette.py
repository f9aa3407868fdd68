"""Starlette and FastAPI: in the lifespan of an app, the worker that leads does the work."""

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
PAUSE = 1.0  # seconds after which a leader whose work failed resigns


@asynccontextmanager
async def leading(
    app: Starlette,
    election: AsyncElection,
    work: Callable[[AsyncLease], Coroutine[Any, Any, object]],
    *,
    value: str = "",
) -> AsyncIterator[AsyncCandidacy]:
    """Campaign for as long as the app lives, and run `work` while this worker leads.

    `work` is cancelled when the leadership ends. If it raises, the leadership is given up, and
    whoever leads next begins anew; if it returns, the work is done.
    `app.state.leader` is the candidacy: its `lease` is None in the workers that do not lead.
    """
    running: list[asyncio.Task[None]] = []

    async def worked(lease: AsyncLease) -> None:
        try:
            await work(lease)
        except LeaseLost:
            pass  # it noticed before it was cancelled
        except Exception:
            log.exception("the work of the leader of %r failed", election.name)
            await asyncio.sleep(PAUSE)
            with suppress(LockfastError):  # lost, or the engine is away: the candidacy tells
                await lease.release()

    def gained(lease: AsyncLease) -> None:
        running.append(asyncio.create_task(worked(lease)))

    async def lost() -> None:
        task = running.pop()
        task.cancel()
        await asyncio.wait([task])

    async with election.run(gained, lost, value=value) as candidacy:
        app.state.leader = candidacy
        yield candidacy
