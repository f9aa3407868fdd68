"""The three operations on claims, each within one transaction: claim, renew, resign."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from lockfast.core.record import FORMAT, other_format
from lockfast.core.token import mint
from lockfast.engines.sqlite.clock import UNITS, HostClock
from lockfast.engines.sqlite.queue_row import Queue
from lockfast.engines.sqlite.standing import alone, find, refused, standing
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.errors import EngineRefused, KindMismatch
from lockfast.port import TOMB_MARGIN, Ask, Kind, Standing

Claimed = Standing | KindMismatch | EngineRefused | None
Renewed = Standing | EngineRefused | None

INSERT = """INSERT OR IGNORE INTO claim (id, name, ticket, waits, capacity, weight, ttl, wait_ttl,
 expires, place, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
EXPIRED = """SELECT DISTINCT name FROM (
 SELECT name, expires FROM claim WHERE id > ? ORDER BY id LIMIT 64) WHERE expires <= ?"""
TOMBS = """SELECT (SELECT until FROM tombstone WHERE id = ?),
 (SELECT min(until) FROM tombstone)"""
BURY = """INSERT INTO tombstone (id, until) VALUES (?, ?)
 ON CONFLICT (id) DO UPDATE SET until = max(until, excluded.until)"""
MARGIN = int(TOMB_MARGIN * UNITS)
SWEEPS = 16  # every sixteenth claim of a process also looks for expired claims on other names


class Claims:
    """The operations of one engine. A sequence of its methods runs in one transaction."""

    def __init__(self, clock: HostClock, base: int) -> None:
        """Take the host's clock, and the number that is added to the wall clock in new tickets."""
        self._clock = clock
        self._base = base
        self._made = 0

    def claim(self, ask: Ask, transaction: Transaction) -> Claimed:
        """Append a claim, or find it by its id, and return its standing. None: the id is dead.

        A `KindMismatch` or an `EngineRefused` is returned and not raised: the transaction is
        committed all the same, since expired claims may have been deleted.
        """
        if self._is_dead(transaction, ask):
            return None
        shape, name = ask.shape, ask.shape.name.encode()
        queue = Queue.of(transaction, name)
        if queue is None:
            return self._append(transaction, ask, Queue(transaction, name, shape.kind))
        if queue.format != FORMAT:
            return other_format(shape.name, queue.format)
        mine = find(transaction, ask.id)
        if mine is not None:
            return standing(transaction, queue, mine) if mine.name == name else None
        if queue.kind != shape.kind:
            return KindMismatch(shape.name, shape.kind.words, Kind(queue.kind).words)
        return self._append(transaction, ask, queue)

    def _is_dead(self, transaction: Transaction, ask: Ask) -> bool:
        """Return whether an id was buried, or comes too late. Delete expired tombstones first."""
        until, soonest = transaction.one(TOMBS, ask.id) or (None, None)
        if soonest is not None and soonest <= transaction.now:
            transaction.execute("DELETE FROM tombstone WHERE until <= ?", (transaction.now,))
        buried = until is not None and until > transaction.now
        return buried or transaction.now > self._clock.latest(ask)

    def _append(self, transaction: Transaction, ask: Ask, queue: Queue) -> Claimed:
        shape = ask.shape
        waits = queue.waiting > 0 or queue.held + shape.weight > shape.capacity
        if waits and not ask.queue:
            return refused(transaction, queue)
        ticket = mint(transaction.last, time.time_ns() // 1000 + self._base)
        ttl, wait_ttl = round(shape.ttl * UNITS), round(shape.wait_ttl * UNITS)
        expires = transaction.now + (wait_ttl if waits else ttl)
        place = queue.add(shape.weight, waits=waits)
        sizes = (ticket, int(waits), shape.capacity, shape.weight, ttl, wait_ttl, expires, place)
        made = transaction.execute(INSERT, (ask.id, queue.name, *sizes, ask.payload))
        if not made.rowcount:  # the id is in use on another name, so it is dead on this one
            return None
        queue.save()
        transaction.last = ticket
        transaction.note()
        self._sweep(transaction)
        if queue.claims == 1:
            return alone(ticket, ttl / UNITS)
        mine = find(transaction, ask.id)
        if mine is None:
            raise ValueError("a trigger deletes claims")
        return standing(transaction, queue, mine)

    def _sweep(self, transaction: Transaction) -> None:
        """Now and then, delete expired claims on names that nobody asks for any more.

        Ids are random, so a random place in their order finds all of them in the end, without an
        index that every renewal would have to change.
        """
        self._made += 1
        if self._made % SWEEPS == 1:
            place = f"{random.getrandbits(32):08x}"  # no secret
            for (name,) in transaction.all(EXPIRED, place, transaction.now):
                Queue.of(transaction, name)

    def renew(self, transaction: Transaction, asks: Sequence[Ask]) -> list[Renewed]:
        """Extend claims to their full life from now, and return their standings. None: gone."""
        found = [self._renew(transaction, ask) for ask in asks]
        if any(isinstance(each, Standing) for each in found):
            transaction.note()
        return found

    def _renew(self, transaction: Transaction, ask: Ask) -> Renewed:
        shape, name = ask.shape, ask.shape.name.encode()
        queue = Queue.of(transaction, name)
        mine = None if queue is None else find(transaction, ask.id)
        if queue is None or mine is None or mine.name != name:
            return None
        if queue.format != FORMAT:
            return other_format(shape.name, queue.format)
        life = round((shape.wait_ttl if mine.waits else shape.ttl) * UNITS)
        mine = mine._replace(expires=max(mine.expires, transaction.now + life))
        transaction.execute(
            "UPDATE claim SET expires = ?, woken = NULL WHERE id = ?", (mine.expires, ask.id)
        )
        return standing(transaction, queue, mine)

    def resign(self, transaction: Transaction, asks: Sequence[Ask], *, doubt: bool) -> list[bool]:
        """Remove claims for good, and return for each whether it was there. `doubt`: bury its id.

        Waiters that now fit are granted.
        """
        return [self._resign(transaction, ask, doubt=doubt) for ask in asks]

    def _resign(self, transaction: Transaction, ask: Ask, *, doubt: bool) -> bool:
        if doubt:
            transaction.execute(BURY, (ask.id, self._clock.latest(ask) + MARGIN))
        name = ask.shape.name.encode()
        queue = Queue.of(transaction, name)
        mine = None if queue is None else find(transaction, ask.id)
        if queue is None or mine is None or mine.name != name or queue.format != FORMAT:
            return False
        transaction.execute("DELETE FROM claim WHERE id = ?", (ask.id,))
        queue.drop(waits=mine.waits, weight=mine.weight)
        queue.settle()
        return True
