"""Acquire and release: coroutines only, the same for threads, asyncio and every engine."""

from __future__ import annotations

import logging
import random
import sys
import weakref
from collections.abc import Sequence
from typing import Protocol, TypeVar

from lockfast.claims import deadlock, observer, payload
from lockfast.claims.claim import HELD, LEAVING, Live
from lockfast.claims.heart import EXPLAINING, explain
from lockfast.claims.session import Session
from lockfast.core.validity import DRIFT
from lockfast.errors import (
    CapacityMismatch,
    Deadlock,
    EngineRefused,
    EngineUnavailable,
    LeaseLost,
    Loss,
    NotAcquired,
)
from lockfast.port import Blocker, Shape, Standing

log = logging.getLogger("lockfast")
NEVER = float("inf")
NOTICE = 1.0  # seconds of waiting after which the log tells of it
PATIENCE = 2.0  # seconds that a release may wait for a renewal
LONGEST_LOOK = 8.0  # seconds between two searches for a deadlock, at most


class Bearer(Protocol):
    """A lease: whoever has it strongly is the holder."""

    live: Live

    def __init__(self, session: Session) -> None:
        """Begin without a grant."""


B = TypeVar("B", bound=Bearer)


async def acquire(  # noqa: PLR0913, PLR0917  # a hot path: one call, no bundle
    session: Session,
    shape: Shape,
    timeout: float | None,
    purpose: str,
    bearer_type: type[B],
    block: object = None,
    at_least: float = 0.0,
    value: str = "",
    limit: float | None = None,
) -> B:
    """Make a claim, wait until it is granted, and return its bearer.

    Every way out without a lease gives the claim up by its id: a reply that was lost, a
    cancellation, Ctrl-C after the grant would leave an orphan for a whole ttl (TRAPS 1, 2).

    `block`: something that lives exactly as long as the lease is wanted. Without one, that is the
    bearer, and then nobody but its owner knows when it is no longer wanted.
    `at_least`: seconds for which the lock stays taken, however soon it is released.
    `value`: what the payload publishes besides who asks.
    `limit`: by when an attempt without a queue must be over, if not within a life of the claim.
    """
    session.enter()
    if session.unproven is not None:
        await session.prove(session.unproven)
    bearer = bearer_type(session)
    runtime, claims = session.runtime, session.claims
    began = now = runtime.now()
    owner, name = runtime.worker()
    holding = claims.holding(owner)
    described = payload.write(name, purpose, now, holding, value, shape.ttl)
    queue = timeout is None or timeout > 0.0
    if queue:
        refuse_in_callback(session, f"acquire() of {shape.name!r}")
    until = None if timeout is None else began + timeout
    # Without a queue there is still time for round trips, for all ids together.
    end = until if queue else limit or began + shape.wait_ttl
    dead = 0
    reference = weakref.ref(bearer if block is None else block)
    while True:
        live = Live(
            session.new_id(), shape, queue, now + shape.wait_ttl, described, owner, reference
        )
        live.holding = holding
        try:
            claims.register(live, now)
            live.copies = 1
            try:
                deadline = session.deadline(now, end, shape.wait_ttl)
                standing = await session.engine.claim(live, deadline)
            except EngineUnavailable as error:
                now, standing = await _claim_again(session, live, end, error)
            claims.answered(live, now, standing, runtime.now())
            if standing is None:
                _forget(session, live)  # that id is dead; go on with another
            elif live.phase is not HELD:
                await _wait(session, live, standing, until)
            if live.phase is HELD:
                bearer.live = live
                live.handed = block is None
                live.keep = at_least and runtime.now() + at_least
                if observer.watcher is not None:
                    live.record = observer.watcher.granted(session, live, began)
                return bearer
            now = runtime.now()
            dead = dead + 1 if standing is None else 0
            _go_on(live, until, now, began, dead)
        except BaseException as error:
            _failed(session, live, began, error)
            raise


def refuse_in_callback(session: Session, call: str) -> None:
    """Raise instead of waiting in the heart, which must bring the grant, and renew other leases."""
    heart = session.heart
    if heart is not None and heart.here():
        raise Deadlock(
            f"{call} was called in a callback of lockfast (on_lost, on_contended), in the thread "
            "that renews all leases of this client, and would stop it. Start a thread or set an "
            "event in the callback, and wait in your own thread."
        )


