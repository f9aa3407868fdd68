"""The server behind the replicas: the queues of exclusive locks, on a machine that can fail.

It answers as `core.queue` does, which a test compares. That model is written to be read, and looks
at a whole queue for each request; here a fleet waits in one queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from lockfast.core.token import mint
from lockfast.port import CLIENT, TOMB_MARGIN, Ask, Blocker, Standing, Wake
from tests.robustness.simulation.storms.machine import Machine, Time

if TYPE_CHECKING:
    from tests.robustness.simulation.storms.access import Access

EPOCH = 1.7e9  # what its clock says at the beginning
COST = 30e-6  # seconds of processor time that one claim costs


class Member:
    """A claim in its queue."""

    __slots__ = ("expires", "gone", "granted", "head", "id", "life", "number", "ticket", "ttl")

    def __init__(self, ask: Ask, ticket: int, number: int) -> None:
        self.id = ask.id
        self.ticket = ticket
        self.number = number
        """The how-manieth in its queue it is."""
        self.life = ask.shape.wait_ttl
        """How many seconds it lives without a renewal."""
        self.ttl = ask.shape.ttl
        self.head = Blocker(ask.id, ticket, ask.payload)
        """How waiters see it."""
        self.expires = 0.0
        self.granted = self.gone = False

    def copy(self) -> Member:
        """Return a copy, as another server has it."""
        twin: Member = object.__new__(Member)
        for slot in self.__slots__:
            setattr(twin, slot, getattr(self, slot))
        return twin


class Queues:
    """All queues, by name: members in the order of their tickets."""

    def __init__(self) -> None:
        self.last = 0
        self.wakes: list[Wake] = []
        self.granted: Callable[[str, Member], object] = lambda *_: None
        """Called with the name and the member when a claim is granted."""
        self.members: dict[str, Member] = {}
        self._names: dict[str, deque[Member]] = {}
        self._tombs: dict[str, float] = {}

    def claim(self, ask: Ask, now: float) -> Standing | None:
        """Append a claim, or find it by its id, and return its standing. None: the id is dead."""
        last = ask.not_after if ask.fixed is None else ask.fixed
        if self._tombs.get(ask.id, 0.0) > now or now > last:
            return None
        queue = self._look(ask.shape.name, now)
        mine = self._alive(ask.id, now)
        if mine is None:
            if queue and not ask.queue:
                head = queue[0].head
                return Standing(0, granted=False, left=0.0, ahead=len(queue), blocker=head)
            self.last = mint(self.last, int(now * 1e6))
            mine = Member(ask, self.last, queue[-1].number + 1 if queue else 0)
            mine.expires = now + mine.life
            self.members[ask.id] = mine
            queue.append(mine)
            self._names[ask.shape.name] = queue
            if len(queue) == 1:
                self._let_in(ask.shape.name, mine)
                mine.expires = now + mine.life
        return self._standing(queue, mine, now)

    def renew(self, ask: Ask, now: float) -> Standing | None:
        """Extend a claim to its full life, and return its standing. None: it is gone."""
        queue = self._look(ask.shape.name, now)
        mine = self._alive(ask.id, now)
        if mine is None:
            return None
        mine.expires = max(mine.expires, now + mine.life)
        return self._standing(queue, mine, now)

    def resign(self, ask: Ask, now: float, *, doubt: bool) -> bool:
        """Remove a claim for good, and return whether it was there. `doubt` leaves a tombstone."""
        if doubt:
            until = (ask.not_after if ask.fixed is None else ask.fixed) + TOMB_MARGIN
            self._tombs[ask.id] = max(self._tombs.get(ask.id, until), until)
        self._look(ask.shape.name, now)
        mine = self._alive(ask.id, now)
        if mine is None:
            return False
        self._drop(mine)
        self._look(ask.shape.name, now)
        return True

    def copy(self) -> Queues:
        """Return a copy, as another server has it."""
        twin = Queues()
        twin.last, twin._tombs, twin.granted = self.last, dict(self._tombs), self.granted
        twin.members = {id_: member.copy() for id_, member in self.members.items()}
        twin._names = {
            name: deque(twin.members[each.id] for each in queue if not each.gone)
            for name, queue in self._names.items()
        }
        return twin

    def _drop(self, member: Member) -> None:
        member.gone = True
        del self.members[member.id]

    def _alive(self, id_: str, now: float) -> Member | None:
        """Return a member. Behind the head, one that has expired is removed when it is looked for:
        until then it only takes a place.
        """
        mine = self.members.get(id_)
        if mine is not None and mine.expires <= now:
            self._drop(mine)
            return None
        return mine

    def _look(self, name: str, now: float) -> deque[Member]:
        """Remove what has ended from the front of a queue, let the first one in, and return it."""
        queue = self._names.get(name)
        if queue is None:
            return deque()
        while queue and (queue[0].gone or queue[0].expires <= now):
            first = queue.popleft()
            if not first.gone:
                self._drop(first)
        if not queue:
            del self._names[name]
        elif not queue[0].granted:
            self._let_in(name, queue[0])
            self.wakes.append(Wake(queue[0].id, granted=True, floor=queue[0].ticket))
        return queue

    def _let_in(self, name: str, member: Member) -> None:
        member.granted = True
        member.life = member.ttl
        self.granted(name, member)

    def _standing(self, queue: deque[Member], mine: Member, now: float) -> Standing:
        head = queue[0]
        if mine.granted:
            return Standing(
                mine.ticket,
                granted=True,
                left=mine.expires - now,
                behind=len(queue) - 1,
                floor=mine.ticket,
            )
        while queue[1].gone or queue[1].expires <= now:
            if not queue[1].gone:
                self._drop(queue[1])
            del queue[1]
        return Standing(
            mine.ticket,
            granted=False,
            left=mine.expires - now,
            ahead=mine.number - head.number,
            behind=queue[-1].number - mine.number,
            floor=head.ticket,
            blocker=head.head,
            recheck=head.expires - now if queue[1] is mine else None,
        )


class Database:
    """The server: it pauses, restarts, and fails over to a replica of its own that is behind."""

    def __init__(self, time: Time, stands: int) -> None:
        self.cost = COST * stands
        self.machine = Machine.new(time, "database")
        self.queues = Queues()
        self.up = True
        self.life = 0
        """Which process it is: what was sent to an earlier one has no answer."""
        self.listeners: dict[str, dict[Access, None]] = {}
        """The accesses that hear each client."""
        self.accesses: dict[Access, None] = {}
        self._time = time

    def clock(self) -> float:
        """Return its time."""
        return EPOCH + self._time.now

    def push(self) -> None:
        """Send the wakes that the last operation has caused."""
        wakes, self.queues.wakes = self.queues.wakes, []
        for wake in wakes:
            for access in self.listeners.get(wake.id[:CLIENT], ()):
                access.pushed(wake)

    def pause(self, seconds: float) -> None:
        """Do nothing for a while. What is sent to it meanwhile is applied afterwards."""
        self.machine.charge(seconds)

    def stop(self, queues: Queues) -> None:
        """End, and come back with these queues when `start` is called."""
        self.up = False
        self.life += 1
        self.machine.ready.clear()
        self.queues = queues
        self.queues.wakes.clear()
        self.listeners.clear()
        for access in self.accesses:
            access.cut_off()

    def start(self) -> None:
        """Come back."""
        self.up = True
        for access in self.accesses:
            access.restored()
