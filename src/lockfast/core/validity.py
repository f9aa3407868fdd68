"""How long a lease is valid, and its states. It reads no clock: every `now` is an argument."""

from __future__ import annotations

from enum import Enum

from lockfast.errors import Loss

DRIFT = 0.01
"""How much faster than ours the engine's clock may run, as a fraction. Quartz is off by 0.01 %, a
slewing NTP daemon by 0.05 %, a bad virtual machine by more."""


NONE: tuple[str, ...] = ()


class State(Enum):
    """The state of a lease.

    `JEOPARDY`: a renewal is overdue, its outcome is unknown, or `at_most` is over. `LOST`: the
    lease ended before its holder released it.
    """

    HELD = "held"
    JEOPARDY = "jeopardy"
    LOST = "lost"
    RELEASED = "released"


class Validity:
    """The time for which a claim is valid. The deadline only grows, and a loss is for ever.

    It needs no mutex. The first thread that finds the deadline past records the loss, and a
    recorded loss wins over an extension that another thread makes at the same moment.
    """

    __slots__ = NONE  # the subclass `Claim` has them: claim and validity are one object

    until: float
    """The claim is valid until then."""
    kept: float
    """When the last request was sent that extended it."""
    worry: float
    """The claim is in jeopardy from then on."""
    unsure: bool
    """Whether a renewal was sent whose outcome is unknown."""
    limit: float
    """From then on the claim is not renewed (`at_most`). Infinite if there is no such limit."""
    loss: Loss | None

    def observe(self, sent: float, left: float) -> None:
        """Extend the deadline: by a reply, the engine keeps the claim for `left` more seconds.

        `sent`: just before the request was sent. The seconds count from there and never from the
        reply, because the engine's count began somewhere between the two (traps 21, 43).
        """
        until = sent + left * (1.0 - DRIFT)
        if until > self.until:
            self.until = until
            self.kept = sent
            self.worry = sent + left / 2.0  # by then one renewal has failed or is overdue

    def extend(self, sent: float, left: float, now: float) -> bool:
        """Do the same for a holder. False if its lease is lost: a late reply does not revive it."""
        if self.expired(now):
            return False
        self.unsure = False
        self.observe(sent, left)
        return True

    def doubt(self, now: float) -> None:
        """Note that a renewal was sent and its outcome is unknown: the claim is now in jeopardy."""
        self.unsure = True
        self.worry = min(self.worry, now)

    def expired(self, now: float) -> bool:
        """Return whether the claim is lost. If its deadline has passed, record the loss first."""
        if self.loss is None and now >= self.until:
            if self.until >= self.limit:
                self.loss = Loss.AT_MOST
            else:
                self.loss = Loss.UNREACHABLE if self.unsure else Loss.EXPIRED
        return self.loss is not None

    def due(self, now: float, beats: float) -> bool:
        """Return whether a holder's renewal is due: one of `beats` in the time that it was given.

        It is not if the claim is lost or expired, or if `at_most` is over.
        """
        over = self.loss is not None or now >= min(self.until, self.limit)
        return not over and now - self.kept >= (self.until - self.kept) / beats

    def lose(self, reason: Loss) -> None:
        """Record a loss. If there is one already, its reason stays."""
        if self.loss is None:
            self.loss = reason

    def state(self, now: float) -> State:
        """Return the state, computed from `now`. So it is right even just after a pause of the
        process, whether or not the heart has run since.
        """
        if self.expired(now):
            return State.RELEASED if self.loss is Loss.RELEASED else State.LOST
        return State.JEOPARDY if now >= min(self.worry, self.limit) else State.HELD
