"""The exceptions that lockfast raises. All of them derive from `LockfastError`.

Where an engine's driver has raised an error of its own, that error is the `__cause__`.

The text of each exception ends with a reference to its entry in docs/troubleshooting.md. It is part
of `str(error)` and not a note (PEP 678), because a log line, a mail of cron and the command line
show one line and no traceback. It is the last part, in parentheses, so that it is never in the way
of the message, and programs that find addresses in text do not take the parenthesis for a part of
it. Messages that quote another error of lockfast quote its `message`, which has no reference.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from lockfast.breaks import Break
from lockfast.plain import plain

# The address of the documentation, with a slash at its end. While there is no site it is empty, and
# the text of an exception names the anchor of its entry alone.
SITE = ""
LONGEST = 4_000  # characters of a message that are kept: escaping a megabyte would take a second


class Loss(Enum):
    """The reason why a lease is no longer held. A supervisor can act on each one (trap 18)."""

    EXPIRED = "it expired in this process, which was paused or too slow to renew it"
    UNREACHABLE = "the engine could not be reached to renew it in time"
    GONE = "the engine no longer has it, because it expired, was broken, or the data was lost"
    AT_MOST = "it reached its at_most, after which lockfast does not renew it"
    FENCED = "a guarded resource has seen a higher token"
    FOREIGN = "it belongs to the parent process, and a child must acquire its own"
    RELEASED = "it was released"


class LockfastError(Exception):
    """The base class of all exceptions that lockfast raises.

    `str(error)` is the message and a reference to the entry of the exception on the page
    "Troubleshooting". `anchor` is the name of that entry, and `message` the text without it.
    """

    anchor: ClassVar[str] = "lockfast-error"

    def __init__(self, message: str = "") -> None:
        """Keep the first LONGEST characters of the message. It may quote a long server error."""
        super().__init__(message if len(message) <= LONGEST else f"{message[:LONGEST]}...")

    def __str__(self) -> str:
        """Return the message, and where to read about it, in one line."""
        return f"{self.message} {self.reference()}".lstrip()

    @property
    def message(self) -> str:
        """The message as one printable line, because it quotes text of other processes."""
        return plain(super().__str__())

    @classmethod
    def reference(cls) -> str:
        """Return where to read about errors of this class.

        Returns:
            The last part of the text of such an error.

        """
        page = f"{SITE}troubleshooting.html#" if SITE else ""
        return f"(see: {page}{cls.anchor})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all attributes. Python's default would call `__init__` with the message alone."""
        return _restored, (type(self), self.args), self.__dict__


def quoted(error: object) -> str:
    """Return the text of an error without its reference, to be quoted by the message of another."""
    return error.message if isinstance(error, LockfastError) else str(error)


def _restored(kind: type[LockfastError], args: tuple[object, ...]) -> LockfastError:
    error = kind.__new__(kind)
    error.args = args
    return error


class NotAcquired(LockfastError, TimeoutError):
    """The lock was not granted before the timeout. The caller does not hold it.

    Attributes:
        name: The name of the lock.
        waited: Seconds that the caller has waited.
        holder: A description of the holder, as the holder has described itself.
    """

    anchor = "not-acquired"

    def __init__(self, name: str, waited: float, holder: str) -> None:
        """Take the lock's name, the seconds waited, and a description of the holder."""
        self.name = name
        self.waited = waited
        self.holder = holder
        super().__init__(
            f"{name!r} was not acquired within {waited:.3g} s: held by {holder}. "
            "Wait longer (timeout=...), or ask the holder to release it."
        )


class LeaseLost(LockfastError):
    """A lease ended before its holder released it. Another process may hold the lock now.

    Stop working on the protected resource. To continue, acquire the lock again.

    Attributes:
        name: The name of the lock.
        ticket: The ticket of the lease. For an exclusive lock it is the fencing token.
        reason: Why the lease is not held.
        broken: Who broke the lock and why, or None if it was not broken.
    """

    anchor = "lease-lost"

    def __init__(
        self,
        name: str,
        ticket: int,
        reason: Loss,
        broken: Break | None = None,
        *,
        exclusive: bool = True,
    ) -> None:
        """Take the lock's name, the ticket of the lost lease, and why it was lost.

        `broken`: who broke the lock and why, if it was broken and the engine has the record.
        `exclusive`: whether the ticket is a fencing token. The message names it by that word.
        """
        self.name = name
        self.ticket = ticket
        self.reason = reason
        self.broken = broken
        why = reason.value if broken is None else f"it was {broken}"
        super().__init__(
            f"the lease on {name!r} ({'token' if exclusive else 'ticket'} {ticket}) is not held: "
            f"{why}. Stop writing, and acquire the lock again to continue."
        )


