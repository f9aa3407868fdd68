"""Scans one engine, again and again while anybody looks: once for all viewers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from lockfast.aio import AsyncClient
from lockfast.errors import LockfastError
from lockfast.runtime.base import now
from lockfast.web.claim import Claim
from lockfast.web.history import History, gone_since
from lockfast.web.look import EVERY, TURN, Look, look
from lockfast.web.onlooker import Onlooker

IDLE = 10.0  # seconds after the last viewer's question, the scanning stops
FRESH = 3.0  # seconds that an old look may be shown for, before a new one is waited for
ASKED = 4  # names whose holder is gone, of which the records of breaks are read after each scan
PATIENCE = 3.0  # seconds that a viewer waits for the first scan


class Reader:
    """The looks at one engine, of which it keeps the last complete one."""

    def __init__(self, client: AsyncClient, onlooker: Onlooker) -> None:
        """Take a client. Nothing is sent before the first viewer asks."""
        self._client = client
        self._onlooker = onlooker
        self.last: Look | None = None
        self.trouble = ""
        """Why the latest scan has failed, or ""."""
        self.scans = 0
        """How many scans have begun."""
        self.history = History()
        self._asked = 0.0
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def age(self) -> float:
        """Seconds since the end of the last complete scan."""
        return 0.0 if self.last is None else now() - self.last.ended

    @property
    def fresh(self) -> bool:
        """Whether the last complete scan is as recent as planned."""
        return self.last is not None and self.age < FRESH + self.last.took + self.pause

    @property
    def pause(self) -> float:
        """Seconds from the end of a scan to the beginning of the next."""
        return EVERY if self.last is None else self.last.pause

    async def look(self, after: int = 0, patience: float = PATIENCE) -> Look | None:
        """Return the last complete look. Without one, or with an old one only, wait for the next.

        `after`: the number of the look that the viewer has. While there is no newer one, wait, for
        at most `patience` seconds.
        """
        self._asked = now()
        task = self._task
        if task is None or task.done():
            self._task = None
            if task is not None and not task.cancelled():
                task.result()  # raises what has ended it, if that was not idleness
            self._task = asyncio.create_task(self._run(), name="lockfast dashboard")
        until = self._asked + patience
        while not self._current(after) and now() < until:
            try:
                await asyncio.wait_for(self._news.wait(), until - now())
            except TimeoutError:
                break
        self._asked = max(self._asked, now())
        return self.last

    def _current(self, after: int) -> bool:
        if self.last is None or self.last.number == after:
            return bool(self.trouble) and not after
        return self.fresh or bool(self.trouble)

    async def _run(self) -> None:
        while now() - self._asked < IDLE:
            self.scans += 1
            gone: list[Claim] = []
            before = self.last or Look()
            try:
                self.last = await look(self._client, before)
                self.trouble = ""
            except LockfastError as error:
                self.trouble = error.message
            else:
                gone = await self._remember(before, self.last)
            news, self._news = self._news, asyncio.Event()
            news.set()
            await self._explain(gone)
            await asyncio.sleep(self.pause)

    async def _remember(self, before: Look, last: Look) -> list[Claim]:
        """Add to the history what has happened, and return the holders that are gone."""
        gone = gone_since(before, last)
        events = chain(self._onlooker.heard(), self.history.compare(before, last, gone))
        for number, event in enumerate(events, 1):
            self.history.add(event)
            if number % TURN == 0:
                await asyncio.sleep(0)
        last.fresh.clear()
        return [claim for claim in gone if claim.granted]

    async def _explain(self, gone: Iterable[Claim]) -> None:
        """Find out which of the holders that are gone were broken."""
        with suppress(LockfastError):  # the next scan says what is wrong with the engine
            for name in list(dict.fromkeys(claim.name for claim in gone))[:ASKED]:
                self.history.broke(name, await self._client.breaks(name))

    async def close(self) -> None:
        """Stop scanning."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
