"""The heart: one per client. It renews all leases and waiters, resigns what was given up, takes
pushes in, and tells holders what they have lost.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lockfast.claims import Claims
from lockfast.errors import EngineError
from lockfast.live import Live
from lockfast.port import Engine
from lockfast.runtime.base import Runtime

log = logging.getLogger("lockfast")
CHUNK = 64  # claims per renewal: a wake-up waits for no more than one chunk


class Heart:
    """Sleep in `listen`, then beat. Whatever goes wrong, it goes on."""

    def __init__(self, engine: Engine, claims: Claims, runtime: Runtime) -> None:
        """Start it."""
        self._engine = engine
        self._claims = claims
        self._runtime = runtime
        self._stopping = False
        self._idle_stopping = False
        self.running = runtime.start(self._live)

    def stop(self) -> None:
        """Let it end after the present beat."""
        self._stopping = True

    def idle_stop(self) -> None:
        """Let it end as soon as it has nothing to keep."""
        self._idle_stopping = True

    def _over(self) -> bool:
        return self._stopping or (self._idle_stopping and not self._claims)

    async def _live(self) -> None:
        while not self._over():
            try:
                await self._listen(self._claims.plan())
                await self._beat()
            except Exception:  # a bug, or a callback's: a dead heart would lose every lease
                log.exception("lockfast's heart stumbled; it goes on")
                self._claims.restart(self._runtime.now())
                await self._runtime.sleep(0.1)

    async def _listen(self, until: float | None) -> None:
        wakes = await self._engine.listen(until)
        if wakes:
            self._claims.wake(wakes, self._runtime.now())

    async def _beat(self) -> None:
        work = self._claims.work(self._runtime.now())
        for live in work.lost:
            announce(live)
        if work.resign:
            await self._resign(work.resign)
        for batch in work.renew:
            for start in range(0, len(batch), CHUNK):
                if start:  # a crowd of renewals must not hold a wake-up up
                    await self._listen(0.0)
                await self._renew(batch[start : start + CHUNK])

    async def _renew(self, lives: Sequence[Live]) -> None:
        sent = self._runtime.now()
        # A sixth of the ttl, so that a lost request leaves time for two more attempts.
        deadline = sent + min(5.0, min(live.ask.shape.wait_ttl for live in lives) / 6.0)
        try:
            standings = await self._engine.renew([live.ask for live in lives], deadline)
        except EngineError as error:
            log.info("renewal of %d claims failed: %s", len(lives), error)
            self._claims.unanswered(lives, self._runtime.now())
            return
        now = self._runtime.now()
        for live, standing in zip(lives, standings, strict=True):
            if isinstance(standing, Exception):
                log.warning("renewal of %r failed: %s", live.ask.shape.name, standing)
                self._claims.unanswered([live], now)
            else:
                self._claims.renewed(live, sent, standing, now)

    async def _resign(self, lives: Sequence[Live]) -> None:
        deadline = self._runtime.now() + 1.0
        try:
            for start in range(0, len(lives), CHUNK):
                chunk = lives[start : start + CHUNK]
                await self._engine.resign([live.ask for live in chunk], deadline, doubt=True)
                self._claims.resigned(chunk)
        except EngineError as error:
            log.info("resignation of %d claims failed: %s", len(lives), error)
            self._claims.unresigned(self._runtime.now())


def announce(live: Live) -> None:
    """Tell the holder of a lost lease, in the context in which it acquired."""
    callbacks, live.callbacks = live.callbacks, []
    for callback in callbacks:
        try:
            live.context.run(callback)
        except Exception:  # one bad callback must not keep the next from being told
            log.exception("a callback on the loss of %r failed", live.ask.shape.name)
