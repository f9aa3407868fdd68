"""One live claim, as its client sees it: its phase, its standing, its time, its lease."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from lockfast.core.pulse import Lane
from lockfast.core.validity import Validity
from lockfast.port import Ask, Blocker
from lockfast.runtime.base import Event


class Phase(Enum):
    """Where a claim is in its life, as its client sees it."""

    ASKING = "sent, or about to be"
    WAITING = "in the queue"
    HELD = "granted"
    LEAVING = "to be resigned: until the engine says so, it may live there"
    ENDED = "nothing is left to do for it"


ASKING, WAITING, HELD, LEAVING, ENDED = Phase


class Ref(Protocol):
    """A weak reference to a lease."""

    def __call__(self) -> object | None:
        """Give the lease, or None when nobody has it any more."""


class Live(Validity):
    """One live claim: what the client knows of it."""

    __slots__ = (
        "ask",
        "behind",
        "blocker",
        "callbacks",
        "context",
        "copies",
        "event",
        "floor",
        "handed",
        "lane",
        "lease",
        "owner",
        "phase",
        "pushed",
        "ticket",
        "told",
        "watchers",
    )

    def __init__(self, ask: Ask, owner: object, lease: Ref) -> None:
        """Begin unsent."""
        super().__init__()
        self.ask = ask
        self.owner = owner
        self.lease = lease
        self.context = contextvars.copy_context()
        self.phase = ASKING
        self.copies = 0
        """Copies of the claim that were sent and not answered: while there are any, a resignation
        is in doubt."""
        self.ticket = 0
        self.floor = 0
        self.behind = 0
        self.blocker: Blocker | None = None
        self.event: Event | None = None
        self.pushed = False
        self.told = False
        self.handed = False
        """Whether the lease has reached its caller. One that was dropped before that was never
        believed in, and can be resigned; one that was dropped after that can not."""
        self.callbacks: list[Callable[[], object]] = []
        self.watchers: list[Event] = []
        self.lane: Lane[Live] | None = None
