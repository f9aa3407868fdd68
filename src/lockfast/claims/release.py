"""Release of a lease, and giving a claim up without waiting for the engine."""

from __future__ import annotations

import random
from collections.abc import Mapping

from lockfast.claims.claim import Claim
from lockfast.claims.heart import EXPLAINING, explain
from lockfast.claims.phases import HELD, LEAVING
from lockfast.claims.resigning import failures, resign
from lockfast.claims.session import Session
from lockfast.core.validity import DRIFT
from lockfast.errors import EngineUnavailable, LeaseLost, Loss

PATIENCE = 2.0  # seconds that a release may wait for a renewal


def give_up(session: Session, claim: Claim) -> None:
    """Give a claim up without waiting for the engine. The heart resigns it. Never raises."""
    claim.lose(Loss.RELEASED)
    now = session.runtime.now()
    if now < claim.keep:
        session.table.linger(claim)
    elif session.table.leave(claim, now) and not session.closed:
        session.engine.abandon([claim.ask])
    if claim.record is not None:
        claim.account()


async def release(session: Session, claim: Claim) -> None:
    """Release a lease. Raise `LeaseLost`, once, if it was lost before.

    Nothing is forgotten before the engine has answered. So a release that failed can be called
    again (trap 3), and the heart keeps trying in the meantime.
    """
    table, runtime = session.table, session.runtime
    if claim.loss is Loss.FOREIGN:
        return  # a forked child leaves its parent's block: it has no event loop, and holds nothing
    runtime.enter()
    try:
        if claim.keep and claim.phase is HELD:
            await _secure(session, claim)
        now = runtime.now()
        first = table.releasing(claim, now)
        if not first and (claim.phase is not LEAVING or claim.loss is not Loss.RELEASED):
            pass  # it was released before, or is lost
        elif now < claim.keep:
            table.linger(claim)
        else:
            deadline = session.deadline(now, None, claim.shape.ttl)
            if not await _removed(session, claim, deadline) and first:
                table.missing(claim, runtime.now())
            table.end(claim)
    except BaseException:
        give_up(session, claim)
        raise
    if claim.record is not None:
        claim.account()
    if claim.loss is not Loss.RELEASED and not claim.told:
        await explained(session, claim)
        claim.told = True
        raise lost(claim)


async def _removed(session: Session, claim: Claim, deadline: float) -> bool:
    """Resign a claim, and return whether it was there."""
    removed: bool | Exception
    try:
        removed = (await session.engine.resign((claim.ask,), deadline, doubt=claim.copies > 0))[0]
    except EngineUnavailable as error:
        removed = error
    if isinstance(removed, Exception):
        return (await resign_again(session, {claim: removed}, deadline))[claim]
    return removed


async def explained(session: Session, claim: Claim) -> None:
    """Look up who broke a GONE lease, within EXPLAINING seconds, before `LeaseLost` is raised."""
    if claim.loss is Loss.GONE and claim.broken is None and not session.closed:
        await explain(session.engine, claim, session.runtime.now() + EXPLAINING)


async def _secure(session: Session, claim: Claim) -> None:
    """Before an `at_least` lease is released, wait up to 2 s for a renewal that outlasts `keep`.

    A claim that was granted while it waited has only the rest of its wait_ttl, until the heart has
    renewed it.
    """
    runtime, enough = session.runtime, claim.keep - 2.0 * DRIFT * claim.shape.ttl
    end = min(runtime.now() + PATIENCE, claim.keep, claim.until)
    if claim.until < enough:
        session.table.hasten(claim, runtime.now())
    while claim.until < enough and claim.phase is HELD and runtime.now() < end:
        await runtime.sleep(0.002)


async def resign_again(
    session: Session, failed: Mapping[Claim, Exception], deadline: float
) -> dict[Claim, bool]:
    """Resign claims again whose resignation has failed, until the engine has answered for each.
    Raise an error at the deadline, or if the engine refuses.

    Return for each claim whether this release has removed it. If an earlier request was not
    answered, that request has removed a claim that is not there now.
    """
    runtime, left = session.runtime, dict(failed)
    found: dict[Claim, bool] = {}
    unanswered: set[Claim] = set()
    pause = 0.0
    while left:
        for claim, error in left.items():
            if not isinstance(error, EngineUnavailable) or runtime.now() + pause >= deadline:
                raise error
            if error.sent:
                unanswered.add(claim)
        await runtime.sleep(pause)
        pause = longer(pause)
        doubt = any(claim.copies for claim in left)
        answers = await resign(session.engine, list(left), deadline, doubt=doubt)
        left = failures(answers)
        for claim, answer in answers.items():
            if claim not in left:
                found[claim] = bool(answer) or claim in unanswered
    return found


def longer(pause: float) -> float:
    """Return the next pause of a backoff, with jitter, so that clients that lost the engine at the
    same time do not retry at the same time.
    """
    return min(max(pause * 2.0, 0.02), 1.0) * random.uniform(0.5, 1.0)  # noqa: S311  # no secret


def later(after: float) -> float:
    """Return for how long to wait if an overloaded service has asked for so many seconds."""
    return after * random.uniform(1.0, 1.5)  # noqa: S311  # no secret


def lost(claim: Claim) -> LeaseLost:
    """Return the `LeaseLost` for a claim."""
    reason = claim.loss or Loss.EXPIRED
    shape = claim.shape
    return LeaseLost(shape.name, claim.ticket, reason, claim.broken, exclusive=shape.exclusive)
