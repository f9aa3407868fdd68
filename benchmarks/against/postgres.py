"""On PostgreSQL: our own two statements by libpq alone, and advisory locks, which keep nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection

import psycopg
from psycopg import pq

from benchmarks.against import Against
from benchmarks.duel import duel
from benchmarks.rounds import Work
from lockfast.engines.postgres import install, messages
from lockfast.port import Ask, Shape
from tests.servers import Postgres

LOCK = "SELECT pg_advisory_lock(1)"
UNLOCK = "SELECT pg_advisory_unlock(1)"
FAR = 2**52  # µs by the server's clock: no claim of a benchmark is ever too late
SLOW = {"commit_delay": "5000", "commit_siblings": "1"}  # µs, if another transaction is open
SMALLEST = """
CREATE FUNCTION smallest() RETURNS bigint LANGUAGE sql AS
$$ UPDATE smallest SET last = last + 1 RETURNING last $$
"""


@contextmanager
def start(config: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    # 200 clients of `service` have two connections each.
    with Postgres(config={"max_connections": "500", **(config or {})}) as server:
        install(server.url)
        yield server


@contextmanager
def pairs(server: Postgres) -> Iterator[dict[str, Work]]:
    with server.connect() as bare, server.connect() as smallest, server.connect() as advisory:
        smallest.execute("CREATE TABLE smallest (last bigint) WITH (fillfactor = 20)")
        smallest.execute("INSERT INTO smallest VALUES (0)")
        smallest.execute(SMALLEST)
        yield {
            "bare": _bare(bare),
            "smallest durable function": _smallest(smallest),
            "pg_advisory_lock": _advisory(advisory),
        }


def _bare(connection: psycopg.Connection) -> Work:
    """The floor: both statements are written once but for the id, which the server must not have
    seen before, and of a reply hardly anything is looked at.
    """
    ask = Ask("0" * 32, Shape("bare", 30.0), queue=True, not_after=0.0, payload=b"p" * 120)
    claim, resign = (
        sql.split(ask.id.encode())
        for sql in (messages.claim(ask, FAR, 0, ""), messages.resign([ask], None))
    )
    call, numbers = connection.pgconn.exec_, itertools.count()

    def work(count: int) -> None:
        for _ in range(count):
            id_ = b"%032x" % next(numbers)
            if b" t " not in (call(id_.join(claim)).get_value(0, 0) or b""):
                raise AssertionError("the bare claim was not granted at once")
            if call(id_.join(resign)).get_value(0, 0) != b"t":
                raise AssertionError("the bare resignation found nothing")

    return work


def _smallest(connection: psycopg.Connection) -> Work:
    """What two commits cost that do hardly anything."""
    call = connection.pgconn.exec_

    def work(count: int) -> None:
        for _ in range(2 * count):
            if call(b"SELECT smallest()").status != pq.ExecStatus.TUPLES_OK:
                raise AssertionError("the smallest function failed")

    return work


def _advisory(connection: psycopg.Connection) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            connection.execute(LOCK)
            connection.execute(UNLOCK)

    return work


def _duel(pipe: Connection, _side: int, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        duel(pipe, lambda: connection.execute(LOCK), lambda _: connection.execute(UNLOCK))


AGAINST = Against(
    start=start,
    pairs=pairs,
    locks={"pg_advisory_lock": _duel},
    leases=20_000,
    slow=partial(start, SLOW),
)
