"""Translation of local instants to a server's time, from the time in one of its replies."""

from __future__ import annotations

from lockfast.port import Ask, ServerTime


class ServerClock:
    """A server's clock by one reply. Each reply makes a new one: clocks are set, and drift."""

    __slots__ = ("_ahead", "_units")

    def __init__(self, told: int, received: float, units: int) -> None:
        """Compute how far the server's clock is ahead of the local clock.

        `told`: the server's time in the reply. `received`: when the reply was read, by the local
        clock. `units`: how many units the server counts in a second.

        A reply takes time to arrive, so the server's clock shows at least the time computed here.
        A request that the server refuses after that time is never applied later than the client
        has asked for.
        """
        self._ahead = told / units - received
        self._units = units

    def at(self, instant: float) -> ServerTime:
        """Return the server's time at a local instant, or a slightly earlier one, never a later."""
        return ServerTime(int((instant + self._ahead) * self._units))

    def latest(self, ask: Ask) -> ServerTime:
        """Return until when the server may apply the copy of a claim that is sent now.

        `ask.late` keeps the latest of these times, because the claim's tombstone must outlive it.
        """
        late = self.at(ask.not_after)
        ask.late = max(ask.late, late)
        return late

    def last(self, ask: Ask) -> ServerTime:
        """Return the time after which the server applies no copy of a claim.

        It is never before the time that any copy was sent with. A reply that was read late, or a
        clock that was set, may have made the server's time look earlier since then.
        """
        return max(self.at(ask.not_after), ask.late)
