"""The standing of a claim in its queue, read in the transaction that has changed it."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.core.token import LIMIT
from lockfast.engines.sqlite.clock import UNITS
from lockfast.engines.sqlite.queue_row import Queue
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.port import Blocker, Standing

COUNTED = 100  # claims ahead that are counted one by one, if claims have left the queue
HEAD = """SELECT id, ticket, CASE WHEN length(payload) <= 65536 THEN payload ELSE x'' END, place,
 waits FROM claim WHERE name = ? ORDER BY waits, ticket LIMIT 1"""
AHEAD = """SELECT count(*) FROM (SELECT 1 FROM claim
 WHERE name = ? AND (waits, ticket) < (?, ?) ORDER BY waits, ticket LIMIT ?)"""
FIRST = "SELECT ticket FROM claim WHERE name = ? AND waits = 1 ORDER BY waits, ticket LIMIT 1"
MINE = "SELECT name, ticket, waits, weight, expires, place FROM claim WHERE id = ?"


class Mine(NamedTuple):
    """The columns of one claim that its standing depends on."""

    name: bytes
    ticket: int
    waits: int
    weight: int
    expires: int
    place: int


def find(transaction: Transaction, id_: str) -> Mine | None:
    """Return the claim with an id. None if it does not exist."""
    row = transaction.one(MINE, id_)
    return None if row is None else Mine(*row)


def alone(ticket: int, left: float) -> Standing:
    """Return the standing of the only claim of a queue."""
    return Standing(checked(ticket), granted=True, left=left, floor=ticket)


def standing(transaction: Transaction, queue: Queue, mine: Mine) -> Standing:
    """Return the standing of a claim."""
    left = (mine.expires - transaction.now) / UNITS
    if queue.claims == 1 and not mine.waits:
        return alone(mine.ticket, left)
    blocker, first = _head(transaction, queue)
    ahead = _ahead(transaction, queue, mine, first)
    if not mine.waits:
        return Standing(*(checked(mine.ticket), True, left, ahead, queue.waiting, blocker.ticket))
    recheck = None
    if transaction.one(FIRST, queue.name) == (mine.ticket,):
        (soonest,) = transaction.one(
            "SELECT min(expires) FROM claim WHERE name = ?", queue.name
        ) or (mine.expires,)
        recheck = (soonest - transaction.now) / UNITS
    behind = queue.claims - ahead - 1
    return Standing(
        *(checked(mine.ticket), False, left, ahead, behind, blocker.ticket, blocker, recheck)
    )


def refused(transaction: Transaction, queue: Queue) -> Standing:
    """Return the reply to a claim that does not wait and cannot be granted at once."""
    blocker, _ = _head(transaction, queue)
    return Standing(0, granted=False, left=0.0, ahead=queue.claims, blocker=blocker)


def _head(transaction: Transaction, queue: Queue) -> tuple[Blocker, int]:
    """Return the claim at the head of a queue, and its place."""
    id_, ticket, payload, place, waits = transaction.one(HEAD, queue.name) or (None,) * 5
    if waits or not isinstance(id_, str) or not isinstance(payload, bytes):
        raise TypeError("a queue that lockfast did not write")
    return Blocker(id_, checked(ticket), payload), place


def checked(ticket: int) -> int:
    """Return a ticket that was read, if it can be one."""
    if not 0 < ticket < LIMIT:
        raise ValueError(f"a ticket of {ticket}")
    return ticket


def _ahead(transaction: Transaction, queue: Queue, mine: Mine, first: int) -> int:
    """Return how many claims are ahead. In a long queue that some have left, this may be too many.

    `first`: the place of the head. If nobody has left from between, places are counted without
    gaps. Otherwise counting costs more the longer the queue is, so it ends after a hundred.
    """
    ahead = mine.place - first
    if ahead > 0 and queue.placed - first + 1 != queue.claims:
        (counted,) = transaction.one(
            *(AHEAD, queue.name, mine.waits, mine.ticket, COUNTED + 1)
        ) or (0,)
        ahead = counted if counted <= COUNTED else min(ahead, queue.claims - 1)
    return ahead
