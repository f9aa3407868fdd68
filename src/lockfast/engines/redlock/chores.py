"""What the heart does beside its beat: deliver releases that are owed, and let nodes join again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from lockfast.core.ballot import quorum
from lockfast.engines.redis.keys import BUCKETS
from lockfast.engines.redis.packets import Malformed, reading
from lockfast.engines.redlock import packets
from lockfast.engines.redlock.fleet import Answer, Fleet
from lockfast.runtime.base import Clock

MOST = 10_000  # releases that are remembered; what is not delivered ends by its ttl
SOON = 0.25  # seconds between two attempts
LATER = 2.0  # seconds between two looks at a node that has to wait
PATIENCE = 0.5  # seconds for one request


class Chores:
    """The list of them. Only `do`, which the heart calls, talks to nodes."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        """Begin with nothing to do."""
        self._fleet = fleet
        self._now = clock
        self._recent: deque[tuple[float, bytes]] = deque(maxlen=MOST)
        self._lost: set[int] = set()
        self._joins: dict[int, tuple[bytes, float]] = {}
        self._due = 0.0
        self._end = 0.0
        """Until when the present work may take."""

    def released(self, requests: Sequence[bytes], until: float) -> None:
        """Remember releases for as long as what they free could live."""
        for request in requests:
            self._recent.append((until, request))

    def lost(self, node: int) -> None:
        """Note that a node may have missed the last releases: it is told again (TRAPS 32)."""
        if node not in self._lost:
            self._due = self._now() if not self._lost else self._due
            self._lost.add(node)

    def met(self, node: int, key: bytes) -> None:
        """Note a node that is no member; `key` is a mark that it lacks."""
        due = self._now() if node not in self._joins else self._joins[node][1]
        self._joins[node] = (key, min(due, self._now() + SOON))

    async def do(self, deadline: float | None) -> float | None:
        """Do what is due; tell when to come again.

        In half of the time until the deadline, at most: a heart that waits for a node that stands
        still would come too late to renew a short lease.
        """
        if not self._lost and not self._joins:
            return None
        now = self._now()
        free = PATIENCE if deadline is None else min(PATIENCE, max(deadline - now, 0.0) / 2)
        self._end = now + free
        if self._lost and now >= self._due:
            await self._tell_again(now)
        for node, (key, due) in list(self._joins.items()):
            if now >= due and self._now() < self._end:
                pause = await self._join(node, key)
                if pause is None:
                    self._joins.pop(node, None)
                else:
                    self._joins[node] = (key, self._now() + pause)
        times = [due for _, due in self._joins.values()]
        if self._lost:
            times.append(self._due)
        return min(times, default=None)

    async def _tell_again(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now:
            self._recent.popleft()
        requests = [request for until, request in list(self._recent) if until > now]
        for node in list(self._lost):
            if self._now() >= self._end:
                break
            self._lost.discard(node)  # before: it may be lost once more in the meantime
            if requests and not await self._one(node, b"".join(requests), len(requests)):
                self._lost.add(node)
        self._due = self._now() + SOON

    async def _join(self, node: int, key: bytes) -> float | None:
        """Do what can be done now for a node; give the pause until the next step, None if done."""
        try:
            with reading():
                return await self._step(node, key)
        except Malformed:
            return LATER

    async def _step(self, node: int, key: bytes) -> float | None:
        told = await self._one(node, packets.join(key, "", ()))
        if not told or type(told[0]) is not list:
            return LATER
        if told[0][0] == b"member":
            return None
        since, gone = told[0][1].decode(), int(told[0][2])
        if gone < packets.SETTLED:
            return min((packets.SETTLED - gone) / 1000, LATER)
        # Only now: what was under way when the node lost its data has reached the others.
        marks = await self._marks(node)
        told = await self._one(node, packets.join(key, since, marks))
        if not told or type(told[0]) is not list:
            return LATER
        return None if told[0][0] == b"member" else LATER

    async def _marks(self, joining: int) -> list[str]:
        """Read, per bucket, the highest mark and the longest ttl of a majority of members."""
        size = len(self._fleet.nodes)
        requests = [None if node == joining else packets.ALL_MARKS for node in range(size)]
        known: list[list[tuple[int, int]]] = [[] for _ in range(BUCKETS)]

        def hear(node: int, answer: Answer) -> float:
            del node
            if type(answer) is list and type(answer[0]) is list:
                for bucket, raw in enumerate(answer[0]):
                    found = packets.mark(raw)
                    if found is not None:
                        known[bucket].append(found)
            return PATIENCE

        await self._fleet.scatter(requests, 1, self._end, hear, heart=True)
        return [
            f"{max(mark for mark, _ in found):016d} {max(longest for _, longest in found)}"
            if len(found) >= quorum(size)
            else ""
            for found in known
        ]

    async def _one(self, node: int, request: bytes, count: int = 1) -> list[Any]:
        """Ask one node; an empty list if it did not answer."""
        requests = [request if each == node else None for each in range(len(self._fleet.nodes))]
        replies: list[Any] = []

        def hear(_: int, answer: Answer) -> float:
            if type(answer) is list:
                replies.extend(answer)
            return 0.0

        await self._fleet.scatter(requests, count, self._end, hear, heart=True)
        return replies
