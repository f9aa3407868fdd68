"""The search for deadlocks: what changes while it reads is not taken for a circle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import lockfast
from lockfast import aio
from lockfast.claims.session import Session
from lockfast.engines import opener
from lockfast.port import Page
from lockfast.runtime.aio import Aio
from lockfast.testing.harness.faults import Shaky
from lockfast.url import parse

URL = "memory://search"


class Watched(Shaky):
    """A way to the engine that tells of each look at a queue."""

    def __init__(self, at: int, call: Callable[[], object]) -> None:
        super().__init__()
        self.looks = 0
        self._at = at
        self._call = call

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        self.looks += 1
        if self.looks == self._at:
            self._call()
            await asyncio.sleep(0.05)
        return await super().inspect(names, cursor, exact=exact)


def searching(way: Watched) -> aio.AsyncClient:
    runtime = Aio()
    target = parse(URL)
    return aio.AsyncClient(Session(lambda: way.to(opener(target, runtime)()), runtime, None, 0.05))


async def circle(at: int) -> tuple[Watched, bool]:
    """Make a circle whose other member leaves at the searcher's look number `at`; 0: it stays."""
    tasks: list[asyncio.Task[None]] = []

    def leave() -> None:
        tasks[0].cancel()

    way = Watched(at, leave)
    async with searching(way) as mine, aio.connect(URL, deadlock_after=None) as theirs:

        async def wait_for_a() -> None:
            async with theirs.lock("c"), theirs.lock("a"):
                pass

        async with mine.lock("a"):
            tasks.append(asyncio.create_task(wait_for_a()))
            while len(await theirs.lock("a").queue()) < 2:  # noqa: ASYNC110  # an engine's
                await asyncio.sleep(0)
            found = False
            try:
                async with mine.lock("c", timeout=1.0):
                    pass
            except lockfast.Deadlock:
                found = True
        if not tasks[0].cancelled():
            await asyncio.wait(tasks)
        return way, found


def test_a_circle_that_stays_is_found_after_it_was_read_twice() -> None:
    way, found = asyncio.run(circle(0))
    assert found
    assert way.looks == 4  # two queues, twice


@pytest.mark.parametrize("look", [2, 3])
def test_a_circle_whose_member_leaves_while_it_is_read_is_none(look: int) -> None:
    _, found = asyncio.run(circle(look))
    assert not found


def test_a_time_that_is_none_is_refused() -> None:
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="deadlock_after"):
            lockfast.connect("memory://", deadlock_after=wrong)
