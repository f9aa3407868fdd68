"""The session behind one client, sync or async: its engine, its table of claims and its heart."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from lockfast.claims.claim import Claim
from lockfast.claims.heart import Heart
from lockfast.claims.ids import Ids
from lockfast.claims.phases import ENDED
from lockfast.claims.renewing import named
from lockfast.claims.resigning import failures, resign
from lockfast.claims.stand_in import StandIn
from lockfast.claims.table import Table
from lockfast.errors import (
    ClientClosed,
    EngineUnavailable,
    GuaranteeMissing,
    Loss,
)
from lockfast.guarantees import Guarantees, Level
from lockfast.port import CLOSING, Engine
from lockfast.runtime import fork
from lockfast.runtime.base import Runtime
from lockfast.runtime.mutex import Mutex
from lockfast.url import Target

log = logging.getLogger("lockfast")
IO = 5.0  # seconds after which an unanswered request is given up
DEADLOCK = 1.0  # seconds after which a waiter that holds other locks searches for a deadlock
PARTING = 2.0  # seconds that closing a client may take
SHARE = 0.1  # seconds that each attempt to resign gets at least

sessions: weakref.WeakValueDictionary[int, Session] = weakref.WeakValueDictionary()
"""All sessions of this process. Telemetry reads it from any thread, to count held locks."""


class Session:
    """The state of one client. It opens the engine on first use, so that a client can be created at
    module level.
    """

    engine: Engine
    """Set by the first `enter`."""
    _ids: Ids
    """Set by the first `enter` too, because the engine may have given the client a name."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        runtime: Runtime,
        require: Level | str | None = None,
        deadlock_after: float | None = DEADLOCK,
        target: Target | None = None,
    ) -> None:
        """Create the session without opening the engine.

        `require`: the level that the engine must guarantee, checked before the first claim.
        `target`: the address of the engine, for telemetry.
        """
        if deadlock_after is not None:
            said = f"deadlock_after must be seconds above 0, or None, not {deadlock_after!r}"
            if isinstance(deadlock_after, bool) or not isinstance(deadlock_after, (int, float)):
                raise TypeError(said)
            if not deadlock_after > 0.0:
                raise ValueError(said)
        self.deadlock_after = deadlock_after
        self.unproven = None if require is None else Level.of(require)
        self._open_engine = open_engine
        self.runtime = runtime
        self.closed = False
        self._begin()
        self.target = target
        fork.watch(self)
        sessions[id(self)] = self

    def _begin(self) -> None:
        self._opened: Engine | None = None
        self.on_disconnect = 0.0
        """The `Ask.departs` of all claims except those with `at_least`."""
        self.__dict__.pop("engine", None)
        self.__dict__.pop("_ids", None)
        self.table = Table()
        self.heart: Heart | None = None
        self.stand_in: StandIn | None = None
        self._starting = Mutex()
        self._heard = False
        self.holds: weakref.WeakValueDictionary[tuple[object, str], Any] = (
            weakref.WeakValueDictionary()
        )
        """The re-entrant holds, by owner (thread or task) and name."""

    def enter(self) -> None:
        """Check that the client may be used here, and start the heart unless it runs."""
        self.runtime.enter()
        heart = self.heart
        if heart is None or not heart.beating:
            self._start()

    def _start(self) -> None:
        """Open the engine if that was not done yet, and start a heart if none runs."""
        with self._starting:
            if self.closed:
                raise ClientClosed("this lockfast client is closed. Call connect() again.")
            engine = self._opened
            if engine is None:
                # `setdefault` is one step: a signal handler may have opened another engine by now.
                made = self._open_engine()
                engine = self.__dict__.setdefault("engine", made)
                if engine is not made:
                    made.reset()
                self.__dict__.setdefault("_ids", Ids(getattr(engine, "client", None)))
                self.on_disconnect = getattr(engine, "on_disconnect", 0.0)
                self.table.rouse = engine.rouse
                weakref.finalize(self, engine.rouse).atexit = False
                self._opened = engine
                self._begin_standing_in(engine)
            heart = self.heart
            if heart is None or not heart.beating:
                if heart is not None:
                    self.table.restart(self.runtime.now())
                # Assigned before it runs: Ctrl-C while it starts must not lead to a second heart.
                heart = self.heart = Heart(engine, self.table, self.runtime, weakref.ref(self))
                engine.rouse()  # a heart that was replaced wakes up, notices it, and ends
                if self.heart is heart:  # else a signal handler has started another
                    heart.start()

    def new_id(self) -> str:
        """Return the id of a new claim. From the first one on, the client receives wakes: a command
        that only reads needs no right to subscribe.
        """
        if not self._heard:
            self.engine.hear(self._ids.client, on=True)
            self._heard = True
        return self._ids.new()

    def _begin_standing_in(self, engine: Engine) -> None:
        """Start the thread that renews while the event loop is blocked, if the engine allows it."""
        replace = getattr(engine, "stand_in", None)
        if replace is not None and self.stand_in is None:
            stand_in = StandIn(replace, self.table, self.runtime, weakref.ref(self))
            self.stand_in = stand_in
            weakref.finalize(self, stand_in.rouse).atexit = False
            stand_in.start()

    @staticmethod
    def deadline(now: float, until: float | None, life: float) -> float:
        """Return the deadline of a request, at most `life` or IO seconds from now.

        A reply is useless after the claim's `life`. `until` limits the wait for the grant, so a
        wait of a millisecond still allows 0.25 s for one round trip.
        """
        if until is None and life >= IO:
            return now + IO
        latest = now + min(life, IO)
        return latest if until is None else min(latest, max(until, now + 0.25))

    async def guarantees(self) -> Guarantees:
        """Return what the engine guarantees in its present setup."""
        self.enter()
        return await self.engine.guarantees(self.runtime.now() + IO)

    async def prove(self, required: Level) -> None:
        """Raise `GuaranteeMissing` if the engine guarantees less than the required level."""
        found = await self.guarantees()
        if found.level < required:
            raise GuaranteeMissing(
                f"{required.name.lower()} is required, but {found.sentence} {found.lacks(required)}"
            )
        self.unproven = None

    async def close(self, patience: float = PARTING) -> None:
        """Release all leases, resign all waiters and stop the heart, within `patience` seconds."""
        if self.closed:
            return
        self.closed = True
        claims = self.table.close()
        engine, heart = self._opened, self.heart
        if engine is None:
            return
        now = self.runtime.now()
        end = now + max(patience - CLOSING, patience / 2.0)
        if heart is not None:
            heart.stop()
            engine.rouse()
        # Including claims that were sent and not answered yet: the engine may have them, and
        # nothing else would resign them.
        leaving = [claim for claim in claims if claim.phase is not ENDED and now >= claim.keep]
        for claim in leaving:
            claim.lose(Loss.RELEASED)
        try:
            if leaving:
                await self._part(engine, leaving, end)
        finally:
            for claim in claims:
                self.table.end(claim)
                claim.account()
            if heart is not None:
                # If a signal handler has interrupted the table, the heart cannot enter the table
                # before the handler returns. Then do not wait for the heart: it ends afterwards.
                rest = 0.0 if self.table.inside() else max(end - self.runtime.now(), 0.1)
                await heart.end(rest)
            if self.stand_in is not None:
                await self.stand_in.end(max(end - self.runtime.now(), 0.1))

    async def _part(self, engine: Engine, leaving: Sequence[Claim], end: float) -> None:
        """Resign claims until the engine answers, or until `end`. Log those that it may still have.

        Each attempt gets half of the time that is left. The connection may have died while it was
        idle, and a second attempt on a new one then needs time too.
        """
        pause, left = 0.0, leaving
        while left:
            now = self.runtime.now()
            share = max((end - now) / 2.0, SHARE)
            failed = failures(await resign(engine, left, now + share, doubt=True))
            left, errors = list(failed), list(failed.values())
            now = self.runtime.now()
            again = any(isinstance(error, EngineUnavailable) for error in errors)
            if again and now + pause + SHARE < end:
                await self.runtime.sleep(pause)
                pause = max(2.0 * pause, SHARE / 10.0)
            elif failed:
                log.warning(
                    "the client was closed, but the engine did not confirm the release: %s may "
                    "stay taken for up to %.3g s, until the ttl is over: %s",
                    named(left),
                    max(_longest(claim, now) for claim in left),
                    errors[0],
                )
                return

    def after_fork(self) -> None:
        """Reset a forked child: it gets its own connections and heart, and none of the leases."""
        self.table.disown()
        self.runtime.forget()
        if self._opened is not None:
            self._opened.reset()
        if self.stand_in is not None:
            self.stand_in.forget()
        self._begin()


def _longest(claim: Claim, now: float) -> float:
    """Return for how many seconds the engine can keep the claim. A request that was not answered
    may have renewed it.
    """
    known = not claim.unsure and claim.until > now
    return claim.until - now if known else claim.shape.ttl
