"""Acquisition of one claim, written as coroutines for threads, asyncio and every engine."""

from __future__ import annotations

import logging
import sys
import weakref
from typing import Protocol, TypeVar

from lockfast.claims import deadlock, observer, payload
from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.claims.release import give_up, later, longer
from lockfast.claims.renewing import named
from lockfast.claims.session import Session
from lockfast.errors import (
    Deadlock,
    EngineRefused,
    EngineUnavailable,
    KindMismatch,
    Loss,
    NotAcquired,
)
from lockfast.port import Ask, Blocker, Shape, Standing

log = logging.getLogger("lockfast")
NEVER = float("inf")
NOTICE = 1.0  # seconds of waiting after which a log message names the holder
LAST = 0.25  # seconds before its end at which it asks an engine that was unavailable a last time
LONGEST_LOOK = 8.0  # seconds between two searches for a deadlock, at most
UNKNOWN = "an unknown holder"  # the engine did not say who holds the lock


class Bearer(Protocol):
    """A lease. The claim is wanted as long as somebody has a strong reference to it."""

    claim: Claim

    def __init__(self, session: Session) -> None:
        """Create a lease without a claim. `acquire` sets the claim."""


B = TypeVar("B", bound=Bearer)


async def acquire(  # noqa: PLR0913, PLR0917  # a hot path: one call, no bundle
    session: Session,
    shape: Shape,
    timeout: float | None,
    purpose: str,
    bearer_type: type[B],
    block: object = None,
    at_least: float = 0.0,
    at_most: float = NEVER,
    value: str = "",
    limit: float | None = None,
) -> B:
    """Make a claim, wait until it is granted, and return its bearer, the lease.

    Every exit without a lease gives the claim up by its id. Otherwise a lost reply, a cancellation
    or Ctrl-C after the grant would leave the lock taken for a whole ttl (traps 1, 2).

    `block`: an object that lives exactly as long as the lease is wanted. Without one, that is the
    bearer. If its owner drops the bearer, the work may still go on, so nothing is resigned.
    `at_least`: seconds for which the lock stays taken, even if it is released sooner.
    `at_most`: seconds after the grant from which the claim is not renewed.
    `value`: a text that the payload publishes.
    `limit`: the deadline of an attempt without a queue. By default one wait_ttl from now.
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
    # An attempt without a queue has time for round trips too: this is its deadline for all ids.
    end = until if queue else limit or began + shape.wait_ttl
    dead = 0
    reference = weakref.ref(bearer if block is None else block)
    while True:
        ask = Ask(session.new_id(), shape, queue, now + shape.wait_ttl, described)
        ask.trace = observer.trace()
        # What `at_least` keeps outlives the process.
        ask.departs = 0.0 if at_least else session.on_disconnect
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
                _forget(session, claim)  # its id is dead: try again with another
            elif claim.phase is not HELD:
                await _wait(session, claim, standing, until)
            if claim.phase is HELD:
                bearer.claim = claim
                claim.handed = block is None
                claim.keep = at_least and runtime.now() + at_least
                claim.limit = at_most if at_most == NEVER else runtime.now() + at_most
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
    """Raise `Deadlock` if a callback of the heart is about to wait.

    The wait would stop the heart, which receives the grant and renews all other leases.
    """
    heart = session.heart
    if heart is not None and heart.here():
        raise Deadlock(
            f"{call} was called in a callback of lockfast (on_lost, on_contended). The callback "
            "runs in the thread or task that renews all leases of this client, and a wait would "
            "stop the renewals. Set an event in the callback, and wait in your own thread or task."
        )


def _go_on(claim: Claim, until: float | None, now: float, began: float, dead: int) -> None:
    """Raise unless the acquisition may try again with another id.

    `dead`: how many ids in a row the engine called dead. After the first one there is no known
    holder, and one more attempt is made even if the time is over: the engine's clock may have moved
    ahead, and its reply has shown that.
    """
    over = until is not None and now >= until
    if claim.called_off or (over and not dead):
        raise busy(claim.shape, claim.blocker, now - began)
    if over and dead > 1:
        raise EngineUnavailable(
            f"{claim.shape.name!r} was not acquired: the engine rejected the request twice, "
            "because it arrived too late. Check the server's clock, which may have jumped ahead.",
            sent=False,
        )


def _failed(session: Session, claim: Claim, began: float, error: BaseException) -> None:
    """Give up the claim of an acquisition that failed, and report it to telemetry."""
    if isinstance(error, (KindMismatch, EngineRefused)):
        claim.copies -= 1  # the engine answered this copy, and did not apply it
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
        # Without the table's mutex: a signal handler that waits may have interrupted the table.
        told = await session.table.aside(event.wait(None if soonest == NEVER else soonest))
        # Not before `end`: uvloop's timers fire up to a millisecond early, and to return then would
        # make a second claim beside this one.
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
    """Log for which holder the claim waits."""
    blocker = claim.blocker
    log.info(
        "still waiting for %r after %g s (ticket %d): held by %s (ticket %d). lock.queue() lists "
        "the holders and waiters.",
        claim.shape.name,
        NOTICE,
        claim.ticket,
        payload.read(blocker.payload) if blocker else UNKNOWN,
        blocker.ticket if blocker else 0,
    )


async def _claim_again(
    session: Session, claim: Claim, until: float | None, error: EngineUnavailable
) -> tuple[float, Standing | None]:
    """Send the same claim again until the engine answers, or raise the error when the time is over.

    Return when the request that was answered was sent, and its reply.
    """
    runtime = session.runtime
    ask, pause = claim.ask, 0.0
    while True:
        if not error.sent:
            claim.copies -= 1
        # An overloaded service has passed no copy on, so the claim begins again.
        anew = error.after > 0.0 and not claim.copies
        if error.after:
            pause = max(pause, later(error.after))
        late = NEVER if anew else ask.not_after
        end = late if until is None else min(until, late)
        left = end - runtime.now()
        if left <= (LAST if pause else 0.0) or (pause and not ask.queue):
            raise error
        # The last pause is cut short. Attempts once ended up to a second before the timeout.
        await runtime.sleep(min(pause, max(left - LAST, 0.0)))
        pause = longer(pause)
        sent = runtime.now()
        if anew:
            ask.not_after, ask.fixed = sent + claim.shape.wait_ttl, None
        claim.copies += 1
        try:
            deadline = session.deadline(sent, until, claim.shape.wait_ttl)
            # A copy that waits for a connection must not be sent after `not_after`.
            return sent, await session.engine.claim(ask, min(deadline, ask.not_after))
        except EngineUnavailable as again:
            error = again


def _forget(session: Session, claim: Claim) -> None:
    """Forget a claim that the engine does not have. But if an earlier copy of it was not answered,
    resign it: the copy may still arrive, and be granted when the lock is free (trap 47).
    """
    if claim.copies:
        give_up(session, claim)
    else:
        session.table.end(claim, Loss.GONE)


def busy(shape: Shape, blocker: Blocker | None, waited: float) -> NotAcquired:
    """Return the `NotAcquired` that names the holder."""
    holder = str(payload.read(blocker.payload)) if blocker else UNKNOWN
    return NotAcquired(shape.name, waited, holder)


def _refuse_own(session: Session, claim: Claim) -> None:
    """Raise `Deadlock` if this thread or task itself holds the lock that it would wait for."""
    mine = session.table.get(claim.blocker.id) if claim.blocker else None
    if mine is not None and mine.phase is HELD and mine.owner == claim.owner:
        raise Deadlock(
            f"this thread or task ({session.runtime.worker()[1]}) already holds {named([mine])}, "
            "and would wait for itself for ever. Release the lock first, use client.rlock() to "
            f"acquire it again, or pass a timeout.{_in_loop(claim)}",
            mine.id,
        )


def _in_loop(claim: Claim) -> str:
    """Return a hint at `lockfast.aio` if a blocking client is used in a running event loop."""
    asyncio = sys.modules.get("asyncio")
    running = asyncio and asyncio._get_running_loop()  # noqa: SLF001  # the public one raises
    if running is None or isinstance(claim.owner, weakref.ref):
        return ""
    return " All tasks of an event loop run in one thread. In an event loop, use lockfast.aio."
