"""Deadlock detection: a waiter that holds other locks searches the wait-for graph for a cycle.

The payload of a waiting claim lists what its thread or task holds. So the search goes backwards
from the searcher, queue by queue: first the claims that wait for what it holds, then those that
wait for what these hold. A claim that does not wait for the searcher is in no cycle with it.

Queues are read one by one, so a cycle counts only if two searches find it. Ids are never used
again. So a claim that both searches saw was there in between, and so was the whole cycle.
"""

from __future__ import annotations

from lockfast.claims import payload
from lockfast.claims.claim import Claim
from lockfast.claims.session import Session
from lockfast.core.wait_graph import Link, Waits
from lockfast.errors import Deadlock, EngineError
from lockfast.port import Entry

NAMES = 64  # queues that one search reads at most


async def check(session: Session, claim: Claim, *, patient: bool) -> None:
    """Raise `Deadlock` if this claim waits in a cycle and is the youngest claim of it.

    All waiters of the cycle find the same one, so exactly one of them gives up.

    `patient`: the claim waits without a timeout. A claim with a timeout may also wait for a lock
    that its own thread holds, since another thread may release that.
    """
    lenient = "" if patient else claim.id
    try:
        circle = await _circle(session, claim, lenient)
        if not circle or claim.id != _youngest(circle):
            return
        again = await _circle(session, claim, lenient)
    except EngineError:
        return  # the waiter searches again later
    if _ids(again) == _ids(circle):
        mine = circle[-1].blocker.id
        raise Deadlock(_in_words(circle), "" if mine == claim.id else mine)


def _youngest(circle: list[Link[Entry]]) -> str:
    return max((link.waiting.ticket, link.waiting.id) for link in circle)[1]


def _ids(circle: list[Link[Entry]]) -> list[tuple[str, str]]:
    return [(link.waiting.id, link.blocker.id) for link in circle]


async def _circle(session: Session, claim: Claim, lenient: str) -> list[Link[Entry]]:
    search = _Search(session)
    await search.gather(claim.id, claim.shape.name)
    return Waits(search.queues, search.holding, lenient).circle(claim.id)


class _Search:
    """Reads the part of the wait-for graph that concerns one claim."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.queues: dict[str, list[Entry]] = {}
        self.holding: dict[str, dict[str, str]] = {}

    async def gather(self, id_: str, name: str) -> None:
        """Collect the claims that wait for the owner of a claim, directly or through others."""
        todo = [(name, await self._place(id_, name, 0))]
        reached: dict[str, int] = {}
        while todo:
            name, start = todo.pop()
            queue = self.queues.get(name, [])
            for entry in queue[start : reached.get(name, len(queue))]:
                if entry.granted:
                    continue
                held = self.holding[entry.id] = payload.holding(entry.payload)
                for each, where in held.items():
                    todo.append((where, await self._place(each, where, 1)))
            reached[name] = min(start, reached.get(name, start))

    async def _place(self, id_: str, name: str, after: int) -> int:
        """Return a claim's position in its queue plus `after`. If it is not there, count from the
        queue's end.
        """
        if name not in self.queues:
            if len(self.queues) >= NAMES:
                return 0
            page = await self._session.engine.inspect(name, None, exact=True)
            self.queues[name] = page.entries
        queue = self.queues[name]
        places = (place for place, entry in enumerate(queue) if entry.id == id_)
        return next(places, len(queue)) + after


def _in_words(circle: list[Link[Entry]]) -> str:
    lines = []
    for link, following in zip(circle, circle[1:] + circle[:1], strict=True):
        lines.append(
            f"{payload.read(link.waiting.payload)} waits for {link.waiting.name!r}, which "
            f"{payload.read(following.waiting.payload)} "
            f"{'holds' if link.blocker.granted else 'waits for ahead of it'}"
        )
    return (
        f"deadlock: {'; '.join(lines)}. lockfast ends the youngest of these waits, which is this "
        "one. Release the locks that you hold and start again, or acquire all of them together "
        "with client.lock_all()."
    )
