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

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from lockfast.claims.claim import NEVER, Claim
from lockfast.claims.owners import Owners
from lockfast.claims.phases import ASKING, ENDED, HELD, LEAVING, WAITING
from lockfast.core.timetable import Pulse
from lockfast.errors import ClientClosed, Loss
from lockfast.port import EVERYONE, Standing, Wake
from lockfast.runtime.base import Event
from lockfast.runtime.mutex import Mutex

T = TypeVar("T")
BEATS = 3.0  # renewals in a ttl
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


class Table:
    """The table, and the timetable that goes with it."""

    def __init__(self) -> None:
        """Begin empty, with nobody to rouse."""
        self.rouse: Callable[[], object] = bool
        """Makes the heart look at the timetable again."""
        self._lock = Mutex()
        self._by_id: dict[str, Claim] = {}
        self._pulse: Pulse[Claim] = Pulse()
        self._leaving: dict[Claim, float] = {}
        self._lost: list[Claim] = []
        self._dropped: list[Claim] = []
        self._wanted: list[Claim] = []
        self._owners = Owners()
        self._resign_at = 0.0
        self._planned = NEVER
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
        """Tell what a thread or task holds: names by ids."""
        if owner not in self._owners:
            return {}
        with self._lock:
            return self._owners.holding(owner)

    def inside(self) -> bool:
        """Tell whether this thread was interrupted inside the table by what it does now."""
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
        """Take in the reply to a claim: None if its id is dead."""
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
        """Take pushes in. They may be lost, early or doubled, and may overtake a reply."""
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
        """Take in the replies to a renewal: None for a claim that the engine no longer has.

        Give back those that are in jeopardy since, and those that were until now, since their
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
        """Take in that a renewal failed: try again soon, and be there when the time is over.

        Give back those that are in jeopardy since.
        """
        with self._lock:
            return [each for claim in claims for each in self._unanswered(claim, now)]

    def postpone(self, claims: Iterable[Claim], now: float) -> None:
        """Put claims back whose renewal is due, and was not tried."""
        with self._lock:
            for claim in claims:
                if claim.phase in (HELD, WAITING):
                    self._pulse.appoint(claim, now)

    def lose(self, claim: Claim, reason: Loss) -> None:
        """End a lease from outside: a guard has refused its token."""
        with self._lock:
            if claim.phase is HELD:
                self._lose(claim, reason)
                self.rouse()

    def on_lost(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Have the heart call `callback` when the lease is lost, also if it already was."""
        with self._lock:
            claim.callbacks += (callback,)
            if claim.loss not in (None, Loss.RELEASED, Loss.FOREIGN):
                self._lost.append(claim)
                self.rouse()

    def on_contended(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Have the heart call `callback` once somebody waits behind the lease."""
        with self._lock:
            claim.wanted += (callback,)
            if claim.behind:
                self._wanted.append(claim)
                self.rouse()

    def on_end(self, claim: Claim, event: Event) -> None:
        """Set `event` when the lease is lost or released, or at once if it was."""
        with self._lock:
            if claim.loss is None:
                claim.watchers += (event,)
            else:
                event.set()

    def off_end(self, claim: Claim, event: Event) -> None:
        """Set that event no more: whoever waited for it has left."""
        with self._lock:
            claim.watchers = tuple(each for each in claim.watchers if each is not event)

    def off_lost(self, claim: Claim, callback: Callable[[], object]) -> None:
        """Call that callback no more."""
        with self._lock:
            claim.callbacks = tuple(each for each in claim.callbacks if each != callback)

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

    def hasten(self, claim: Claim, now: float) -> None:
        """Have a lease renewed at once."""
        with self._lock:
            self._appoint(claim, now)

    def missing(self, claim: Claim, now: float) -> None:
        """Take in that a release found nothing there: lost, unless the heart has resigned it.

        Nor is it lost if its time ran out before the answer came: it was held when its release
        began, and the engine may have dropped it by itself since then.
        """
        with self._lock:
            if claim.phase is LEAVING and claim not in self._leaving and now < claim.until:
                claim.loss = Loss.GONE
                self._lost.append(claim)  # whoever is told of losses is told of this one too
                self.rouse()

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
            batches = [
                [claim for claim in batch if self._pays(claim, now)]
                for batch in self._pulse.take(now)
            ]
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
            renew = [batch for batch in batches if batch]
            return Work(renew, leaving, lost, dropped, wanted, patience, shortest)

    def resigned(self, claims: Iterable[Claim]) -> None:
        """Forget claims that the engine has confirmed to be gone."""
        with self._lock:
            for claim in claims:
                self._end(claim)

    def unresigned(self, now: float) -> None:
        """Take in that resignations failed: they are due again in a moment."""
        with self._lock:
            self._resign_at = now + 0.25

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

    def _keep(self, claim: Claim, now: float) -> None:
        shape = claim.shape
        life = shape.ttl if claim.phase is HELD else shape.wait_ttl
        if claim.lane is not None:
            claim.lane.pop(claim, None)
        lane = claim.lane = self._pulse.lane(life / BEATS)
        due = lane[claim] = now + lane.interval
        if due < self._planned:
            self._hurry(due)

    def _appoint(self, claim: Claim, when: float) -> None:
        self._pulse.appoint(claim, when)
        self._hurry(when)

    def _hurry(self, when: float) -> None:
        """Rouse the heart if it sleeps for longer than that."""
        if when < self._planned:
            self._planned = -NEVER
            self.rouse()

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

    def _pays(self, claim: Claim, now: float) -> bool:
        """Decide whether a claim that is due is renewed."""
        if claim.phase is ENDED:
            return False
        if claim.phase is LEAVING:
            if now - claim.leaving < claim.shape.wait_ttl / BEATS:
                self._keep(claim, now)  # in the middle of its release
            elif now >= claim.keep:
                self._leave(claim, now)  # that has taken a whole beat, or was interrupted twice
            return False
        if claim.lease() is None:
            if claim.handed:
                self._drop(claim)
            elif now < claim.keep:
                self._linger(claim)
            else:
                self._leave(claim, now)
            return False
        if claim.phase is ASKING:
            self._keep(claim, now)  # its reply is still to come
            return False
        if claim.phase is HELD and claim.expired(now):
            self._lose(claim, Loss.EXPIRED)
            return False
        return True

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

    def _tell(self, claim: Claim) -> None:
        for watcher in claim.watchers:
            watcher.set()
