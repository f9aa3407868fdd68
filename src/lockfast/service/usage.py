"""How much a subject uses of one replica. There is no count over all replicas: see `rights`."""

from __future__ import annotations

from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Clock
from lockfast.service.rights import Denied, Limits

MANY = 4_096  # subjects, before those are forgotten that use nothing


class Overrun(EngineUnavailable):
    """A request that came too soon after others of its subject. It may be repeated later."""

    def __init__(self, message: str, after: float) -> None:
        """`after`: seconds until it may be repeated."""
        super().__init__(message, sent=False)
        self.after = after


class Bucket:
    """Tokens that come back at a steady rate. It holds those of one second."""

    __slots__ = ("_at", "_spent")

    def __init__(self) -> None:
        """Begin full."""
        self._spent = 0.0
        self._at = 0.0

    def wait(self, amount: float, rate: float, now: float) -> float:
        """Take tokens, and return 0. If there are too few, take none, and return the seconds until
        there are enough. A request for more than fit takes all of them, and those that come next.
        """
        spent = max(self._spent - (now - self._at) * rate, 0.0)
        room = max(rate, 1.0)
        if spent and spent + amount > room:
            self._spent, self._at = spent, now
            return min(spent, spent + amount - room) / rate
        self._spent, self._at = spent + amount, now
        return 0.0

    def full(self, rate: float, now: float) -> bool:
        """Return whether nothing is missing."""
        return self._spent <= (now - self._at) * rate


class Usage:
    """What one subject uses."""

    __slots__ = (
        "_bytes", "_clock", "_kept", "_requests", "claims", "connections", "limits", "name",
        "waiters",
    )  # fmt: skip

    def __init__(self, name: str, limits: Limits, clock: Clock) -> None:
        """Begin with nothing."""
        self.name = name
        self.limits = limits
        """They change when the configuration is reloaded."""
        self.connections = 0
        self.claims = 0
        """Those that wait are among them."""
        self.waiters = 0
        self._clock = clock
        self._requests, self._kept, self._bytes = Bucket(), Bucket(), Bucket()

    @property
    def counts_claims(self) -> bool:
        """Whether claims must be counted."""
        return self.limits.max_claims is not None or self.limits.max_waiters is not None

    def request(self, count: int, size: int, *, keeps: bool) -> None:
        """Count a request with this many claims and bytes. Raise `Overrun` if it is one too many.

        `keeps`: it renews or releases. These have as many tokens of their own, so that a flood of
        other requests costs no lease.
        """
        limits, now = self.limits, self._clock()
        if limits.max_requests is not None:
            bucket = self._kept if keeps else self._requests
            wait = bucket.wait(count, limits.max_requests, now)
            if wait:
                raise self._overrun("max_requests", f"{limits.max_requests} requests", wait)
        if limits.max_bytes is not None and not keeps:
            wait = self._bytes.wait(size, limits.max_bytes, now)
            if wait:
                raise self._overrun("max_bytes", f"{limits.max_bytes} bytes of requests", wait)

    def _overrun(self, limit: str, what: str, wait: float) -> Overrun:
        return Overrun(
            f"{self.name!r} is over its limit of {what} in a second ({limit}). Try again in "
            f"{wait:.2f} s",
            wait,
        )

    def crowded(self, more: int = 0) -> bool:
        """Return whether there are too many connections, with so many more."""
        most = self.limits.max_connections
        return most is not None and self.connections + more > most

    def require_room(self, *, queue: bool) -> None:
        """Raise `Denied` if one more claim is too many. `queue`: it may have to wait."""
        limits = self.limits
        if limits.max_claims is not None and self.claims >= limits.max_claims:
            raise self.over("max_claims", f"{limits.max_claims} locks at the same time")
        if queue and limits.max_waiters is not None and self.waiters >= limits.max_waiters:
            raise self.over("max_waiters", f"{limits.max_waiters} waiters at the same time")

    def require_ttl(self, ttl: float) -> None:
        """Raise `Denied` if a ttl is too long."""
        longest = self.limits.max_ttl
        if longest is not None and ttl > longest:
            raise self.over("max_ttl", f"a ttl of {longest:g} s, and asked for {ttl:g} s")

    def over(self, limit: str, what: str) -> Denied:
        """Return the error for a limit."""
        return Denied(
            f"{self.name!r} is limited to {what} in one replica. To allow more, change {limit} in "
            "the configuration of the service, and send HUP to each replica"
        )

    def idle(self) -> bool:
        """Return whether it can be forgotten, because a new one would be the same."""
        limits, now = self.limits, self._clock()
        return not (self.connections or self.claims) and all(
            rate is None or bucket.full(rate, now)
            for bucket, rate in (
                (self._requests, limits.max_requests),
                (self._kept, limits.max_requests),
                (self._bytes, limits.max_bytes),
            )
        )


class Usages:
    """What each subject uses, also after the configuration was reloaded."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none."""
        self._clock = clock
        self._known: dict[str, Usage] = {}

    def of(self, name: str, limits: Limits) -> Usage:
        """Return what a subject uses, with the limits that it has from now on."""
        usage = self._known.get(name)
        if usage is None:
            if len(self._known) >= MANY:
                self._known = {key: each for key, each in self._known.items() if not each.idle()}
            usage = self._known[name] = Usage(name, limits, self._clock)
        usage.limits = limits
        return usage
