"""A lease: one acquisition. Whoever has the object is the holder; threads and tasks are not."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lockfast.claims.acquire import refuse_in_callback
from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.claims.release import lost, release
from lockfast.claims.session import Session
from lockfast.core.validity import State
from lockfast.errors import Loss

log = logging.getLogger("lockfast")


class LeaseCore:
    """What a lease does in threads and asyncio."""

    __slots__ = ("__weakref__", "_now", "_session", "claim")

    claim: Claim

    def __init__(self, session: Session) -> None:
        """Begin without a grant: `acquire` puts it in."""
        self._session = session
        self._now = session.runtime.now

    def __del__(self) -> None:
        """Warn if it was dropped: nobody can release it any more."""
        claim = getattr(self, "claim", None)
        if claim is not None and claim.handed and not claim.siblings:
            warn_if_held(claim)

    @property
    def name(self) -> str:
        """The resource."""
        return self.claim.shape.name

    @property
    def id(self) -> str:
        """The claim's id: with the token, the mark that a guard keeps."""
        return self.claim.id

    @property
    def ticket(self) -> int:
        """The number of this claim in the resource's queue."""
        return self.claim.ticket

    @property
    def token(self) -> int:
        """The fencing token: higher than that of every earlier holder of this resource."""
        if not self.claim.shape.exclusive:
            raise TypeError(
                f"{self.name!r} is held by several at once, so its ticket is no fencing token: "
                "use `fence_floor` and `ticket`."
            )
        return self.claim.ticket

    @property
    def fence_floor(self) -> int:
        """The ticket of the oldest claim that lived when this one was granted."""
        return self.claim.floor

    @property
    def state(self) -> State:
        """HELD, JEOPARDY, LOST or RELEASED: computed from the clock, now."""
        return self.claim.state(self._now())

    @property
    def loss(self) -> Loss | None:
        """Why it is not held any more; None while it is."""
        claim = self.claim
        return claim.loss if claim.expired(self._now()) else None

    @property
    def valid_until(self) -> float:
        """When it ends unless it is renewed, on the clock that `remaining` counts with."""
        return self.claim.until

    @property
    def remaining(self) -> float:
        """Seconds for which it is certainly good: the most to give to I/O under it."""
        claim = self.claim
        until = claim.until  # before the clock: a renewal in between must not add to it
        now = self._now()
        return 0.0 if claim.expired(now) else max(until - now, 0.0)

    @property
    def waiters(self) -> int:
        """How many waited behind this lease at its last renewal."""
        return self.claim.behind

    def ensure_held(self) -> None:
        """Raise `LeaseLost` unless the lease is good now. No I/O: cheap enough for every loop."""
        claim = self.claim
        if claim.loss is not None or self._now() >= claim.until:
            claim.expired(self._now())
            raise lost(claim)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the lease is lost, in the context of the acquisition.

        It runs in the client's heart: in its thread, or in the event loop. It must be quick, and
        must not wait: `acquire()` and `wait_lost()` raise `Deadlock` there.
        """
        refuse_coroutine(callback)
        self._session.table.on_lost(self.claim, callback)

    def on_contended(self, callback: Callable[[], object]) -> None:
        """Call `callback` once somebody waits for this lease: it can be given up early.

        A renewal brings the news, so it may take a third of the ttl. It runs in the client's
        heart, as `on_lost` does.
        """
        refuse_coroutine(callback)
        self._session.table.on_contended(self.claim, callback)

    def fenced(self, reason: Loss = Loss.FENCED) -> None:
        """Record that a guarded resource has refused the token: the lease is LOST."""
        self._session.table.lose(self.claim, reason)

    def __repr__(self) -> str:
        """Show name, ticket and state."""
        return f"<{type(self).__name__} {self.name!r} ticket={self.ticket} {self.state.value}>"

    def _release(self) -> Coroutine[Any, Any, None]:
        """Release the lease. Twice is fine; after a loss it raises `LeaseLost`, once.

        After an engine's error it can be called again.
        """
        return release(self._session, self.claim)

    async def _wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until the lease is lost or released; False when `timeout` seconds passed first."""
        return await wait_end(self._session, (self.claim,), timeout)


def nobody() -> None:
    """Stand for a lease that was dropped."""


def refuse_coroutine(callback: Callable[[], object]) -> None:
    """Refuse a callback that nobody would await: the loss would go unnoticed."""
    if inspect.iscoroutinefunction(callback):
        raise TypeError(
            f"{callback!r} is a coroutine function, and lockfast calls a plain function: start a "
            "task in it, such as `lambda: tasks.add(asyncio.create_task(stop()))`"
        )


def warn_if_held(*claims: Claim) -> None:
    """Warn that whoever acquired these has dropped them without a release; to be called by
    `__del__`, so that the warning points at the line that dropped them.

    A RuntimeWarning, as for a coroutine that was never awaited: Python shows it by default. They
    are not released here, since whoever dropped them may still be at work.
    """
    held = [claim for claim in claims if claim.phase is HELD and claim.loss is None]
    if held:
        names = ", ".join(repr(claim.shape.name) for claim in held)
        said = (
            f"a lease on {names} was dropped without release(): lockfast no longer renews it, and "
            f"another process may acquire it once its ttl of {held[0].shape.ttl:g} s is over. Keep "
            "what acquire() returns and call its release(), or use a `with` statement."
        )
        for claim in held:
            claim.lease = nobody  # whoever takes a traceback of the warning has the lease again
        log.warning(said)
        warnings.warn(said, RuntimeWarning, stacklevel=3)


async def wait_end(session: Session, claims: Sequence[Claim], timeout: float | None) -> bool:
    """Wait until any of these ends; False when `timeout` seconds passed first."""
    session.enter()
    if timeout is None or timeout > 0.0:
        refuse_in_callback(session, f"wait_lost() of {claims[0].shape.name!r}")
    event = session.runtime.event()
    until = None if timeout is None else session.runtime.now() + timeout
    try:
        for claim in claims:
            session.table.on_end(claim, event)
        return await session.table.aside(event.wait(until))
    finally:
        for claim in claims:  # a loop that waits a second at a time must leave nothing behind
            session.table.off_end(claim, event)
