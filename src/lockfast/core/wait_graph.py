"""The wait-for graph: finds circles of waiting claims in queues that the caller has read.

A thread or task waits for one claim at a time, so that claim identifies it. While that claim is
stuck, so are the claims that the thread or task holds. A waiter for one of several permits is not
stuck as long as any holder can still proceed. So a claim counts as stuck only if it would not fit
even after all claims that can proceed have left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar


class Queued(Protocol):
    """A claim in a queue, as far as the graph looks at it."""

    @property
    def id(self) -> str:
        """The unique id."""
        ...

    @property
    def name(self) -> str:
        """The name of the lock."""
        ...

    @property
    def ticket(self) -> int:
        """The place in the queue."""
        ...

    @property
    def granted(self) -> bool:
        """Whether it holds, and does not wait."""
        ...

    @property
    def weight(self) -> int:
        """What it takes of the capacity."""
        ...

    @property
    def capacity(self) -> int:
        """The capacity that it asked for."""
        ...


Q = TypeVar("Q", bound=Queued)


class Link(NamedTuple, Generic[Q]):
    """One step of a circle: a waiting claim, and a claim ahead of it that is the next bearer's."""

    waiting: Q
    blocker: Q


class Waits(Generic[Q]):
    """The wait-for graph of some queues, and which of their waiting claims are stuck."""

    def __init__(
        self,
        queues: Mapping[str, Sequence[Q]],
        holding: Mapping[str, Mapping[str, str]],
        lenient: str = "",
    ) -> None:
        """Build the graph.

        `queues`: the queues by name, each in the order of tickets.
        `holding`: by the id of each waiting claim that matters, what its thread or task holds, as
        names by the ids of the claims. That thread or task is the bearer of all these claims.
        `lenient`: the id of a claim that may wait for what its own thread holds, because it has a
        timeout.
        """
        self._queues = queues
        self._lenient = lenient
        self._places = {
            entry.id: (entry, place)
            for queue in queues.values()
            for place, entry in enumerate(queue)
        }
        self._waiting = [
            id_ for id_ in holding if id_ in self._places and not self._places[id_][0].granted
        ]
        self._bearers: dict[str, str] = {}
        """By the id of a claim that is held, the id of the claim for which its bearer waits."""
        # In the order of tickets, so that a bearer's latest wait counts. The claim of an earlier
        # wait, which was given up, may not have been removed yet.
        for id_ in sorted(self._waiting, key=lambda each: self._places[each][0].ticket):
            for held in holding[id_]:
                if held in self._places and self._places[held][0].granted:
                    self._bearers[held] = id_
        self.stuck = self._stuck()
        """The ids of the waiting claims that can never be granted."""

    def circle(self, id_: str) -> list[Link[Q]]:
        """Return the shortest circle from a stuck claim back to itself; empty if there is none."""
        if id_ not in self.stuck:
            return []
        came: dict[str, Link[Q]] = {}
        done: dict[str, int] = {}
        todo = [id_]
        for each in todo:
            waiting, place = self._places[each]
            queue = self._queues[waiting.name]
            for blocker in queue[done.get(waiting.name, 0) : place]:
                bearer = self._bearers.get(blocker.id, blocker.id)
                if bearer not in self.stuck or bearer in came or self._own(each, bearer):
                    continue
                came[bearer] = Link(waiting, blocker)
                if bearer == id_:
                    return _back(came, id_)
                todo.append(bearer)
            done[waiting.name] = max(place, done.get(waiting.name, 0))
        return []

    def _own(self, id_: str, bearer: str) -> bool:
        return id_ == bearer == self._lenient

    def _stuck(self) -> set[str]:
        """Return the waiting claims that are left after all that can proceed were removed."""
        stuck = set(self._waiting)
        before = -1
        while len(stuck) != before:
            before = len(stuck)
            for queue in self._queues.values():
                self._move(queue, stuck)
        return stuck

    def _move(self, queue: Sequence[Q], stuck: set[str]) -> None:
        """Remove claims from `stuck` that fit beside the stuck claims ahead of them in a queue.

        A claim that waits behind a stuck one is stuck too, also if its own capacity is larger. For
        the lenient claim, what its own thread holds does not count, so neither do the claims that
        wait for nothing else.
        """
        load = own = 0
        waits = waits_for_others = False
        for entry in queue:
            bearer = self._bearers.get(entry.id, entry.id)
            lenient = entry.id == self._lenient
            fits = (load - own if lenient else load) + entry.weight <= entry.capacity
            if entry.id in stuck and fits and not (waits_for_others if lenient else waits):
                stuck.discard(entry.id)
            if entry.id in stuck:
                waits = True
                waits_for_others |= load - own + entry.weight > entry.capacity
            if bearer in stuck:
                load += entry.weight
                own += entry.weight if bearer == self._lenient else 0


def _back(came: Mapping[str, Link[Q]], id_: str) -> list[Link[Q]]:
    circle = [came[id_]]
    while circle[-1].waiting.id != id_:
        circle.append(came[circle[-1].waiting.id])
    return circle[::-1]


def circles(
    queues: Mapping[str, Sequence[Q]], holding: Mapping[str, Mapping[str, str]]
) -> dict[frozenset[tuple[str, str]], list[Link[Q]]]:
    """Return the circles of a graph, by the ids of their claims. The arguments are as for `Waits`,
    with all claims that wait in `holding`.
    """
    waits = Waits(queues, holding)
    found: dict[frozenset[tuple[str, str]], list[Link[Q]]] = {}
    seen: set[str] = set()
    for id_ in holding:
        if id_ not in seen:
            circle = waits.circle(id_)
            seen.update(link.waiting.id for link in circle)
            if circle:
                found[frozenset((link.waiting.id, link.blocker.id) for link in circle)] = circle
    return found
