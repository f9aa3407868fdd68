"""The queue of one name: its totals, the deletion of expired claims, and the grants."""

from __future__ import annotations

from lockfast.core.record import FORMAT
from lockfast.core.token import LIMIT
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.port import Kind, Wake

FIND = """SELECT format, kind, claims, waiting, held, placed,
 (SELECT min(expires) FROM claim WHERE claim.name = queue.name),
 (SELECT waits FROM claim WHERE claim.name = queue.name ORDER BY waits, ticket LIMIT 1)
 FROM queue WHERE name = ?"""
COUNT = """SELECT count(*), coalesce(sum(waits <> 0), 0),
 coalesce(sum(CASE WHEN waits THEN 0 ELSE weight END), 0), coalesce(max(place), 0)
 FROM claim WHERE name = ?"""
SAVE = """INSERT INTO queue (name, format, kind, claims, waiting, held, placed)
 VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET claims = excluded.claims,
 waiting = excluded.waiting, held = excluded.held, placed = excluded.placed"""
WAITER = """SELECT id, ticket, weight, capacity FROM claim WHERE name = ? AND waits = 1
 ORDER BY waits, ticket LIMIT 1"""
HEAD = """SELECT ticket FROM claim WHERE name = ? AND waits = 0 ORDER BY waits, ticket LIMIT 1"""


class Queue:
    """The queue of a name within one transaction. Call `save` after every change."""

    __slots__ = ("_transaction", "claims", "format", "held", "kind", "name", "placed", "waiting")

    def __init__(self, transaction: Transaction, name: bytes, kind: Kind) -> None:
        """Make an empty queue, which is not stored."""
        self._transaction = transaction
        self.name = name
        self.format = FORMAT
        self.kind: int = kind
        self.claims = self.waiting = self.held = self.placed = 0

    @staticmethod
    def of(transaction: Transaction, name: bytes) -> Queue | None:
        """Return the queue of a name, without its expired claims. None if it has no claims."""
        row = transaction.one(FIND, name)
        if row is None:
            return None
        queue = Queue(transaction, name, Kind.LOCK)
        *totals, soonest, waits = row
        queue.format, queue.kind, queue.claims, queue.waiting, queue.held, queue.placed = totals
        if soonest is not None and soonest <= transaction.now:
            queue.sweep()
        elif waits != 0 and queue.format == FORMAT:
            queue.recount()  # another program has deleted the holders, or all claims
        return queue if queue.claims else None

    def sweep(self) -> None:
        """Delete the expired claims, and grant the waiters that now fit."""
        transaction, when = self._transaction, (self.name, self._transaction.now)
        gone = transaction.all(
            "SELECT waits, weight FROM claim WHERE name = ? AND expires <= ?", *when
        )
        transaction.execute("DELETE FROM claim WHERE name = ? AND expires <= ?", when)
        for waits, weight in gone:
            self.drop(waits=waits, weight=weight)
        self.settle()

    def add(self, weight: int, *, waits: bool) -> int:
        """Count a claim that is appended, and return its place."""
        self.claims += 1
        self.placed += 1
        if waits:
            self.waiting += 1
        else:
            self.held += weight
        return self.placed

    def drop(self, *, waits: int, weight: int) -> None:
        """Count a claim that was deleted."""
        self.claims -= 1
        if waits:
            self.waiting -= 1
        else:
            self.held -= weight

    def settle(self, *, counted: bool = False) -> None:
        """Grant waiters in the order of tickets, up to the first that does not fit. Then save.

        `counted`: the totals were counted just now, so they must be right.
        """
        floor = None
        while self.waiting > 0 and self.format == FORMAT:
            first = self._transaction.one(WAITER, self.name)
            if first is None:
                if counted:
                    raise ValueError("a claim that neither waits nor is granted")
                self.recount()
                return
            id_, ticket, weight, capacity = first
            if self.held + weight > capacity:
                break
            if floor is None:
                head = self._transaction.one(HEAD, self.name)
                floor = ticket if head is None else head[0]
            self._transaction.execute(
                "UPDATE claim SET waits = 0, woken = ? WHERE id = ?", (floor, id_)
            )
            self._transaction.wakes.append(Wake(id_, granted=True, floor=floor))
            self.waiting -= 1
            self.held += weight
        self.save()

    def recount(self) -> None:
        """Count the claims anew, since the totals are wrong: another program has written here."""
        totals = self._transaction.one(COUNT, self.name) or (0, 0, 0, 0)
        self.claims, self.waiting, self.held, self.placed = totals
        if self.placed >= LIMIT:
            raise ValueError(f"a place of {self.placed}")
        self.settle(counted=True)

    def save(self) -> None:
        """Store the totals. A queue without claims is deleted."""
        if self.claims > 0:
            totals = (self.claims, self.waiting, self.held, self.placed)
            values = (self.name, self.format, self.kind, *totals)
            self._transaction.execute(SAVE, values)
        else:
            self._transaction.execute("DELETE FROM queue WHERE name = ?", (self.name,))
