"""Acquire a claim: coroutines only, the same for threads, asyncio and every engine."""

from __future__ import annotations

import logging
import sys
import weakref
from typing import Protocol, TypeVar

from lockfast.claims import deadlock, observer, payload
from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.claims.release import give_up, longer
from lockfast.claims.session import Session
from lockfast.errors import (
    CapacityMismatch,
    Deadlock,
    EngineRefused,
    EngineUnavailable,
    Loss,
    NotAcquired,
)
from lockfast.port import Ask, Blocker, Shape, Standing

log = logging.getLogger("lockfast")
NEVER = float("inf")
NOTICE = 1.0  # seconds of waiting after which the log tells of it
LONGEST_LOOK = 8.0  # seconds between two searches for a deadlock, at most


class Bearer(Protocol):
    """A lease: whoever has it strongly is the holder."""

    claim: Claim

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
    cancellation, Ctrl-C after the grant would leave an orphan for a whole ttl (traps 1, 2).

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
    runtime, table = session.runtime, session.table
    began = now = runtime.now()
    owner, name = runtime.worker()
    holding = table.holding(owner)
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
        ask = Ask(session.new_id(), shape, queue, now + shape.wait_ttl, described)
        claim = Claim(ask, owner, reference)
        claim.holding = holding
        try:
            table.register(claim, now)
            claim.copies = 1
            try:
                deadline = session.deadline(now, end, shape.wait_ttl)
                standing = await session.engine.claim(ask, deadline)
            except EngineUnavailable as error:
                now, standing = await _claim_again(session, claim, end, error)
            table.answered(claim, now, standing, runtime.now())
            if standing is None:
                _forget(session, claim)  # that id is dead; go on with another
            elif claim.phase is not HELD:
                await _wait(session, claim, standing, until)
            if claim.phase is HELD:
                bearer.claim = claim
                claim.handed = block is None
                claim.keep = at_least and runtime.now() + at_least
                if observer.watcher is not None:
                    claim.record = observer.watcher.granted(session, claim, began)
                return bearer
            now = runtime.now()
            dead = dead + 1 if standing is None else 0
            _go_on(claim, until, now, began, dead)
        except BaseException as error:
            _failed(session, claim, began, error)
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


def _go_on(claim: Claim, until: float | None, now: float, began: float, dead: int) -> None:
    """Raise unless the acquisition may begin again with another id.

    `dead`: how many ids in a row the engine took for dead. After the first one nobody is known to
    be in the way, and it is tried again also when the time is over: the engine's clock may have
    moved ahead, and its answer has told so.
    """
    over = until is not None and now >= until
    if claim.called_off or (over and not dead):
        raise busy(claim.shape, claim.blocker, now - began)
    if over and dead > 1:
        raise EngineUnavailable(
            f"{claim.shape.name!r} was not acquired: the engine says that the request came too "
            "late, twice. Its clock may be moving ahead.",
            sent=False,
        )


def _failed(session: Session, claim: Claim, began: float, error: BaseException) -> None:
    """Leave an acquisition without a lease."""
    if isinstance(error, (CapacityMismatch, EngineRefused)):
        claim.copies -= 1  # the engine answered, and did nothing
    give_up(session, claim)
    if observer.watcher is not None:
        observer.watcher.failed(session, claim.shape, began, error)


async def _wait(session: Session, claim: Claim, standing: Standing, until: float | None) -> None:
    """Wait until the claim is granted or gone, or the time is over."""
    if not claim.ask.queue:
        _forget(session, claim)
        raise busy(claim.shape, standing.blocker, 0.0)
    if until is None:
        _refuse_own(session, claim)
    now = session.runtime.now
    end = NEVER if until is None else until
    pause = session.deadlock_after if claim.holding else None
    look = NEVER if pause is None else now() + pause
    notice = now() + NOTICE if log.isEnabledFor(logging.INFO) else NEVER
    while True:
        event = session.runtime.event()
        session.table.wait(claim, event)
        soonest = min(notice, look, end)
        # Aside: a signal handler that waits may have come in the middle of the table.
        told = await session.table.aside(event.wait(None if soonest == NEVER else soonest))
        # Not before `end`: uvloop's timers are up to a millisecond early, and whoever returned then
        # would make a second claim beside this one.
        if told or now() >= end:
            return
        if now() >= notice:
            notice = NEVER
            _notice(claim)
        if pause is not None and now() >= look:
            await deadlock.check(session, claim, patient=until is None)
            pause = min(pause * 2.0, LONGEST_LOOK)
            look = now() + pause


def _notice(claim: Claim) -> None:
    """Tell the log who stands in the way."""
    blocker = claim.blocker
    log.info(
        "waiting for %r for more than %g s (ticket %d): held by %s (ticket %d). The wait goes on; "
        "lock.queue() shows the line.",
        claim.shape.name,
        NOTICE,
        claim.ticket,
        payload.read(blocker.payload) if blocker else "nobody known",
        blocker.ticket if blocker else 0,
    )


async def _claim_again(
    session: Session, claim: Claim, until: float | None, error: EngineUnavailable
) -> tuple[float, Standing | None]:
    """Send the same claim again while its outcome is unknown; give the reply, and when its request
    was sent.
    """
    runtime = session.runtime
    late = claim.ask.not_after
    end = late if until is None else min(until, late)
    pause = 0.0
    while True:
        if not error.sent:
            claim.copies -= 1
        if runtime.now() + pause >= end or (pause and not claim.ask.queue):
            raise error
        await runtime.sleep(pause)
        pause = longer(pause)
        sent = runtime.now()
        claim.copies += 1
        try:
            deadline = session.deadline(sent, until, claim.shape.wait_ttl)
            # A copy that waits for a connection must not be sent when its id is dead.
            return sent, await session.engine.claim(claim.ask, min(deadline, late))
        except EngineUnavailable as again:
            error = again


def _forget(session: Session, claim: Claim) -> None:
    """Forget a claim that the engine does not have; but an earlier copy of it, one that was never
    answered, may still be on its way there, and would find the lock free by then (trap 47).
    """
    if claim.copies:
        give_up(session, claim)
    else:
        session.table.end(claim, Loss.GONE)


def busy(shape: Shape, blocker: Blocker | None, waited: float) -> NotAcquired:
    """Say who stood in the way."""
    holder = str(payload.read(blocker.payload)) if blocker else "nobody known"
    return NotAcquired(shape.name, waited, holder)


def _refuse_own(session: Session, claim: Claim) -> None:
    """Raise instead of waiting for ever on what this very thread or task holds."""
    mine = session.table.get(claim.blocker.id) if claim.blocker else None
    if mine is not None and mine.phase is HELD and mine.owner == claim.owner:
        raise Deadlock(
            f"this {session.runtime.worker()[1]} already holds {claim.shape.name!r} (ticket "
            f"{mine.ticket}) and would wait for itself for ever: release it first, take it with "
            f"client.rlock() where it may be taken twice, or pass a timeout.{_in_loop(claim)}",
            mine.id,
        )


def _in_loop(claim: Claim) -> str:
    """Hint at the other kind of client, if a blocking one is used in a running event loop."""
    asyncio = sys.modules.get("asyncio")
    running = asyncio and asyncio._get_running_loop()  # noqa: SLF001  # the public one raises
    if running is None or isinstance(claim.owner, weakref.ref):
        return ""
    return " All tasks of an event loop are one thread: in a loop, use lockfast.aio."
