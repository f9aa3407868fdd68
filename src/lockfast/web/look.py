"""One complete look at an engine, and how it is made: page by page, without blocking the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lockfast.aio import AsyncClient
from lockfast.core.record import FORMAT
from lockfast.core.wait_graph import Link, circles
from lockfast.port import Page
from lockfast.primitives.inspection import Pages
from lockfast.runtime.base import now
from lockfast.web.claim import Claim, Lock, Queue, key_of, mark_of, place

T = TypeVar("T")
Circles = dict[frozenset[tuple[str, str]], list[Link[Claim]]]
EVERY = 0.5  # seconds from the start of a scan to that of the next one, at least
SHARE = 2.0  # a scan is followed by a pause of so many times as long as it took, at least
LONGEST = 30.0  # seconds between two scans, however long they take
MOST = 200_000  # claims that a look has; the others are left out
TURN = 500  # claims that are taken in before others get a turn of the loop
RUN = 2_048  # values that are sorted before others get a turn


class Look:
    """What an engine showed in one scan. It is never changed, but for the times of its claims."""

    def __init__(self, number: int = 0) -> None:
        """Begin without claims."""
        self.number = number
        self.began = self.ended = now()
        self.at = time.time()
        """When it ended, in seconds since 1970."""
        self.claims: dict[str, Claim] = {}
        """By `key_of`."""
        self.locks: dict[str, Lock] = {}
        """By name, in the order of the names."""
        self.waiting: list[Claim] = []
        self.fresh: list[Claim] = []
        """What the look before did not have, or had in another state."""
        self.circles: Circles = {}
        """Waits in a circle, as this scan shows them. Queues are read one by one, so that a circle
        may never have existed.
        """
        self.deadlocks: list[list[Link[Claim]]] = []
        """The circles that the scan before has shown too. These exist."""
        self.others: set[int] = set()
        """The formats of the claims, but for those that could be read."""
        self.cut = False
        """Whether there were more claims than `MOST`."""
        self.listed: dict[tuple[str, str], asyncio.Task[Sequence[Lock]]] = {}
        """What was searched for and sorted, by the search and the order."""
        self.drawn: dict[object, tuple[float, str]] = {}
        """Tables of the overview as HTML, and until when each is shown, by what was asked for."""

    @property
    def took(self) -> float:
        """Seconds that the scan took."""
        return self.ended - self.began

    @property
    def pause(self) -> float:
        """Seconds from its end to the beginning of the next one."""
        return min(max(EVERY - self.took, SHARE * self.took), LONGEST)

    @property
    def unread(self) -> set[int]:
        """The formats of the claims that it has left out, because they cannot be read."""
        return self.others - {FORMAT}

    @property
    def whole(self) -> bool:
        """Whether it has all claims. Otherwise, what it does not have may be there."""
        return not self.cut and not self.unread

    @property
    def held(self) -> int:
        """How many claims are held."""
        return len(self.claims) - len(self.waiting)


async def look(client: AsyncClient, before: Look) -> Look:
    """Scan an engine. What has not changed since the look before is taken from there."""
    found = Look(before.number + 1)
    async for page in Pages(client._session):  # noqa: SLF001  # page by page: no method does that
        found.others |= page.others
        await _take(found, page, before)
        if len(found.claims) > MOST:
            found.cut = True
            break
    await _group(found, before)
    if any(claim.holding for claim in found.waiting):  # only waiters that hold locks can deadlock
        found.circles = await asyncio.to_thread(_circles, found)
        found.deadlocks = [each for ids, each in found.circles.items() if ids in before.circles]
    found.ended, found.at = now(), time.time()
    return found


async def _take(found: Look, page: Page, before: Look) -> None:
    for number, entry in enumerate(page.entries, 1):
        key, mark = key_of(entry.name, entry.id), mark_of(entry)
        claim = before.claims.get(key)
        if claim is not None and claim.mark == mark:
            claim.left = entry.left
        else:
            known = claim is not None and not claim.granted
            claim = Claim(entry, mark)
            if known and claim.granted:  # it has waited when we looked last
                claim.since = time.time()
            found.fresh.append(claim)
        found.claims[key] = claim
        if number % TURN == 0:
            await asyncio.sleep(0)


async def _group(found: Look, before: Look) -> None:
    alone: dict[str, Claim] = {}
    queues: dict[str, list[Claim]] = {}
    for number, claim in enumerate(found.claims.values(), 1):
        other = alone.setdefault(claim.name, claim)
        if other is not claim:
            queues.setdefault(claim.name, [other]).append(claim)
        if not claim.granted:
            found.waiting.append(claim)
        if number % TURN == 0:
            await asyncio.sleep(0)
    for number, name in enumerate(await in_order(list(alone), str), 1):
        queue = queues.get(name)
        found.locks[name] = alone[name] if queue is None else _queue(name, queue, before)
        if number % TURN == 0:
            await asyncio.sleep(0)


def _queue(name: str, claims: list[Claim], before: Look) -> Lock:
    claims.sort(key=place)
    old = before.locks.get(name)
    return old if old is not None and old.claims == tuple(claims) else Queue(name, claims)


def _circles(found: Look) -> Circles:
    queues = {claim.name: found.locks[claim.name].claims for claim in found.waiting}
    return circles(queues, {claim.id: claim.holding for claim in found.waiting})


async def in_order(
    values: Sequence[T], key: Callable[[T], Any], *, reverse: bool = False
) -> list[T]:
    """Return values sorted, without blocking the loop for long: the last sort only merges runs."""
    keys: list[Any] = []
    order: list[int] = []
    for start in range(0, len(values), RUN):
        keys += map(key, values[start : start + RUN])
        order += sorted(range(start, len(keys)), key=keys.__getitem__, reverse=reverse)
        await asyncio.sleep(0)
    order.sort(key=keys.__getitem__, reverse=reverse)
    await asyncio.sleep(0)
    return [values[place] for place in order]