def _go_on(live: Live, until: float | None, now: float, began: float, dead: int) -> None:
    """Raise unless the acquisition may begin again with another id.

    `dead`: how many ids in a row the engine took for dead. After the first one nobody is known to
    be in the way, and it is tried again also when the time is over: the engine's clock may have
    moved ahead, and its answer has told so.
    """
    over = until is not None and now >= until
    if live.called_off or (over and not dead):
        raise busy(live.shape, live.blocker, now - began)
    if over and dead > 1:
        raise EngineUnavailable(
            f"{live.shape.name!r} was not acquired: the engine says that the request came too "
            "late, twice. Its clock may be moving ahead.",
            sent=False,
        )


def _failed(session: Session, live: Live, began: float, error: BaseException) -> None:
    """Leave an acquisition without a lease."""
    if isinstance(error, (CapacityMismatch, EngineRefused)):
        live.copies -= 1  # the engine answered, and did nothing
    give_up(session, live)
    if observer.watcher is not None:
        observer.watcher.failed(session, live.shape, began, error)


async def _wait(session: Session, live: Live, standing: Standing, until: float | None) -> None:
    """Wait until the claim is granted or gone, or the time is over."""
    if not live.queue:
        _forget(session, live)
        raise busy(live.shape, standing.blocker, 0.0)
    if until is None:
        _refuse_own(session, live)
    now = session.runtime.now
    end = NEVER if until is None else until
    pause = session.deadlock_after if live.holding else None
    look = NEVER if pause is None else now() + pause
    notice = now() + NOTICE if log.isEnabledFor(logging.INFO) else NEVER
    while True:
        event = session.runtime.event()
        session.claims.wait(live, event)
        soonest = min(notice, look, end)
        # Aside: a signal handler that waits may have come in the middle of the table.
        told = await session.claims.aside(event.wait(None if soonest == NEVER else soonest))
        # Not before `end`: uvloop's timers are up to a millisecond early, and whoever returned then
        # would make a second claim beside this one.
        if told or now() >= end:
            return
        if now() >= notice:
            notice = NEVER
            _notice(live)
        if pause is not None and now() >= look:
            await deadlock.check(session, live, patient=until is None)
            pause = min(pause * 2.0, LONGEST_LOOK)
            look = now() + pause


def _notice(live: Live) -> None:
    """Tell the log who stands in the way."""
    blocker = live.blocker
    log.info(
        "waiting for %r for more than %g s (ticket %d): held by %s (ticket %d). The wait goes on; "
        "lock.queue() shows the line.",
        live.shape.name,
        NOTICE,
        live.ticket,
        payload.read(blocker.payload) if blocker else "nobody known",
        blocker.ticket if blocker else 0,
    )


async def _claim_again(
    session: Session, live: Live, until: float | None, error: EngineUnavailable
) -> tuple[float, Standing | None]:
    """Send the same claim again while its outcome is unknown; give the reply, and when its request
    was sent.
    """
    runtime = session.runtime
    end = live.not_after if until is None else min(until, live.not_after)
    pause = 0.0
    while True:
        if not error.sent:
            live.copies -= 1
        if runtime.now() + pause >= end or (pause and not live.queue):
            raise error
        await runtime.sleep(pause)
        pause = _longer(pause)
        sent = runtime.now()
        live.copies += 1
        try:
            deadline = session.deadline(sent, until, live.shape.wait_ttl)
            # A copy that waits for a connection must not be sent when its id is dead.
            return sent, await session.engine.claim(live, min(deadline, live.not_after))
        except EngineUnavailable as again:
            error = again


def _forget(session: Session, live: Live) -> None:
    """Forget a claim that the engine does not have; but an earlier copy of it, one that was never
    answered, may still be on its way there, and would find the lock free by then (TRAPS 47).
    """
    if live.copies:
        give_up(session, live)
    else:
        session.claims.end(live, Loss.GONE)


def busy(shape: Shape, blocker: Blocker | None, waited: float) -> NotAcquired:
    """Say who stood in the way."""
    holder = str(payload.read(blocker.payload)) if blocker else "nobody known"
    return NotAcquired(shape.name, waited, holder)


def _refuse_own(session: Session, live: Live) -> None:
    """Raise instead of waiting for ever on what this very thread or task holds."""
    mine = session.claims.get(live.blocker.id) if live.blocker else None
    if mine is not None and mine.phase is HELD and mine.owner == live.owner:
        raise Deadlock(
            f"this {session.runtime.worker()[1]} already holds {live.shape.name!r} (ticket "
            f"{mine.ticket}) and would wait for itself for ever: release it first, take it with "
            f"client.rlock() where it may be taken twice, or pass a timeout.{_in_loop(live)}",
            mine.id,
        )


