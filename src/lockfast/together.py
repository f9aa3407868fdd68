"""Many claims at once: all or nothing, for both colours and every engine."""

from __future__ import annotations

import random
import weakref
from collections.abc import Sequence
from typing import TypeVar

from lockfast import who
from lockfast.acquire import Bearer, acquire, give_up, lost, release
from lockfast.errors import Deadlock, EngineError, EngineUnavailable, LeaseLost, Loss, NotAcquired
from lockfast.live import HELD, Live
from lockfast.port import Shape, Standing
from lockfast.session import Session

B = TypeVar("B", bound=Bearer)
WELL_MET = 0.2  # seconds at most before whoever gave way in a deadlock begins again


async def acquire_all(  # noqa: PLR0913, PLR0917  # as `acquire`
    session: Session,
    shapes: Sequence[Shape],
    timeout: float | None,
    purpose: str,
    bearer_type: type[B],
    block: object = None,
) -> list[B]:
    """Make all claims in one round trip if all are free; else one by one, in the order given.

    Everybody takes names in the same order, so those who do it this way never wait in a circle.
    With others it can happen: then everything is given back, and begun again after a moment.
    """
    session.enter()
    now = session.runtime.now
    until = None if timeout is None else now() + timeout
    found = await _at_once(session, shapes, purpose, bearer_type, block)
    while found is None:
        try:
            found = await _in_order(session, shapes, until, purpose, bearer_type, block)
        except Deadlock:
            pause = random.uniform(0.0, WELL_MET)  # noqa: S311  # no secret
            if until is not None and now() + pause >= until:
                raise
            await session.runtime.sleep(pause)
    return found


async def _in_order(  # noqa: PLR0913, PLR0917  # as `acquire`
    session: Session,
    shapes: Sequence[Shape],
    until: float | None,
    purpose: str,
    bearer_type: type[B],
    block: object,
) -> list[B]:
    bearers: list[B] = []
    try:
        for shape in shapes:
            left = None if until is None else max(until - session.runtime.now(), 0.0)
            bearers.append(await acquire(session, shape, left, purpose, bearer_type, block))
    except (NotAcquired, Deadlock, EngineError):
        await _put_back(session, [bearer.live for bearer in bearers])
        raise
    except BaseException:
        _give_up_all(session, [bearer.live for bearer in bearers])
        raise
    return bearers


async def _at_once(
    session: Session, shapes: Sequence[Shape], purpose: str, bearer_type: type[B], block: object
) -> list[B] | None:
    """Claim all without standing in line. None if any was busy: then nothing is kept."""
    if session.unproven is not None:
        await session.prove(session.unproven)
    sent = session.runtime.now()
    bearers = _asking(session, shapes, purpose, bearer_type, block, sent)
    lives = [bearer.live for bearer in bearers]
    try:
        for live in lives:
            session.claims.register(live, sent)
            live.copies = 1
        life = min(shape.wait_ttl for shape in shapes)
        standings = await session.engine.claim_all(lives, session.deadline(sent, None, life))
        for live, standing in zip(lives, standings, strict=True):
            _answered(session, live, sent, standing)
        if all(live.phase is HELD for live in lives):
            for live in lives:
                live.handed = block is None
            return bearers
        await _put_back(session, [live for live in lives if live.phase is HELD])
    except EngineUnavailable:
        pass  # one by one, each is tried until its deadline
    except BaseException:
        _give_up_all(session, lives)
        raise
    _give_up_all(session, lives)
    return None


def _asking(  # noqa: PLR0913, PLR0917  # as `acquire`
    session: Session,
    shapes: Sequence[Shape],
    purpose: str,
    bearer_type: type[B],
    block: object,
    now: float,
) -> list[B]:
    owner, name = session.runtime.worker()
    holding = session.claims.holding(owner)
    payload = who.payload(name, purpose, now, holding)
    bearers = [bearer_type(session) for _ in shapes]
    for bearer, shape in zip(bearers, shapes, strict=True):
        reference = weakref.ref(block or bearer)
        late = now + shape.wait_ttl
        live = Live(session.new_id(), shape, False, late, payload, owner, reference)  # noqa: FBT003  # no queue
        live.holding = holding
        bearer.live = live
    return bearers


def _answered(
    session: Session, live: Live, sent: float, standing: Standing | Exception | None
) -> None:
    if isinstance(standing, EngineUnavailable) and standing.sent:
        return  # unknown: given up as such
    if isinstance(standing, Exception):
        live.copies -= 1
    else:
        session.claims.answered(live, sent, standing, session.runtime.now())
    if live.phase is not HELD:
        session.claims.end(live, Loss.GONE)  # not granted, so not kept


def _give_up_all(session: Session, lives: Sequence[Live]) -> None:
    for live in lives:
        give_up(session, live)


async def _put_back(session: Session, lives: Sequence[Live]) -> None:
    """Release what was taken in vain. What was lost meanwhile is not missed."""
    try:
        await release_all(session, lives)
    except (LeaseLost, EngineError):
        _give_up_all(session, lives)


async def release_all(session: Session, lives: Sequence[Live]) -> None:
    """Give leases back, in one round trip where the engine can; `LeaseLost`, once, for the first
    of which there was nothing left to give back.
    """
    if any(live.loss is Loss.FOREIGN for live in lives):
        return
    session.runtime.enter()
    try:
        await _resign_all(session, lives, session.runtime.now())
    except BaseException:
        _give_up_all(session, lives)
        raise
    for live in lives:
        if live.loss is not Loss.RELEASED and not live.told:
            for each in lives:
                each.told = True
            raise lost(live)


async def _resign_all(session: Session, lives: Sequence[Live], now: float) -> None:
    claims = session.claims
    held = [live for live in lives if claims.releasing(live, now)]
    if not held:
        return
    doubt = any(live.copies for live in held)
    deadline = session.deadline(now, None, min(live.shape.ttl for live in held))
    try:
        removed = await session.engine.resign(held, deadline, doubt=doubt)
    except EngineUnavailable:
        for live in held:
            await release(session, live)  # each until its deadline
        return
    for live, there in zip(held, removed, strict=True):
        if not there:
            claims.missing(live)
        claims.end(live)
