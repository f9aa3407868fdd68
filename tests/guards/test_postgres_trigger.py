"""The trigger: a table that refuses every write without a current token, whoever writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

import lockfast
from lockfast import StaleToken, State, Unguarded
from lockfast.guards.postgres import PostgresGuard
from lockfast.primitives.lease import LeaseCore
from tests.guards.database import database, lease, usurped
from tests.servers import Postgres

Connection = psycopg.Connection[tuple[Any, ...]]
UNSHOWN, STALE = "LF002", "LF001"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with database() as server:
        server.command("SELECT lockfast_guard.protect_v1('watched', 'watched')")
        server.command("CREATE TABLE invoice (id int PRIMARY KEY, region text, paid bool)")
        server.command("INSERT INTO invoice SELECT n, 'eu', false FROM generate_series(1, 9) n")
        server.command("SELECT lockfast_guard.protect_v1('public.invoice', 'inv:{region}:{id}')")
        yield server


@pytest.fixture
def psql(server: Postgres) -> Iterator[Connection]:
    """A connection of somebody who knows nothing of guards."""
    with server.connect() as connection:
        yield connection


def show(connection: Connection, held: LeaseCore) -> None:
    for setting, text in (("name", held.name), ("token", str(held.token)), ("id", held.id)):
        connection.execute("SELECT set_config(%s, %s, true)", [f"lockfast.{setting}", text])


def refused(connection: Connection, statement: str, state: str = UNSHOWN) -> None:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    assert caught.value.sqlstate == state, caught.value


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO watched VALUES (2, 'x')",
        "UPDATE watched SET value = 'x'",
        "UPDATE watched SET value = value",
        "DELETE FROM watched",
        "TRUNCATE watched",
        "TRUNCATE watched CASCADE",
        "INSERT INTO watched VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET value = 'x'",
        "WITH w AS (UPDATE watched SET value = 'x' RETURNING 1) SELECT * FROM w",
        "MERGE INTO watched w USING (SELECT 1) s ON true WHEN MATCHED THEN UPDATE SET value = 'x'",
        "SET session_replication_role = replica; UPDATE watched SET value = 'x'",
        "SET session_replication_role = replica; TRUNCATE watched",
        "SET CONSTRAINTS ALL IMMEDIATE; UPDATE watched SET value = 'x'",
        "BEGIN; UPDATE watched SET value = 'x'; COMMIT",
        "DO $$ BEGIN UPDATE watched SET value = 'x'; END $$",
    ],
)
def test_no_write_without_a_token_gets_in(psql: Connection, statement: str) -> None:
    refused(psql, statement)
    assert psql.execute("SELECT value FROM watched").fetchall() == [("0 start",)]


def test_copy_is_a_write(psql: Connection) -> None:
    with (
        pytest.raises(psycopg.Error, match="needs the token"),
        psql.cursor().copy("COPY watched FROM STDIN") as copy,
    ):
        copy.write(b"7\tcopied\n")


def test_what_writes_nothing_is_not_stopped(psql: Connection) -> None:
    psql.execute("INSERT INTO watched VALUES (1, 'x') ON CONFLICT DO NOTHING")
    psql.execute("UPDATE watched SET value = 'x' WHERE id = 99")
    with psql.transaction():
        psql.execute("SELECT * FROM watched FOR UPDATE")


def test_set_local_shows_a_token_also_after_the_write(
    psql: Connection, client: lockfast.Client
) -> None:
    held = lease(client, "watched")
    with psql.transaction(force_rollback=True):
        show(psql, held)
        psql.execute("UPDATE watched SET value = 'x'")
        psql.execute("SET CONSTRAINTS ALL IMMEDIATE")
    with psql.transaction():
        psql.execute("UPDATE watched SET value = value")
        show(psql, held)


def test_what_set_local_leaves_behind_is_no_token(
    psql: Connection, client: lockfast.Client
) -> None:
    held = lease(client, "watched")
    with psql.transaction():
        show(psql, held)
        psql.execute("UPDATE watched SET value = value")
    assert psql.execute("SELECT current_setting('lockfast.token')").fetchone() == ("",)
    refused(psql, "UPDATE watched SET value = 'x'")
    settings = (
        "SET LOCAL lockfast.name = 'watched'; SET LOCAL lockfast.token = ''; "
        "SET LOCAL lockfast.id = ''; UPDATE watched SET value = 'x'"
    )
    refused(psql, settings)


def test_the_token_of_another_lock_opens_nothing(psql: Connection, client: lockfast.Client) -> None:
    with pytest.raises(psycopg.Error) as caught, psql.transaction():
        show(psql, lease(client, "another"))
        psql.execute("UPDATE watched SET value = 'x'")
    assert caught.value.sqlstate == UNSHOWN


def test_a_stale_token_is_refused_at_the_commit(psql: Connection, client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "watched")
    with psql.transaction():
        show(psql, fresh)
        psql.execute("UPDATE watched SET value = value")
    with pytest.raises(psycopg.Error) as caught, psql.transaction():
        show(psql, stale)
        psql.execute("UPDATE watched SET value = 'stale'")
    assert caught.value.sqlstate == STALE
    assert (caught.value.diag.message_detail or "").startswith(f"{fresh.token} ")


def test_a_guarded_transaction_needs_to_say_nothing_more(
    server: Postgres, client: lockfast.Client
) -> None:
    with psycopg.connect(server.url) as connection:
        guard = PostgresGuard(connection)
        held = lease(client, "watched")
        with guard.transaction(held) as cursor, connection.transaction():
            cursor.execute("UPDATE watched SET value = value")
        with guard.transaction(held) as cursor:
            cursor.execute("TRUNCATE watched")
            cursor.execute("INSERT INTO watched VALUES (1, '0 start')")


def test_a_refusal_of_the_trigger_is_the_guards_own_error(
    server: Postgres, client: lockfast.Client
) -> None:
    with psycopg.connect(server.url) as connection:
        guard = PostgresGuard(connection)
        other = lease(client, "another lock")
        with pytest.raises(Unguarded, match="watched"), guard.transaction(other) as cursor:
            cursor.execute("UPDATE watched SET value = 'x'")
        other.ensure_held()
        stale, fresh = usurped(client, "watched")
        guard.seal(fresh)
        with pytest.raises(StaleToken) as caught, guard.transaction(other) as cursor:
            show(connection, stale)
            cursor.execute("UPDATE watched SET value = 'x'")
        assert caught.value.current == fresh.token


def test_rows_may_have_locks_of_their_own(server: Postgres, client: lockfast.Client) -> None:
    with psycopg.connect(server.url) as connection:
        guard = PostgresGuard(connection)
        one, two = lease(client, "inv:eu:1"), lease(client, "inv:eu:2")
        pay = "UPDATE invoice SET paid = true WHERE id = ANY (%s)"
        with guard.transaction(one) as cursor:
            cursor.execute(pay, [[1]])
        with guard.transaction(two, one) as cursor:
            cursor.execute(pay, [[1, 2]])
        for statement in (
            "UPDATE invoice SET paid = true WHERE id <= 2",
            "UPDATE invoice SET region = 'us' WHERE id = 1",  # it moves under another lock
            "UPDATE invoice SET id = 10 WHERE id = 1",
            "INSERT INTO invoice VALUES (11, 'eu', false)",
            "DELETE FROM invoice WHERE id = 3",
            "TRUNCATE invoice",
        ):
            with pytest.raises(Unguarded), guard.transaction(one) as cursor:
                cursor.execute(statement.encode())
        assert one.state is State.HELD
        elsewhere = lease(client, "inv:us:1")
        with pytest.raises(Unguarded, match="inv:eu:1"), guard.transaction(elsewhere) as cursor:
            cursor.execute("UPDATE invoice SET region = 'us' WHERE id = 1")
        with guard.transaction(one) as cursor:
            cursor.execute("DELETE FROM invoice WHERE id = 1")
        with guard.transaction(lease(client, "inv:eu:11")) as cursor:
            cursor.execute("INSERT INTO invoice VALUES (11, 'eu', false)")


def test_a_savepoint_that_is_rolled_back_takes_its_passage_with_it(
    psql: Connection, client: lockfast.Client
) -> None:
    held = lease(client, "watched")
    args = [held.name.encode(), held.token, held.id, held.token]
    call = "CALL lockfast_guard.admit_v1(%s, %s, %s, %s, false)"
    with pytest.raises(psycopg.Error) as caught, psql.transaction():
        with psql.transaction(force_rollback=True):
            psql.execute(call, args)
        psql.execute("UPDATE watched SET value = 'x'")
    assert caught.value.sqlstate == UNSHOWN
    with psql.transaction(), psql.transaction():
        psql.execute(call, args)
        psql.execute("UPDATE watched SET value = value")


def test_deleting_a_row_does_not_reopen_the_door(server: Postgres, client: lockfast.Client) -> None:
    with psycopg.connect(server.url) as connection:
        guard = PostgresGuard(connection)
        stale, fresh = usurped(client, "inv:eu:5")
        with guard.transaction(fresh) as cursor:
            cursor.execute("DELETE FROM invoice WHERE id = 5")
        with pytest.raises(StaleToken), guard.transaction(stale) as cursor:
            cursor.execute("INSERT INTO invoice VALUES (5, 'eu', false)")


def test_a_name_with_a_column_that_is_not_there_is_refused(psql: Connection) -> None:
    for name in ("x:{nothing}", "x:{id", "x:id}"):
        call = sql.SQL("SELECT lockfast_guard.protect_v1('watched', {})").format(sql.Literal(name))
        with pytest.raises(psycopg.Error, match="columns"):
            psql.execute(call)


def test_the_owner_can_take_it_away(psql: Connection) -> None:
    """The page says so: a trigger stops those who forget, not the table's owner."""
    psql.execute("CREATE TABLE mine (id int)")
    psql.execute("SELECT lockfast_guard.protect_v1('mine', 'mine')")
    refused(psql, "INSERT INTO mine VALUES (1)")
    psql.execute("ALTER TABLE mine DISABLE TRIGGER lockfast_guard")
    psql.execute("INSERT INTO mine VALUES (1)")
    psql.execute("SELECT lockfast_guard.unprotect_v1('mine')")
    psql.execute("TRUNCATE mine")


