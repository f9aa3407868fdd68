"""The heart's work between renewals: repeat releases that a node missed, and let nodes join."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lockfast.core.ballot import quorum
from lockfast.engines.redis.keys import BUCKETS
from lockfast.engines.redis.replies import Malformed, number, reading
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.transport import Answer, Transport
from lockfast.runtime.base import Clock

MOST = 10_000  # releases to remember; a lock whose release is not delivered ends by its ttl
SOON = 0.25  # seconds between two attempts
LATER = 2.0  # seconds between two requests to a node that has to wait
PATIENCE = 0.5  # seconds that one call of `do` may take


class Join:
    """The progress of a node that is to become a member again."""

    __slots__ = ("due", "key", "marks", "pause", "since", "strange")

    def __init__(self, key: bytes, due: float) -> None:
        """Start without marks. `key` is the key of a mark that the node lacks."""
        self.key = key
        self.due = due
        self.begin("")

    def begin(self, since: str) -> None:
        """Collect marks for the node's start at `since`. If it is empty, ask the node for it."""
        self.pause = SOON
        """Seconds until the next attempt if there is no answer. It doubles up to LATER."""
        self.marks: dict[int, list[tuple[int, int] | None]] = {}
        """The marks that members have reported, by node."""
        self.strange: set[int] = set()
        """Nodes that are no members themselves, so they have no marks to report."""
        self.since = since  # set last, since marks count from then on

    def highest(self, needed: int) -> list[str]:
        """Return, per bucket, the highest mark and the longest ttl of a majority of members."""
        merged = []
        for row in zip(*self.marks.values(), strict=True):
            found = [each for each in row if each is not None]
            top = max((mark for mark, _ in found), default=0)
            longest = max((longest for _, longest in found), default=0)
            merged.append(f"{top:016d} {longest}" if len(found) >= needed else "")
        return merged


