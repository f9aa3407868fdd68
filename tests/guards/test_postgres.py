"""The PostgreSQL guard: the rule, in the transaction of the write. Stories with real processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.sql import SQL

import lockfast
from lockfast import LeaseLost, Loss, StaleToken, State, aio
from lockfast.engines import postgres as engine
from lockfast.guards.postgres import (
    AsyncColumns,
    AsyncPostgresGuard,
    Columns,
    PostgresGuard,
    install,
    schema,
)
from tests.guards import story
from tests.guards.database import database, dismissed, lease, shared, usurped
from tests.guards.registers.postgres import (
    SELECT,
    UPDATE,
    AsyncMarked,
    Columned,
    Marked,
    Triggered,
)
from tests.servers import PgBouncer, Postgres, Redis, wait_until

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with database() as server:
        yield server


@pytest.fixture
def client() -> Iterator[lockfast.Client]:
    with lockfast.connect("memory://") as client:
        yield client


@pytest.fixture
def connection(server: Postgres) -> Iterator[Connection]:
    with psycopg.connect(server.url) as connection:
        connection.execute("UPDATE register SET value = 'none', fence_token = 0, fence_id = ''")
        connection.commit()
        yield connection


def value(server: Postgres) -> str:
    return str(server.command(SELECT)[0][0])


# The story


@pytest.mark.parametrize("register", [Marked, AsyncMarked, Columned])
def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    redis: Redis, server: Postgres, register: type[story.Resource]
) -> None:
    story.refused(redis.url, register, server.url, register.__name__)


def test_the_trigger_refuses_the_paused_holder(redis: Redis, server: Postgres) -> None:
    server.command("SELECT lockfast_guard.protect_v1('watched', 'watched')")
    story.refused(redis.url, Triggered, server.url, "watched")


@pytest.mark.parametrize("register", [Marked, AsyncMarked])
def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    redis: Redis, server: Postgres, register: type[story.Resource]
) -> None:
    story.corrupted(redis.url, register, server.url, f"{register.__name__}, bare")


def test_a_stale_transaction_that_is_paused_blocks_the_next_holder_no_longer_than_its_lease(
    redis: Redis, server: Postgres
) -> None:
    with (
        story.Actor(redis.url, Marked, server.url) as a,
        story.Actor(redis.url, Marked, server.url) as b,
    ):
        a.call("acquire", "paused", 1.0)
        a.call("begin", "A, uncommitted")
        a.pause()
        began = time.monotonic()
        b.call("acquire", "paused", 30.0)
        granted = time.monotonic()
        b.call("seal")
        sealed = time.monotonic()
        print(f"granted after {granted - began:.2f} s, sealed {sealed - granted:.2f} s later")  # noqa: T201  # a figure
        assert sealed - began < 1.0 + 1.5
        b.call("write", "B")
        a.resume()
        with pytest.raises(LeaseLost):
            a.call("commit")
        assert b.call("read") == "B"


# The rule, as in mark.py


def test_a_holder_writes_many_times(connection: Connection, client: lockfast.Client) -> None:
    guard = PostgresGuard(connection)
    held = lease(client, "many")
    for each in ("one", "two"):  # TRAPS 29
        with guard.transaction(held) as cursor:
            cursor.execute(UPDATE, [each])
    guard.seal(held)
    assert connection.execute(SELECT).fetchone() == ("two",)


def test_a_refusal_names_both_tokens_and_makes_the_lease_lost(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    stale, fresh = usurped(client, "refused")
    told: list[None] = []
    stale.on_lost(lambda: told.append(None))
    guard.seal(fresh)
    stale.ensure_held()  # as far as it knows
    with pytest.raises(StaleToken) as caught, guard.transaction(stale):
        pytest.fail("it was let in")
    error = caught.value
    assert (error.name, error.token, error.current) == ("refused", stale.token, fresh.token)
    assert stale.state is State.LOST
    assert stale.loss is Loss.FENCED
    with pytest.raises(LeaseLost):
        stale.ensure_held()
    wait_until(lambda: bool(told), "the holder is told")
    assert fresh.state is State.HELD


def test_two_equal_tokens_of_two_claims_do_not_both_write(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    stale, fresh = usurped(client, "split")
    fresh.live.ticket = stale.live.ticket  # TRAPS 46: both primaries of a split minted it
    guard.seal(fresh)
    with pytest.raises(StaleToken):
        guard.seal(stale)
    guard.seal(fresh)


def test_readers_raise_the_mark_to_their_floor_and_no_higher(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    first, second = shared(client, "read"), shared(client, "read")
    assert first.ticket < second.ticket
    guard.seal(second)
    guard.seal(first)
    with guard.transaction(first), pytest.raises(TypeError):
        _ = first.token
    mark = connection.execute("SELECT token, id FROM lockfast_guard.mark WHERE name = 'read'")
    assert mark.fetchone() == (first.ticket, "")
    connection.rollback()
    for reader in (first, second):
        dismissed(client, reader)
    guard.seal(lease_of_writer := shared(client, "read", weight=2**31 - 1))
    for reader in (first, second):
        with pytest.raises(StaleToken):
            guard.seal(reader)
    guard.seal(lease_of_writer)


def test_a_permit_of_a_semaphore_is_turned_away_with_an_explanation(
    connection: Connection, client: lockfast.Client
) -> None:
    with pytest.raises(TypeError, match="cannot be fenced"):
        PostgresGuard(connection).seal(shared(client, "permits", capacity=3))


def test_any_name_has_a_mark_of_its_own(connection: Connection, client: lockfast.Client) -> None:
    guard = PostgresGuard(connection)
    names = ["a'b", 'a"b', "a\\b", "a\0b", "a\nb", "a;b--", "ä€😀", "x" * 512, "%s", "{}"]
    for name in names:
        stale, fresh = usurped(client, name)
        guard.seal(fresh)
        with pytest.raises(StaleToken) as caught:
            guard.seal(stale)
        assert caught.value.name == name


def test_deleting_the_row_does_not_reopen_the_door_and_marks_cannot_be_deleted(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    stale, fresh = usurped(client, "row")
    with guard.transaction(fresh) as cursor:
        cursor.execute("DELETE FROM register WHERE id = 1")
        cursor.execute("INSERT INTO register VALUES (1, 'anew')")
    with pytest.raises(StaleToken), guard.transaction(stale):
        pytest.fail("it was let in")
    for statement in ("DELETE FROM lockfast_guard.mark", "TRUNCATE lockfast_guard.mark"):
        with pytest.raises(psycopg.Error, match="kept for ever"):
            connection.execute(statement)  # TRAPS 30
        connection.rollback()


def test_a_transaction_may_need_two_locks_and_names_the_one_that_is_stale(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    one = lease(client, "transfer, from")
    stale, fresh = usurped(client, "transfer, to")
    with guard.transaction(one, fresh):
        pass
    with pytest.raises(StaleToken, match="transfer, to"), guard.transaction(stale, one):
        pytest.fail("it was let in")
    assert one.state is State.HELD
    assert stale.state is State.LOST
    with pytest.raises(TypeError):
        guard.seal()


# Transactions


def test_an_error_rolls_back_and_the_connection_is_as_before(
    connection: Connection, client: lockfast.Client, server: Postgres
) -> None:
    guard = PostgresGuard(connection)
    held = lease(client, "rollback")
    for autocommit in (False, True):
        connection.autocommit = autocommit
        with pytest.raises(ZeroDivisionError), guard.transaction(held) as cursor:
            cursor.execute(UPDATE, ["never"])
            raise ZeroDivisionError
        with guard.transaction(held) as cursor, cursor.connection.transaction():
            cursor.execute(UPDATE, [f"autocommit {autocommit}"])
        assert value(server) == f"autocommit {autocommit}"
        assert connection.autocommit is autocommit
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_a_transaction_that_ended_within_its_block_is_not_taken_for_a_commit(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    held = lease(client, "swallowed")
    with pytest.raises(psycopg.ProgrammingError, match="had ended"), guard.transaction(held) as cur:
        cur.execute(UPDATE, ["never"])
        with pytest.raises(psycopg.errors.DivisionByZero):
            cur.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.ProgrammingError, match="had ended"), guard.transaction(held):
        connection.rollback()
    assert connection.execute(SELECT).fetchone() == ("none",)


def test_a_guard_begins_its_own_transaction_and_says_so(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    held = lease(client, "within")
    connection.execute("SELECT 1")
    with pytest.raises(psycopg.ProgrammingError, match="before your transaction"):
        guard.seal(held)
    with pytest.raises(psycopg.ProgrammingError, match="begins one of its own"):
        guard.transaction(held).__enter__()
    connection.rollback()
    guard.seal(held)


def test_a_lease_that_its_own_clock_has_ended_does_not_write(
    connection: Connection, client: lockfast.Client
) -> None:
    held = lease(client, "over", ttl=0.05)
    held.live.until = 0.0
    with pytest.raises(LeaseLost), PostgresGuard(connection).transaction(held):
        pytest.fail("it was let in")


def test_limits_of_the_lease_hold_in_its_transaction_and_no_longer(
    connection: Connection, client: lockfast.Client
) -> None:
    limits = (
        "SELECT current_setting('lock_timeout'), "
        "current_setting('idle_in_transaction_session_timeout')"
    )
    held = lease(client, "limits", ttl=20)
    with PostgresGuard(connection).transaction(held) as cursor:
        row = cursor.execute(limits).fetchone()
        assert row is not None
        assert all(15_000 < int(each.removesuffix("ms")) <= 20_000 for each in row)
    assert connection.execute(limits).fetchone() == ("0", "0")


def test_a_seal_is_on_disk_before_the_holder_reads(
    connection: Connection, client: lockfast.Client
) -> None:
    """A crash that forgot the seal and kept the read would let a stale write in between."""
    connection.execute("CREATE TABLE seen (synchronous text)")
    connection.execute(
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$"
    )
    connection.execute(
        "CREATE TRIGGER look AFTER INSERT ON lockfast_guard.mark EXECUTE FUNCTION look()"
    )
    connection.execute("SET synchronous_commit = off")
    connection.commit()
    guard = PostgresGuard(connection)
    guard.seal(lease(client, "durable"))
    with guard.transaction(lease(client, "as you like")) as cursor:
        cursor.execute(UPDATE, ["with its mark, or neither"])
    assert connection.execute("SELECT * FROM seen").fetchall() == [("on",), ("off",)]
    connection.execute("DROP TRIGGER look ON lockfast_guard.mark")
    connection.commit()


def test_connections_may_come_from_a_pool_and_rows_may_be_anything(
    server: Postgres, client: lockfast.Client
) -> None:
    given: list[psycopg.Connection[dict[str, Any]]] = []

    @contextmanager
    def pool() -> Iterator[psycopg.Connection[dict[str, Any]]]:
        with psycopg.connect(server.url, row_factory=dict_row) as connection:
            given.append(connection)
            yield connection

    guard = PostgresGuard(pool)
    stale, fresh = usurped(client, "pool")
    guard.seal(fresh)
    with guard.transaction(fresh) as cursor:
        assert set(cursor.execute(SELECT).fetchone() or {}) == {"value"}
    with pytest.raises(StaleToken), guard.transaction(stale):
        pytest.fail("it was let in")
    assert len(given) == 3
    assert all(connection.closed for connection in given)


def test_it_works_through_a_pooler_that_shares_sessions(
    server: Postgres, client: lockfast.Client
) -> None:
    with PgBouncer(server, pool_size=1) as pooler, psycopg.connect(pooler.url) as connection:
        guard = PostgresGuard(connection)
        stale, fresh = usurped(client, "pooled")
        for _ in range(8):
            guard.seal(fresh)
            with guard.transaction(fresh) as cursor:
                cursor.execute(UPDATE, ["pooled"], prepare=False)
        with pytest.raises(StaleToken):
            guard.seal(stale)


def test_the_asyncio_guard_keeps_the_same_rule(server: Postgres, redis: Redis) -> None:
    async def play() -> None:
        async with (
            aio.connect(redis.url) as client,
            await psycopg.AsyncConnection.connect(server.url) as connection,
        ):
            guard = AsyncPostgresGuard(connection)
            async with client.lock("asyncio") as held:
                await guard.seal(held)
                async with guard.transaction(held) as cursor:
                    await cursor.execute(UPDATE, ["asyncio"])
                with pytest.raises(ZeroDivisionError):
                    async with guard.transaction(held) as cursor:
                        await cursor.execute(UPDATE, ["never"])
                        raise ZeroDivisionError
            async with client.lock("asyncio") as fresh:
                await guard.seal(fresh)
                with pytest.raises(StaleToken) as caught:
                    async with guard.transaction(held):
                        pytest.fail("it was let in")
                assert caught.value.current == fresh.token
            assert not connection.autocommit

    asyncio.run(play())
    assert value(server) == "asyncio"


def test_the_schema_can_be_printed_and_installed_again(server: Postgres) -> None:
    assert "CREATE SCHEMA IF NOT EXISTS lockfast_guard" in schema()
    install(server.url)


# The engine in the same database


def test_where_the_engine_is_in_the_same_database_the_lease_itself_can_be_asked(
    server: Postgres, connection: Connection
) -> None:
    engine.install(server.url)
    with lockfast.connect(server.url) as client:
        guard = PostgresGuard(connection)
        held = lease(client, "same")
        with guard.transaction(held, check_lease=True) as cursor:
            cursor.execute(UPDATE, ["same"])
            with server.connect() as operator:
                operator.execute("SET lock_timeout = '100ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    operator.execute("DELETE FROM lockfast.claim")  # as an expiry would
                operator.execute("UPDATE lockfast.claim SET expires = expires + 1")  # a renewal
        dismissed(client, held)
        with guard.transaction(held):
            pass  # the mark alone cannot know: nobody has sealed yet
        with pytest.raises(LeaseLost) as caught, guard.transaction(held, check_lease=True):
            pytest.fail("it was let in")
        assert caught.value.reason is Loss.GONE
        assert held.state is State.LOST


# The column form


def test_columns_of_the_row_keep_the_same_rule(
    connection: Connection, client: lockfast.Client
) -> None:
    columns, where = Columns(), ("register", {"id": 1})
    cursor = connection.cursor()
    connection.execute("CREATE TEMP TABLE account (id int PRIMARY KEY, balance int DEFAULT 5)")
    connection.execute("INSERT INTO account VALUES (1)")
    connection.execute(columns.add_to("account"))
    stale, fresh = usurped(client, "columns")
    for _ in range(2):
        less = {"balance": SQL("balance - 1")}
        columns.update(cursor, fresh, "account", {"id": 1}, less)
    assert cursor.execute("SELECT balance FROM account").fetchone() == (3,)
    with pytest.raises(StaleToken) as caught:
        columns.update(cursor, stale, "account", {"id": 1}, {"balance": 0})
    assert caught.value.current == fresh.token
    assert stale.state is State.LOST
    with pytest.raises(LookupError, match="nothing to guard"):
        columns.update(cursor, fresh, "account", {"id": 2}, {"balance": 0})
    own = SQL("UPDATE register SET value = %(new)s, {} WHERE id = 1 AND {}")
    query = own.format(columns.set, columns.where)
    cursor.execute(query, {"new": "own", **columns.shown(fresh)})
    assert cursor.rowcount == 1
    cursor.execute(query, {"new": "never", **columns.shown(stale)})
    assert cursor.rowcount == 0
    columns.seal(cursor, fresh, *where)


def test_a_row_that_is_made_again_has_forgotten_its_columns(
    connection: Connection, client: lockfast.Client
) -> None:
    columns, cursor = Columns(), connection.cursor()
    stale, fresh = usurped(client, "forgotten")
    columns.seal(cursor, fresh, "register", {"id": 1})
    cursor.execute("DELETE FROM register")
    cursor.execute("INSERT INTO register VALUES (1, 'anew')")
    columns.update(cursor, stale, "register", {"id": 1}, {"value": "stale"})  # the page says so


def test_columns_in_asyncio(server: Postgres, client: lockfast.Client) -> None:
    async def play() -> None:
        async with await psycopg.AsyncConnection.connect(server.url) as connection:
            columns, cursor = AsyncColumns(), connection.cursor()
            stale, fresh = usurped(client, "columns in asyncio")
            await cursor.execute("UPDATE register SET fence_token = 0, fence_id = ''")
            await columns.seal(cursor, fresh, "register", {"id": 1})
            await columns.update(cursor, fresh, "register", {"id": 1}, {"value": "columns"})
            with pytest.raises(StaleToken):
                await columns.update(cursor, stale, "register", {"id": 1}, {"value": "never"})

    asyncio.run(play())
    assert value(server) == "columns"
