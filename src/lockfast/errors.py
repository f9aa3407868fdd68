"""Everything lockfast raises: one tree. The engine's own error is the `__cause__`."""

from __future__ import annotations

from enum import Enum

from lockfast.breaks import Break
from lockfast.plain import plain

LONGEST = 4_000  # characters of a message: to make a megabyte of one printable takes a second


class Loss(Enum):
    """Why a lease is no longer held. A supervisor acts differently on each (trap 18)."""

    EXPIRED = "its time ran out in this process: it was paused, or too slow to renew"
    UNREACHABLE = "the engine could not be reached to renew it in time"
    GONE = "the engine no longer has it: it expired there, was broken, or the data was lost"
    FENCED = "a guarded resource has seen a higher token"
    FOREIGN = "it belongs to the parent process: a child must acquire its own"
    RELEASED = "it was released"


class LockfastError(Exception):
    """The root: catch this to catch everything that lockfast raises."""

    def __init__(self, message: str = "") -> None:
        """Keep the message; the first LONGEST characters of it, if a server has said more."""
        super().__init__(message if len(message) <= LONGEST else f"{message[:LONGEST]}...")

    def __str__(self) -> str:
        """Return the message in one line: it quotes holders and servers, who may write anything."""
        return plain(super().__str__())

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes whole: by itself an exception is made anew from its message."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[LockfastError], args: tuple[object, ...]) -> LockfastError:
    error = kind.__new__(kind)
    error.args = args
    return error


class NotAcquired(LockfastError, TimeoutError):
    """The wait ended before the grant came."""

    def __init__(self, name: str, waited: float, holder: str) -> None:
        """Name what was waited for, how long, and who stood in the way."""
        self.name = name
        self.waited = waited
        self.holder = holder
        super().__init__(
            f"{name!r} was not acquired within {waited:.3g} s: held by {holder}. "
            "Wait longer (timeout=...), or ask that holder to let go."
        )


class LeaseLost(LockfastError):
    """A lease ended before its holder released it. What it protected may now be another's."""

    def __init__(self, name: str, ticket: int, reason: Loss, broken: Break | None = None) -> None:
        """Name the resource, the ticket of the lost grant, and why it was lost.

        `broken`: who broke the lock and why, if somebody did and that is known.
        """
        self.name = name
        self.ticket = ticket
        self.reason = reason
        self.broken = broken
        why = reason.value if broken is None else f"it was {broken}"
        super().__init__(
            f"the lease on {name!r} (ticket {ticket}) is not held: {why}. "
            "Stop writing, and acquire again to go on."
        )


class StaleToken(LockfastError):
    """A guarded resource refused a write: it has seen a later holder."""

    def __init__(self, name: str, token: int, current: int) -> None:
        """Name the resource, the token that was shown and the one that stands."""
        self.name = name
        self.token = token
        self.current = current
        super().__init__(
            f"the write to {name!r} with token {token} was refused: token {current} has been "
            "there. The lease is lost: stop, and acquire again to go on."
        )


class Unguarded(LockfastError, RuntimeError):
    """A write to a guarded resource showed no token, or that of another lock."""


class Deadlock(LockfastError):
    """A wait that could never end: the waiter itself holds what it waits for, at once or by way of
    others that wait for it.
    """

    def __init__(self, message: str, claim: str = "") -> None:
        """`claim`: the id of the waiter's own claim that the others wait for, if it is held."""
        self.claim = claim
        super().__init__(message)


class CapacityMismatch(LockfastError, ValueError):
    """The claims that are on a resource already say another capacity than this one."""

    def __init__(self, name: str, asked: int, ruling: int) -> None:
        """Name the capacity that rules and the one that was asked for."""
        self.name = name
        self.asked = asked
        self.ruling = ruling
        super().__init__(
            f"{name!r} is in use with capacity {ruling}, this claim says {asked}: "
            "use one kind of lock and one capacity for a name."
        )


class GuaranteeMissing(LockfastError):
    """The engine cannot promise what `connect(url, require=...)` asked for."""


class ClientClosed(LockfastError, RuntimeError):
    """The client was closed; a new one is needed."""


class WrongLoop(LockfastError, RuntimeError):
    """An asyncio client was used from a second event loop."""


class EngineError(LockfastError):
    """Something between this process and the engine, or inside the engine, went wrong."""


class EngineUnavailable(EngineError, ConnectionError):
    """The engine did not answer. `sent` tells whether it may have got the request all the same."""

    def __init__(self, message: str, *, sent: bool) -> None:
        """`sent` is True when the outcome is unknown, False when nothing can have happened."""
        self.sent = sent
        super().__init__(message)


class EngineRefused(EngineError):
    """The engine answered and said no: permission, memory, version, configuration."""
