"""One live claim, as its client sees it: its phase, its standing, its time, its lease."""

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
LATE = 12.0  # the part of its time by which a renewal may be late without a word


class Ref(Protocol):
    """A weak reference to whatever lives exactly as long as the claim is wanted."""

    def __call__(self) -> object | None:
        """Return it, or None when nobody has it any more."""


class Record(Protocol):
    """What telemetry remembers of a grant."""

    def ended(self, loss: Loss | None) -> None:
        """Note that it ended, and why. Only the first time counts."""


class Claim(Validity):
    """One claim of this client: what it asks of the engine, and what is known of it since."""

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
        "lane",
        "lease",
        "leaving",
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
        """Begin unsent, and good for no time at all.

        `ask`: what the engine receives. Nothing else of the claim is for an engine to see.
        """
        self.ask = ask
        self.id = ask.id
        self.shape = ask.shape
        self.owner = owner
        self.lease = lease
        self.context = contextvars.copy_context()
        self.until = self.worry = 0.0
        self.unsure = False
        self.loss: Loss | None = None
        self.broken: Break | None = None
        """Who broke it and why, if that is why it is lost and the engine told."""
        self.phase = ASKING
        self.copies = 0
        """Copies of the claim that were sent and not answered: while there are any, a resignation
        is in doubt."""
        self.ticket = self.floor = self.behind = 0
        self.blocker: Blocker | None = None
        self.event: Event | None = None
        self.pushed = NEVER
        """When it was told of its grant."""
        self.told = self.announced = False
        self.leaving = 0.0
        """When its release began."""
        self.recheck = 0.0
        """When it has an appointment to look whether an expiry lets it in."""
        self.handed = False
        """Whether the lease has reached a caller who keeps it. One that was dropped before that
        was never believed in, and can be resigned; one that was dropped later can not."""
        self.holding: dict[str, str] = {}
        """What the same thread or task held when it asked: names by the ids of the claims."""
        self.called_off = False
        """Whether its acquisition is to end, as if the time were over."""
        self.siblings: Sequence[str] = ()
        """The ids of the claims that are dropped together with it, its own among them."""
        self.keep = 0.0
        """Not to be given back before then."""
        self.callbacks: tuple[Callable[[], object], ...] = ()
        self.wanted: tuple[Callable[[], object], ...] = ()
        """Called once somebody waits behind it."""
        self.watchers: tuple[Event, ...] = ()
        self.lane: Lane[Claim] | None = None
        self.record: Record | None = None

    def overdue(self, now: float) -> bool:
        """Return whether a holder's renewal is late: the heart was kept from it, not the engine."""
        late = now - self.worry > self.shape.wait_ttl / LATE
        return late and self.phase is HELD and not self.unsure

    def why(self) -> str:
        """Say why it is lost."""
        if self.broken is not None:
            return f"it was {self.broken}"
        return self.loss.value if self.loss else "?"

    def account(self) -> None:
        """Tell telemetry, if it is on, that the hold has ended.

        Never under the table's lock: an exporter may take its time.
        """
        if self.record is not None:
            self.record.ended(self.loss)
