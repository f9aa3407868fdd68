"""The stand-in: a thread that renews the leases of an asyncio client while its loop is blocked.

The heart of an asyncio client is a task of the event loop. A coroutine that blocks the loop, with
`time.sleep` or a long calculation, keeps the heart from its work too. The thread here watches
whether the heart is in time. If it is not, the thread asks the loop for a sign of life. If the loop
gives none, the thread renews what is held, through a blocking engine of its own, until the loop
runs again.

It renews holders and no waiters. A waiter whose loop is blocked could not begin its work if it was
granted the lock, and would keep all others from it. So it loses its place in the queue after its
wait_ttl, and its acquisition makes another claim when the loop runs again.

It renews nothing for a loop that has been stopped or closed: no coroutine continues there, and a
program that forgot its leases would otherwise keep them for ever. It cannot run either while C code
keeps the interpreter's lock (GIL), or while the whole process is stopped.

Losses that it finds are recorded in the table at once, so `lease.state` is right. The heart
announces them when the loop runs again, because callbacks and cancelled bodies belong to the loop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.claims.renewing import chunks, named, patience, renew
from lockfast.claims.table import Table
from lockfast.errors import Loss
from lockfast.port import Renewer
from lockfast.runtime.base import Runtime

log = logging.getLogger("lockfast")
LATE = 1 / 4  # of a renewal interval: if the heart is later than that, the loop may be blocked
SIGN = 1 / 8  # of an interval, to wait for the loop's sign of life
REST = 1 / 8  # of an interval, for which the thread sleeps at least
WORTH_SAYING = 3 / 4  # of an interval: a loop that was blocked for less has endangered no lease
CALM = 1.0  # seconds to sleep after an error that should not happen


class Owner(Protocol):
    """The session that a stand-in belongs to."""

    stand_in: StandIn | None


class StandIn:
    """The stand-in of one client. It sleeps while nothing is claimed, or until renewals are due."""

    def __init__(
        self,
        replace: Callable[[], Renewer],
        table: Table,
        runtime: Runtime,
        owner: Callable[[], Owner | None],
    ) -> None:
        """Create a stand-in that is not running.

        `replace` makes its engine, when the loop is found blocked for the first time.
        `owner` is a weak reference to its session. The thread ends when the session was dropped.
        """
        self._replace = replace
        self._renewer: Renewer | None = None
        self._table = table
        self._runtime = runtime
        self._owner = owner
        self._stopping = False
        self._running = runtime.beside(self._live)
        self._gate = threading.Lock()
        self._gate.acquire()
        self._back: float | None = None
        """When the loop gave the last sign of life; None while one is awaited."""

    def start(self) -> None:
        """Start the thread, if the runtime has one for this."""
        if self._running is None:
            return
        self._table.alert = self.rouse
        try:
            self._running.start()
        except RuntimeError as error:  # the acquisition that starts it needs no such thread
            log.warning(
                "lockfast cannot start the thread that renews leases while the event loop is "
                "blocked: %s",
                error,
            )

    def rouse(self) -> None:
        """End the present sleep, or the next one. From any thread; never raises."""
        try:
            self._gate.release()
        except RuntimeError:  # it is open already
            return

    async def end(self, timeout: float) -> None:
        """Make the thread end, and wait for that up to `timeout` seconds, without blocking."""
        self._stopping = True
        self.rouse()
        running, until = self._running, self._runtime.now() + timeout
        if running is not None and running.started():
            while not await running.ended(0.0) and self._runtime.now() < until:
                await self._runtime.sleep(0.001)

    def forget(self) -> None:
        """Drop the connections in a forked child, which does not have the thread."""
        if self._renewer is not None:
            self._renewer.reset()

    def _over(self) -> bool:
        owner = self._owner()
        return self._stopping or owner is None or owner.stand_in is not self

    def _sleep(self, until: float | None) -> None:
        left = -1.0 if until is None else max(until - self._runtime.now(), 0.0)
        self._gate.acquire(timeout=min(left, threading.TIMEOUT_MAX))

    async def _live(self) -> None:
        try:
            while not self._over():
                try:
                    await self._watch()
                except Exception:  # a bug of ours: without this thread, leases could be lost
                    log.exception(
                        "internal error while renewing leases for a blocked event loop; lockfast "
                        "continues"
                    )
                    self._sleep(self._runtime.now() + CALM)
        finally:
            if self._renewer is not None:
                await self._renewer.close()

    async def _watch(self) -> None:
        """Sleep until the heart should have worked. If it has not, ask the loop."""
        seen = self._table.watch()
        if seen is None:
            self._sleep(None)
            return
        due, interval = seen
        now = self._runtime.now()
        if now < due + LATE * interval:
            self._sleep(max(due + LATE * interval, now + REST * interval))
            return
        self._back = None
        if not self._runtime.post(self._sign) or self._signed(now + SIGN * interval):
            # The loop runs, and the heart waits for the engine. Or the loop does not run any more.
            self._sleep(self._runtime.now() + interval)
            return
        await self._bridge(due)

    def _sign(self) -> None:
        """Note that the loop runs. The loop calls this."""
        self._back = self._runtime.now()
        self.rouse()

    def _signed(self, until: float) -> bool:
        """Wait until the loop has given a sign of life, or until then. Return whether it has."""
        while self._back is None and self._runtime.now() < until and not self._over():
            self._sleep(until)
        return self._back is not None

    async def _bridge(self, since: float) -> None:
        """Renew what is held until the loop runs again. Then say for how long it was blocked."""
        kept: dict[Claim, None] = {}
        shortest = float("inf")
        while self._back is None and not self._over():
            seen = self._table.watch()
            if seen is None:
                break
            shortest = min(shortest, seen[1])
            kept |= dict.fromkeys(await self._renew())
            self._signed(self._runtime.now() + LATE * shortest)
        back = self._back or self._runtime.now()
        # A lease may have been released by now, if the loop was blocked at the end of its body.
        held = [claim for claim in kept if claim.loss in {None, Loss.RELEASED}]
        if held and back - since >= WORTH_SAYING * shortest:
            log.warning(
                "the event loop was blocked for %.3g s or more. Another thread renewed the leases "
                "meanwhile: %s. Find the call that blocked the event loop.",
                back - since,
                named(held),
            )

    async def _renew(self) -> list[Claim]:
        """Renew the held claims that are due, and return them."""
        now = self._runtime.now
        claims = self._table.stranded(now())
        if not claims:
            return []
        if self._renewer is None:
            self._renewer = self._replace()
        by_ttl: dict[float, list[Claim]] = {}
        for claim in claims:
            by_ttl.setdefault(claim.life, []).append(claim)
        batches = list(by_ttl.values())
        # Twice as long as the heart waits: the first request has to connect.
        limit = 2.0 * min(map(patience, batches))
        began = now()
        for chunk in chunks(batches):
            if now() > began + limit:  # shorter ttls may be due by now
                break
            await renew(self._renewer, self._table, now, chunk, limit, limit)
        self._table.rouse()  # for the losses, which the heart announces
        return [claim for claim in claims if claim.phase is HELD and claim.kept >= began]