PARTITIONED = """
DROP TABLE IF EXISTS part;
CREATE TABLE part (id int, y int) PARTITION BY LIST (y);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2, 3) PARTITION BY LIST (y);
CREATE TABLE part_23 PARTITION OF part_2 FOR VALUES IN (3);
INSERT INTO part VALUES (1, 1), (3, 3);
SELECT lockfast_guard.protect_v1('part', 'part')
"""


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE part_1",
        "TRUNCATE part_2",
        "TRUNCATE part_23",
        "TRUNCATE part",
        "DELETE FROM part_1",
        "INSERT INTO part_23 VALUES (4, 3)",
        "SET session_replication_role = replica; DELETE FROM part_23",
        "SET session_replication_role = replica; TRUNCATE part_1",
    ],
)
def test_no_partition_can_be_written_past_the_trigger(psql: Connection, statement: str) -> None:
    psql.execute(PARTITIONED.encode())
    refused(psql, statement)


def test_a_partition_that_was_made_later_is_protected_by_another_call(
    psql: Connection, client: lockfast.Client, server: Postgres
) -> None:
    psql.execute(PARTITIONED.encode())
    psql.execute("CREATE TABLE part_4 PARTITION OF part FOR VALUES IN (4)")
    refused(psql, "INSERT INTO part_4 VALUES (4, 4)")
    psql.execute("SELECT lockfast_guard.protect_v1('part', 'part')")
    refused(psql, "TRUNCATE part_4")
    with (
        psycopg.connect(server.url) as connection,
        PostgresGuard(connection).transaction(lease(client, "part")) as cursor,
    ):
        cursor.execute("TRUNCATE part_1")
        cursor.execute("INSERT INTO part VALUES (4, 4)")
    psql.execute("SELECT lockfast_guard.unprotect_v1('part')")
    psql.execute("TRUNCATE part_1")
    psql.execute("TRUNCATE part")


