"""The one rule, as a reference model: the live claims of each name, in the order of tickets.

> A claim is granted if and only if all live claims ahead of it are granted, and its weight plus
> their weights is at most its own capacity.

All claims of a queue are of one kind.

The model is written to be read, not to be fast. Tests compare every engine with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lockfast.core.token import mint
from lockfast.errors import KindMismatch
from lockfast.port import ATTACHED, TOMB_MARGIN, Ask, Blocker, Entry, Shape, Standing, Wake


@dataclass(slots=True)
class Member:
    """A live claim in its queue."""

    ask: Ask
    ticket: int
    expires: float
    granted: bool = False

    @property
    def shape(self) -> Shape:
        """The shape of the lock that it asked for."""
        return self.ask.shape

    @property
    def life(self) -> float:
        """How many seconds it lives without a renewal."""
        return self.shape.ttl if self.granted else self.shape.wait_ttl


class Queues:
    """All queues of an engine. `wakes` collects the pushes that each operation causes."""

    def __init__(self) -> None:
        """Start with no claim, no tombstone, and no ticket given."""
        self.last = 0
        self.wakes: list[Wake] = []
        self._queues: dict[str, list[Member]] = {}
        self._tombs: dict[str, float] = {}
        self._attached: dict[str, tuple[int, float]] = {}
        """The epochs of claims by id, and until when each is remembered."""

    def claim(self, ask: Ask, now: float) -> Standing | None:
        """Append a claim, or find it by its id, and return its standing. None: the id is dead."""
        self._tombs = {id_: until for id_, until in self._tombs.items() if until > now}
        if ask.id in self._tombs or now > ask.not_after:
            return None
        shape = ask.shape
        queue = self._look(shape.name, now)
        mine = _find(queue, ask.id)
        if mine is None:
            _agree(shape, queue)
            weight = sum(m.shape.weight for m in queue) + shape.weight
            fits = weight <= shape.capacity and all(m.granted for m in queue)
            if not fits and not ask.queue:
                head = queue[0]
                blocker = Blocker(head.ask.id, head.ticket, head.ask.payload)
                return Standing(0, granted=False, left=0.0, ahead=len(queue), blocker=blocker)
            self.last = mint(self.last, int(now * 1e6))
            mine = Member(ask, self.last, 0.0, granted=fits)
            mine.expires = now + mine.life
            queue.append(mine)
            self._queues[shape.name] = queue
        return _standing(queue, mine, now)

    def renew(self, ask: Ask, now: float) -> Standing | None:
        """Extend a claim to its full life from now, and return its standing. None: it is gone."""
        queue = self._look(ask.shape.name, now)
        mine = _find(queue, ask.id)
        if mine is None:
            return None
        mine.expires = max(mine.expires, now + mine.life)
        return _standing(queue, mine, now)

    def resign(self, ask: Ask, now: float, *, doubt: bool) -> bool:
        """Remove a claim for good, and return whether it was there. `doubt` leaves a tombstone."""
        if doubt:
            until = ask.not_after + TOMB_MARGIN
            self._tombs[ask.id] = max(self._tombs.get(ask.id, until), until)
        queue = self._look(ask.shape.name, now)
        mine = _find(queue, ask.id)
        if mine is None:
            return False
        queue.remove(mine)
        self._grant(ask.shape.name, queue)
        return True

    def attach(self, ask: Ask, now: float) -> bool:
        """Store that a claim belongs to its connection, unless it belongs to a later one."""
        self._attached = {id_: each for id_, each in self._attached.items() if each[1] > now}
        latest, _ = self._attached.get(ask.id, (0, 0.0))
        if latest > ask.epoch:
            return False
        self._attached[ask.id] = (ask.epoch, now + ask.shape.ttl + ATTACHED)
        return True

    def depart(self, ask: Ask, now: float) -> bool:
        """Remove a claim for good if it belongs to its connection, and return whether it did."""
        latest, until = self._attached.get(ask.id, (0, 0.0))
        return latest == ask.epoch and until > now and self.resign(ask, now, doubt=True)

    def entries(self, name: str, now: float) -> list[Entry]:
        """Return the live claims on a name. Expired claims are left out, and not deleted here."""
        return [
            Entry(
                name=name,
                id=m.ask.id,
                ticket=m.ticket,
                granted=m.granted,
                kind=m.shape.kind,
                weight=m.shape.weight,
                capacity=m.shape.capacity,
                left=m.expires - now,
                payload=m.ask.payload,
            )
            for m in self._queues.get(name, [])
            if m.expires > now
        ]

    def names(self) -> list[str]:
        """Return the names that have claims, in sorted order."""
        return sorted(self._queues)

    def _look(self, name: str, now: float) -> list[Member]:
        """Delete the expired claims of a name, grant those that now fit, and return its queue.

        Expired claims are deleted and not filtered out. If the clock went back, a filter would
        bring a dead holder to life beside its successor. For the same reason, no claim expires
        later than one life from now.
        """
        queue = self._queues.get(name, [])
        queue[:] = [m for m in queue if m.expires > now]
        for member in queue:
            member.expires = min(member.expires, now + member.life)
        self._grant(name, queue)
        return queue

    def _grant(self, name: str, queue: list[Member]) -> None:
        """Apply the rule, and add a push for each claim that is newly granted."""
        if not queue:
            self._queues.pop(name, None)
        weight = 0
        for member in queue:
            weight += member.shape.weight
            if weight > member.shape.capacity:
                break
            if not member.granted:
                member.granted = True
                self.wakes.append(Wake(member.ask.id, granted=True, floor=queue[0].ticket))


def _agree(shape: Shape, queue: list[Member]) -> None:
    """Raise `KindMismatch` if the claims of a queue are of another kind than a new one."""
    if queue and queue[0].shape.kind is not shape.kind:
        raise KindMismatch(shape.name, shape.kind.words, queue[0].shape.kind.words)


def _find(queue: list[Member], id_: str) -> Member | None:
    return next((m for m in queue if m.ask.id == id_), None)


def _standing(queue: list[Member], mine: Member, now: float) -> Standing:
    head = queue[0]
    waiting = [m for m in queue if not m.granted]
    first = bool(waiting) and waiting[0] is mine
    return Standing(
        ticket=mine.ticket,
        granted=mine.granted,
        left=mine.expires - now,
        ahead=sum(1 for m in queue if m.ticket < mine.ticket),
        behind=sum(1 for m in waiting if m.ticket > mine.ticket),
        floor=head.ticket,
        blocker=None if mine.granted else Blocker(head.ask.id, head.ticket, head.ask.payload),
        recheck=min(m.expires for m in queue) - now if first else None,
    )
