"""Stale and fresh writers at once, at every isolation level: nothing stale is ever applied."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

import lockfast
from lockfast import StaleToken
from lockfast.blocking.client import Lease
from lockfast.guards.postgres import PostgresGuard
from tests.guards.database import lease, usurped
from tests.guards.registers.postgres import SELECT, UPDATE
from tests.servers import Postgres

LEVELS = [
    IsolationLevel.READ_COMMITTED,
    IsolationLevel.REPEATABLE_READ,
    IsolationLevel.SERIALIZABLE,
]
ROUNDS = 60
Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(params=LEVELS, ids=lambda level: level.name)
def pair(server: Postgres, request: pytest.FixtureRequest) -> Iterator[tuple[Connection, ...]]:
    """Two connections at one level."""
    with psycopg.connect(server.url) as one, psycopg.connect(server.url) as other:
        for connection in (one, other):
            connection.isolation_level = request.param
        yield one, other


def value(connection: Connection) -> str:
    row = connection.execute(SELECT).fetchone()
    connection.rollback()
    assert row is not None
    return str(row[0])


def write(guard: PostgresGuard[Any], held: Lease, add: str, based_on: str | None) -> bool:
    """Write until it is done or refused; what is based on a read of its own reads it again."""
    while True:
        try:
            with guard.transaction(held) as cursor:
                base = based_on
                if base is None:
                    row = cursor.execute(SELECT).fetchone()
                    assert row is not None
                    base = row[0]
                dawdle()
                cursor.execute(UPDATE, [base + add])
                dawdle()
        except StaleToken:
            return False
        except psycopg.errors.SerializationFailure:
            continue  # the mark was asked: it is not stale, so it may try again
        return True


def dawdle() -> None:
    time.sleep(random.choice([0.0, 0.0, 0.001, 0.002]))  # noqa: S311  # no secret


def test_no_stale_write_lands_between_the_read_of_a_sealed_holder_and_its_write(
    pair: tuple[Connection, Connection], client: lockfast.Client
) -> None:
    """The fresh one adds to what it read after its seal, in another transaction. Whatever the stale
    one was told is done must be in there.
    """
    old, new = map(PostgresGuard, pair)
    applied = 0
    with ThreadPoolExecutor(1) as pool:
        for number in range(ROUNDS):
            stale, fresh = usurped(client, f"race {pair[0].isolation_level} {number}")
            old.seal(stale)
            with old.transaction(stale) as cursor:
                cursor.execute(UPDATE, ["."])
            start = threading.Barrier(2)

            def zombie(stale: Lease = stale, start: threading.Barrier = start) -> int:
                start.wait()
                return sum(write(old, stale, "A", None) for _ in range(3) if not stale.loss)

            late = pool.submit(zombie)
            start.wait()
            dawdle()
            new.seal(fresh)
            seen = value(pair[1])
            dawdle()
            assert write(new, fresh, "B", seen)
            done = late.result(10)
            assert value(pair[1]) == "." + "A" * done + "B"
            applied += done
            fresh.release()
    print(f"{applied} writes of {3 * ROUNDS} came before the seal, and were read")  # noqa: T201  # a figure


def test_reads_within_the_transaction_need_no_seal(
    pair: tuple[Connection, Connection], client: lockfast.Client
) -> None:
    old, new = map(PostgresGuard, pair)
    with ThreadPoolExecutor(1) as pool:
        for number in range(ROUNDS):
            stale, fresh = usurped(client, f"inside {pair[0].isolation_level} {number}")
            with old.transaction(stale) as cursor:
                cursor.execute(UPDATE, ["."])
            start = threading.Barrier(2)

            def zombie(stale: Lease = stale, start: threading.Barrier = start) -> int:
                start.wait()
                return sum(write(old, stale, "A", None) for _ in range(3) if not stale.loss)

            late = pool.submit(zombie)
            start.wait()
            dawdle()
            assert write(new, fresh, "B", None)
            assert value(pair[1]) == "." + "A" * late.result(10) + "B"
            fresh.release()


def test_without_the_seal_a_stale_write_lands_between_read_and_write(
    pair: tuple[Connection, Connection], client: lockfast.Client
) -> None:
    old, new = map(PostgresGuard, pair)
    for sealed in (False, True):
        stale, fresh = usurped(client, f"unsealed {pair[0].isolation_level} {sealed}")
        with old.transaction(stale) as cursor:
            cursor.execute(UPDATE, ["."])
        if sealed:
            new.seal(fresh)
        seen = value(pair[1])
        assert write(old, stale, "A", None) is not sealed
        assert write(new, fresh, "B", seen)
        assert value(pair[1]) == ".B"  # and without the seal, an acknowledged A is lost


def test_a_serialization_failure_is_a_refusal_if_the_mark_says_so_and_else_the_callers(
    pair: tuple[Connection, Connection], client: lockfast.Client, server: Postgres
) -> None:
    if pair[0].isolation_level is IsolationLevel.READ_COMMITTED:
        pair[0].isolation_level = IsolationLevel.REPEATABLE_READ  # here it cannot happen
    guard = PostgresGuard(pair[0])
    held = lease(client, f"40001 {pair[1].isolation_level}")
    with pytest.raises(psycopg.errors.SerializationFailure), guard.transaction(held) as cursor:
        cursor.execute(SELECT)
        server.command("UPDATE register SET value = 'somebody else'")
        cursor.execute(UPDATE, ["late"])
    held.ensure_held()
    stale, fresh = usurped(client, f"40001, stale {pair[1].isolation_level}")

    def overtaken() -> None:
        with guard.transaction(stale) as cursor:
            cursor.execute(SELECT)
            server.command("UPDATE register SET value = 'somebody else'")
            with pytest.raises(psycopg.errors.SerializationFailure) as caught:
                cursor.execute(UPDATE, ["late"])
            pair[0].rollback()  # lets go of the mark
            PostgresGuard(pair[1]).seal(fresh)
            raise caught.value

    with pytest.raises(StaleToken) as refused:
        overtaken()
    assert isinstance(refused.value.__cause__, psycopg.errors.SerializationFailure)


def test_whoever_waits_for_the_mark_behind_the_next_holder_is_refused_when_it_gets_it(
    pair: tuple[Connection, Connection], client: lockfast.Client
) -> None:
    old, new = map(PostgresGuard, pair)
    stale, fresh = usurped(client, f"behind {pair[0].isolation_level}")
    old.seal(stale)
    with ThreadPoolExecutor(1) as pool:
        with new.transaction(fresh) as cursor:
            cursor.execute(UPDATE, ["B"])
            late = pool.submit(write, old, stale, "A", None)
            with pytest.raises(TimeoutError):
                late.result(0.1)
        assert not late.result(10)


def test_a_holder_that_waited_behind_a_stale_commit_has_seen_it(
    pair: tuple[Connection, Connection], client: lockfast.Client
) -> None:
    """It writes elsewhere, so that only the mark can tell it that its snapshot is too old."""
    old, new = map(PostgresGuard, pair)
    stale, fresh = usurped(client, f"seen {pair[0].isolation_level}")
    old.seal(stale)

    def copied() -> str:
        while True:
            try:
                with new.transaction(fresh) as cursor:
                    row = cursor.execute(SELECT).fetchone()
                    assert row is not None
                    cursor.execute("UPDATE watched SET value = %s", row)
            except psycopg.errors.SerializationFailure:
                continue
            return str(row[0])

    with ThreadPoolExecutor(1) as pool:
        with old.transaction(stale) as cursor:
            cursor.execute(UPDATE, [f"A at {pair[0].isolation_level}"])
            late = pool.submit(copied)
            with pytest.raises(TimeoutError):
                late.result(0.2)
        assert late.result(10) == f"A at {pair[0].isolation_level}"


def test_a_seal_waits_its_turn_whatever_the_servers_default_is(
    server: Postgres, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "turn")
    strict = "-c default_transaction_isolation=serializable"
    with (
        psycopg.connect(server.url) as one,
        psycopg.connect(server.url, options=strict) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        PostgresGuard(one).seal(stale)
        with PostgresGuard(one).transaction(stale):
            late = pool.submit(PostgresGuard(other).seal, fresh)
            with pytest.raises(TimeoutError):
                late.result(0.2)
        late.result(10)


def test_holders_of_a_new_name_do_not_both_make_its_mark(
    pair: tuple[Connection, Connection], client: lockfast.Client
) -> None:
    old, new = map(PostgresGuard, pair)
    with ThreadPoolExecutor(2) as pool:
        for number in range(20):
            stale, fresh = usurped(client, f"new {pair[0].isolation_level} {number}")
            jobs = [
                pool.submit(write, old, stale, "A", ""),
                pool.submit(write, new, fresh, "B", ""),
            ]
            assert jobs[1].result(10)
            if not jobs[0].result(10):
                assert value(pair[1]) == "B"
            with pytest.raises(StaleToken):
                old.seal(stale)