def test_a_table_from_which_others_inherit_is_not_protected(psql: Connection) -> None:
    psql.execute("CREATE TABLE parent (id int)")
    psql.execute("CREATE TABLE kid () INHERITS (parent)")
    with pytest.raises(psycopg.Error, match="inherit"):
        psql.execute("SELECT lockfast_guard.protect_v1('parent', 'parent')")
    psql.execute("SELECT lockfast_guard.protect_v1('kid', 'kid')")
    psql.execute("INSERT INTO parent VALUES (1)")
    refused(psql, "INSERT INTO kid VALUES (1)")


@pytest.mark.parametrize("token", [2**53, 2**63 - 1, 0, -1])
def test_a_token_that_no_engine_gives_out_cannot_lock_everybody_out(
    psql: Connection, client: lockfast.Client, token: int
) -> None:
    held = lease(client, "watched")
    with pytest.raises(psycopg.errors.InvalidParameterValue), psql.transaction():
        show(psql, held)
        psql.execute("SELECT set_config('lockfast.token', %s, true)", [str(token)])
        psql.execute("UPDATE watched SET value = value")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        call = f"CALL lockfast_guard.enter_v1('watched', {token}, 'x', {token}, false, '9')"
        psql.execute(call.encode())
    with psql.transaction():
        show(psql, held)
        psql.execute("UPDATE watched SET value = value")


@pytest.mark.parametrize("statement", ["DELETE FROM", "TRUNCATE"])
def test_marks_cannot_be_deleted_in_the_role_of_a_replica_either(
    psql: Connection, statement: str
) -> None:
    with pytest.raises(psycopg.Error, match="marks cannot be deleted"):
        psql.execute(
            f"SET session_replication_role = replica; {statement} lockfast_guard.mark".encode()
        )
