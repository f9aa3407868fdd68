"""How long a lease is good, and its states. It knows no clock: every `now` is an argument."""

from __future__ import annotations

from enum import Enum

from lockfast.errors import Loss

DRIFT = 0.01
"""How much faster than ours the engine's clock may run. Quartz is off by 0.01 %, a slewing NTP
daemon by 0.05 %, a bad virtual machine by more."""


NONE: tuple[str, ...] = ()


class State(Enum):
    """What a holder may believe. Unknown is not lost, and lost is not released."""

    HELD = "held"
    JEOPARDY = "jeopardy"
    LOST = "lost"
    RELEASED = "released"


class Validity:
    """The time a claim is good for. The deadline only grows, and a loss is for ever.

    No mutex: whoever finds the deadline past records the loss, and a recorded loss wins over an
    extension that another thread makes in the same moment.
    """

    __slots__ = NONE  # the claim that is valid has them: it is one object, not two

    until: float
    """Good until then."""
    worry: float
    """From then on in jeopardy."""
    unsure: bool
    """Whether a renewal went out whose outcome is unknown."""
    loss: Loss | None

    def observe(self, sent: float, left: float) -> None:
        """Learn from a reply that the engine keeps the claim for `left` more seconds.

        Counted from just before the request was sent, never from the reply: the engine's count
        began somewhere between the two (traps 21, 43).
        """
        until = sent + left * (1.0 - DRIFT)
        if until > self.until:
            self.until = until
            self.worry = sent + left / 2.0  # one renewal has failed, or is overdue

    def extend(self, sent: float, left: float, now: float) -> bool:
        """Learn the same as a holder. False if it is too late: a late OK revives nothing."""
        if self.expired(now):
            return False
        self.unsure = False
        self.observe(sent, left)
        return True

    def doubt(self, now: float) -> None:
        """Learn that a renewal went out and its outcome is unknown."""
        self.unsure = True
        self.worry = min(self.worry, now)

    def expired(self, now: float) -> bool:
        """Return whether it is lost; if its time is over, it is from now on."""
        if self.loss is None and now >= self.until:
            self.loss = Loss.UNREACHABLE if self.unsure else Loss.EXPIRED
        return self.loss is not None

    def lose(self, reason: Loss) -> None:
        """Record a loss; the first reason stands."""
        if self.loss is None:
            self.loss = reason

    def state(self, now: float) -> State:
        """Compute the state from the clock, so that the first question after a pause is answered
        truly, whether or not the heart has run since.
        """
        if self.expired(now):
            return State.RELEASED if self.loss is Loss.RELEASED else State.LOST
        return State.JEOPARDY if now >= self.worry else State.HELD
