"""How claims leave the table: they are released, lost, dropped or resigned, and then forgotten."""

from __future__ import annotations

from collections.abc import Iterable

from lockfast.claims.claim import NEVER, Claim
from lockfast.claims.owners import Owners
from lockfast.claims.phases import ASKING, ENDED, HELD, LEAVING
from lockfast.claims.schedule import BEATS, Schedule
from lockfast.errors import Loss


class Departures(Schedule):
    """The claims of a client, and those to be resigned. A base class of the table."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self._by_id: dict[str, Claim] = {}
        self._owners = Owners()
        self._leaving: dict[Claim, float] = {}
        """Claims to be resigned, and when the last copy of each has expired at the engine."""
        self._resign_at = 0.0
        """When the heart sends resignations again, after an attempt failed."""

    def leave(self, claim: Claim, now: float) -> bool:
        """Make the heart resign a claim. Return False if there is nothing to resign.

        The claim is forgotten when the engine has confirmed that, or when every copy has expired.
        """
        with self._lock:
            if claim.phase is ENDED:
                return False
            if claim.phase is ASKING and not claim.copies:
                self._end(claim)
                return False
            self._leave(claim, now)
            self._resign_at = 0.0
            self.rouse()
            return True

    def end(self, claim: Claim, reason: Loss = Loss.RELEASED) -> None:
        """Forget a claim that the engine no longer has."""
        with self._lock:
            if claim.loss is None:
                claim.loss = reason
            self._end(claim)

    def releasing(self, claim: Claim, now: float) -> bool:
        """Stop renewing a lease that is being released. Return False if it is not held any more."""
        with self._lock:
            if claim.phase is not HELD:
                return False
            if claim.loss is None and now < claim.until:
                claim.lose(Loss.RELEASED)
            elif claim.loss is not Loss.RELEASED:
                claim.expired(now)
                self._lose(claim, Loss.EXPIRED)
                self.rouse()
                return False
            claim.leaving = now
            claim.phase = LEAVING
            if claim.id not in self._by_id:  # an interruption has released it since the first line
                claim.phase = ENDED
                return False
            lane = claim.lane
            # The heart must look at the claim within a third of the wait_ttl, in case this release
            # is interrupted. It would not if it has taken the claim out of its lane to renew it, or
            # if the lane has a longer interval. Then schedule the claim again.
            if lane is None or claim not in lane or lane.interval * BEATS > claim.shape.wait_ttl:
                self._keep(claim, now)
            return True

    def linger(self, claim: Claim) -> None:
        """Leave a released claim at the engine until `claim.keep`, when the heart resigns it.

        `at_least` is not longer than the ttl. So the claim needs no renewal, and the engine keeps
        it even if this process ends.
        """
        with self._lock:
            if claim.phase is not ENDED:
                self._linger(claim)
                self._hurry(claim.keep)

    def missing(self, claim: Claim, now: float) -> None:
        """Mark a claim GONE that its release did not find, unless the heart has resigned it.

        It is not lost either if its time ran out before the reply came. The lease was held when its
        release began, and the engine may have expired it since then.
        """
        with self._lock:
            if claim.phase is LEAVING and claim not in self._leaving and now < claim.until:
                claim.loss = Loss.GONE
                self._lost.append(claim)  # the heart reports it as it reports any other loss
                self.rouse()

    def lose(self, claim: Claim, reason: Loss) -> None:
        """Mark a lease as lost, because a guard rejected its token."""
        with self._lock:
            if claim.phase is HELD:
                self._lose(claim, reason)
                self.rouse()

    def resigned(self, claims: Iterable[Claim]) -> None:
        """Forget claims whose resignation the engine has confirmed."""
        with self._lock:
            for claim in claims:
                self._end(claim)

    def unresigned(self, now: float) -> None:
        """Schedule failed resignations again, in 0.25 seconds."""
        with self._lock:
            self._resign_at = now + 0.25

    def _drop(self, claim: Claim) -> None:
        """Forget a lease that its owner has dropped, and those that were acquired with it.

        They are not resigned, since the work under them may still go on: they end with their ttl.
        """
        ids = claim.siblings or (claim.id,)
        for each in [self._by_id[id_] for id_ in ids if id_ in self._by_id]:
            self._dropped.append(each)
            self._end(each)

    def _linger(self, claim: Claim) -> None:
        claim.phase = LEAVING
        claim.leaving = -NEVER
        if claim.lane is not None:
            claim.lane.pop(claim, None)
        self._pulse.appoint(claim, claim.keep)
        self._tell(claim)

    def _lose(self, claim: Claim, reason: Loss) -> None:
        claim.lose(reason)
        if claim.loss is Loss.RELEASED:
            return  # an interruption has released it since its phase was checked
        self._lost.append(claim)
        self._leave(claim, claim.until)
        self._tell(claim)

    def _leave(self, claim: Claim, now: float) -> None:
        shape = claim.shape
        claim.phase = LEAVING
        if claim.lane is not None:
            claim.lane.pop(claim, None)
        self._leaving[claim] = max(now, claim.until, claim.ask.not_after) + shape.ttl

    def _end(self, claim: Claim) -> None:
        if claim.lane is not None:
            claim.lane.pop(claim, None)
        if self._leaving:
            self._leaving.pop(claim, None)
        self._by_id.pop(claim.id, None)
        self._owners.drop(claim)
        claim.phase = ENDED  # after these steps: if Ctrl-C interrupts them, they can be done again
        if claim.event is not None:
            claim.event.set()
        if claim.watchers:
            self._tell(claim)

    def _attend(self, batch: Iterable[Claim], now: float) -> list[Claim]:
        """Return those due claims that the heart must renew. End or postpone the others."""
        due = []
        for claim in batch:
            if claim.phase is LEAVING:
                self._attend_leaving(claim, now)
            elif claim.phase is not ENDED and claim.lease() is None:
                self._attend_unwanted(claim, now)
            elif claim.phase is ASKING:
                self._keep(claim, now)  # nothing to renew before its reply has come
            elif claim.phase is HELD and claim.expired(now):
                self._lose(claim, Loss.EXPIRED)
            elif claim.phase is HELD and now >= claim.limit:
                self._pulse.appoint(claim, claim.until)  # `at_most` is over: let it expire
            elif claim.phase is not ENDED:
                due.append(claim)
        return due

    def _attend_leaving(self, claim: Claim, now: float) -> None:
        if now - claim.leaving < claim.shape.wait_ttl / BEATS:
            self._keep(claim, now)  # its release is still running
        elif now >= claim.keep:
            # The release takes longer than a beat, or Ctrl-C ended it. The heart resigns the claim.
            self._leave(claim, now)

    def _attend_unwanted(self, claim: Claim, now: float) -> None:
        """Forget, postpone or resign a claim whose lease was dropped."""
        if claim.handed:
            self._drop(claim)
        elif now < claim.keep:
            self._linger(claim)
        else:
            self._leave(claim, now)
