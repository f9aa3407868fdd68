"""The heart: one per client. It renews all leases and waiters, resigns what was given up, takes
pushes in, and tells holders what they have lost.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol

from lockfast.claims.break_records import history
from lockfast.claims.claim import Claim
from lockfast.claims.table import Table, Work
from lockfast.errors import EngineError, Loss
from lockfast.port import Engine
from lockfast.runtime.base import Runtime

log = logging.getLogger("lockfast")
NAMED = 5  # leases that a warning names
EXPLAINING = 0.25  # seconds for asking who broke a lease
CHUNK = 64  # claims per renewal: a wake-up waits for no more than one chunk


class Owner(Protocol):
    """Whose heart it is."""

    heart: Heart | None


class Heart:
    """Sleep in `listen`, then beat. Whatever goes wrong, it goes on."""

    def __init__(
        self,
        engine: Engine,
        table: Table,
        runtime: Runtime,
        owner: Callable[[], Owner | None],
    ) -> None:
        """Make one that stands still. `owner` is a weak reference: the heart of a client that
        nobody has any more ends by itself, and so does one that another has replaced.
        """
        self._engine = engine
        self._table = table
        self._runtime = runtime
        self._stopping = False
        self._owner = owner
        self._running = runtime.heart(self._live)
        self._last = False
        self._unexplained: deque[Claim] = deque(maxlen=CHUNK)
        """Leases that the engine no longer had, the last of many."""
        self.beating = False
        self.calling = False
        """Whether it runs callbacks of users now."""

    def start(self) -> None:
        """Start it. Known to be beating even if Ctrl-C strikes right after the start."""
        try:
            self._running.start()
        finally:
            self.beating = self._running.started()

    def here(self) -> bool:
        """Return whether the caller is a callback that this heart runs now."""
        return self.calling and self._running.here()

    def stop(self) -> None:
        """Let it end after the present beat."""
        self._stopping = True

    async def end(self, timeout: float) -> None:
        """Wait until it has ended, but no longer than that, and close its engine.

        A heart that takes longer does that itself: nobody may close a socket under its poll.
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
                except Exception:  # a bug: a dead heart would lose every lease
                    if self._over():
                        break
                    log.exception("lockfast's heart stumbled; it goes on")
                    self._table.restart(self._runtime.now())
                    await self._runtime.sleep(0.1)
        finally:
            # It may have been cancelled with its loop: then the next acquisition starts another,
            # and the connections stay, since bodies that are being cancelled release through them.
            self.beating = False
            if self._last or self._owner() is None:
                await self._engine.close()

    async def _listen(self, until: float | None) -> None:
        wakes = await self._engine.listen(until)
        if wakes:
            self._table.wake(wakes, self._runtime.now())
            await self._runtime.sleep(0.0)  # the woken go first: they hold something

    async def _beat(self) -> None:
        work = self._table.work(self._runtime.now())
        self.calling = True
        for claim in work.lost:
            announce(claim)
        self._unexplained.extend(claim for claim in work.lost if claim.loss is Loss.GONE)
        for claim in work.wanted:
            wanted, claim.wanted = claim.wanted, ()
            if claim.loss is None:
                call(claim, wanted, "a callback on waiters for")
        self.calling = False
        for claim in work.dropped:
            claim.account()
        await self._renew_all(work)
        if work.resign:  # last, and briefly: a renewal that is late costs more
            await self._resign(work.resign, work.patience)
        await self._explain(work.patience)

    async def _renew_all(self, work: Work) -> None:
        """Renew what is due, the shortest ttl first.

        A part of the engine may be silent while others answer: a server of an ensemble, a shard.
        What waits for it must not cost a lease of a short ttl that another server would renew.
        """
        batches = sorted(work.renew, key=lambda batch: batch[0].shape.wait_ttl)
        chunks = [
            batch[start : start + CHUNK]
            for batch in batches
            for start in range(0, len(batch), CHUNK)
        ]
        limit = min([work.shortest / 2.0, *map(_patience, batches)])
        began = self._runtime.now()
        for place, chunk in enumerate(chunks):
            if place:
                if self._runtime.now() > began + limit:  # others may be due by now
                    self._table.postpone(chain.from_iterable(chunks[place:]), began)
                    return
                await self._listen(0.0)  # a crowd of renewals must not hold a wake-up up
            await self._renew(chunk, limit)

    async def _renew(self, claims: Sequence[Claim], limit: float) -> None:
        sent = self._runtime.now()
        # At first there is time for another attempt; later it may be the connection that is slow.
        early = all(sent < claim.until - claim.shape.wait_ttl / 2.0 for claim in claims)
        deadline = sent + min(_patience(claims), limit if early else 2.0 * limit)
        late: list[Claim] = []
        try:
            standings = await self._engine.renew([claim.ask for claim in claims], deadline)
        except EngineError as error:
            worried, why = self._table.unanswered(claims, self._runtime.now()), str(error)
        else:
            worried, late = self._table.renewed(claims, sent, standings, self._runtime.now())
            why = ", ".join({str(each) for each in standings if isinstance(each, Exception)})
        if worried:
            log.warning(
                "in jeopardy, a renewal failed: %s: %s. It is tried again until the lease is lost "
                "in %.3g s: look after the engine.",
                named(worried),
                why,
                max(min(claim.until for claim in worried) - self._runtime.now(), 0.0),
            )
        if late:
            log.warning(
                "in jeopardy until now, a renewal was late: %s. It came in time; look for what "
                "stopped this process or blocked its event loop, or take a longer ttl.",
                named(late),
            )

    async def _explain(self, patience: float) -> None:
        """Ask the engine who broke leases that it no longer had. Their holders know of the loss by
        now, and all others are renewed: this may take a small part of a beat, and may fail.
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
        try:
            for start in range(0, len(claims), CHUNK):
                chunk = claims[start : start + CHUNK]
                await self._engine.resign([claim.ask for claim in chunk], deadline, doubt=True)
                self._table.resigned(chunk)
        except EngineError as error:
            log.info("resignation of %d claims failed: %s", len(claims), error)
            self._table.unresigned(self._runtime.now())


def _patience(claims: Sequence[Claim]) -> float:
    """Return how long a renewal may take: a sixth of the ttl, so that a lost request leaves time
    for two more attempts.
    """
    return min(5.0, min(claim.shape.wait_ttl for claim in claims) / 6.0)


async def explain(engine: Engine, claim: Claim, deadline: float) -> None:
    """Find out who broke a lease that the engine no longer has, if somebody did and it tells."""
    try:
        records = await engine.records(claim.shape.name, deadline)
    except EngineError as error:
        log.info("why the lease on %s is lost could not be read: %s", named([claim]), error)
        return
    claim.broken = next((each for each in history(records) if each.id == claim.id), None)


def named(claims: Sequence[Claim]) -> str:
    """Name leases, the first of them, with their tokens."""
    names = [
        f"{claim.shape.name!r} ({'token' if claim.shape.exclusive else 'ticket'} {claim.ticket})"
        for claim in claims[:NAMED]
    ]
    more = f" and {len(claims) - NAMED} more" if len(claims) > NAMED else ""
    return ", ".join(names) + more


def announce(claim: Claim) -> None:
    """Tell the holder of a lost lease, in the context in which it acquired."""
    if not claim.announced:
        claim.announced = True
        log.error(
            "the lease on %s is lost: %s. Stop what it protects, and acquire again to go on.",
            named([claim]),
            claim.why(),
        )
        claim.account()
    callbacks, claim.callbacks = claim.callbacks, ()
    call(claim, callbacks, "a callback on the loss of")


def call(claim: Claim, callbacks: Sequence[Callable[[], object]], what: str) -> None:
    """Run callbacks in the context in which the lease was acquired."""
    for callback in callbacks:
        try:
            claim.context.run(callback)
        except BaseException:  # sys.exit() in one must not keep the next from being told
            log.exception("%s %r failed", what, claim.shape.name)
