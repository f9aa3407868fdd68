"""Long queues on PostgreSQL: what an operation costs there, and what it says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import psycopg
import pytest

from lockfast.engines.postgres import install, messages, replies
from lockfast.port import SHARED, Ask, Kind, Shape, Standing
from tests.servers import Postgres

FEW, MANY = 50, 5000
FAR = 2**52  # µs by the server's clock: no claim is too late
BLOCKS = """
SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::bigint FROM pg_class
WHERE relnamespace = 'lockfast'::regnamespace
"""
# What as many claims in turn leave: five thousand commits would take longer than all that follows.
FILL = """
INSERT INTO lockfast.claim
  (id, b, name, ticket, waits, capacity, weight, ttl, wait_ttl, expires, place, claims, waiting,
   held, payload, kind)
SELECT '{prefix}' || to_char(i, 'FM0000000000'), lockfast.bucket_v1(convert_to('{name}', 'UTF8')),
  convert_to('{name}', 'UTF8'), i, i > {fit}, {capacity}, 1, 600000000, 600000000,
  lockfast.micros_v1() + 600000000, i, i, greatest(i - {fit}, 0), least(i, {fit}), '',
  {kind}
FROM generate_series(1, {size}) i
"""


def lock(size: int) -> Shape:
    return Shape(f"lock {size}", 600.0)


def permits(size: int) -> Shape:
    return Shape(f"permits {size}", 600.0, Kind.SEMAPHORE, 2 * MANY)


def readers(size: int) -> Shape:
    return Shape(f"readers {size}", 600.0, Kind.READ_WRITE, SHARED)


def asked(shape: Shape, number: int, *, queue: bool = True) -> Ask:
    """Give the claim of that number; the first one's is 1."""
    prefix = hashlib.sha256(shape.name.encode()).hexdigest()[:22]
    return Ask(f"{prefix}{number:010d}", shape, queue, 0.0, b"")


def fill(server: Postgres, shape: Shape, size: int) -> None:
    """Queue as many claims, of weight 1."""
    server.command(
        FILL.format(
            size=size,
            name=shape.name,
            prefix=asked(shape, 1).id[:22],
            kind=int(shape.kind),
            capacity=shape.capacity,
            fit=min(shape.capacity, size),
        )
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)
        for size in (FEW, MANY):
            for kind in (lock, permits, readers):
                fill(server, kind(size), size)
        yield server


