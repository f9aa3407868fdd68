"""Dashboards on real engines, for tests that are coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from itertools import count
from typing import Any

import lockfast.web
from lockfast.aio import AsyncClient, connect
from tests.web.visitor import Visitor

SOON = 20.0
NUMBERS = count(1)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@asynccontextmanager
async def dashboard(
    url: str = "",
    *,
    resolve: Any = None,  # noqa: ANN401  # some of the tests pass what is wrong
    **visitor: Any,  # noqa: ANN401  # passed on
) -> AsyncIterator[tuple[AsyncClient, Visitor]]:
    """Return a client of an engine, and a visitor of its dashboard."""
    async with connect(url or f"memory://web-{next(NUMBERS)}") as client:
        app = lockfast.web.app(client, resolve=resolve)
        try:
            yield client, Visitor(app, **visitor)
        finally:
            await app.close()


async def until(look: Callable[[], Awaitable[object]]) -> None:
    """Look until it is true."""
    end = time.monotonic() + SOON
    while not await look():
        assert time.monotonic() < end, "it did not come true"
        await asyncio.sleep(0.05)
