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

from lockfast.claims.claim import ASKING, ENDED, HELD, LEAVING, NEVER, WAITING, Live
from lockfast.claims.owners import Owners
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

    renew: list[list[Live]]
    resign: list[Live]
    lost: list[Live]
    dropped: list[Live]
    wanted: list[Live]
    patience: float
    """Seconds for which the heart may be kept from renewing."""
    shortest: float
    """The shortest interval, in seconds, at which anything else is renewed."""


class Claims:
    """The table, and the timetable that goes with it."""

    def __init__(self) -> None:
        """Begin empty, with nobody to rouse."""
        self.rouse: Callable[[], object] = bool
        """Makes the heart look at the timetable again."""
        self._lock = Mutex()
        self._by_id: dict[str, Live] = {}
        self._pulse: Pulse[Live] = Pulse()
        self._leaving: dict[Live, float] = {}
        self._lost: list[Live] = []
        self._dropped: list[Live] = []
        self._wanted: list[Live] = []
        self._owners = Owners()
        self._resign_at = 0.0
        self._planned = NEVER
        self._closed = False

    def __len__(self) -> int:
        """Count the claims that live or are still to be resigned."""
        return len(self._by_id)

    def all(self) -> list[Live]:
        """List them."""
        with self._lock:
            return list(self._by_id.values())

    def get(self, id_: str) -> Live | None:
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

    def register(self, live: Live, now: float) -> None:
        """Take a claim in, before its first copy is sent."""
        with self._lock:
            if self._closed:
                raise ClientClosed("this lockfast client is closed: connect() again")
            self._by_id[live.id] = live
            self._owners.add(live)
            lane = live.lane = self._pulse.lane(live.shape.wait_ttl / BEATS)
            due = lane[live] = now + lane.interval
            if due < self._planned:
                self._hurry(due)

    def answered(self, live: Live, sent: float, standing: Standing | None, now: float) -> None:
        """Take in the reply to a claim: None if its id is dead."""
        with self._lock:
            if standing is not None and standing.ticket and live.phase is ASKING:
                live.observe(sent, standing.left)
                if standing.granted and now < live.until:  # the common case, in short
                    live.ticket = standing.ticket
                    live.floor = standing.floor
                    live.behind = standing.behind
                    live.phase = HELD
                else:
                    self._read(live, sent, standing, now)
            # Last: until its reply has been taken in, the claim must not look like one that was
            # never sent. An earlier copy without a reply may still be on its way.
            live.copies -= 1

    def wait(self, live: Live, event: Event) -> None:
        """Hand over the event to set when the claim is granted or gone."""
        with self._lock:
            live.event = event
            if live.phase is not WAITING or live.called_off:
                event.set()

    def call_off(self, owner: object) -> None:
        """End what a thread or task waits for, as if its time were over."""
        with self._lock:
            for live in self._owners.claims(owner):
                live.called_off = True
                if live.event is not None:
                    live.event.set()

    def wake(self, wakes: Iterable[Wake], now: float) -> None:
        """Take pushes in. They may be lost, early or doubled, and may overtake a reply."""
        with self._lock:
            for wake in wakes:
                if wake is EVERYONE:
                    for live in list(self._by_id.values()):
                        if live.phase is WAITING:
                            self._pulse.appoint(live, now)
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
        lives: Iterable[Live],
        sent: float,
        standings: Iterable[Standing | Exception | None],
        now: float,
    ) -> tuple[list[Live], list[Live]]:
        """Take in the replies to a renewal: None for a claim that the engine no longer has.

        Give back those that are in jeopardy since, and those that were until now, since their
        renewal was late.
        """
        worried: list[Live] = []
        late = []
        with self._lock:
            for live, standing in zip(lives, standings, strict=True):
                if isinstance(standing, Standing):
                    overdue = live.overdue(sent)
                    self._renewed(live, sent, standing, now)
                    if overdue and live.phase is HELD:
                        late.append(live)
                elif standing is not None:
                    worried += self._unanswered(live, now)
                elif live.phase is HELD:
                    self._lose(live, Loss.GONE)
                elif live.phase is WAITING:
                    self._end(live)
        return worried, late

    def unanswered(self, lives: Iterable[Live], now: float) -> list[Live]:
        """Take in that a renewal failed: try again soon, and be there when the time is over.

        Give back those that are in jeopardy since.
        """
        with self._lock:
            return [each for live in lives for each in self._unanswered(live, now)]

    def postpone(self, lives: Iterable[Live], now: float) -> None:
        """Put claims back whose renewal is due, and was not tried."""
        with self._lock:
            for live in lives:
                if live.phase in (HELD, WAITING):
                    self._pulse.appoint(live, now)

    def lose(self, live: Live, reason: Loss) -> None:
        """End a lease from outside: a guard has refused its token."""
        with self._lock:
            if live.phase is HELD:
                self._lose(live, reason)
                self.rouse()

    def on_lost(self, live: Live, callback: Callable[[], object]) -> None:
        """Have the heart call `callback` when the lease is lost, also if it already was."""
        with self._lock:
            live.callbacks += (callback,)
            if live.loss not in (None, Loss.RELEASED, Loss.FOREIGN):
                self._lost.append(live)
                self.rouse()

    def on_contended(self, live: Live, callback: Callable[[], object]) -> None:
        """Have the heart call `callback` once somebody waits behind the lease."""
        with self._lock:
            live.wanted += (callback,)
            if live.behind:
                self._wanted.append(live)
                self.rouse()

    def on_end(self, live: Live, event: Event) -> None:
        """Set `event` when the lease is lost or released, or at once if it was."""
        with self._lock:
            if live.loss is None:
                live.watchers += (event,)
            else:
                event.set()

    def off_end(self, live: Live, event: Event) -> None:
        """Set that event no more: whoever waited for it has left."""
        with self._lock:
            live.watchers = tuple(each for each in live.watchers if each is not event)

    def off_lost(self, live: Live, callback: Callable[[], object]) -> None:
        """Call that callback no more."""
        with self._lock:
            live.callbacks = tuple(each for each in live.callbacks if each != callback)

    def leave(self, live: Live, now: float) -> bool:
        """Give a claim up without waiting: the heart resigns it. False if there is nothing to do.

        It is forgotten when the engine has confirmed, or when no copy can be alive any more.
        """
        with self._lock:
            if live.phase is ENDED:
                return False
            if live.phase is ASKING and not live.copies:
                self._end(live)
                return False
            self._leave(live, now)
            self._resign_at = 0.0
            self.rouse()
            return True

    def end(self, live: Live, reason: Loss = Loss.RELEASED) -> None:
        """Forget a claim that the engine no longer has."""
        with self._lock:
            if live.loss is None:
                live.loss = reason
            self._end(live)

    def releasing(self, live: Live, now: float) -> bool:
        """Begin to release a lease: it is renewed no more. False if it was not held any more."""
        with self._lock:
            if live.phase is not HELD:
                return False
            if live.loss is None and now < live.until:
                live.lose(Loss.RELEASED)
            elif live.loss is not Loss.RELEASED:
                live.expired(now)
                self._lose(live, Loss.EXPIRED)
                self.rouse()
                return False
            live.leaving = now
            live.phase = LEAVING
            if live.id not in self._by_id:  # an interruption has released it from here
                live.phase = ENDED
                return False
            lane = live.lane
            # The heart is to look after it within a waiter's beat: not if it is about to renew it,
            # and has taken it out, nor if it was renewed for longer.
            if lane is None or live not in lane or lane.interval * BEATS > live.shape.wait_ttl:
                self._keep(live, now)
            return True

    def linger(self, live: Live) -> None:
        """Keep a released claim at the engine until its time has come: the heart resigns it then.

        Its ttl is not shorter than that, so it needs no renewal, and outlives this process.
        """
        with self._lock:
            if live.phase is not ENDED:
                self._linger(live)
                self._hurry(live.keep)

    def hasten(self, live: Live, now: float) -> None:
        """Have a lease renewed at once."""
        with self._lock:
            self._appoint(live, now)

    def missing(self, live: Live, now: float) -> None:
        """Take in that a release found nothing there: lost, unless the heart has resigned it.

        Nor is it lost if its time ran out before the answer came: it was held when its release
        began, and the engine may have dropped it by itself since then.
        """
        with self._lock:
            if live.phase is LEAVING and live not in self._leaving and now < live.until:
                live.loss = Loss.GONE
                self._lost.append(live)  # whoever is told of losses is told of this one too
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
                [live for live in batch if self._pays(live, now)] for batch in self._pulse.take(now)
            ]
            lost, self._lost = self._lost, []
            lost = [live for live in lost if live.loss is not Loss.RELEASED]
            dropped, self._dropped = self._dropped, []
            wanted, self._wanted = self._wanted, []
            for live, over in list(self._leaving.items()):
                if now > over:
                    self._end(live)  # every copy has expired by itself
            shortest = self._pulse.shortest()
            patience = min(1.0, shortest / 2.0)
            leaving = list(self._leaving) if now >= self._resign_at else []
            renew = [batch for batch in batches if batch]
            return Work(renew, leaving, lost, dropped, wanted, patience, shortest)

    def resigned(self, lives: Iterable[Live]) -> None:
        """Forget claims that the engine has confirmed to be gone."""
        with self._lock:
            for live in lives:
                self._end(live)

    def unresigned(self, now: float) -> None:
        """Take in that resignations failed: they are due again in a moment."""
        with self._lock:
            self._resign_at = now + 0.25

    def restart(self, now: float) -> None:
        """Put everything back into the timetable: a heart has died, and took some out."""
        with self._lock:
            for live in list(self._by_id.values()):
                if live.phase is HELD:
                    live.doubt(now)
                if live.phase in (HELD, WAITING):
                    self._pulse.appoint(live, now)

    def close(self) -> list[Live]:
        """Take no more claims, and give back all that live."""
        with self._lock:
            self._closed = True
        return self.all()

    def disown(self) -> None:
        """Make every claim foreign: this is a forked child, and they are its parent's."""
        for live in list(self._by_id.values()):
            live.lose(Loss.FOREIGN)
            live.phase = ENDED

    def _renewed(self, live: Live, sent: float, standing: Standing, now: float) -> None:
        if live.phase is HELD:
            if live.wanted and standing.behind:
                self._wanted.append(live)
            live.behind = standing.behind
            if not live.extend(sent, standing.left, now):
                self._lose(live, Loss.EXPIRED)
                return
        elif live.phase is WAITING:
            live.observe(sent, standing.left)
            self._read(live, sent, standing, now)
        else:
            return
        self._keep(live, now)

    def _unanswered(self, live: Live, now: float) -> list[Live]:
        pause = min(live.shape.wait_ttl / 12.0, 1.0)
        if live.phase is HELD:
            news = [] if live.unsure else [live]
            live.doubt(now)
            self._pulse.appoint(live, min(now + pause, live.until))
            return news
        if live.phase is WAITING:
            if now < live.until + live.shape.wait_ttl:
                self._pulse.appoint(live, now + pause)
            else:  # the engine has dropped it: its acquisition goes on with another
                self._leave(live, now)
                if live.event is not None:
                    live.event.set()
        return []

    def _keep(self, live: Live, now: float) -> None:
        shape = live.shape
        life = shape.ttl if live.phase is HELD else shape.wait_ttl
        if live.lane is not None:
            live.lane.pop(live, None)
        lane = live.lane = self._pulse.lane(life / BEATS)
        due = lane[live] = now + lane.interval
        if due < self._planned:
            self._hurry(due)

    def _appoint(self, live: Live, when: float) -> None:
        self._pulse.appoint(live, when)
        self._hurry(when)

    def _hurry(self, when: float) -> None:
        """Rouse the heart if it sleeps for longer than that."""
        if when < self._planned:
            self._planned = -NEVER
            self.rouse()

    def _read(self, live: Live, sent: float, standing: Standing, now: float) -> None:
        live.ticket = standing.ticket
        live.behind = standing.behind
        live.phase = WAITING
        if standing.granted:
            live.floor = standing.floor
            live.pushed = now
            self._start(live, now)
            return
        live.blocker = standing.blocker
        if live.pushed <= sent:
            # Asked after it was told of its grant, the engine says that it waits: it has lost the
            # grant, and a late copy of the claim waits, because the engine's clock went back.
            live.pushed = NEVER
        if live.pushed < NEVER:  # the push overtook this reply
            self._appoint(live, now)
        elif standing.recheck is not None:
            when = now + standing.recheck + 0.001
            # One at a time: each beat's would bring on another, more and more while it waits.
            if live.recheck <= now or when < live.recheck:
                live.recheck = when
                self._appoint(live, when)
        self._start(live, now)

    def _start(self, live: Live, now: float) -> None:
        """Let a waiter in, if it was granted and what is left of its last renewal is good."""
        if live.pushed < NEVER and now < live.until:
            live.phase = HELD
            live.blocker = None
            if live.event is not None:
                live.event.set()

    def _pays(self, live: Live, now: float) -> bool:
        """Decide whether a claim that is due is renewed."""
        if live.phase is ENDED:
            return False
        if live.phase is LEAVING:
            if now - live.leaving < live.shape.wait_ttl / BEATS:
                self._keep(live, now)  # in the middle of its release
            elif now >= live.keep:
                self._leave(live, now)  # that has taken a whole beat, or was interrupted twice
            return False
        if live.lease() is None:
            if live.handed:
                self._drop(live)
            elif now < live.keep:
                self._linger(live)
            else:
                self._leave(live, now)
            return False
        if live.phase is ASKING:
            self._keep(live, now)  # its reply is still to come
            return False
        if live.phase is HELD and live.expired(now):
            self._lose(live, Loss.EXPIRED)
            return False
        return True

    def _drop(self, live: Live) -> None:
        """Let go of a lease that nobody has any more, and of those that were taken with it."""
        ids = live.siblings or (live.id,)
        for each in [self._by_id[id_] for id_ in ids if id_ in self._by_id]:
            self._dropped.append(each)
            self._end(each)

    def _linger(self, live: Live) -> None:
        live.phase = LEAVING
        live.leaving = -NEVER
        if live.lane is not None:
            live.lane.pop(live, None)
        self._pulse.appoint(live, live.keep)
        self._tell(live)

    def _lose(self, live: Live, reason: Loss) -> None:
        live.lose(reason)
        if live.loss is Loss.RELEASED:
            return  # an interruption has released it since its phase was looked at
        self._lost.append(live)
        self._leave(live, live.until)
        self._tell(live)

    def _leave(self, live: Live, now: float) -> None:
        shape = live.shape
        live.phase = LEAVING
        if live.lane is not None:
            live.lane.pop(live, None)
        self._leaving[live] = max(now, live.until, live.not_after) + shape.ttl

    def _end(self, live: Live) -> None:
        if live.lane is not None:
            live.lane.pop(live, None)
        if self._leaving:
            self._leaving.pop(live, None)
        self._by_id.pop(live.id, None)
        self._owners.drop(live)
        live.phase = ENDED  # last: Ctrl-C on the way must not leave half of it behind
        if live.event is not None:
            live.event.set()
        if live.watchers:
            self._tell(live)

    def _tell(self, live: Live) -> None:
        for watcher in live.watchers:
            watcher.set()
