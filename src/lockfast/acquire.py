"""Acquire and release: coroutines only, the same for both colours and for every engine."""

from __future__ import annotations

import random
import weakref
from typing import NamedTuple, Protocol

from lockfast import who
from lockfast.errors import Deadlock, EngineUnavailable, LeaseLost, Loss, NotAcquired
from lockfast.live import HELD, LEAVING, Live
from lockfast.port import Ask, Blocker, Shape, Standing
from lockfast.session import Session


class Want(NamedTuple):
    """One acquisition: what, until when, and for what purpose."""

    shape: Shape
    timeout: float | None
    purpose: str


class Bearer(Protocol):
    """The lease to be: whoever holds it strongly is the holder."""

    live: Live


async def acquire(session: Session, want: Want, bearer: Bearer) -> None:
    """Make a claim, wait until it is granted, and put it into the bearer.

    Every way out without a lease gives the claim up by its id: a reply that was lost, a
    cancellation, Ctrl-C after the grant would leave an orphan for a whole ttl (TRAPS 1, 2).
    """
    session.enter()
    runtime, claims = session.runtime, session.claims
    began = runtime.now()
    until = None if want.timeout is None else began + want.timeout
    while True:
        live = _new(session, want, bearer, runtime.now())
        try:
            claims.register(live, runtime.now())
            standing = await _claim(session, live, until)
            if live.phase is HELD:
                bearer.live = live
                live.handed = True
                return
            if standing is None:
                claims.end(live, Loss.GONE)  # that id is dead; go on with another
                continue
            if not live.ask.queue:
                claims.end(live, Loss.GONE)
                raise _busy(want, standing.blocker, 0.0)
            if want.timeout is None:
                _refuse_own(session, live)
            event = runtime.event()
            claims.wait(live, event)
            await event.wait(until)
            if live.phase is HELD:
                bearer.live = live
                live.handed = True
                return
            if until is not None and runtime.now() >= until:
                raise _busy(want, live.blocker, runtime.now() - began)
        except BaseException:
            give_up(session, live)
            raise


def _new(session: Session, want: Want, bearer: Bearer, now: float) -> Live:
    shape = want.shape
    ask = Ask(
        id=session.new_id(),
        shape=shape,
        queue=want.timeout is None or want.timeout > 0.0,
        not_after=now + shape.wait_ttl,
        payload=who.payload(session.runtime.worker(), want.purpose),
    )
    return Live(ask, session.runtime.owner(), weakref.ref(bearer))


async def _claim(session: Session, live: Live, until: float | None) -> Standing | None:
    """Send the claim, and the same claim again while its outcome is unknown."""
    runtime, ask = session.runtime, live.ask
    pause = 0.0
    while True:
        sent = runtime.now()
        live.copies += 1
        try:
            standing = await session.engine.claim(
                ask, session.deadline(until if ask.queue else None, ask.shape.wait_ttl)
            )
        except EngineUnavailable as error:
            if not error.sent:
                live.copies -= 1
            now = runtime.now()
            end = ask.not_after if until is None or not ask.queue else min(until, ask.not_after)
            if now + pause >= end or (pause and not ask.queue):
                raise
            await runtime.sleep(pause)
            pause = _longer(pause)
            continue
        if standing is None or (not standing.granted and not ask.queue):
            live.copies -= 1
        else:
            session.claims.answered(live, sent, standing, runtime.now())
        return standing


def _busy(want: Want, blocker: Blocker | None, waited: float) -> NotAcquired:
    holder = str(who.read(blocker.payload)) if blocker else "nobody known"
    return NotAcquired(want.shape.name, waited, holder)


def _refuse_own(session: Session, live: Live) -> None:
    """Raise instead of waiting for ever on what this very thread or task holds."""
    mine = session.claims.get(live.blocker.id) if live.blocker else None
    if mine is not None and mine.phase is HELD and mine.owner == live.owner:
        raise Deadlock(
            f"this {session.runtime.worker()} already holds {live.ask.shape.name!r} (ticket "
            f"{mine.ticket}) and would wait for itself for ever: release it first, or pass a "
            "timeout."
        )


def give_up(session: Session, live: Live) -> None:
    """Leave without waiting: bounded, never raises."""
    if session.claims.leave(live, session.runtime.now()) and not session.closed:
        session.engine.abandon([live.ask])


async def release(session: Session, live: Live) -> None:
    """Give a lease back; `LeaseLost`, once, if there was nothing left to give back.

    Nothing is forgotten before the engine has answered, so a failed release can be tried again
    (TRAPS 3), and the heart goes on trying besides.
    """
    claims, runtime = session.claims, session.runtime
    runtime.enter()
    first = claims.releasing(live, runtime.now())
    if first or (live.phase is LEAVING and live.loss is Loss.RELEASED):
        try:
            removed = await _resign(session, live)
        except BaseException:
            give_up(session, live)
            raise
        if first and not removed:
            live.loss = Loss.GONE
        claims.end(live)
    if live.loss not in (Loss.RELEASED, Loss.FOREIGN) and not live.told:
        live.told = True
        raise lost(live)


async def _resign(session: Session, live: Live) -> bool:
    """Resign until the engine answers. "Not there" after an unanswered copy is that copy's work."""
    runtime = session.runtime
    deadline = session.deadline(None, live.ask.shape.ttl)
    doubt, unanswered = live.copies > 0, False
    pause = 0.0
    while True:
        try:
            removed = (await session.engine.resign([live.ask], deadline, doubt=doubt))[0]
        except EngineUnavailable as error:
            unanswered = unanswered or error.sent
            if runtime.now() + pause >= deadline:
                raise
            await runtime.sleep(pause)
            pause = _longer(pause)
            continue
        return removed or unanswered


def _longer(pause: float) -> float:
    """Back off, with jitter: clients that were cut off together must not return in step."""
    return min(max(pause * 2.0, 0.02), 1.0) * random.uniform(0.5, 1.0)  # noqa: S311  # no secret


def lost(live: Live) -> LeaseLost:
    """Say why a lease is not held."""
    return LeaseLost(live.ask.shape.name, live.ticket, live.loss or Loss.EXPIRED)
