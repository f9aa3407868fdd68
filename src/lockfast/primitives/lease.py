"""Leases: one lease is one acquisition. Any thread that has the object can release it."""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lockfast.claims.acquire import refuse_in_callback
from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.claims.release import lost, release
from lockfast.claims.session import IO, Session
from lockfast.core.validity import State
from lockfast.errors import EngineRefused, Loss
from lockfast.port import Kind
from lockfast.primitives.timeout import checked_timeout

log = logging.getLogger("lockfast")
AUDIENCE = re.compile("[!-~]{1,256}")


class LeaseCore:
    """The shared part of sync and async leases."""

    __slots__ = ("__weakref__", "_now", "_session", "claim")

    claim: Claim

    def __init__(self, session: Session) -> None:
        """Create a lease without a claim. `acquire` sets the claim."""
        self._session = session
        self._now = session.runtime.now

    def __del__(self) -> None:
        """Warn if the lease was dropped while it is held, since it cannot be released any more."""
        claim = getattr(self, "claim", None)
        if claim is not None and claim.handed and not claim.siblings:
            warn_if_held(claim)

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self.claim.shape.name

    @property
    def id(self) -> str:
        """The unique id of this acquisition. Guards store it together with the token."""
        return self.claim.id

    @property
    def ticket(self) -> int:
        """The number of this claim in the lock's queue."""
        return self.claim.ticket

    @property
    def token(self) -> int:
        """The fencing token, which is higher than that of every earlier holder of this lock.

        Raises:
            TypeError: The lease is a reader's, or a permit of a semaphore, which several clients
                hold at once.
        """
        if not self.claim.shape.exclusive:
            raise TypeError(
                f"several clients can hold {self.name!r} at once, so this lease has no fencing "
                "token: use `ticket` and `fence_floor`."
            )
        return self.claim.ticket

    @property
    def fence_floor(self) -> int:
        """The ticket of the oldest live claim at the time when this one was granted.

        A guard accepts a reader by its ticket, and raises its mark no higher than this.
        """
        return self.claim.floor

    @property
    def state(self) -> State:
        """HELD, JEOPARDY, LOST or RELEASED, computed from the clock on each access."""
        return self.claim.state(self._now())

    @property
    def loss(self) -> Loss | None:
        """Why the lease is not held any more. None while it is held."""
        claim = self.claim
        return claim.loss if claim.expired(self._now()) else None

    @property
    def valid_until(self) -> float:
        """When the lease expires unless it is renewed, by lockfast's local clock, in seconds."""
        return self.claim.until

    @property
    def remaining(self) -> float:
        """Seconds for which the lease is certainly valid, even if the next renewal fails.

        Use it as the timeout of a request that must end while the lock is held.
        """
        claim = self.claim
        until = claim.until  # read before the clock, so that a renewal in between adds nothing
        now = self._now()
        return 0.0 if claim.expired(now) else max(until - now, 0.0)

    @property
    def waiters(self) -> int:
        """How many claims waited behind this lease at its last renewal."""
        return self.claim.behind

    def ensure_held(self) -> None:
        """Raise `LeaseLost` unless the lease is held now.

        It reads the local clock and sends nothing, so it is cheap enough for every step of a loop.
        It cannot stop a write that is already under way. A guard can.

        Raises:
            LeaseLost: The lease is lost, or was released. `reason` tells why.
        """
        claim = self.claim
        if claim.loss is not None or self._now() >= claim.until:
            claim.expired(self._now())
            raise lost(claim)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call a function when the lease is lost, or at once if it already is.

        It runs in the thread (or, in asyncio, the task) that renews all leases of the client, with
        the context variables of the acquisition.

        Args:
            callback: A plain function without arguments. It must be quick and must not wait:
                `acquire()` and `wait_lost()` raise `Deadlock` there.

        Raises:
            TypeError: The callback is a coroutine function.
        """
        refuse_coroutine(callback)
        self._session.table.on_lost(self.claim, callback)

    def on_contended(self, callback: Callable[[], object]) -> None:
        """Call a function once, when another client waits for this lock.

        Use it to release the lock early. lockfast learns of waiters by renewals, so this may take a
        third of the ttl. The callback runs where those of `on_lost` run.

        Args:
            callback: A plain function without arguments. It must be quick and must not wait.

        Raises:
            TypeError: The callback is a coroutine function.
        """
        refuse_coroutine(callback)
        self._session.table.on_contended(self.claim, callback)

    def fenced(self, reason: Loss = Loss.FENCED) -> None:
        """Mark the lease as LOST, because a guard rejected its token. Guards call this.

        Args:
            reason: The reason that `loss` and `LeaseLost` will give.
        """
        self._session.table.lose(self.claim, reason)

    def __repr__(self) -> str:
        """Show the name, the ticket and the state."""
        return f"<{type(self).__name__} {self.name!r} ticket={self.ticket} {self.state.value}>"

    def _release(self) -> Coroutine[Any, Any, None]:
        """Release the lease. See `Lease.release`."""
        return release(self._session, self.claim)

    async def _signed(self, audience: str) -> str:
        """Return a signed token, for a resource that verifies it by the service's public keys.

        It has the name of the lock, the fencing token and the id of this lease. Only the service
        (`lockfast://`) signs tokens. This costs a round trip, so keep the result for the lease.

        Args:
            audience: Whom the token is for, such as the URL of the resource: 1 to 256 visible
                characters of ASCII. Another audience does not accept it.

        Returns:
            The token, a JSON Web Signature. It stays good until a later holder has written to the
            resource, or the service's key is removed.

        Raises:
            LeaseLost: The lease is not held any more.
            EngineError: The service cannot be reached, or signs no tokens.
            TypeError: The lease is a permit of a semaphore, which has no fencing token.
            ValueError: The audience is not possible.
        """
        claim, session = self.claim, self._session
        if claim.shape.kind is Kind.SEMAPHORE:
            raise TypeError(f"a permit of {self.name!r} has no fencing token, so none is signed")
        if not AUDIENCE.fullmatch(audience):
            raise ValueError("the audience must be 1 to 256 visible characters of ASCII")
        self.ensure_held()
        sign = getattr(session.engine, "sign", None)
        if sign is None:
            raise EngineRefused(
                "this engine signs no tokens: connect to `lockfast serve`, by lockfast://"
            )
        deadline = min(self._now() + IO, claim.until)
        signed: str = await sign(claim.ask, audience, deadline)
        return signed

    async def _wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until the lease is lost or released.

        Args:
            timeout: Seconds to wait. None waits for ever.

        Returns:
            True when the lease has ended, and False if the timeout came first.

        Raises:
            Deadlock: A callback of lockfast called this.
            ClientClosed: The client was closed.
            TypeError: The timeout is not a number.
            ValueError: The timeout is negative.
        """
        return await wait_end(self._session, (self.claim,), timeout)