class StaleToken(LockfastError):
    """A guard rejected a write, because it has already seen the token of a later holder.

    The lease is lost. Stop, and acquire the lock again to continue.

    Attributes:
        name: The name of the lock.
        token: The token that the guard rejected.
        current: The highest token that the guard has seen.
    """

    anchor = "stale-token"

    def __init__(self, name: str, token: int, current: int) -> None:
        """Take the lock's name, the rejected token, and the highest token that the guard saw."""
        self.name = name
        self.token = token
        self.current = current
        super().__init__(
            f"the write to {name!r} with token {token} was rejected, because the guard has already "
            f"seen token {current}. The lease is lost. Stop writing, and acquire the lock again to "
            "continue."
        )


class Unguarded(LockfastError, RuntimeError):
    """A write to a guarded resource was rejected, because its token could not be checked.

    It came without a token, with the token of another lock, or after the guarded transaction had
    ended. Or the resource cannot be guarded where it is, for example on a network filesystem.
    """

    anchor = "unguarded"


class Deadlock(LockfastError):
    """The wait could never end, because it depends on the waiter itself.

    The waiter holds the lock, or a lock for which the holder waits, directly or through others. Or
    it waits in a callback, in the thread or task that renews all leases of its client.

    Attributes:
        claim: The id of the lease that the waiter holds and the others wait for. It is empty if the
            others wait behind the waiting claim itself.
    """

    anchor = "deadlock"

    def __init__(self, message: str, claim: str = "") -> None:
        """Take the message, and the id of the claim that the waiter holds and the others wait for.

        `claim` is empty if there is none: the others wait behind the waiting claim itself.
        """
        self.claim = claim
        super().__init__(message)


class KindMismatch(LockfastError, ValueError):
    """The name is in use for another kind of lock: lock, read/write lock or semaphore.

    Attributes:
        name: The name.
        asked: The kind that was requested.
        ruling: The kind that the name is in use for.
    """

    anchor = "kind-mismatch"

    def __init__(self, name: str, asked: str, ruling: str) -> None:
        """Take the name, the kind that was requested, and the kind of the claims that exist."""
        self.name = name
        self.asked = asked
        self.ruling = ruling
        super().__init__(
            f"{name!r} is in use as a {ruling}, and was requested as a {asked}. "
            "Use a different name for each of them."
        )


class GuaranteeMissing(LockfastError):
    """The engine's guarantees are weaker than the level that `connect(url, require=...)` named."""

    anchor = "guarantee-missing"


class ClientClosed(LockfastError, RuntimeError):
    """The client was closed. Call `connect()` to get a new one."""

    anchor = "client-closed"


class WrongLoop(LockfastError, RuntimeError):
    """An asyncio client was used from a second event loop. Each event loop needs its own client."""

    anchor = "wrong-loop"


class EngineError(LockfastError):
    """The engine did not answer, or it answered with an error."""

    anchor = "engine-error"


class EngineUnavailable(EngineError, ConnectionError):
    """The engine did not answer in time, or the connection to it failed.

    Attributes:
        sent: True if the engine may have received and applied the request. False if nothing can
            have happened.
        after: Seconds after which an overloaded lock service asks for the request again. 0 if it
            has not said anything.
    """

    anchor = "engine-unavailable"

    def __init__(self, message: str, *, sent: bool, after: float = 0.0) -> None:
        """Take the message, and whether the request may have reached the engine.

        `sent` is True if the outcome is unknown, and False if nothing can have happened.
        """
        self.sent = sent
        self.after = after
        super().__init__(message)


class EngineRefused(EngineError):
    """The engine rejected the request: permissions, memory, its version or its configuration."""

    anchor = "engine-refused"
