"""What a guarded transaction of psycopg's does to its connection, and where it gets one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import lockfast
from lockfast import LeaseLost, StaleToken, Unguarded, aio
from lockfast.guards.postgres import (
    AsyncPostgresGuard,
    PostgresGuard,
    install,
    schema,
)
from tests.guards.database import lease, usurped
from tests.guards.registers.postgres import (
    SELECT,
    UPDATE,
)
from tests.servers import PgBouncer, Postgres, Redis

Connection = psycopg.Connection[tuple[Any, ...]]


def value(server: Postgres) -> str:
    return str(server.command(SELECT)[0][0])


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


ENDINGS = ["connection.commit", "connection.rollback", "COMMIT", "ROLLBACK"]
WRITES = ["cursor", "connection", "older cursor", "BEGIN", "transaction", "COPY", "autocommit"]


def end(connection: Connection, how: str) -> None:
    if how.startswith("connection."):
        getattr(connection, how.partition(".")[2])()
    else:
        connection.execute(how.encode())


def write(connection: Connection, cursors: list[psycopg.Cursor[Any]], how: str) -> None:
    if how == "transaction":
        with connection.transaction():
            connection.execute(UPDATE, ["stale"])
    elif how == "autocommit":  # as a helper does for VACUUM
        before = connection.autocommit
        connection.autocommit = True
        try:
            connection.execute(UPDATE, ["stale"])
        finally:
            connection.autocommit = before
    elif how == "COPY":
        with cursors[0].copy("COPY register (id, value) FROM STDIN") as copy:
            copy.write_row((2, "stale"))
    else:
        if how == "BEGIN":
            connection.execute("BEGIN")
        writer = {"connection": connection.cursor(), "older cursor": cursors[1]}
        writer.get(how, cursors[0]).execute(UPDATE, ["stale"])


@pytest.mark.parametrize("how", list(product([False, True], ENDINGS, WRITES)), ids=str)
def test_work_behind_a_commit_in_the_block_is_refused_before_it_is_done(
    server: Postgres,
    client: lockfast.Client,
    connection: Connection,
    how: tuple[bool, str, str],
) -> None:
    autocommit, ending, writing = how
    connection.autocommit = autocommit
    held = lease(client, str(how))
    older = connection.cursor()
    before = server.command("SELECT * FROM register ORDER BY id")
    with (
        pytest.raises(psycopg.ProgrammingError, match="had ended"),
        PostgresGuard(connection).transaction(held) as cursor,
    ):
        end(connection, ending)
        with pytest.raises((Unguarded, AssertionError)):
            write(connection, [cursor, older], writing)
        with suppress(Unguarded):
            end(connection, ending)
    assert server.command("SELECT * FROM register ORDER BY id") == before
    assert connection.autocommit is autocommit
    connection.execute("SELECT 1")  # it is as before
    connection.rollback()
    with PostgresGuard(connection).transaction(held):
        pass


def test_a_refused_statement_ends_the_block_with_that_refusal(
    client: lockfast.Client, connection: Connection
) -> None:
    held = lease(client, "refused")
    with (
        pytest.raises(Unguarded, match="Leave the block"),
        PostgresGuard(connection).transaction(held) as cursor,
    ):
        connection.commit()
        cursor.execute(UPDATE, ["stale"])


def test_the_same_for_asyncio(server: Postgres, client: lockfast.Client) -> None:
    held = lease(client, "refused, async")

    async def play() -> None:
        async with await psycopg.AsyncConnection.connect(server.url) as connection:
            guard = AsyncPostgresGuard(connection)
            with pytest.raises(Unguarded):
                async with guard.transaction(held) as cursor:
                    await connection.commit()
                    await cursor.execute(UPDATE, ["stale"])
            async with guard.transaction(held) as cursor, connection.transaction():
                await cursor.execute("SELECT 1")

    before = value(server)
    asyncio.run(play())
    assert value(server) == before


CHAINS = ["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT; BEGIN", "ROLLBACK; BEGIN"]


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
def test_a_second_transaction_that_the_block_has_begun_by_itself_is_not_committed(
    server: Postgres,
    client: lockfast.Client,
    connection: Connection,
    chain: str,
    autocommit: bool,  # noqa: FBT001  # a parameter
) -> None:
    """Its status is that of the guarded one, so only the server knows that it is another."""
    connection.autocommit = autocommit
    stale, fresh = usurped(client, f"{chain}, {autocommit}")
    with (
        pytest.raises(Unguarded, match="had ended before its block"),
        PostgresGuard(connection).transaction(stale) as cursor,
    ):
        cursor.execute(chain.encode())
        with psycopg.connect(server.url) as other:
            PostgresGuard(other).seal(fresh)
        cursor.execute(UPDATE, ["stale"])
    assert value(server) == "none"
    assert connection.autocommit is autocommit
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    with PostgresGuard(connection).transaction(fresh) as cursor:
        cursor.execute(UPDATE, ["fresh"])
    assert value(server) == "fresh"


def test_what_the_block_has_committed_unguarded_does_not_pass_without_an_error(
    server: Postgres, client: lockfast.Client, connection: Connection
) -> None:
    with (
        pytest.raises(Unguarded),
        PostgresGuard(connection).transaction(lease(client, "twice")) as cursor,
    ):
        cursor.execute("COMMIT AND CHAIN")
        cursor.execute(UPDATE, ["too late"])
        cursor.execute("COMMIT AND CHAIN")
    assert value(server) == "too late"  # it cannot be undone


def test_several_leases_and_savepoints_are_not_taken_for_a_second_transaction(
    server: Postgres, client: lockfast.Client, connection: Connection
) -> None:
    held = [lease(client, name) for name in ("several b", "several a")]
    guard = PostgresGuard(connection)
    with guard.transaction(*held) as cursor:
        with suppress(ZeroDivisionError), connection.transaction():
            cursor.execute(UPDATE, ["undone"])
            raise ZeroDivisionError
        cursor.execute(UPDATE, ["several"])
    assert value(server) == "several"
    with pytest.raises(Unguarded), guard.transaction(*held) as cursor:
        cursor.execute("COMMIT AND CHAIN")
    connection.execute("CREATE TABLE IF NOT EXISTS late (n int PRIMARY KEY, one int)")
    connection.execute(
        "CREATE OR REPLACE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM current_setting('not.there'); RETURN NULL; END $$"
    )
    connection.execute(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION late()"
    )
    connection.commit()
    with pytest.raises(psycopg.errors.UndefinedObject), guard.transaction(*held) as cursor:
        cursor.execute("INSERT INTO late VALUES (1, 1)")  # the commit's own error is the caller's


@pytest.mark.parametrize("chain", CHAINS)
def test_a_second_transaction_is_not_committed_by_asyncio_either(
    server: Postgres, client: lockfast.Client, chain: str
) -> None:
    held = lease(client, f"{chain}, async")

    async def play() -> None:
        async with await psycopg.AsyncConnection.connect(server.url) as connection:
            with pytest.raises(Unguarded):
                async with AsyncPostgresGuard(connection).transaction(held) as cursor:
                    await cursor.execute(chain.encode())
                    await cursor.execute(UPDATE, ["stale"])

    before = value(server)
    asyncio.run(play())
    assert value(server) == before


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
    held.claim.until = 0.0
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
        "INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); "
        "RETURN NULL; END $$"
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


SLOW = """CREATE TABLE slow (v int);
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN PERFORM pg_sleep(10); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION slow()"""


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_commit_that_is_cancelled_is_rolled_back_and_the_cancellation_goes_on(
    server: Postgres,
    client: lockfast.Client,
    autocommit: bool,  # noqa: FBT001  # a value
) -> None:
    """In autocommit a ProgrammingError took its place, so `asyncio.timeout` did not end."""
    held = lease(client, f"cancelled {autocommit}")
    server.command(SLOW)

    async def play() -> None:
        connection = await psycopg.AsyncConnection.connect(server.url, autocommit=autocommit)
        guard = AsyncPostgresGuard(connection)
        async with connection:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0), guard.transaction(held) as cursor:
                    await cursor.execute("INSERT INTO slow VALUES (1)")
            assert connection.autocommit is autocommit
            async with guard.transaction(held):  # it is as before
                pass

    try:
        asyncio.run(play())
        assert server.command("SELECT * FROM slow") == []
    finally:
        server.command("DROP TABLE slow; DROP FUNCTION slow")
