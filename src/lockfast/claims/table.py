"""The table of one client's claims: it processes replies, wakes and releases. It does no I/O.

A claim is registered before it is sent, since a wake-up on one socket can overtake the reply on
another. Everything here is short and synchronous, under one mutex, for threads and asyncio.

A signal handler or a finalizer may call any method of the table between any two bytecodes of
another one, in the same thread, because the mutex is re-entrant. So each method must tolerate that
others run completely between two of its steps. Loops run over copies of dictionaries that other
methods change. A claim's phase is checked again after a step before which another release may have
run. The first loss that is recorded stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lockfast.claims.claim import NEVER, Claim
from lockfast.claims.lateness import Lateness
from lockfast.claims.phases import ASKING, ENDED, HELD, WAITING
from lockfast.claims.schedule import BEATS
from lockfast.errors import ClientClosed, Loss
from lockfast.port import CLIENT, Standing, Wake
from lockfast.runtime.base import Event

WELCOME = 0.1  # seconds by which the first renewal of a woken holder lets its work go first,
PLENTY = 1.0  # if the claim is valid for at least this many seconds


class Work(NamedTuple):
    """What the heart must do in this beat."""

    renew: list[list[Claim]]
    resign: list[Claim]
    lost: list[Claim]
    dropped: list[Claim]
    wanted: list[Claim]
    patience: float
    """Seconds that other requests of this beat may take, so that the next renewals are in time."""
    shortest: float
    """The shortest renewal interval, in seconds, of the claims that are not due now."""


class Table(Lateness):
    """The claims of one client by id, with their schedule and their notifications. Thread-safe."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self._closed = False

    def __len__(self) -> int:
        """Return the number of claims, including those that are still to be resigned."""
        return len(self._by_id)

    def all(self) -> list[Claim]:
        """Return all claims, including those that are still to be resigned."""
        with self._lock:
            return list(self._by_id.values())

    def get(self, id_: str) -> Claim | None:
        """Return the claim with an id, or None if this client has no such claim."""
        return self._by_id.get(id_)

    def holding(self, owner: object) -> dict[str, str]:
        """Return the names that a thread or task holds, by the ids of the claims."""
        if owner not in self._owners:
            return {}
        with self._lock:
            return self._owners.holding(owner)

    def register(self, claim: Claim, now: float) -> None:
        """Add a claim, before its first copy is sent."""
        with self._lock:
            if self._closed:
                raise ClientClosed("this lockfast client is closed. Call connect() again.")
            self._by_id[claim.id] = claim
            self._owners.add(claim)
            lane = claim.lane = self._pulse.lane(claim.life / BEATS)
            due = lane[claim] = now + lane.interval
            if due < self._planned:
                self._hurry(due)
            if lane.interval < self._watched:
                self._alert()

    def answered(self, claim: Claim, sent: float, standing: Standing | None, now: float) -> None:
        """Process the reply to a claim. `standing` is None if the id is dead."""
        with self._lock:
            if standing is not None and standing.ticket and claim.phase is ASKING:
                claim.observe(sent, standing.left)
                if standing.granted and now < claim.until:  # the common case, without `_read`
                    ask = claim.ask
                    claim.ticket = ask.ticket = standing.ticket
                    ask.granted = True
                    claim.floor = standing.floor
                    claim.behind = standing.behind
                    claim.phase = HELD
                else:
                    self._read(claim, sent, standing, now)
            # Last, because an ASKING claim without copies counts as never sent. Not set to 0, since
            # an earlier copy that was not answered may still be under way.
            claim.copies -= 1

    def wait(self, claim: Claim, event: Event) -> None:
        """Set `event` when the claim is granted, gone or called off, or now if it already is."""
        with self._lock:
            claim.event = event
            if claim.phase is not WAITING or claim.called_off:
                event.set()

    def call_off(self, owner: object) -> None:
        """End the acquisitions of a thread or task, as if their timeouts had passed."""
        with self._lock:
            for claim in self._owners.claims(owner):
                claim.called_off = True
                if claim.event is not None:
                    claim.event.set()

    def wake(self, wakes: Iterable[Wake], now: float) -> None:
        """Process pushes. They may be lost, early or doubled, and may overtake a claim's reply."""
        with self._lock:
            for wake in wakes:
                if len(wake.id) <= CLIENT:  # wakes of all claims whose ids begin so may be missed
                    self._missed = now
                    for claim in list(self._by_id.values()):
                        if claim.phase is WAITING:
                            self._pulse.appoint(claim, now)
                    continue
                found = self._by_id.get(wake.id)
                if found is None:
                    continue
                if wake.granted:
                    found.pushed = now
                    found.floor = wake.floor
                if found.phase is WAITING:
                    self._start(found, now)
                    # Renew soon, since the engine still counts the shorter wait_ttl. If enough of
                    # it is left, the new holder's work goes first.
                    pause = WELCOME if found.until - now > PLENTY else 0.0
                    self._pulse.appoint(found, now + pause)
                elif found.phase is HELD and not wake.granted:
                    self._pulse.appoint(found, now)  # its connection ended, or was restored
                elif not wake.granted:
                    self._missed = now  # its reply is still to come: ask about it again then

    def renewed(
        self,
        claims: Iterable[Claim],
        sent: float,
        standings: Iterable[Standing | Exception | None],
        now: float,
    ) -> tuple[list[Claim], list[Claim]]:
        """Process the replies to a renewal: None for a claim that the engine no longer has.

        Return the claims that are in jeopardy from now on, and those that were in jeopardy until
        now because this renewal was late.
        """
        worried: list[Claim] = []
        late = []
        with self._lock:
            for claim, standing in zip(claims, standings, strict=True):
                if isinstance(standing, Standing):
                    overdue = claim.overdue(sent)
                    self._renewed(claim, sent, standing, now)
                    if overdue and claim.phase is HELD:
                        late.append(claim)
                elif standing is not None:
                    worried += self._unanswered(claim, sent, now)
                elif claim.phase is HELD:
                    self._lose(claim, Loss.GONE)
                elif claim.phase is WAITING:
                    self._end(claim)
        return worried, late

    def unanswered(self, claims: Iterable[Claim], sent: float, now: float) -> list[Claim]:
        """Process a renewal that failed: schedule a retry, at the latest when the lease expires.

        Return the claims that are in jeopardy from now on.
        """
        with self._lock:
            return [each for claim in claims for each in self._unanswered(claim, sent, now)]

    def plan(self) -> float | None:
        """Return until when the heart may sleep (None: no limit). Earlier appointments rouse it."""
        with self._lock:
            self._taken = ()
            self._planned = NEVER  # first: an interruption that registers a claim must rouse
            following = 0.0 if self._lost or self._wanted else self._pulse.next()
            planned = NEVER if following is None else following
            if self._leaving:
                planned = min(planned, self._resign_at)
            self._planned = planned
            return None if planned == NEVER else planned

    def work(self, now: float) -> Work:
        """Return what the heart must do now, and take it out of the schedule."""
        with self._lock:
            self._planned = -NEVER  # the heart is awake and will plan again: no need to rouse it
            renew = []
            for batch in self._pulse.take(now):
                due = self._attend(batch, now)
                if due:
                    renew.append(due)
            self._taken, self._worked = renew, now
            lost, self._lost = self._lost, []
            lost = [claim for claim in lost if claim.loss is not Loss.RELEASED]
            dropped, self._dropped = self._dropped, []
            wanted, self._wanted = self._wanted, []
            for claim, over in list(self._leaving.items()):
                if now > over:
                    self._end(claim)  # every copy has expired at the engine
            shortest = self._pulse.shortest()
            patience = min(1.0, shortest / 2.0)
            leaving = list(self._leaving) if now >= self._resign_at else []
            return Work(renew, leaving, lost, dropped, wanted, patience, shortest)

    def restart(self, now: float) -> None:
        """Schedule all claims again, after the heart failed while it had taken some of them out."""
        with self._lock:
            for claim in list(self._by_id.values()):
                if claim.phase is HELD:
                    claim.doubt(now)
                if claim.phase in (HELD, WAITING):
                    self._pulse.appoint(claim, now)

    def close(self) -> list[Claim]:
        """Accept no more claims, and return all that are left."""
        with self._lock:
            self._closed = True
        return self.all()

    def disown(self) -> None:
        """Mark every claim as FOREIGN in a forked child, since the parent holds them."""
        for claim in list(self._by_id.values()):
            claim.lose(Loss.FOREIGN)
            claim.phase = ENDED

    def _renewed(self, claim: Claim, sent: float, standing: Standing, now: float) -> None:
        if claim.phase is HELD:
            if claim.wanted and standing.behind:
                self._wanted.append(claim)
            claim.behind = standing.behind
            if not claim.extend(sent, standing.left, now):
                self._lose(claim, Loss.EXPIRED)
                return
        elif claim.phase is WAITING:
            claim.observe(sent, standing.left)
            self._read(claim, sent, standing, now)
        else:
            return
        self._keep(claim, now)

    def _unanswered(self, claim: Claim, sent: float, now: float) -> list[Claim]:
        pause = min(claim.life / 12.0, 1.0)
        if claim.phase is HELD and claim.kept > sent:
            return []  # the loop was blocked since then, and the stand-in has renewed the claim
        if claim.phase is HELD:
            news = [] if claim.unsure else [claim]
            claim.doubt(now)
            self._pulse.appoint(claim, min(now + pause, claim.until))
            return news
        if claim.phase is WAITING:
            if now < claim.until + claim.shape.wait_ttl:
                self._pulse.appoint(claim, now + pause)
            else:  # the engine has expired it, so its acquisition makes another claim
                self._leave(claim, now)
                if claim.event is not None:
                    claim.event.set()
        return []

    def _read(self, claim: Claim, sent: float, standing: Standing, now: float) -> None:
        claim.ticket = claim.ask.ticket = standing.ticket
        claim.behind = standing.behind
        claim.phase = WAITING
        if standing.granted:
            claim.floor = standing.floor
            claim.pushed = now
            self._start(claim, now)
            return
        claim.blocker = standing.blocker
        if claim.pushed <= sent:
            # This request was sent after the grant was pushed, and the reply says "waiting". The
            # engine lost the grant, and applied a late copy, because its clock went back.
            claim.pushed = NEVER
        if claim.pushed < NEVER or sent <= self._missed:  # a push overtook this reply, or was lost
            self._appoint(claim, now)
        elif standing.recheck is not None:
            when = now + standing.recheck + 0.001
            # One appointment at a time: otherwise every renewal would add one while it waits.
            if claim.recheck <= now or when < claim.recheck:
                claim.recheck = when
                self._appoint(claim, when)
        self._start(claim, now)

    def _start(self, claim: Claim, now: float) -> None:
        """Make a waiter the holder, if it was granted and its last renewal is still valid."""
        if claim.pushed < NEVER and now < claim.until:
            claim.phase = HELD
            claim.ask.granted = True
            claim.blocker = None
            if claim.event is not None:
                claim.event.set()
