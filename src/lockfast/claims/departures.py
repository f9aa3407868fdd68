"""How claims leave the table: released, lost, dropped, resigned, and forgotten in the end."""

from __future__ import annotations

from collections.abc import Iterable

from lockfast.claims.claim import NEVER, Claim
from lockfast.claims.owners import Owners
from lockfast.claims.phases import ASKING, ENDED, HELD, LEAVING
from lockfast.claims.schedule import BEATS, Schedule
from lockfast.errors import Loss


class Departures(Schedule):
    """The claims of a client, and those that are to be resigned. A part of the table: see there."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self._by_id: dict[str, Claim] = {}
        self._owners = Owners()
        self._leaving: dict[Claim, float] = {}
        """Claims to be resigned, and when the last copy of each has expired by itself."""
        self._resign_at = 0.0

    def leave(self, claim: Claim, now: float) -> bool:
        """Give a claim up without waiting: the heart resigns it. False if there is nothing to do.

        It is forgotten when the engine has confirmed, or when no copy can be alive any more.
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
        """Begin to release a lease: it is renewed no more. False if it was not held any more."""
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
            if claim.id not in self._by_id:  # an interruption has released it from here
                claim.phase = ENDED
                return False
            lane = claim.lane
            # The heart is to look after it within a waiter's beat: not if it is about to renew it,
            # and has taken it out, nor if it was renewed for longer.
            if lane is None or claim not in lane or lane.interval * BEATS > claim.shape.wait_ttl:
                self._keep(claim, now)
            return True

    def linger(self, claim: Claim) -> None:
        """Keep a released claim at the engine until its time has come: the heart resigns it then.

        Its ttl is not shorter than that, so it needs no renewal, and outlives this process.
        """
        with self._lock:
            if claim.phase is not ENDED:
                self._linger(claim)
                self._hurry(claim.keep)

    def missing(self, claim: Claim, now: float) -> None:
        """Mark a claim GONE that its release did not find, unless the heart has resigned it.

        Nor is it lost if its time ran out before the answer came: it was held when its release
        began, and the engine may have dropped it by itself since then.
        """
        with self._lock:
            if claim.phase is LEAVING and claim not in self._leaving and now < claim.until:
                claim.loss = Loss.GONE
                self._lost.append(claim)  # whoever is told of losses is told of this one too
                self.rouse()

    def lose(self, claim: Claim, reason: Loss) -> None:
        """End a lease from outside: a guard has refused its token."""
        with self._lock:
            if claim.phase is HELD:
                self._lose(claim, reason)
                self.rouse()

    def resigned(self, claims: Iterable[Claim]) -> None:
        """Forget claims that the engine has confirmed to be gone."""
        with self._lock:
            for claim in claims:
                self._end(claim)

    def unresigned(self, now: float) -> None:
        """Note that resignations failed: they are due again in a moment."""
        with self._lock:
            self._resign_at = now + 0.25

    def _drop(self, claim: Claim) -> None:
        """Let go of a lease that nobody has any more, and of those that were taken with it."""
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
            return  # an interruption has released it since its phase was looked at
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
        claim.phase = ENDED  # last: Ctrl-C on the way must not leave half of it behind
        if claim.event is not None:
            claim.event.set()
        if claim.watchers:
            self._tell(claim)

    def _attend(self, batch: Iterable[Claim], now: float) -> list[Claim]:
        """Return those of the claims that are due which the heart must renew; end the others, or
        put them off.
        """
        due = []
        for claim in batch:
            if claim.phase is LEAVING:
                self._attend_leaving(claim, now)
            elif claim.phase is not ENDED and claim.lease() is None:
                self._attend_unwanted(claim, now)
            elif claim.phase is ASKING:
                self._keep(claim, now)  # its reply is still to come
            elif claim.phase is HELD and claim.expired(now):
                self._lose(claim, Loss.EXPIRED)
            elif claim.phase is not ENDED:
                due.append(claim)
        return due

    def _attend_leaving(self, claim: Claim, now: float) -> None:
        if now - claim.leaving < claim.shape.wait_ttl / BEATS:
            self._keep(claim, now)  # in the middle of its release
        elif now >= claim.keep:
            # Its release took longer than a beat, or Ctrl-C ended it: the heart resigns it.
            self._leave(claim, now)

    def _attend_unwanted(self, claim: Claim, now: float) -> None:
        """See to a claim whose lease nobody has any more."""
        if claim.handed:
            self._drop(claim)
        elif now < claim.keep:
            self._linger(claim)
        else:
            self._leave(claim, now)
