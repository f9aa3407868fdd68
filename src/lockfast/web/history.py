"""What has happened to locks lately, as far as this process has seen it: a bounded ring of events.

Two looks at an engine differ by what has happened in between. A difference says that a claim is
gone, but not why: it was released, or its lease ended. The record of a break says more, and so do
the events of clients in this process, which `heard` takes.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lockfast.breaks import Break
from lockfast.primitives.lock import Holder
from lockfast.show.claims import bearer
from lockfast.web.claim import Claim, key_of
from lockfast.web.look import Look

MOST = 10_000  # events in all
EACH = 200  # events of one lock
MINUTE, HOUR = 60.0, 3_600.0
LATE = 5.0  # seconds between two looks, beyond what is planned, after which the page names the gap
GAPS = 20  # gaps that are remembered

WAITS, GRANTED = "waits", "granted"
GONE, LEFT, RELEASED, LOST, BROKEN = "gone", "left", "released", "lost", "broken"
REFUSED = "refused"
OF_SERVICE = {
    "granted": GRANTED,
    "released": RELEASED,
    "lost": LOST,
    "broken": BROKEN,
}
"""The kinds of the events that a replica of the service tells of. Not `expired` and `moved`: a
client that has moved to another replica keeps its lock, and only a scan tells whether it does."""
STAGES = {WAITS: 0, GRANTED: 1, GONE: 2, LEFT: 2, RELEASED: 2, LOST: 2, BROKEN: 2}
"""The stages of a claim. It reaches each of them once, however many tell of it."""


KNOWING = {LOST: 1, RELEASED: 2, BROKEN: 2}
"""What says more about an end counts, whichever was heard first."""


class Event(NamedTuple):
    """Something that has happened to a lock."""

    kind: str
    at: float
    """When it was seen, in seconds since 1970."""
    name: str
    id: str = ""
    ticket: int = 0
    exclusive: bool = True
    who: str = ""
    after: float = 0.0
    """When it had not happened yet, by the look before. 0: it was seen when it happened."""
    why: str = ""


class Gap(NamedTuple):
    """A time in which nothing was seen: nobody looked, or the engine did not answer."""

    began: float
    ended: float


class History:
    """The events of one engine."""

    def __init__(self) -> None:
        """Begin without events."""
        self.since = 0.0
        """When the first look ended, in seconds since 1970. 0: there was none."""
        self.gaps: deque[Gap] = deque(maxlen=GAPS)
        self._events: OrderedDict[int, Event] = OrderedDict()
        self._locks: dict[str, deque[int]] = {}
        self._stages: dict[tuple[str, str, int], int] = {}
        """By name, id and stage: the number of the event."""
        self._next = 0
        self._minutes: deque[tuple[int, Counter[str]]] = deque()

    def of(self, name: str) -> list[Event]:
        """Return the events of a lock, the oldest first."""
        return [self._events[number] for number in self._locks.get(name, ())]

    def latest(self, number: int) -> list[Event]:
        """Return the last events of all locks, the newest first."""
        found: list[Event] = []
        for event in reversed(self._events.values()):
            if len(found) == number:
                break
            found.append(event)
        return found

    def count(self, kind: str, now: float) -> int:
        """Return how many events of a kind there were within the last hour."""
        self._forget(now)
        return sum(counts[kind] for _, counts in self._minutes)

    def compare(self, before: Look, look: Look, gone: Sequence[Claim]) -> Iterator[Event]:
        """Return the differences between two looks, as events that are to be added. `gone`: the
        claims that only the first one has.
        """
        if before.number == 0:
            self.since = look.at
            return iter(())
        if look.at - before.at > look.took + before.pause + LATE:
            self.gaps.append(Gap(before.at, look.at))
        return _changes(before, look, gone)

    def broke(self, name: str, breaks: Iterable[Break]) -> None:
        """Take the records of breaks of a lock: they say why some of its holders are gone."""
        for each in breaks:
            number = self._stages.get((name, each.id, STAGES[GONE]))
            if number is not None and self._events[number].kind in {GONE, LOST}:
                event = self._events[number]
                self.add(event._replace(kind=BROKEN, why=str(each)))

    def add(self, event: Event) -> None:
        """Add an event, unless another one has told of it already, and has said as much."""
        stage = STAGES.get(event.kind)
        key = event.name, event.id, -1 if stage is None else stage
        known = None if stage is None else self._stages.get(key)
        if known is not None:
            old = self._events[known]
            if KNOWING.get(event.kind, 0) <= KNOWING.get(old.kind, 0):
                return
            self._events[known] = event
            for minute, counts in self._minutes:
                if minute == int(old.at / MINUTE):
                    counts[old.kind] -= 1
        else:
            self._keep(event, key)
        self._forget(event.at)
        minute = int(event.at / MINUTE)
        if not self._minutes or self._minutes[-1][0] < minute:
            self._minutes.append((minute, Counter()))
        self._minutes[-1][1][event.kind] += 1

    def write(self, event: str, **fields: str | int | bool | None) -> None:
        """Take an event of a replica of the service, with the fields of its audit log."""
        kind = OF_SERVICE.get(event)
        if kind is not None:
            subject, address = str(fields.get("subject") or ""), str(fields.get("address") or "")
            self.add(
                Event(
                    kind,
                    time.time(),
                    str(fields.get("lock") or ""),
                    str(fields.get("id") or ""),
                    int(fields.get("token") or 0),
                    who=" at ".join(filter(None, [subject, address])),
                    why="the service has not heard of its client for a ttl"
                    if event == "expired"
                    else "",
                )
            )

    def _keep(self, event: Event, key: tuple[str, str, int]) -> None:
        self._next += 1
        self._events[self._next] = event
        if key[2] >= 0:
            self._stages[key] = self._next
        numbers = self._locks.setdefault(event.name, deque())
        numbers.append(self._next)
        if len(numbers) > EACH:
            self._drop(numbers[0])
        elif len(self._events) > MOST:
            self._drop(next(iter(self._events)))

    def _drop(self, number: int) -> None:
        event = self._events.pop(number)
        stage = STAGES.get(event.kind)
        if stage is not None:
            del self._stages[event.name, event.id, stage]
        numbers = self._locks[event.name]
        numbers.popleft()  # the oldest of all is the oldest of its lock
        if not numbers:
            del self._locks[event.name]

    def _forget(self, now: float) -> None:
        while self._minutes and self._minutes[0][0] < (now - HOUR) / MINUTE:
            self._minutes.popleft()


def gone_since(before: Look, look: Look) -> list[Claim]:
    """Return the claims that a look does not have any more."""
    if look.cut:  # what it has left out may be held as before
        return []
    return [claim for key, claim in before.claims.items() if key not in look.claims]


def _changes(before: Look, look: Look, gone: Sequence[Claim]) -> Iterator[Event]:
    """Yield the changes, but not more of each kind than the ring has room for."""
    for claim in gone[-MOST:]:
        yield _event(GONE if claim.granted else LEFT, claim, before, look)
    for claim in look.fresh[-MOST:]:
        old = before.claims.get(key_of(claim.name, claim.id))
        if old is None and before.cut:
            continue  # it may have been there
        if old is None or old.granted != claim.granted:
            yield _event(GRANTED if claim.granted else WAITS, claim, before, look)


def _event(kind: str, claim: Holder, before: Look, look: Look) -> Event:
    who = f"{bearer(claim)} on {claim.who.host}"
    return Event(kind, look.at, claim.name, claim.id, claim.ticket, claim.exclusive, who, before.at)
