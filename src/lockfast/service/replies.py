"""Translation of the engine's replies to messages.

Clients check what they read, and end a connection whose messages are out of bounds. So this keeps
every number and text within the bounds of `messages`.
"""

from __future__ import annotations

import logging

from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import Blocking, Fault, Found, Listed, Promised, Stood
from lockfast.errors import EngineUnavailable, KindMismatch, LockfastError, quoted
from lockfast.guarantees import Guarantees
from lockfast.port import Page, Standing
from lockfast.service.rights import Denied

log = logging.getLogger("lockfast")
LONGEST_TEXT = 4_000  # characters: `messages.Text`
LONGEST_SECONDS = 1e6  # `messages.Seconds`
FINDINGS = 100
FORMATS = 1_000


def stood(standing: Standing) -> Stood:
    """Return the message for a standing."""
    ticket, granted, left, ahead, behind, floor, head, recheck = standing
    blocker = None if head is None else Blocking(head.id, head.ticket, head.payload)
    again = None if recheck is None else _seconds(recheck)
    return Stood(ticket, granted, _seconds(left), ahead, behind, floor, blocker, again)


def fault(error: Exception, at: int = 0) -> Fault:
    """Return the message for an error. `at`: which claim of the request has failed."""
    why = quoted(error)[:LONGEST_TEXT]
    if isinstance(error, EngineUnavailable):
        after = _seconds(getattr(error, "after", 0.0))
        return Fault("unavailable", why, sent=error.sent, at=at, after=after)
    if isinstance(error, KindMismatch):
        return Fault("kind-mismatch", why, asked=error.asked, ruling=error.ruling, at=at)
    if isinstance(error, LockfastError):
        return Fault("refused", why, at=at, denied=isinstance(error, Denied))
    return fault(internal(error), at)


def internal(error: Exception) -> EngineUnavailable:
    """Log an error that no engine may raise, and return the error that the client gets."""
    log.error("internal error in the service", exc_info=error)
    return EngineUnavailable("internal error of the service: see its log", sent=True)


def page(n: int, found: Page) -> messages.Page:
    """Return the message for a page of claims."""
    entries = [
        Listed(
            name=entry.name,
            id=entry.id,
            ticket=entry.ticket,
            granted=entry.granted,
            left=_seconds(entry.left),
            kind=int(entry.kind),
            weight=entry.weight,
            capacity=entry.capacity,
            payload=entry.payload,
        )
        for entry in found.entries
    ]
    return messages.Page(n, entries, found.cursor, sorted(found.others)[:FORMATS])


def promised(n: int, found: Guarantees) -> Promised:
    """Return the message for guarantees."""
    texts = [[text[:LONGEST_TEXT] for text in finding] for finding in found.findings[:FINDINGS]]
    return Promised(
        n,
        found.engine[:LONGEST_TEXT],
        int(found.level),
        found.promise[:LONGEST_TEXT],
        int(found.best),
        [Found(*each) for each in texts],
    )


def _seconds(left: float) -> float:
    return min(max(left, 0.0), LONGEST_SECONDS)
