"""A server's clock, as one of its replies showed it: translates local instants to server times."""

from __future__ import annotations

from lockfast.port import Ask, ServerTime


class ServerClock:
    """What a reply told. Another reply makes another one: clocks are moved, and drift."""

    __slots__ = ("_ahead", "_units")

    def __init__(self, told: int, received: float, units: int) -> None:
        """`told`: the time in the reply. `received`: when it was read, by the local clock. `units`:
        how many the server counts in a second.

        A reply takes time. So the server's clock shows at least what is computed here, and what is
        refused after such a time is never applied later than the client has asked for.
        """
        self._ahead = told / units - received
        self._units = units

    def at(self, instant: float) -> ServerTime:
        """Return an instant of the local clock by the server's; at most, never later."""
        return ServerTime(int((instant + self._ahead) * self._units))

    def latest(self, ask: Ask) -> ServerTime:
        """Return until when the server may apply the copy of a claim that is sent now. The latest
        of all copies is noted on the claim, for its tombstone.
        """
        late = self.at(ask.not_after)
        ask.late = max(ask.late, late)
        return late

    def last(self, ask: Ask) -> ServerTime:
        """Return the end of the time in which any copy of a claim may be applied. Never before what
        a copy said: a reply that was read late, or a clock that was moved, may since have made the
        server's time look earlier than it is.
        """
        return max(self.at(ask.not_after), ask.late)