class Chores:
    """The chores of one client. Only `do`, which the heart calls, sends requests to nodes.

    The heart of a client with many short leases can wait only milliseconds for an answer. So late
    answers count too: the transport passes them to `hear`, and the next `do` continues from there.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        """Start without chores."""
        self._transport = transport
        self._now = clock
        self._recent: deque[tuple[float, bytes]] = deque(maxlen=MOST)
        self._lost: set[int] = set()
        self._joins: dict[int, Join] = {}
        self._look: float | None = None
        """When to read late replies, if some are due."""
        self._due = 0.0
        self._end = 0.0
        """When the present call of `do` must return."""

    def released(self, requests: Sequence[bytes], until: float) -> None:
        """Remember releases until the locks that they release would have expired anyway."""
        for request in requests:
            self._recent.append((until, request))

    def lost(self, node: int) -> None:
        """Note that a node may have missed the last releases, so `do` repeats them (trap 32)."""
        if node not in self._lost:
            self._due = self._now() if not self._lost else self._due
            self._lost.add(node)

    def owing(self) -> None:
        """Note that nodes have not answered yet. A release is over when a majority has confirmed
        it. If the connection to another node ends then, `do` must notice that and repeat it.
        """
        self._look = self._now() + SOON
        self._transport.rouse()

    def met(self, node: int, key: bytes) -> None:
        """Note that a node is no member. `key` is the key of a mark that it lacks."""
        join = self._joins.get(node)
        if join is None:
            self._joins[node] = Join(key, self._now())
        else:
            join.key = key
            join.due = min(join.due, self._now() + SOON)

    async def do(self, deadline: float | None) -> float | None:
        """Do the chores that are due, and return when the next one is due, or None.

        This takes at most half of the time until the deadline. A heart that waited longer for a
        stalled node would be too late to renew a short lease.
        """
        if not self._lost and not self._joins and self._look is None:
            return None
        now = self._now()
        if self._look is not None and now >= self._look:
            self._look = None  # before the look: another thread may ask for the next one
            if self._transport.catch_up():
                self._look = now + SOON
        free = PATIENCE if deadline is None else min(PATIENCE, max(deadline - now, 0.0) / 2)
        self._end = now + free
        if self._lost and now >= self._due:
            await self._tell_again(now)
        for node, join in list(self._joins.items()):
            if now >= join.due and self._now() < self._end:
                await self._advance(node, join)
        times = [join.due for join in list(self._joins.values())]
        if self._lost:
            times.append(self._due)
        if self._look is not None:
            times.append(self._look)
        return min(times, default=None)

    async def _tell_again(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now:
            self._recent.popleft()
        requests = [request for until, request in list(self._recent) if until > now]
        for node in list(self._lost):
            if self._now() >= self._end:
                break
            self._lost.discard(node)  # before the request: meanwhile it may be lost again
            if requests and not await self._ask({node}, b"".join(requests), len(requests)):
                self._lost.add(node)
        self._due = self._now() + SOON

    async def _advance(self, node: int, join: Join) -> None:
        """Ask for what a node's join needs next, and let it join when everything is known."""
        join.due = self._now() + join.pause
        join.pause = min(join.pause * 2, LATER)
        if not join.since:
            await self._ask({node}, messages.join(join.key, "", ()))
        if join.since:
            # Only now have the other nodes received all proposals that were under way when this
            # node lost its data, so only now do their marks count.
            others = set(range(len(self._transport.nodes))) - {node, *join.marks}
            if len(join.marks) < quorum(len(self._transport.nodes)):
                join.strange.clear()  # one of them may have joined meanwhile
                await self._ask(others, messages.marks(join.since))
            await self._let_in(node, join)

    async def _let_in(self, node: int, join: Join) -> None:
        """Make a node a member with the marks of a majority. Start over if too few have marks."""
        size = len(self._transport.nodes)
        needed, since = quorum(size), join.since
        if len(join.marks) >= needed:
            marks = join.highest(needed)
            join.begin("")
            await self._ask({node}, messages.join(join.key, since, marks))
        elif len(join.marks) + len(join.strange) == size - 1:  # too few are members
            join.begin("")
            join.due = self._now() + LATER

    def hear(self, node: int, reply: object) -> None:
        """Process a node's reply about a join, in time or late."""
        if type(reply) is list and reply:
            with suppress(Malformed), reading():
                self._hear(node, reply)

    def _hear(self, node: int, reply: list[Any]) -> None:
        now, join = self._now(), self._joins.get(node)
        if reply[0] == b"marks":
            self._collect(node, str(number(reply[1])), reply[2])
        elif join is None:
            pass
        elif reply[0] == b"member":
            del self._joins[node]
        elif reply[0] == b"left":
            join.due = now + LATER
        elif reply[0] == b"since":
            since, gone = str(number(reply[1])), number(reply[2])
            if gone < messages.SETTLED:
                join.begin("")
                join.due = now + min((messages.SETTLED - gone) / 1000, LATER)
            elif since != join.since:
                join.begin(since)

    def _collect(self, node: int, since: str, raw: Any) -> None:
        found = [messages.mark(each) for each in raw]
        if len(found) != BUCKETS:
            raise Malformed("too few marks")
        for joining, join in list(self._joins.items()):
            if join.since != since or joining == node:
                continue
            if not any(found):
                join.strange.add(node)
                continue
            join.marks[node] = found
            if len(join.marks) >= quorum(len(self._transport.nodes)):
                join.due = self._now()

    async def _ask(self, nodes: set[int], request: bytes, count: int = 1) -> bool:
        """Send a request to some nodes, and return whether all have answered in time."""
        size = len(self._transport.nodes)
        requests = [request if node in nodes else None for node in range(size)]
        silent = set(nodes)

        def hear(node: int, answer: Answer) -> float:
            if type(answer) is list:
                silent.discard(node)
                for reply in answer:
                    self.hear(node, reply)
            return math.inf if silent else 0.0

        await self._transport.scatter(requests, count, self._end, hear, heart=True)
        return not silent
