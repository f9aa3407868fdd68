"""Acquisition and release of several claims together, all or nothing, on every engine."""

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
from lockfast.claims.resigning import failures, resign
from lockfast.claims.session import Session
from lockfast.errors import (
    Deadlock,
    EngineError,
    EngineRefused,
    EngineUnavailable,
    KindMismatch,
    LockfastError,
    Loss,
    NotAcquired,
)
from lockfast.port import Ask, Shape, Standing

B = TypeVar("B", bound=Bearer)
WELL_MET = 0.2  # seconds at most before an acquisition that gave way in a deadlock starts again
Standings = Sequence[Standing | Exception | None]


class Together(Generic[B]):
    """One acquisition of several locks."""

    def __init__(
        self,
        session: Session,
        shapes: Sequence[Shape],
        purpose: str,
        bearer_type: type[B],
        keeper: object,
    ) -> None:
        """Describe the acquisition. Nothing is sent.

        `keeper`: an object that lives exactly as long as the leases are wanted.
        """
        self._session = session
        self._shapes = shapes
        self._purpose = purpose
        self._bearer_type = bearer_type
        self._keeper = keeper
        self._bearers: list[B] = []
        self._trouble: EngineUnavailable | None = None
        """The error of the last request that was not answered."""
        self._life = min(shape.wait_ttl for shape in shapes)

    async def acquire(self, timeout: float | None, at_most: float, *, handed: bool) -> dict[str, B]:
        """Acquire all locks and return the leases by name.

        If all locks are free, this takes one round trip. Otherwise they are acquired one by one, in
        the order given. All callers of this method use the same order, so they never deadlock with
        each other. They can deadlock with other acquisitions. Then everything is released, and the
        acquisition starts again after a moment, unless the cycle contains a lock that was held
        before.

        `at_most`: seconds after the last grant from which none of them is renewed.
        `handed`: True if the caller keeps the leases, False if a `with` block keeps them.
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
        # An attempt that does not wait still has time for round trips, for all locks together.
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
            end = now() + at_most
            for bearer in self._bearers:
                bearer.claim.siblings = ids
                bearer.claim.limit = end
                bearer.claim.handed = handed
        except BaseException:
            self._give_up()
            raise
        return found

    async def _in_order(self, until: float | None, *, wait: bool) -> bool:
        """Acquire one lock after the other. Return False if the acquisition must start again,
        because it gave way in a deadlock, or lost one lease while it waited for the next.
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
        except (NotAcquired, KindMismatch, EngineError):
            await self._put_back(until)
            raise
        except BaseException:
            self._give_up()
            raise
        # The first lease may have been lost while the last one was waited for.
        if not any(bearer.claim.expired(now()) for bearer in self._bearers):
            return True
        await self._put_back(until)
        return False

    async def _at_once(self, until: float | None, *, wait: bool) -> bool:
        """Claim all locks without waiting. Return False, and keep nothing, if any was busy."""
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
            # Otherwise `_in_order` tries them one by one, until the deadline.
        except BaseException:
            self._give_up()
            raise
        await self._put_back(until)
        over = until is not None and session.runtime.now() >= until
        self._refuse(standings, sent, busy_too=over or not wait)
        return False

    def _refuse(self, standings: Standings, sent: float, *, busy_too: bool) -> None:
        """Raise an error that makes it pointless to acquire the locks one by one."""
        for shape, standing in zip(self._shapes, standings, strict=False):
            if isinstance(standing, EngineUnavailable):
                self._trouble = standing
            if isinstance(standing, (KindMismatch, EngineRefused)):
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
            ask.trace = observer.trace()
            ask.departs = session.on_disconnect
            bearer.claim = Claim(ask, owner, reference)

    def _answered(self, claim: Claim, sent: float, standing: Standing | Exception | None) -> None:
        table = self._session.table
        if isinstance(standing, EngineUnavailable) and standing.sent:
            return  # outcome unknown: the copy still counts, so the resignation is in doubt
        if isinstance(standing, Exception):
            claim.copies -= 1
        else:
            table.answered(claim, sent, standing, self._session.runtime.now())
        if claim.phase is not HELD:
            table.end(claim, Loss.GONE)  # not granted, so the engine has not kept it

    def _give_up(self) -> None:
        for bearer in self._bearers:
            give_up(self._session, bearer.claim)

    async def _put_back(self, until: float | None) -> None:
        """Release the locks acquired so far, in one attempt. The heart resigns what is left."""
        session = self._session
        now = session.runtime.now()
        try:
            held = [b.claim for b in self._bearers if session.table.releasing(b.claim, now)]
            if held:
                deadline = session.deadline(now, until, min(claim.shape.ttl for claim in held))
                doubt = any(claim.copies for claim in held)
                found = await resign(session.engine, held, deadline, doubt=doubt)
                session.table.resigned(found.keys() - failures(found).keys())
        except EngineError:
            pass
        finally:
            self._give_up()


async def release_all(session: Session, claims: Sequence[Claim]) -> None:
    """Release leases, in one round trip where the engine can do that.

    Raise `LeaseLost`, once, for the first lease that was lost before.
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
    deadline = session.deadline(now, None, min(claim.shape.ttl for claim in leaving))
    doubt = any(claim.copies for claim in leaving)
    found = await resign(session.engine, leaving, deadline, doubt=doubt)
    again = await resign_again(session, failures(found), deadline)
    for claim, there in (found | again).items():
        if claim.id in first and not there:
            table.missing(claim, session.runtime.now())
        table.end(claim)