def _in_loop(live: Live) -> str:
    """Hint at the other kind of client, if a blocking one is used in a running event loop."""
    asyncio = sys.modules.get("asyncio")
    running = asyncio and asyncio._get_running_loop()  # noqa: SLF001  # the public one raises
    if running is None or isinstance(live.owner, weakref.ref):
        return ""
    return " All tasks of an event loop are one thread: in a loop, use lockfast.aio."


def give_up(session: Session, live: Live) -> None:
    """Leave without waiting: bounded, never raises."""
    live.lose(Loss.RELEASED)
    now = session.runtime.now()
    if now < live.keep:
        session.claims.linger(live)
    elif session.claims.leave(live, now) and not session.closed:
        session.engine.abandon([live])
    if live.record is not None:
        live.account()


async def release(session: Session, live: Live) -> None:
    """Give a lease back; `LeaseLost`, once, if there was nothing left to give back.

    Nothing is forgotten before the engine has answered, so a failed release can be tried again
    (TRAPS 3), and the heart goes on trying besides.
    """
    claims, runtime = session.claims, session.runtime
    if live.loss is Loss.FOREIGN:
        return  # a child leaves its parent's block: it has no loop, and nothing to give back
    runtime.enter()
    try:
        if live.keep and live.phase is HELD:
            await _secure(session, live)
        now = runtime.now()
        first = claims.releasing(live, now)
        if not first and (live.phase is not LEAVING or live.loss is not Loss.RELEASED):
            pass  # it was released, or is lost
        elif now < live.keep:
            claims.linger(live)
        else:
            deadline = session.deadline(now, None, live.shape.ttl)
            try:
                removed = (await session.engine.resign((live,), deadline, doubt=live.copies > 0))[0]
            except EngineUnavailable as error:
                (removed,) = await resign_again(session, (live,), deadline, error)
            if first and not removed:
                claims.missing(live, runtime.now())
            claims.end(live)
    except BaseException:
        give_up(session, live)
        raise
    if live.record is not None:
        live.account()
    if live.loss is not Loss.RELEASED and not live.told:
        await explained(session, live)
        live.told = True
        raise lost(live)


async def explained(session: Session, live: Live) -> None:
    """Find out who broke a lease, briefly, before its holder is told: it is lost in any case."""
    if live.loss is Loss.GONE and live.broken is None and not session.closed:
        await explain(session.engine, live, session.runtime.now() + EXPLAINING)


async def _secure(session: Session, live: Live) -> None:
    """Make sure that the engine keeps a claim for as long as it must, even if we end right now.

    One that was granted while it waited has only a waiter's time before the heart has renewed it.
    """
    runtime, enough = session.runtime, live.keep - 2.0 * DRIFT * live.shape.ttl
    end = min(runtime.now() + PATIENCE, live.keep, live.until)
    if live.until < enough:
        session.claims.hasten(live, runtime.now())
    while live.until < enough and live.phase is HELD and runtime.now() < end:
        await runtime.sleep(0.002)


async def resign_again(
    session: Session, lives: Sequence[Live], deadline: float, error: EngineUnavailable
) -> list[bool]:
    """Resign until the engine answers. "Not there" after an unanswered copy is that copy's work,
    and of several claims some may have been resigned before the error.
    """
    runtime = session.runtime
    unanswered = len(lives) > 1
    doubt = any(live.copies for live in lives)
    pause = 0.0
    while True:
        unanswered = unanswered or error.sent
        if runtime.now() + pause >= deadline:
            raise error
        await runtime.sleep(pause)
        pause = _longer(pause)
        try:
            removed = await session.engine.resign(lives, deadline, doubt=doubt)
        except EngineUnavailable as again:
            error = again
        else:
            return [there or unanswered for there in removed]


def _longer(pause: float) -> float:
    """Back off, with jitter: clients that were cut off together must not return in step."""
    return min(max(pause * 2.0, 0.02), 1.0) * random.uniform(0.5, 1.0)  # noqa: S311  # no secret


def lost(live: Live) -> LeaseLost:
    """Say why a lease is not held."""
    return LeaseLost(live.shape.name, live.ticket, live.loss or Loss.EXPIRED, live.broken)