class Desk:
    """One open transaction, in which the engine's own statements run."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def blocks(self) -> int:
        """Tell how many blocks were read, from memory or not."""
        ((blocks,),) = self._connection.execute(BLOCKS).fetchall()
        assert isinstance(blocks, int)
        return blocks

    def _rows(self, sql: bytes) -> list[list[bytes | None]]:
        raw = self._connection.pgconn.exec_(sql)
        assert not raw.error_message, raw.error_message
        return [[raw.get_value(0, 0)]]

    def claim(self, ask: Ask) -> Standing:
        _, standing = replies.claimed(self._rows(messages.claim(ask, FAR, 0, "")), ask)
        assert isinstance(standing, Standing)
        return standing

    def renew(self, ask: Ask) -> Standing:
        ((_, standing),) = replies.renewed(self._rows(messages.renew([ask])), [ask])
        assert isinstance(standing, Standing)
        return standing

    def resign(self, *asks: Ask) -> None:
        removed, _ = replies.resigned(self._rows(messages.resign(asks, None)), asks)
        assert all(removed)

    def delete_by_hand(self, ask: Ask) -> None:
        self._connection.execute("DELETE FROM lockfast.claim WHERE id = %s", [ask.id])


@pytest.fixture
def desk(server: Postgres) -> Iterator[Desk]:
    with server.connect() as connection:
        connection.execute("BEGIN")
        yield Desk(connection)
        connection.execute("ROLLBACK")


def cost(server: Postgres, kind: str, size: int) -> int:
    """Count the blocks of one operation, which is taken back. The first time makes the plans."""
    with server.connect() as connection:
        for _ in range(2):
            connection.execute("BEGIN")
            desk = Desk(connection)
            before = desk.blocks()
            OPERATIONS[kind](desk, size)
            spent = desk.blocks() - before
            connection.execute("ROLLBACK")
    return spent


OPERATIONS = {
    "queue for a lock": lambda desk, size: desk.claim(asked(lock(size), size + 1)),
    "be refused a lock": lambda desk, size: desk.claim(asked(lock(size), size + 1, queue=False)),
    "renew what is held": lambda desk, size: desk.renew(asked(lock(size), 1)),
    "renew the first in line": lambda desk, size: desk.renew(asked(lock(size), 2)),
    "renew a place in the middle": lambda desk, size: desk.renew(asked(lock(size), size // 2)),
    "hand a lock over": lambda desk, size: desk.resign(asked(lock(size), 1)),
    "leave the middle": lambda desk, size: desk.resign(asked(lock(size), size // 2)),
    "take a permit": lambda desk, size: desk.claim(asked(permits(size), size + 1)),
    "renew a permit": lambda desk, size: desk.renew(asked(permits(size), size // 2)),
    "give a permit back": lambda desk, size: desk.resign(asked(permits(size), 1)),
    "read": lambda desk, size: desk.claim(asked(readers(size), size + 1)),
    "wait to write": lambda desk, size: desk.claim(
        asked(Shape(readers(size).name, 600.0, Kind.READ_WRITE, SHARED, SHARED), size + 1)
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_costs_in_a_long_queue_what_it_costs_in_a_short_one(
    server: Postgres, operation: str
) -> None:
    # Each level of an index costs a block more: that is the logarithm.
    assert cost(server, operation, MANY) <= 2 * cost(server, operation, FEW)


def test_a_place_is_told_exactly_in_a_queue_that_nobody_left(desk: Desk) -> None:
    for number in (2, 3, MANY // 2, MANY):
        standing = desk.renew(asked(lock(MANY), number))
        assert (standing.ahead, standing.behind) == (number - 1, MANY - number)
    assert desk.renew(asked(lock(MANY), 1)).behind == MANY - 1


def test_a_place_is_told_exactly_near_the_front_although_others_left(desk: Desk) -> None:
    desk.resign(*(asked(lock(MANY), number) for number in (1, 3, 5, 70)))
    standing = desk.renew(asked(lock(MANY), 80))
    assert (standing.ahead, standing.behind) == (75, MANY - 80)
    first = desk.renew(asked(lock(MANY), 4))
    assert (first.ahead, first.recheck is None) == (1, False)


def test_a_place_far_back_is_never_told_too_low_and_the_count_behind_a_holder_is_exact(
    desk: Desk,
) -> None:
    gone = range(100, 400, 2)
    desk.resign(*(asked(lock(MANY), number) for number in gone))
    ask = asked(lock(MANY), MANY // 2)
    before = desk.blocks()
    standing = desk.renew(ask)
    assert desk.blocks() - before < 300
    really = MANY // 2 - 1 - len(gone)
    assert really <= standing.ahead <= MANY // 2 - 1
    assert desk.renew(asked(lock(MANY), 1)).behind == MANY - 1 - len(gone)


def test_the_totals_are_right_when_the_last_leaves_and_another_comes(desk: Desk) -> None:
    shape = permits(FEW)
    desk.resign(*(asked(shape, number) for number in (FEW, FEW - 1, 7)))
    writer = Shape(shape.name, 600.0, shape.kind, shape.capacity, shape.capacity - (FEW - 4))
    # One permit too many by one: then it fits once another has left.
    assert not desk.claim(asked(writer, FEW + 1)).granted
    desk.resign(asked(shape, 1))
    last = desk.renew(asked(writer, FEW + 1))
    assert (last.granted, last.ahead, last.behind) == (True, FEW - 4, 0)


def test_a_row_that_somebody_deleted_by_hand_keeps_nobody_out(desk: Desk) -> None:
    shape = lock(FEW)
    desk.delete_by_hand(asked(shape, 1))
    desk.delete_by_hand(asked(shape, 5))
    standing = desk.renew(asked(shape, 9))
    assert (standing.granted, standing.ahead) == (False, 6)
    head = desk.renew(asked(shape, 2))
    assert (head.granted, head.ahead, head.behind) == (True, 0, FEW - 3)
