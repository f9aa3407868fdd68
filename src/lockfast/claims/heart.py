"""The heart: the one background thread or task of a client.

It renews all leases and waiters, resigns claims that were given up, receives pushes from the
engine, and notifies holders of losses.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol

from lockfast.claims.break_records import history
from lockfast.claims.claim import Claim
from lockfast.claims.renewing import CHUNK, chunks, named, patience, renew
from lockfast.claims.resigning import failures, resign
from lockfast.claims.table import Table, Work
from lockfast.errors import EngineError, EngineUnavailable, Loss
from lockfast.port import Engine
from lockfast.runtime.base import Runtime

log = logging.getLogger("lockfast")
EXPLAINING = 0.25  # seconds to ask the engine who broke a lease


class Owner(Protocol):
    """The session that a heart belongs to."""

    heart: Heart | None


class Heart:
    """A loop that sleeps in `listen` and then does what is due: a beat. It survives all errors."""

    def __init__(
        self,
        engine: Engine,
        table: Table,
        runtime: Runtime,
        owner: Callable[[], Owner | None],
    ) -> None:
        """Create a heart that is not running.

        `owner` is a weak reference to its session. The heart ends by itself when the session was
        dropped, or when the session has another heart.
        """
        self._engine = engine
        self._table = table
        self._runtime = runtime
        self._stopping = False
        self._owner = owner
        self._running = runtime.heart(self._live)
        self._last = False
        self._unexplained: deque[Claim] = deque(maxlen=CHUNK)
        """The last leases that were found GONE, whose breaks have not been looked up yet."""
        self.beating = False
        self.calling = False
        """Whether it is running callbacks of users."""

    def start(self) -> None:
        """Start the thread or task. `beating` is right even if Ctrl-C strikes after the start."""
        try:
            self._running.start()
        finally:
            self.beating = self._running.started()

    def here(self) -> bool:
        """Return whether the caller runs in a callback of this heart."""
        return self.calling and self._running.here()

    def stop(self) -> None:
        """Make the heart end after the present beat."""
        self._stopping = True

    async def end(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the heart to end, and close its engine.

        A heart that takes longer closes the engine itself, when it ends: a socket must not be
        closed while the heart polls it.
        """
        self._last = True
        if await self._running.join(timeout) or not self.beating:
            await self._engine.close()

    def _over(self) -> bool:
        owner = self._owner()
        return self._stopping or owner is None or owner.heart is not self

    async def _live(self) -> None:
        try:
            while not self._over():
                try:
                    await self._listen(self._table.plan())
                    await self._beat()
                except Exception:  # a bug of ours: if the heart ended, every lease would be lost
                    if self._over():
                        break
                    log.exception("internal error while renewing leases; lockfast continues")
                    self._table.restart(self._runtime.now())
                    await self._runtime.sleep(0.1)
        finally:
            # asyncio may have cancelled it together with all other tasks. Then the next acquisition
            # starts another heart. The connections stay open, since the bodies of `async with` that
            # are cancelled too release their leases through them.
            self.beating = False
            if self._last or self._owner() is None:
                await self._engine.close()

    async def _listen(self, until: float | None) -> None:
        wakes = await self._engine.listen(until)
        if wakes:
            self._table.wake(wakes, self._runtime.now())
            await self._runtime.sleep(0.0)  # let the woken run first: they hold a lock now

    async def _beat(self) -> None:
        work = self._table.work(self._runtime.now())
        self.calling = True
        for claim in work.lost:
            announce(claim)
        self._unexplained.extend(claim for claim in work.lost if claim.loss is Loss.GONE)
        for claim in work.wanted:
            wanted, claim.wanted = claim.wanted, ()
            if claim.loss is None:
                call(claim, wanted, "a callback of on_contended for %r failed")
        self.calling = False
        for claim in work.dropped:
            claim.account()
        await self._renew_all(work)
        if work.resign:  # after the renewals, and with little time: a late renewal costs more
            await self._resign(work.resign, work.patience)
        await self._explain(work.patience)

    async def _renew_all(self, work: Work) -> None:
        """Renew the claims that are due, the shortest ttl first."""
        requests = chunks(work.renew)
        limit = min([work.shortest / 2.0, *map(patience, work.renew)])
        began = self._runtime.now()
        for place, chunk in enumerate(requests):
            if place:
                if self._runtime.now() > began + limit:  # shorter ttls may be due by now
                    self._table.postpone(chain.from_iterable(requests[place:]), began)
                    return
                await self._listen(0.0)  # many renewals must not delay a wake
            late = await renew(
                *(self._engine, self._table, self._runtime.now, chunk, patience(chunk), limit)
            )
            if late:
                log.warning(
                    "a renewal was late: %s. The lease was in jeopardy, and is held again. Find "
                    "what paused this process or blocked its event loop, or use a longer ttl.",
                    named(late),
                )

    async def _explain(self, patience: float) -> None:
        """Ask the engine who broke the leases that were found GONE, and log it.

        Their holders have been notified by now, and all other claims are renewed. So this may take
        a small part of a beat, and may fail.
        """
        until = self._runtime.now() + min(EXPLAINING, patience / 4.0)
        while self._unexplained and self._runtime.now() < until:
            claim = self._unexplained.pop()
            if claim.broken is None:
                await explain(self._engine, claim, until)
                if claim.broken is not None:
                    log.error("the lease on %s is lost: %s.", named([claim]), claim.why())

    async def _resign(self, claims: Sequence[Claim], patience: float) -> None:
        for claim in claims:
            claim.account()
        deadline = self._runtime.now() + patience
        failed: list[Exception] = []
        confirmed = 0
        for start in range(0, len(claims), CHUNK):
            chunk = claims[start : start + CHUNK]
            answers = await resign(self._engine, chunk, deadline, doubt=True)
            errors = failures(answers)
            self._table.resigned(claim for claim in answers if claim not in errors)
            failed += errors.values()
            confirmed += len(chunk) - len(errors)
            if any(isinstance(error, EngineUnavailable) for error in errors.values()):
                break  # waiting for each chunk in turn could make the next renewals late
        if failed:
            log.info(
                "the engine did not confirm the release of %d of %d locks: %s",
                len(claims) - confirmed,
                len(claims),
                failed[0],
            )
            self._table.unresigned(self._runtime.now())


async def explain(engine: Engine, claim: Claim, deadline: float) -> None:
    """Set `claim.broken` if the engine has a record of who broke the claim."""
    try:
        records = await engine.records(claim.shape.name, deadline)
    except EngineError as error:
        log.info(
            "who broke the lock could not be read, for the lease on %s: %s", named([claim]), error
        )
        return
    claim.broken = next((each for each in history(records) if each.id == claim.id), None)


def announce(claim: Claim) -> None:
    """Log a lost lease, and run its `on_lost` callbacks."""
    if not claim.announced:
        claim.announced = True
        log.error(
            "the lease on %s is lost: %s. Stop the work that it protects, and acquire the lock "
            "again to continue.",
            named([claim]),
            claim.why(),
        )
        claim.account()
    callbacks, claim.callbacks = claim.callbacks, ()
    call(claim, callbacks, "a callback of on_lost for %r failed")


def call(claim: Claim, callbacks: Sequence[Callable[[], object]], said: str) -> None:
    """Run callbacks in the context in which the lease was acquired.

    Log `said`, with the name of the lock, if one fails.
    """
    for callback in callbacks:
        try:
            claim.context.run(callback)
        except BaseException:  # sys.exit() in a callback must not skip the next callback
            log.exception(said, claim.shape.name)
