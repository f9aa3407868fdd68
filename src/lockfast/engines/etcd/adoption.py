"""Adopts claims: a client of the service has moved here, and its claims are on other leases.

A claim lives as long as its lease, which the engine keeps alive that has put it there. So this
engine puts it on a lease of its own. The create revision stays, and with it the ticket. What holds
was model-checked, and so was that none of it can be left out (`spec/Adopt.tla`):

1. The claim's value names the epoch, which is higher for each connection of the client. The first
   request of a connection always puts the claim, even if it is on a lease of this engine already.
   One of an earlier connection, which comes late, changes nothing.
2. The lease was kept alive after the request was received, and that is proven, before the claim is
   put there. So it ends no earlier than any lease on which the client may count.
3. The put compares the create revision, and the mod revision as it was read. If another engine has
   put the claim in between, this one begins anew.
4. The client is told what is left of that lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lockfast.engines.etcd import keys
from lockfast.engines.etcd.claim_transaction import form_of
from lockfast.engines.etcd.failures import another
from lockfast.engines.etcd.keys import Row
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.queues import Places
from lockfast.engines.etcd.session import Kept, Session
from lockfast.engines.etcd.snapshot import Seen, read_queues
from lockfast.engines.etcd.standing import granted
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Ask, Standing

ROUNDS = 5
Said = Standing | EngineError | None


def passed(row: Row, base: int, *, granted: bool) -> Standing:
    """Return the standing for a request of an earlier connection. It adds no time."""
    return Standing(row.revision + base, granted=granted, left=0.0)


class Moved(NamedTuple):
    """A claim that is to be adopted."""

    ask: Ask
    granted: bool
    """Whether it is granted, as far as is known."""


class Adoption:
    """The adoption of some claims, in rounds: each keeps leases alive, reads, and puts."""

    def __init__(
        self, claims: Iterable[Moved], own: OwnClaims, places: Places, now: float, deadline: float
    ) -> None:
        """Prepare. `now`: no earlier than the receipt of the requests."""
        self._left: dict[str, Ask] = {}
        self._granted: set[str] = set()
        for claim in claims:
            self._left[claim.ask.id] = claim.ask
            if claim.granted:
                self._granted.add(claim.ask.id)
        self._own = own
        self._places = places
        self._now = now
        self._deadline = deadline
        self._said: dict[str, Said] = {}

    async def make(self) -> dict[str, Said]:
        """Adopt the claims, and return what became of each, by id."""
        for _ in range(ROUNDS):
            if self._left:
                await self._round()
        self._fail(
            list(self._left.values()),
            EngineUnavailable("etcd: the claim is moved again and again", sent=True),
        )
        return self._said

    def _size(self, ask: Ask) -> int:
        form = form_of(ask.shape)
        return form.size if ask.id in self._granted else form.wait_size

    async def _round(self) -> None:
        kept: dict[int, tuple[Session, Kept | None]] = {}
        by_size: dict[int, list[Ask]] = {}
        for ask in self._left.values():
            by_size.setdefault(self._size(ask), []).append(ask)
        for size, asks in by_size.items():
            try:
                kept[size] = await self._own.kept_since(size, self._now, self._deadline)
            except EngineError as error:
                self._fail(asks, error)
        if not self._left:
            return
        try:
            forms = [form_of(ask.shape) for ask in self._left.values()]
            seen = await read_queues(self._own.ask, forms, self._deadline)
        except EngineError as error:
            self._fail(list(self._left.values()), error)
            return
        for size, (session, keepalive) in kept.items():
            if keepalive is None or keepalive.prove(seen.term):
                chosen = [(ask, row) for ask in by_size[size] if (row := self._choose(ask, seen))]
                await self._put(session, chosen, seen)

    def _choose(self, ask: Ask, seen: Seen) -> Row | None:
        """Return the claim as it was read, if it is to be put now."""
        queue = seen.queues[form_of(ask.shape).prefix]
        place = next((i for i, row in enumerate(queue) if row.id == ask.id), -1)
        if place < 0 or (ask.ticket and queue[place].revision + self._places.base != ask.ticket):
            self._places.gone([ask.id])
            self._answer(ask, None)
            return None
        row, shape = queue[place], ask.shape
        if row.kind is None:
            self._answer(ask, keys.unreadable(row))
        elif (row.kind, row.capacity, row.weight, row.ttl) != (
            *(shape.kind, shape.capacity, shape.weight),
            round(shape.ttl * 1000) / 1000,
        ):
            self._answer(ask, EngineRefused(f"the claim on {shape.name!r} was made otherwise"))
        elif row.epoch > ask.epoch:
            self._answer(ask, passed(row, self._places.base, granted=place < granted(queue)))
        elif place < granted(queue) and self._size(ask) != form_of(shape).size:
            self._granted.add(ask.id)  # put it on the lease of its ttl, in the next round
        else:
            return row
        return None

    async def _put(self, session: Session, claims: Sequence[tuple[Ask, Row]], seen: Seen) -> None:
        """Put claims as they were read, and answer for those that have not changed since."""
        try:
            adopted = await self._own.adopt(session, claims, self._now, self._deadline)
        except EngineError as error:
            self._fail([ask for ask, _ in claims], error)
            return
        for ask, _ in claims:
            mine = adopted.get(ask.id)
            if self._own.dead(ask):  # resigned or ended meanwhile
                self._places.gone([ask.id])
                self._answer(ask, None)
            elif mine is not None:
                queue = seen.queues[mine.form.prefix]
                try:
                    self._answer(ask, self._places.among(mine, queue, seen.revision, self._now))
                except EngineRefused as error:
                    self._answer(ask, error)

    def _fail(self, asks: Iterable[Ask], error: EngineError) -> None:
        for ask in asks:
            self._answer(ask, another(error))

    def _answer(self, ask: Ask, said: Said) -> None:
        self._left.pop(ask.id, None)
        self._said[ask.id] = said