def nobody() -> None:
    """Return None, as a weak reference to a dropped lease does."""


def refuse_coroutine(callback: Callable[[], object]) -> None:
    """Raise `TypeError` for a coroutine function: it would not be awaited, and have no effect."""
    if inspect.iscoroutinefunction(callback):
        raise TypeError(
            f"a callback must be a plain function, and {callback!r} is a coroutine function: start "
            "a task in the callback, such as `lambda: tasks.add(asyncio.create_task(stop()))`"
        )


def warn_if_held(*claims: Claim) -> None:
    """Warn if these claims are still held, because their lease was dropped without `release()`.

    Only `__del__` may call this, so that the warning points at the line that dropped the lease. It
    is a RuntimeWarning, as for a coroutine that was never awaited, because Python shows those by
    default. The claims are not released, since the code that dropped them may still be working.
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
            claim.lease = nobody  # a traceback of the warning would keep the lease alive
        log.warning(said)
        warnings.warn(said, RuntimeWarning, stacklevel=3)


async def wait_end(session: Session, claims: Sequence[Claim], timeout: float | None) -> bool:
    """Wait until any of the claims is lost or released. Return False if the timeout came first."""
    session.enter()
    timeout = checked_timeout(timeout)
    if timeout is None or timeout > 0.0:
        refuse_in_callback(session, f"wait_lost() of {claims[0].shape.name!r}")
    event = session.runtime.event()
    until = None if timeout is None else session.runtime.now() + timeout
    try:
        for claim in claims:
            session.table.on_end(claim, event)
        return await session.table.aside(event.wait(until))
    finally:
        for claim in claims:  # or a program that waits in a loop would add event after event
            session.table.off_end(claim, event)
