"""Many claims at once: all or nothing, for threads, asyncio and every engine."""

from __future__ import annotations

import random
import weakref
from collections.abc import Sequence
from typing import Generic, TypeVar

from lockfast.claims import observer, payload
from lockfast.claims.acquire import Bearer, acquire, busy, refuse_in_callback
from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD, LEAVING
from lockfast.claims.release import explained, give_up, lost, resign_again
from lockfast.claims.session import Session
from lockfast.errors import (
    CapacityMismatch,
    Deadlock,
    EngineError,
    EngineRefused,
    EngineUnavailable,
    LockfastError,
    Loss,
    NotAcquired,
)
from lockfast.port import Ask, Shape, Standing

B = TypeVar("B", bound=Bearer)
WELL_MET = 0.2  # seconds at most before whoever gave way in a deadlock begins again
Standings = Sequence[Standing | Exception | None]


class Together(Generic[B]):
    """One acquisition of several."""

    def __init__(
        self,
        session: Session,
        shapes: Sequence[Shape],
        purpose: str,
        bearer_type: type[B],
        keeper: object,
    ) -> None:
        """`keeper`: something that lives exactly as long as the leases are wanted."""
        self._session = session
        self._shapes = shapes
        self._purpose = purpose
        self._bearer_type = bearer_type
        self._keeper = keeper
        self._bearers: list[B] = []
        self._trouble: EngineUnavailable | None = None
        """The last request that was not answered."""
        self._life = min(shape.wait_ttl for shape in shapes)

    async def acquire(self, timeout: float | None, *, handed: bool) -> dict[str, B]:
        """Make all claims in one round trip if all are free; else one by one, in the order given.

        Everybody takes names in the same order, so those who do it this way never wait in a
        circle. With others it can happen: then everything is given back, and begun again after a
        moment, unless the circle goes through something that was held before.

        `handed`: whoever gets the leases keeps them; otherwise a block does.
        """
        session = self._session
        session.enter()
        if session.unproven is not None:
            await session.prove(session.unproven)
        now = session.runtime.now
        began = now()
        wait = timeout is None or timeout > 0.0
        if wait:
            refuse_in_callback(session, f"acquire() of {self._shapes[0].name!r}")
        # Without waiting, there is still time for round trips, for all of them together.
        limit = None if timeout is None else began + (timeout if wait else self._life)
        done = await self._at_once(limit, wait=wait)
        while not done:
            try:
                done = await self._in_order(limit, wait=wait)
            except NotAcquired as error:
                raise NotAcquired(error.name, now() - began, error.holder) from None
        try:
            found = {bearer.claim.shape.name: bearer for bearer in self._bearers}
            ids = [bearer.claim.id for bearer in self._bearers]
            for bearer in self._bearers:
                bearer.claim.siblings = ids
                bearer.claim.handed = handed
        except BaseException:
            self._give_up()
            raise
        return found

    async def _in_order(self, until: float | None, *, wait: bool) -> bool:
        """Claim one after the other. False: it met others in a circle, or lost one while it waited
        for the next, and is to begin again.
        """
        session, now = self._session, self._session.runtime.now
        self._bearers = []
        try:
            for shape in self._shapes:
                left = None if until is None else until - now()
                if left is not None and left <= 0.0:
                    raise self._trouble or busy(shape, None, 0.0)
                bearer = await acquire(
                    session,
                    shape,
                    left if wait else 0.0,
                    self._purpose,
                    self._bearer_type,
                    self._keeper,
                    limit=until,
                )
                self._bearers.append(bearer)
        except Deadlock as error:
            ours = {"", *(bearer.claim.id for bearer in self._bearers)}
            await self._put_back(until)
            pause = random.uniform(0.0, WELL_MET)  # noqa: S311  # no secret
            if error.claim not in ours or (until is not None and now() + pause >= until):
                raise
            await session.runtime.sleep(pause)
            return False
        except (NotAcquired, CapacityMismatch, EngineError):
            await self._put_back(until)
            raise
        except BaseException:
            self._give_up()
            raise
        # While the last was waited for, the first may have been lost: then it is not all.
        if not any(bearer.claim.expired(now()) for bearer in self._bearers):
            return True
        await self._put_back(until)
        return False

    async def _at_once(self, until: float | None, *, wait: bool) -> bool:
        """Claim all without standing in line. False if any was busy: then nothing is kept."""
        session = self._session
        sent = session.runtime.now()
        self._ask(sent)
        claims = [bearer.claim for bearer in self._bearers]
        standings: Standings = ()
        try:
            for claim in claims:
                session.table.register(claim, sent)
                claim.copies = 1
            deadline = session.deadline(sent, until, self._life)
            standings = await session.engine.claim_all([claim.ask for claim in claims], deadline)
            for claim, standing in zip(claims, standings, strict=True):
                self._answered(claim, sent, standing)
            if all(claim.phase is HELD for claim in claims):
                self._granted(claims, sent)
                return True
        except EngineUnavailable:
            if until is not None and session.runtime.now() >= until:
                self._give_up()
                raise
            # Otherwise each is tried until its deadline, one by one.
        except BaseException:
            self._give_up()
            raise
        await self._put_back(until)
        over = until is not None and session.runtime.now() >= until
        self._refuse(standings, sent, busy_too=over or not wait)
        return False

    def _refuse(self, standings: Standings, sent: float, *, busy_too: bool) -> None:
        """Raise what speaks against going on one by one."""
        for shape, standing in zip(self._shapes, standings, strict=False):
            if isinstance(standing, EngineUnavailable):
                self._trouble = standing
            if isinstance(standing, (CapacityMismatch, EngineRefused)):
                raise self._failed(shape, sent, standing)
            if isinstance(standing, Standing) and not standing.granted and busy_too:
                raise self._failed(shape, sent, busy(shape, standing.blocker, 0.0))

    def _granted(self, claims: Sequence[Claim], sent: float) -> None:
        if observer.watcher is not None:
            for claim in claims:
                claim.record = observer.watcher.granted(self._session, claim, sent)

    def _failed(self, shape: Shape, sent: float, error: LockfastError) -> LockfastError:
        if observer.watcher is not None:
            observer.watcher.failed(self._session, shape, sent, error)
        return error

    def _ask(self, now: float) -> None:
        session = self._session
        owner, name = session.runtime.worker()
        holding = session.table.holding(owner)
        described = payload.write(name, self._purpose, now, holding, "", self._shapes[0].ttl)
        reference = weakref.ref(self._keeper)
        self._bearers = [self._bearer_type(session) for _ in self._shapes]
        for bearer, shape in zip(self._bearers, self._shapes, strict=True):
            late = now + shape.wait_ttl
            ask = Ask(session.new_id(), shape, False, late, described)  # noqa: FBT003  # no queue
            bearer.claim = Claim(ask, owner, reference)

    def _answered(self, claim: Claim, sent: float, standing: Standing | Exception | None) -> None:
        table = self._session.table
        if isinstance(standing, EngineUnavailable) and standing.sent:
            return  # unknown: given up as such
        if isinstance(standing, Exception):
            claim.copies -= 1
        else:
            table.answered(claim, sent, standing, self._session.runtime.now())
        if claim.phase is not HELD:
            table.end(claim, Loss.GONE)  # not granted, so not kept

    def _give_up(self) -> None:
        for bearer in self._bearers:
            give_up(self._session, bearer.claim)

    async def _put_back(self, until: float | None) -> None:
        """Release what was taken in vain, in one attempt; the heart does the rest."""
        session = self._session
        now = session.runtime.now()
        try:
            held = [b.claim for b in self._bearers if session.table.releasing(b.claim, now)]
            if held:
                doubt = any(claim.copies for claim in held)
                deadline = session.deadline(now, until, min(claim.shape.ttl for claim in held))
                await session.engine.resign([claim.ask for claim in held], deadline, doubt=doubt)
                for claim in held:
                    session.table.end(claim)
        except EngineError:
            pass
        finally:
            self._give_up()


