"""Translation of local instants to a server's time, from the time in one of its replies."""

from __future__ import annotations

from lockfast.port import Ask, ServerTime

LATEST = 2.0**33  # seconds since 1970, the year 2242: requests have a fixed number of digits for it


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

    def seconds(self, instant: float) -> float:
        """Return the same in seconds."""
        return instant + self._ahead

    def latest(self, ask: Ask) -> ServerTime:
        """Return until when the server may apply the copy of a claim that is sent now.

        `ask.late` keeps the latest of these times, because the claim's tombstone must outlive it.
        """
        late = self._end(ask)
        ask.late = max(ask.late, late)
        return late

    def last(self, ask: Ask) -> ServerTime:
        """Return the time after which the server applies no copy of a claim.

        It is never before the time that any copy was sent with. A reply that was read late, or a
        clock that was set, may have made the server's time look earlier since then.
        """
        return max(self._end(ask), ask.late)

    def _end(self, ask: Ask) -> ServerTime:
        fixed = ask.fixed
        return self.at(ask.not_after) if fixed is None else in_units(fixed, self._units)


def in_units(fixed: float, units: int) -> ServerTime:
    """Return a time that a client has fixed, in the units of the server's clock.

    It is within bounds, whatever the client has sent. Several engines write it with a fixed number
    of digits, and one digit more would make their server misread what follows.
    """
    return ServerTime(int(min(max(0.0, fixed), LATEST) * units))
