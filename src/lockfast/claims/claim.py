"""One claim, as its client sees it: its phase, its standing, its deadline and its lease."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Protocol

from lockfast.breaks import Break
from lockfast.claims.phases import ASKING, HELD
from lockfast.core.timetable import Lane
from lockfast.core.validity import Validity
from lockfast.errors import Loss
from lockfast.port import Ask, Blocker
from lockfast.runtime.base import Event

NEVER = float("inf")
LATE = 12.0  # a renewal may be late by 1/LATE of the claim's life before a warning is logged


class Ref(Protocol):
    """A weak reference to an object that lives exactly as long as the claim is wanted."""

    def __call__(self) -> object | None:
        """Return the object, or None when it has been dropped."""


class Record(Protocol):
    """The telemetry of a grant."""

    def ended(self, loss: Loss | None) -> None:
        """Record that the hold ended, and why. Only the first call counts."""


class Claim(Validity):
    """One claim of this client: its request to the engine, and what the client knows of it."""

    __slots__ = (
        "announced",
        "ask",
        "behind",
        "blocker",
        "broken",
        "callbacks",
        "called_off",
        "context",
        "copies",
        "event",
        "floor",
        "handed",
        "holding",
        "id",
        "keep",
        "kept",
        "lane",
        "lease",
        "leaving",
        "life",
        "limit",
        "loss",
        "owner",
        "phase",
        "pushed",
        "recheck",
        "record",
        "shape",
        "siblings",
        "ticket",
        "told",
        "unsure",
        "until",
        "wanted",
        "watchers",
        "worry",
    )

    def __init__(self, ask: Ask, owner: object, lease: Ref) -> None:
        """Make a claim that is not sent yet and not valid yet.

        `ask`: what the engine receives. The engine sees nothing else of the claim.
        `owner`: the thread or task that acquires. `lease`: see `Ref`.
        """
        self.ask = ask
        self.id = ask.id
        self.shape = ask.shape
        self.life = min(ask.shape.wait_ttl, ask.departs or NEVER)
        """Seconds for which it is valid after a renewal, as long as it may wait."""
        self.owner = owner
        self.lease = lease
        self.context = contextvars.copy_context()
        self.until = self.worry = self.kept = 0.0
        self.limit = NEVER
        self.unsure = False
        self.loss: Loss | None = None
        self.broken: Break | None = None
        """Who broke the lock and why, if that is how it was lost and the engine has the record."""
        self.phase = ASKING
        self.copies = 0
        """How many copies of the claim were sent and not answered. If there are any, a resignation
        must leave a tombstone (`doubt`)."""
        self.ticket = self.floor = self.behind = 0
        self.blocker: Blocker | None = None
        self.event: Event | None = None
        self.pushed = NEVER
        """When the engine reported its grant; NEVER if it has not."""
        self.told = self.announced = False
        """Whether a release has raised the loss, and whether the heart has logged it."""
        self.leaving = 0.0
        """When its release began."""
        self.recheck = 0.0
        """When the heart is to ask whether the expiry of another claim has granted this one."""
        self.handed = False
        """Whether a caller has received the lease and keeps it. If the lease is dropped before
        that, no work has begun under it, and the heart resigns it. If it is dropped later, the work
        may still go on, so the claim is left to expire."""
        self.holding: dict[str, str] = {}
        """What the same thread or task held when it asked: names by the ids of the claims."""
        self.called_off = False
        """Whether its acquisition must end now, as if the timeout had passed."""
        self.siblings: Sequence[str] = ()
        """The ids of the claims that were acquired together with it, its own included."""
        self.keep = 0.0
        """The engine must keep the claim until then (`at_least`), even if it is released before."""
        self.callbacks: tuple[Callable[[], object], ...] = ()
        """What the heart calls when the lease is lost."""
        self.wanted: tuple[Callable[[], object], ...] = ()
        """What the heart calls once another claim waits behind this one."""
        self.watchers: tuple[Event, ...] = ()
        """Events to set when the lease is lost or released."""
        self.lane: Lane[Claim] | None = None
        self.record: Record | None = None

    def overdue(self, now: float) -> bool:
        """Return whether a holder's renewal is late because the heart could not run in time.

        A renewal that was sent and not answered (`unsure`) does not count.
        """
        late = now - self.worry > self.life / LATE
        return late and self.phase is HELD and not self.unsure

    def why(self) -> str:
        """Return in words why the lease is lost."""
        if self.broken is not None:
            return f"it was {self.broken}"
        return self.loss.value if self.loss else "?"

    def account(self) -> None:
        """Report the end of the hold to telemetry, if it is on.

        Never call this under the table's mutex, because an exporter may be slow.
        """
        if self.record is not None:
            self.record.ended(self.loss)
