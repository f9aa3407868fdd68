"""The table of live claims of one client: register, answer, wake, due, leave. It never awaits.

A claim is registered before it is sent, since a wake-up on one socket can overtake the reply on
another. Everything here is short and synchronous, under one mutex, for threads and asyncio.

A signal handler or a finalizer may call any method of the table between any two bytecodes of
another one, in the same thread: the mutex lets it in, so each method must bear that others run
completely between two of its steps. Hence: no loop over a dictionary that another method changes,
loops run over copies; a claim's phase is looked at again after a step that another release could
have come before; the first loss that is recorded stands.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from lockfast.claims.claim import NEVER, Claim
from lockfast.claims.departures import Departures
from lockfast.claims.phases import ASKING, ENDED, HELD, WAITING
from lockfast.claims.schedule import BEATS
from lockfast.errors import ClientClosed, Loss
from lockfast.port import EVERYONE, Standing, Wake
from lockfast.runtime.base import Event

T = TypeVar("T")
WELCOME = 0.01  # seconds by which a new holder's first renewal gives way to its work,
PLENTY = 1.0  # if at least so many are left to it


class Work(NamedTuple):
    """What the heart has to do now."""

    renew: list[list[Claim]]
    resign: list[Claim]
    lost: list[Claim]
    dropped: list[Claim]
    wanted: list[Claim]
    patience: float
    """Seconds for which the heart may be kept from renewing."""
    shortest: float
    """The shortest interval, in seconds, at which anything else is renewed."""


class Table(Departures):
    """The table, with its schedule, its notices and its departures."""

    def __init__(self) -> None:
        """Begin empty."""
        super().__init__()
        self._closed = False

    def __len__(self) -> int:
        """Count the claims that live or are still to be resigned."""
        return len(self._by_id)

    def all(self) -> list[Claim]:
        """List them."""
        with self._lock:
            return list(self._by_id.values())

    def get(self, id_: str) -> Claim | None:
        """Find a claim of this client."""
        return self._by_id.get(id_)

    def holding(self, owner: object) -> dict[str, str]:
        """Return what a thread or task holds: names by ids."""
        if owner not in self._owners:
            return {}
        with self._lock:
            return self._owners.holding(owner)

    def inside(self) -> bool:
        """Return whether this thread was interrupted inside the table by what it does now."""
        return self._lock.inside()

    async def aside(self, wait: Coroutine[Any, Any, T]) -> T:
        """Wait for something that the heart brings about, without keeping it out of the table."""
        return await self._lock.aside(wait)

    def register(self, claim: Claim, now: float) -> None:
        """Take a claim in, before its first copy is sent."""
        with self._lock:
            if self._closed:
                raise ClientClosed("this lockfast client is closed: connect() again")
            self._by_id[claim.id] = claim
            self._owners.add(claim)
            lane = claim.lane = self._pulse.lane(claim.shape.wait_ttl / BEATS)
            due = lane[claim] = now + lane.interval
            if due < self._planned:
                self._hurry(due)

    def answered(self, claim: Claim, sent: float, standing: Standing | None, now: float) -> None:
        """Process the reply to a claim: None if its id is dead."""
        with self._lock:
            if standing is not None and standing.ticket and claim.phase is ASKING:
                claim.observe(sent, standing.left)
                if standing.granted and now < claim.until:  # the common case, in short
                    claim.ticket = standing.ticket
                    claim.floor = standing.floor
                    claim.behind = standing.behind
                    claim.phase = HELD
                else:
                    self._read(claim, sent, standing, now)
            # Last: until its reply has been taken in, the claim must not look like one that was
            # never sent. An earlier copy without a reply may still be on its way.
            claim.copies -= 1

    def wait(self, claim: Claim, event: Event) -> None:
        """Hand over the event to set when the claim is granted or gone."""
        with self._lock:
            claim.event = event
            if claim.phase is not WAITING or claim.called_off:
                event.set()

    def call_off(self, owner: object) -> None:
        """End what a thread or task waits for, as if its time were over."""
        with self._lock:
            for claim in self._owners.claims(owner):
                claim.called_off = True
                if claim.event is not None:
                    claim.event.set()

    def wake(self, wakes: Iterable[Wake], now: float) -> None:
        """Process pushes. They may be lost, early or doubled, and may overtake a reply."""
        with self._lock:
            for wake in wakes:
                if wake is EVERYONE:
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
                    # At once, since the engine still counts the waiter's shorter time; but where
                    # there is enough of that, let the new holder begin first.
                    pause = WELCOME if found.until - now > PLENTY else 0.0
                    self._pulse.appoint(found, now + pause)
                elif found.phase is HELD and not wake.granted:
                    self._pulse.appoint(found, now)  # its connection ended, or has come back

    def renewed(
        self,
        claims: Iterable[Claim],
        sent: float,
        standings: Iterable[Standing | Exception | None],
        now: float,
    ) -> tuple[list[Claim], list[Claim]]:
        """Process the replies to a renewal: None for a claim that the engine no longer has.

        Return those that are in jeopardy since, and those that were until now, since their
        renewal was late.
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
                    worried += self._unanswered(claim, now)
                elif claim.phase is HELD:
                    self._lose(claim, Loss.GONE)
                elif claim.phase is WAITING:
                    self._end(claim)
        return worried, late

    def unanswered(self, claims: Iterable[Claim], now: float) -> list[Claim]:
        """Note that a renewal failed: try again soon, and be there when the time is over.

        Return those that are in jeopardy since.
        """
        with self._lock:
            return [each for claim in claims for each in self._unanswered(claim, now)]

    def plan(self) -> float | None:
        """Tell the heart until when it may sleep; an earlier appointment rouses it."""
        with self._lock:
            self._planned = NEVER  # first: what is registered meanwhile rouses the heart
            following = 0.0 if self._lost or self._wanted else self._pulse.next()
            planned = NEVER if following is None else following
            if self._leaving:
                planned = min(planned, self._resign_at)
            self._planned = planned
            return None if planned == NEVER else planned

    def work(self, now: float) -> Work:
        """Tell the heart what to do now."""
        with self._lock:
            self._planned = -NEVER  # the heart is awake: it will plan again by itself
            renew = []
            for batch in self._pulse.take(now):
                due = self._attend(batch, now)
                if due:
                    renew.append(due)
            lost, self._lost = self._lost, []
            lost = [claim for claim in lost if claim.loss is not Loss.RELEASED]
            dropped, self._dropped = self._dropped, []
            wanted, self._wanted = self._wanted, []
            for claim, over in list(self._leaving.items()):
                if now > over:
                    self._end(claim)  # every copy has expired by itself
            shortest = self._pulse.shortest()
            patience = min(1.0, shortest / 2.0)
            leaving = list(self._leaving) if now >= self._resign_at else []
            return Work(renew, leaving, lost, dropped, wanted, patience, shortest)

    def restart(self, now: float) -> None:
        """Put everything back into the timetable: a heart has died, and took some out."""
        with self._lock:
            for claim in list(self._by_id.values()):
                if claim.phase is HELD:
                    claim.doubt(now)
                if claim.phase in (HELD, WAITING):
                    self._pulse.appoint(claim, now)

    def close(self) -> list[Claim]:
        """Take no more claims, and give back all that live."""
        with self._lock:
            self._closed = True
        return self.all()

    def disown(self) -> None:
        """Make every claim foreign: this is a forked child, and they are its parent's."""
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

    def _unanswered(self, claim: Claim, now: float) -> list[Claim]:
        pause = min(claim.shape.wait_ttl / 12.0, 1.0)
        if claim.phase is HELD:
            news = [] if claim.unsure else [claim]
            claim.doubt(now)
            self._pulse.appoint(claim, min(now + pause, claim.until))
            return news
        if claim.phase is WAITING:
            if now < claim.until + claim.shape.wait_ttl:
                self._pulse.appoint(claim, now + pause)
            else:  # the engine has dropped it: its acquisition goes on with another
                self._leave(claim, now)
                if claim.event is not None:
                    claim.event.set()
        return []

    def _read(self, claim: Claim, sent: float, standing: Standing, now: float) -> None:
        claim.ticket = standing.ticket
        claim.behind = standing.behind
        claim.phase = WAITING
        if standing.granted:
            claim.floor = standing.floor
            claim.pushed = now
            self._start(claim, now)
            return
        claim.blocker = standing.blocker
        if claim.pushed <= sent:
            # Asked after it was told of its grant, the engine says that it waits: it has lost the
            # grant, and a late copy of the claim waits, because the engine's clock went back.
            claim.pushed = NEVER
        if claim.pushed < NEVER:  # the push overtook this reply
            self._appoint(claim, now)
        elif standing.recheck is not None:
            when = now + standing.recheck + 0.001
            # One at a time: each beat's would bring on another, more and more while it waits.
            if claim.recheck <= now or when < claim.recheck:
                claim.recheck = when
                self._appoint(claim, when)
        self._start(claim, now)

    def _start(self, claim: Claim, now: float) -> None:
        """Let a waiter in, if it was granted and what is left of its last renewal is good."""
        if claim.pushed < NEVER and now < claim.until:
            claim.phase = HELD
            claim.blocker = None
            if claim.event is not None:
                claim.event.set()
