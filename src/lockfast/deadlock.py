"""Deadlocks: a search of the wait-for graph, by a waiter that holds something itself.

A waiting claim tells in its payload what its thread or task holds. So the search goes backwards
from the searcher, name by name: who waits for what I hold, who waits for what they hold. Whoever
waits changes nothing meanwhile, so what is read piece by piece is true all the same.

Who waits for one permit of several is not stuck as long as any other holder can still move. So a
claim counts as stuck only if it would not fit even if everybody who can move had left.
"""

from __future__ import annotations

from typing import NamedTuple

from lockfast import who
from lockfast.errors import Deadlock, EngineError
from lockfast.live import Live
from lockfast.port import Entry
from lockfast.session import Session

NAMES = 64  # queues that one search reads


async def check(session: Session, live: Live) -> None:
    """Raise `Deadlock` if this claim waits in a circle and is the youngest of it.

    All members find the same circle, so exactly one of them gives way.
    """
    graph = _Graph(session)
    try:
        circle = await graph.circle(live.id, live.shape.name)
    except EngineError:
        return  # looked at again in a while
    if circle and live.id == max((step.entry.ticket, step.entry.id) for step in circle)[1]:
        raise Deadlock(_in_words(circle))


class _Step(NamedTuple):
    """A waiting claim, and what its thread or task holds: names by ids."""

    entry: Entry
    holding: dict[str, str]


class _Graph:
    """As much of the wait-for graph as concerns one claim."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queues: dict[str, list[Entry]] = {}
        self._waiting: dict[str, _Step] = {}
        self._bearers: dict[str, str] = {}
        """By the id of a claim that is held, the id of the claim on which its bearer waits."""

    async def circle(self, id_: str, name: str) -> list[_Step]:
        """Find a circle through that claim; empty if there is none."""
        await self._gather(id_, name)
        stuck = self._stuck()
        return self._path(id_, stuck) if id_ in stuck else []

    async def _queue(self, name: str) -> list[Entry]:
        if name not in self._queues:
            if len(self._queues) >= NAMES:
                return []
            page = await self._session.engine.inspect(name, None, exact=True)
            self._queues[name] = page.entries
        return self._queues[name]

    async def _gather(self, id_: str, name: str) -> None:
        """Collect whoever waits for that claim's bearer, directly or through others."""
        todo = [entry for entry in await self._queue(name) if entry.id == id_]
        while todo:
            entry = todo.pop()
            if entry.id in self._waiting or entry.granted:
                continue
            step = self._waiting[entry.id] = _Step(entry, who.holding(entry.payload))
            todo += await self._behind(entry.id, entry.name)
            for held, where in step.holding.items():
                queue = await self._queue(where)
                if any(each.id == held and each.granted for each in queue):
                    self._bearers[held] = entry.id
                    todo += await self._behind(held, where)

    async def _behind(self, id_: str, name: str) -> list[Entry]:
        queue = await self._queue(name)
        ticket = next((each.ticket for each in queue if each.id == id_), None)
        return [] if ticket is None else [each for each in queue if each.ticket > ticket]

    def _blockers(self, id_: str, stuck: set[str]) -> list[tuple[Entry, str]]:
        """Give the stuck claims ahead of one, each with the claim on which its bearer waits."""
        mine = self._waiting[id_].entry
        ahead = [each for each in self._queues[mine.name] if each.ticket < mine.ticket]
        bearers = ((each, self._bearers.get(each.id, each.id)) for each in ahead)
        return [(each, bearer) for each, bearer in bearers if bearer in stuck]

    def _stuck(self) -> set[str]:
        """Take away whoever can still move, until nothing changes."""
        stuck = set(self._waiting)
        moving = True
        while moving:
            moving = False
            for id_ in sorted(stuck):
                entry = self._waiting[id_].entry
                load = sum(each.weight for each, _ in self._blockers(id_, stuck))
                if entry.weight + load <= entry.capacity:
                    stuck.discard(id_)
                    moving = True
        return stuck

    def _path(self, id_: str, stuck: set[str]) -> list[_Step]:
        """Give the shortest way from a claim over its blockers back to itself."""
        before: dict[str, str] = {}
        todo = [id_]
        for each in todo:
            for _, bearer in self._blockers(each, stuck):
                if bearer == id_:
                    path = [each]
                    while path[-1] != id_:
                        path.append(before[path[-1]])
                    return [self._waiting[one] for one in reversed(path)]
                if bearer not in before:
                    before[bearer] = each
                    todo.append(bearer)
        return []


def _in_words(circle: list[_Step]) -> str:
    lines = []
    for step, following in zip(circle, circle[1:] + circle[:1], strict=True):
        holds = step.entry.name in following.holding.values()
        lines.append(
            f"{who.read(step.entry.payload)} waits for {step.entry.name!r}, which "
            f"{who.read(following.entry.payload)} {'holds' if holds else 'waits for before it'}"
        )
    return (
        f"deadlock: {'; '.join(lines)}. The youngest of these claims gives way, and it is this one:"
        " release what you hold and begin again, or take all at once with client.lock_all()."
    )