async def release_all(session: Session, claims: Sequence[Claim]) -> None:
    """Release leases, in one round trip where the engine can; `LeaseLost`, once, for the first
    of which there was nothing left to give back.
    """
    if any(claim.loss is Loss.FOREIGN for claim in claims):
        return
    session.runtime.enter()
    try:
        await _resign_all(session, claims, session.runtime.now())
    except BaseException:
        for claim in claims:
            give_up(session, claim)
        raise
    for claim in claims:
        if claim.record is not None:
            claim.account()
    for claim in claims:
        if claim.loss is not Loss.RELEASED and not claim.told:
            await explained(session, claim)
            for each in claims:
                each.told = True
            raise lost(claim)


async def _resign_all(session: Session, claims: Sequence[Claim], now: float) -> None:
    table = session.table
    first = {claim.id for claim in claims if table.releasing(claim, now)}
    leaving = [claim for claim in claims if claim.phase is LEAVING and claim.loss is Loss.RELEASED]
    if not leaving:
        return
    doubt = any(claim.copies for claim in leaving)
    deadline = session.deadline(now, None, min(claim.shape.ttl for claim in leaving))
    try:
        removed = await session.engine.resign(
            [claim.ask for claim in leaving], deadline, doubt=doubt
        )
    except EngineUnavailable as error:
        removed = await resign_again(session, leaving, deadline, error)
    for claim, there in zip(leaving, removed, strict=True):
        if claim.id in first and not there:
            table.missing(claim, session.runtime.now())
        table.end(claim)
