"""The heart: one per client. It renews all leases and waiters, resigns what was given up, takes
pushes in, and tells holders what they have lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from lockfast.claims import Claims
from lockfast.errors import EngineError
from lockfast.live import Live
from lockfast.port import Engine
from lockfast.runtime.base import Running, Runtime

log = logging.getLogger("lockfast")
CHUNK = 64  # claims per renewal: a wake-up waits for no more than one chunk


class Heart:
    """Sleep in `listen`, then beat. Whatever goes wrong, it goes on."""

    def __init__(
        self, engine: Engine, claims: Claims, runtime: Runtime, current: Callable[[Heart], bool]
    ) -> None:
        """Make one that stands still. It ends by itself when it is not `current` any more."""
        self._engine = engine
        self._claims = claims
        self._runtime = runtime
        self._stopping = False
        self._idle_stopping = False
        self._current = current
        self._running: Running | None = None
        self.beating = False

    def start(self) -> None:
        """Start it."""
        self._running = self._runtime.start(self._live)
        self.beating = True

    def stop(self) -> None:
        """Let it end after the present beat."""
        self._stopping = True

    def idle_stop(self) -> None:
        """Let it end as soon as it has nothing to keep."""
        self._idle_stopping = True

    async def join(self, timeout: float) -> None:
        """Wait until it has ended, but no longer than that."""
        if self._running is not None:
            await self._running.join(timeout)

    def _over(self) -> bool:
        if self._idle_stopping and not self._claims:
            return True
        return self._stopping or not self._current(self)

    async def _live(self) -> None:
        try:
            while not self._over():
                try:
                    await self._listen(self._claims.plan())
                    await self._beat()
                except Exception:  # a bug: a dead heart would lose every lease
                    log.exception("lockfast's heart stumbled; it goes on")
                    self._claims.restart(self._runtime.now())
                    await self._runtime.sleep(0.1)
        finally:
            self.beating = (
                False  # cancelled with its loop, say: the next acquisition starts another
            )

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
        deadline = sent + min(5.0, min(live.shape.wait_ttl for live in lives) / 6.0)
        try:
            standings = await self._engine.renew(lives, deadline)
        except EngineError as error:
            log.info("renewal of %d claims failed: %s", len(lives), error)
            self._claims.unanswered(lives, self._runtime.now())
            return
        now = self._runtime.now()
        for live, standing in zip(lives, standings, strict=True):
            if isinstance(standing, Exception):
                log.warning("renewal of %r failed: %s", live.shape.name, standing)
                self._claims.unanswered([live], now)
            else:
                self._claims.renewed(live, sent, standing, now)

    async def _resign(self, lives: Sequence[Live]) -> None:
        deadline = self._runtime.now() + 1.0
        try:
            for start in range(0, len(lives), CHUNK):
                chunk = lives[start : start + CHUNK]
                await self._engine.resign(chunk, deadline, doubt=True)
                self._claims.resigned(chunk)
        except EngineError as error:
            log.info("resignation of %d claims failed: %s", len(lives), error)
            self._claims.unresigned(self._runtime.now())


def announce(live: Live) -> None:
    """Tell the holder of a lost lease, in the context in which it acquired."""
    callbacks, live.callbacks = live.callbacks, ()
    for callback in callbacks:
        try:
            live.context.run(callback)
        except BaseException:  # sys.exit() in one must not keep the next from being told
            log.exception("a callback on the loss of %r failed", live.shape.name)
